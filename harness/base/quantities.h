// Quantities that do not convert into one another: seconds, bytes, floating point operations.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <string>

namespace sluice {

template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  constexpr Quantity& operator+=(Quantity b) { return value += b.value, *this; }
  constexpr Quantity& operator-=(Quantity b) { return value -= b.value, *this; }
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;  // multiply and add count as two

constexpr Bytes KiB(std::int64_t n) { return Bytes(n * 1024); }
constexpr Bytes MiB(std::int64_t n) { return Bytes(n * 1024 * 1024); }
constexpr Bytes GiB(std::int64_t n) { return Bytes(n * 1024 * 1024 * 1024); }

// "1.5 MiB", "12.3 ms": for people. Never parsed back.
std::string to_text(Bytes bytes);
std::string to_text(Seconds seconds);

// Reads "16GiB", "25 GiB/s" (the "/s" is dropped), "512", "1.5MB". Throws InputError(where, ...).
Bytes parse_bytes(const std::string& text, const std::string& where);
// Reads "5us", "1.5ms", "2s", "0.25" (seconds). Throws InputError(where, ...).
Seconds parse_seconds(const std::string& text, const std::string& where);

}  // namespace sluice
