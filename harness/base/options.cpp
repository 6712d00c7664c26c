#include "harness/base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <stdexcept>
#include <utility>

#include "harness/base/error.h"

namespace sluice {

const std::string& Options::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::logic_error("option '" + name + "' is not declared");
  return found->second;
}

int Options::integer(const std::string& name) const { return std::stoi(text(name)); }

bool Options::holds(const OptionCondition& condition) const {
  return (std::ranges::count(condition.values, text(condition.option)) > 0) != condition.except;
}

std::string to_text(const OptionCondition& condition) {
  return fmt::format("{}{}={}", condition.option, condition.except ? "!" : "", fmt::join(condition.values, "|"));
}

OptionSpec only_with(OptionSpec spec, std::string option, std::vector<std::string> values) {
  spec.only_with.push_back({std::move(option), std::move(values)});
  return spec;
}

OptionSpec only_without(OptionSpec spec, std::string option, std::vector<std::string> values) {
  spec.only_with.push_back({std::move(option), std::move(values), true});
  return spec;
}

OptionSpec training_only(OptionSpec spec) {
  spec.training_only = true;
  return spec;
}

OptionSpec replicas_only(OptionSpec spec) {
  spec.replicas_only = true;
  return spec;
}

Options resolve_options(std::span<const OptionSpec> specs, const std::map<std::string, std::string>& given,
                        const std::string& where) {
  Options options;
  std::vector<std::string> names;
  for (const OptionSpec& spec : specs) {
    options.values_[spec.name] = spec.default_value;
    names.push_back(spec.name);
  }
  for (const auto& [name, value] : given) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& s) { return s.name == name; });
    if (spec == specs.end())
      throw InputError(where, "unknown option '" + name + "'",
                       names.empty() ? "this system has no options" : suggestion(name, names));
    if (spec->check_text && value != spec->default_value) spec->check_text(value, where + ": option '" + name + "'");
    if (spec->check_file || spec->check_text) {
      options.values_[name] = value;
      continue;
    }
    if (spec->choices.empty()) {
      long number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if ((error != std::errc() && error != std::errc::result_out_of_range) || end != value.data() + value.size())
        throw InputError(where, "option '" + name + "': '" + value + "' is not an integer");
      if (error == std::errc::result_out_of_range) number = value[0] == '-' ? LONG_MIN : LONG_MAX;
      constexpr long most = 1'000'000'000;
      if (number < spec->minimum || number > most)
        throw InputError(where, "option '" + name + "': " + value + " is out of range",
                         "give " + std::to_string(spec->minimum) + " to " + std::to_string(most));
    } else if (std::find(spec->choices.begin(), spec->choices.end(), value) == spec->choices.end()) {
      throw InputError(where, "option '" + name + "': unknown value '" + value + "'", suggestion(value, spec->choices));
    }
    options.values_[name] = value;
  }
  for (const OptionSpec& spec : specs)
    if (!std::ranges::all_of(spec.only_with, [&](const OptionCondition& c) { return options.holds(c); }))
      options.values_[spec.name] = spec.default_value;
  return options;
}

}  // namespace sluice
