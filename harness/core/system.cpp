#include "harness/core/system.h"

#include <algorithm>

#include "harness/core/error.h"

namespace sluice {

const System& find_system(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const System* system : all_systems()) {
    if (system->name == name || std::ranges::count(system->aliases, name) > 0) return *system;
    names.push_back(system->name);
  }
  throw InputError(where, "unknown system '" + name + "'", suggestion(name, names));
}

}  // namespace sluice
