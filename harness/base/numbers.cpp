#include "harness/base/numbers.h"

#include <charconv>
#include <cmath>

namespace sluice {

template <class Number>
static std::optional<Number> read_whole(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<double> number_in(std::string_view text) {
  const std::optional<double> value = read_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::int64_t> whole_number_in(std::string_view text) { return read_whole<std::int64_t>(text); }

}  // namespace sluice
