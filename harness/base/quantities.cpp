#include "harness/base/quantities.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <set>

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

// A number in the first unit's multiples, times its unit's factor. Throws InputError where there is no number or
// another unit; `example` is a quantity as it should be written, `known` lists the units.
static double in_units(const std::string& text, const std::string& where, const std::map<std::string, double>& units,
                       const std::string& example, const std::string& known) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) throw InputError(where, "'" + text + "' is not a quantity", "write it like " + example);
  std::string unit(static_cast<const char*>(end), text.data() + text.size());
  std::erase_if(unit, [](unsigned char c) { return std::isspace(c); });
  if (!std::isfinite(value) || value < 0)
    throw InputError(where, "'" + text + "' must be finite and not negative", "write it like " + example);
  if (unit.empty() && value == 0) return 0;
  if (unit.empty()) throw InputError(where, "'" + text + "' has no unit", "write it like " + example);
  if (const auto found = units.find(unit); found != units.end()) return value * found->second;
  static const std::set<std::string> bits = {"b", "kb", "Kb", "Mb", "Gb", "Tb"};
  if (bits.contains(unit.substr(0, unit.find('/'))))
    throw InputError(where, "'" + text + "' may be bits or bytes", "write GB or Gbit/s");
  throw InputError(where, "unknown unit in '" + text + "'", known);
}

static const std::map<std::string, double>& byte_units() {
  static const std::map<std::string, double> all = {
      {"B", 1},           {"kB", 1e3},           {"MB", 1e6},
      {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
      {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  return all;
}

static double at_most_9e18(double bytes, const std::string& text, const std::string& where) {
  if (bytes > 9e18) throw InputError(where, "'" + text + "' is too large");
  return bytes;
}

Bytes parse_bytes(const std::string& text, const std::string& where) {
  const double bytes = in_units(text, where, byte_units(), "16GiB", "use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB");
  return Bytes(static_cast<std::int64_t>(at_most_9e18(bytes, text, where)));
}

double parse_rate(const std::string& text, const std::string& where) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  static const std::map<std::string, double> units = [] {
    std::map<std::string, double> all = {{"bit/s", 0.125}, {"kbit/s", 125}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6}};
    for (const auto& [unit, factor] : byte_units()) all[unit + "/s"] = factor;
    return all;
  }();
  const double rate = in_units(text, where, units, "1.5GB/s or 100Mbit/s",
                               "a rate is in B/s, kB/s, MB/s, GB/s, GiB/s, kbit/s, Mbit/s or Gbit/s");
  if (!(rate > 0)) throw InputError(where, "'" + text + "' is not a rate greater than 0", "write it like 100Mbit/s");
  return at_most_9e18(rate, text, where);
}

Seconds parse_seconds(const std::string& text, const std::string& where) {
  static const std::map<std::string, double> units = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  return Seconds(in_units(text, where, units, "5us", "use s, ms, us or ns"));
}

}  // namespace sluice
