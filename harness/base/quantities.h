// Quantities that do not convert into one another: seconds, bytes, floating point operations.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <string>
#include <type_traits>

namespace sluice {

// Arithmetic that never wraps round: on integers it throws InputError if the result does not fit, so that any use of a
// file with absurd sizes is rejected. Floating point is unchanged.
[[noreturn]] void throw_too_large(std::int64_t a, char operation, std::int64_t b);

template <class Rep>
constexpr Rep exact_sum(Rep a, Rep b) {
  if constexpr (std::is_integral_v<Rep>) {
    Rep result{};
    if (__builtin_add_overflow(a, b, &result)) throw_too_large(a, '+', b);
    return result;
  } else {
    return a + b;
  }
}
template <class Rep>
constexpr Rep exact_difference(Rep a, Rep b) {
  if constexpr (std::is_integral_v<Rep>) {
    Rep result{};
    if (__builtin_sub_overflow(a, b, &result)) throw_too_large(a, '-', b);
    return result;
  } else {
    return a - b;
  }
}
template <class Rep>
constexpr Rep exact_product(Rep a, Rep b) {
  if constexpr (std::is_integral_v<Rep>) {
    Rep result{};
    if (__builtin_mul_overflow(a, b, &result)) throw_too_large(a, '*', b);
    return result;
  } else {
    return a * b;
  }
}

// A 64-bit count as an int. Throws InputError(where, ...) if it is not between `least` and `most`.
int int_of(std::int64_t value, const std::string& where, int least = 0, int most = 1'000'000'000);

// The bounds of input values: above them a value is a mistake; below them, sums and products over a model stay finite.
inline constexpr double kMaxOpSeconds = 1e9;                // of one op or message, or of a run: 30 years
inline constexpr std::int64_t kMaxTensorBytes = 1LL << 50;  // of one layer, tensor or device: 1 PiB
inline constexpr std::int64_t kMaxSamples = 1'000'000'000;  // of a batch

template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(exact_sum(a.value, b.value)); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(exact_difference(a.value, b.value)); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(exact_product(a.value, k)); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(exact_product(a.value, k)); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  constexpr Quantity& operator+=(Quantity b) { return *this = *this + b; }
  constexpr Quantity& operator-=(Quantity b) { return *this = *this - b; }
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;  // multiply and add count as two

constexpr Bytes KiB(std::int64_t n) { return Bytes(n * 1024); }
constexpr Bytes MiB(std::int64_t n) { return Bytes(n * 1024 * 1024); }
constexpr Bytes GiB(std::int64_t n) { return Bytes(n * 1024 * 1024 * 1024); }

// "1.5 MiB", "12.3 ms": for readers, never parsed.
std::string to_text(Bytes bytes);
std::string to_text(Seconds seconds);

// Reads "16GiB", "512B", "1.5MB", "0". Throws InputError(where, ...): also for a rate, and for "16Gb".
Bytes parse_bytes(const std::string& text, const std::string& where);
// Bytes per second, above 0: "100Mbit/s", "1.5GB/s", "25 GiB/s", "inf". Throws InputError(where, ...).
double parse_rate(const std::string& text, const std::string& where);
// Reads "5us", "1.5ms", "2s", "0". Throws InputError(where, ...).
Seconds parse_seconds(const std::string& text, const std::string& where);

}  // namespace sluice
