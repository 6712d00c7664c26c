#include "harness/cli/given_options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/split.h"

namespace sluice {

std::map<std::string, std::string> given_options(const std::vector<std::string>& set) {
  std::map<std::string, std::string> result;
  for (const std::string& text : set) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw InputError("--set", "'" + text + "' is not key=value");
    const std::string key = text.substr(0, equals);
    if (!result.emplace(key, text.substr(equals + 1)).second)
      throw InputError("--set", "'" + key + "' is given twice", "give each option once");
  }
  return result;
}

std::vector<std::string> names_of_systems(const std::string& text, bool inference, const std::string& where) {
  std::vector<std::string> result, excluded;
  const auto add = [&](const std::string& name) {
    if (std::ranges::count(result, name) == 0) result.push_back(name);
  };
  for (const std::string& name : split(text, ",")) {
    if (name.empty()) throw InputError(where, "a name is missing in '" + text + "'", "write a,b,c");
    if (name.starts_with('!')) {
      excluded.push_back(find_system(name.substr(1), where).name);
      continue;
    }
    const std::vector<const System*> meant = systems_of_pattern(name);
    for (const System* system : meant)
      if (inference || !system->inference_only) add(system->name);
    if (meant.empty()) {
      const System& system = find_system(name, where);
      add(name.starts_with(kOrderFromFile) ? name : system.name);
    }
  }
  std::erase_if(result, [&](const std::string& name) { return std::ranges::count(excluded, name) > 0; });
  if (result.empty())
    throw InputError(where, "'" + text + "' excludes every system that it names",
                     "name those that remain, too: '*,!gpipe'");
  return result;
}

std::vector<const System*> systems_named(const std::string& text, bool inference, const std::string& where) {
  std::vector<const System*> result;
  for (const std::string& name : names_of_systems(text, inference, where)) {
    if (name.starts_with(kOrderFromFile))
      throw InputError(where, "'" + name + "' is an order of one size",
                       "run it with sluice run or plan, or look at it with sluice schedule --from");
    result.push_back(&find_system(name, where));
  }
  return result;
}

static bool declares(const System& system, const std::string& option) {
  return std::ranges::count(system.options, option, &OptionSpec::name) > 0;
}

std::map<std::string, std::string> options_of(const System& system, const std::map<std::string, std::string>& given) {
  std::map<std::string, std::string> result = given;
  std::erase_if(result, [&](const auto& option) { return !declares(system, option.first); });
  return result;
}

// Throws the error of the first system that has the option, if none of them takes the value.
static void reject_value_of_none(const std::vector<const System*>& systems,
                                 const std::pair<const std::string, std::string>& option) {
  std::optional<InputError> first;
  for (const System* system : systems) {
    if (!declares(*system, option.first)) continue;
    try {
      resolve_options(system->options, {option}, "--set");
      return;
    } catch (const InputError& error) {
      if (!first) first = error;
    }
  }
  if (first) throw InputError(*first);
}

void reject_undeclared(const std::vector<const System*>& systems, const std::map<std::string, std::string>& given) {
  std::vector<std::string> known;
  for (const System* system : systems)
    for (const OptionSpec& spec : system->options)
      if (std::ranges::count(known, spec.name) == 0) known.push_back(spec.name);
  for (const auto& [name, value] : given)
    if (std::ranges::none_of(systems, [&](const System* s) { return declares(*s, name); }))
      throw InputError("--set", "unknown option '" + name + "'",
                       known.empty() ? "no system given here has options" : suggestion(name, known));
  for (const auto& option : given) reject_value_of_none(systems, option);
}

}  // namespace sluice
