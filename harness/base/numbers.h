// Numbers in texts, which must be within range; read whole (nothing before them, nothing after them) but where
// take_number says otherwise.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Bounds for what has none of its own.
inline constexpr int kMaxCount = 1'000'000'000;  // the product of two fits into 64 bits
inline constexpr std::int64_t kMaxWhole = 4'000'000'000'000'000'000;
inline constexpr std::int64_t kMaxBytes = 1'000'000'000'000'000'000;
inline constexpr double kMaxSeconds = 1e12;  // 30,000 years
inline constexpr double kMaxNumber = 1e30;   // bytes or FLOP a second, and whatever else is measured

// The text as a number of this type; none for anything else, also for one that does not fit.
template <class Number>
std::optional<Number> number_as(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// A finite number as C++ writes it ("1.5", "-2e3"); none for anything else, "nan" and "inf" included.
std::optional<double> number_in(std::string_view text);

inline std::optional<std::int64_t> whole_number_in(std::string_view text) { return number_as<std::int64_t>(text); }

// The counts of a list such as "4,8,16", in its order; none of "". Throws InputError at `where` where one is not a
// whole number from 1 to kMaxCount.
std::vector<int> counts_in(std::string_view list, const std::string& where);

// The finite number that `text` begins with, as number_in reads it, which is taken off; none, and nothing taken off,
// where it begins with none.
std::optional<double> take_number(std::string_view& text);

// The whole number that an environment variable holds; none where it is not set, holds anything else, or does not fit.
std::optional<int> number_in_environment(const char* name);

}  // namespace sluice
