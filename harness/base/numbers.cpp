#include "harness/base/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "harness/base/error.h"

namespace sluice {

std::optional<double> number_in(std::string_view text) {
  const std::optional<double> value = number_as<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::vector<int> counts_in(std::string_view list, const std::string& where) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = list.substr(begin, end - begin);
    begin = end + 1;
    const int count = number_as<int>(item).value_or(0);
    if (count < 1 || count > kMaxCount)
      throw InputError(where, "'" + std::string(item) + "' is not a number of at least 1", "write 8 or 4,8,16");
    counts.push_back(count);
  }
  return counts;
}

std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return value;
}

std::optional<int> number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text ? number_as<int>(text) : std::nullopt;
}

}  // namespace sluice
