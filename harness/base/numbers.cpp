#include "harness/base/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"

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

std::vector<int> counts_in(std::string_view list, const std::string& where) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = list.substr(begin, end - begin);
    begin = end + 1;
    const std::optional<std::int64_t> count = whole_number_in(item);
    if (!count || *count < 1 || *count > kMaxCount)
      throw InputError(where, "'" + std::string(item) + "' is not a number of at least 1", "write 8 or 4,8,16");
    counts.push_back(static_cast<int>(*count));
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
  return text ? read_whole<int>(text) : std::nullopt;
}

}  // namespace sluice
