#include "harness/base/options.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <stdexcept>

#include "harness/base/error.h"

namespace sluice {

const std::string& Options::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::logic_error("option '" + name + "' is not declared");
  return found->second;
}

int Options::integer(const std::string& name) const { return std::stoi(text(name)); }

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
  return options;
}

}  // namespace sluice
