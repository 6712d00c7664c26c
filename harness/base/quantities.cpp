#include "harness/base/quantities.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "harness/base/error.h"

namespace sluice {

void throw_too_large(std::int64_t a, char operation, std::int64_t b) {
  throw InputError("",
                   fmt::format("{} {} {} is more than fits into 64 bits: sizes or counts are absurd", a, operation, b),
                   "look for a number with too many digits in the input");
}

int int_of(std::int64_t value, const std::string& where, int least, int most) {
  if (value < least || value > most)
    throw InputError(where, fmt::format("{} is out of range", value), fmt::format("give {} to {}", least, most));
  return static_cast<int>(value);
}

// Three digits, and never 1e+03: units change at 1024 or at 60.
static std::string three_digits(double value) {
  return std::abs(value) >= 999.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string to_text(Bytes bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes.value) : three_digits(value) + " " + units[unit];
}

std::string to_text(Seconds seconds) {
  const double s = seconds.value;
  if (!std::isfinite(s)) return std::isnan(s) ? "unknown" : s < 0 ? "-infinite" : "infinite";
  const double magnitude = std::abs(s);
  if (magnitude >= 120) {
    const double whole = std::round(magnitude);
    return fmt::format("{}{:.0f} min {:.0f} s", s < 0 ? "-" : "", std::floor(whole / 60), std::fmod(whole, 60));
  }
  if (magnitude >= 1 || s == 0) return three_digits(s) + " s";
  if (magnitude >= 1e-3) return three_digits(s * 1e3) + " ms";
  return three_digits(s * 1e6) + " us";
}

// Splits "12.5 GiB/s" into 12.5 and "GiB"; throws InputError if there is no number.
static std::pair<double, std::string> number_and_unit(const std::string& text, const std::string& where,
                                                      const std::string& example) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    throw InputError(where, "'" + text + "' is not a quantity", "write it like " + example);
  }
  std::string unit;
  for (std::size_t i = used; i < text.size(); ++i) {
    if (!std::isspace(static_cast<unsigned char>(text[i]))) unit += text[i];
  }
  if (!std::isfinite(value) || value < 0)
    throw InputError(where, "'" + text + "' must be finite and not negative", "write it like " + example);
  if (unit.empty() && value != 0) throw InputError(where, "'" + text + "' has no unit", "write it like " + example);
  return {value, unit};
}

Bytes parse_bytes(const std::string& text, const std::string& where) {
  auto [value, unit] = number_and_unit(text, where, "16GiB");
  if (unit.ends_with("/s")) unit.resize(unit.size() - 2);
  static const std::pair<const char*, double> units[] = {
      {"", 1},  // of 0
      {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"kB", 1e3},   {"KB", 1e3},
      {"MB", 1e6}, {"GB", 1e9},     {"TB", 1e12},       {"Gb", 125e6},         {"Mb", 125e3}, {"TiB", 1099511627776.0}};
  for (const auto& [name, factor] : units) {
    if (unit == name) {
      const double bytes = value * factor;
      if (bytes > 9e18) throw InputError(where, "'" + text + "' is too large");
      return Bytes(static_cast<std::int64_t>(bytes));
    }
  }
  throw InputError(where, "unknown unit in '" + text + "'", "use B, KiB, MiB, GiB, kB, MB, GB or Gb");
}

double parse_rate(const std::string& text, const std::string& where) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  double rate = 0;
  if (text.find("bit/s") != std::string::npos) {
    static const std::map<std::string, double> units = {
        {"bit/s", 1}, {"kbit/s", 1e3}, {"Mbit/s", 1e6}, {"Gbit/s", 1e9}};
    const auto [value, unit] = number_and_unit(text, where, "100Mbit/s");
    const auto found = units.find(unit);
    if (found == units.end()) throw InputError(where, "unknown unit '" + unit + "'", "write it like 100Mbit/s");
    rate = value * found->second / 8;
  } else {
    rate = static_cast<double>(parse_bytes(text, where).value);
  }
  if (!(rate > 0)) throw InputError(where, "'" + text + "' is not a rate greater than 0", "write it like 100Mbit/s");
  return rate;
}

Seconds parse_seconds(const std::string& text, const std::string& where) {
  const auto [value, unit] = number_and_unit(text, where, "5us");
  if (unit.empty() || unit == "s") return Seconds(value);
  if (unit == "ms") return Seconds(value * 1e-3);
  if (unit == "us") return Seconds(value * 1e-6);
  if (unit == "ns") return Seconds(value * 1e-9);
  throw InputError(where, "unknown unit in '" + text + "'", "use s, ms, us or ns");
}

}  // namespace sluice
