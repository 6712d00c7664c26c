#include "harness/cli/drawn_lengths.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/base/split.h"
#include "harness/base/splitmix64.h"

namespace sluice {
namespace {

constexpr int kMaxDrawn = 100'000, kMaxLength = 1'000'000;
constexpr const char* kForms =
    "give a list, uniform:N,shortest=A,longest=B or lognormal:N,median=M,sigma=S[,longest=B], and ,seed=K for others";

// The settings of a distribution.
class Distribution {
 public:
  Distribution(const std::string& text, const std::string& flag) : text_(text), flag_(flag) {
    const std::size_t colon = text.find(':');
    name_ = text.substr(0, colon);
    std::vector<std::string> parts = split(std::string_view(text).substr(colon + 1), ",");
    number_ = whole("N", parts.front(), 1, kMaxDrawn);
    for (std::size_t k = 1; k < parts.size(); ++k) {
      const std::size_t sign = parts[k].find('=');
      if (sign == std::string::npos || !settings_.emplace(parts[k].substr(0, sign), parts[k].substr(sign + 1)).second)
        fail("'" + parts[k] + "' is not a setting of its own");
    }
  }
  const std::string& name() const { return name_; }
  int number() const { return number_; }

  // A setting, which is then used up.
  std::optional<std::string> take(const std::string& setting) {
    const auto found = settings_.find(setting);
    if (found == settings_.end()) return std::nullopt;
    std::string value = found->second;
    settings_.erase(found);
    return value;
  }
  int whole(const std::string& setting, const std::string& value, int least, int most) const {
    const auto number = whole_number_in(value);
    if (!number || *number < least || *number > most)
      fail(setting + " is '" + value + "', not a whole number from " + std::to_string(least) + " to " +
           std::to_string(most));
    return static_cast<int>(*number);
  }
  int whole(const std::string& setting, std::optional<int> otherwise, int least = 1, int most = kMaxLength) {
    const auto value = take(setting);
    if (!value && !otherwise) fail(setting + " is missing");
    return value ? whole(setting, *value, least, most) : *otherwise;
  }
  double sigma() {
    const auto value = take("sigma");
    if (!value) fail("sigma is missing");
    const auto number = number_in(*value);
    if (!number || *number < 0 || *number > 10) fail("sigma is not a number from 0 to 10");
    return *number;
  }
  void no_other_settings() const {
    if (!settings_.empty()) fail("'" + settings_.begin()->first + "' is not a setting of " + name_);
  }
  [[noreturn]] void fail(const std::string& fault) const {
    throw InputError(flag_, "'" + text_ + "': " + fault, kForms);
  }

 private:
  std::string text_, flag_, name_;
  int number_ = 0;
  std::map<std::string, std::string> settings_;
};

// Above 0, up to 1.
double uniform(std::uint64_t& state) { return static_cast<double>((next_splitmix64(state) >> 11) + 1) * 0x1p-53; }

}  // namespace

std::vector<int> lengths_in(const std::string& text, const std::string& flag) {
  if (text.find(':') == std::string::npos) return counts_in(text, flag);
  Distribution drawn(text, flag);
  std::uint64_t state = static_cast<std::uint64_t>(drawn.whole("seed", 1, 0));
  std::vector<int> lengths(static_cast<std::size_t>(drawn.number()));
  if (drawn.name() == "uniform") {
    const int shortest = drawn.whole("shortest", std::nullopt), longest = drawn.whole("longest", std::nullopt);
    if (shortest > longest) drawn.fail("shortest is above longest");
    drawn.no_other_settings();
    for (int& length : lengths)
      length = std::min(longest, shortest + static_cast<int>(uniform(state) * (longest - shortest + 1)));
  } else if (drawn.name() == "lognormal") {
    const int median = drawn.whole("median", std::nullopt), longest = drawn.whole("longest", kMaxLength);
    const double sigma = drawn.sigma();
    drawn.no_other_settings();
    for (int& length : lengths) {  // Box and Muller, Annals of Mathematical Statistics, 1958
      const double radius = std::sqrt(-2 * std::log(uniform(state)));
      const double z = radius * std::cos(2 * std::numbers::pi * uniform(state));
      length = static_cast<int>(std::clamp(std::round(median * std::exp(sigma * z)), 1.0, double(longest)));
    }
  } else {
    drawn.fail("'" + drawn.name() + "' is not a distribution");
  }
  return lengths;
}

}  // namespace sluice
