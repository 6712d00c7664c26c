#include "harness/exec/co_runs.h"

#include "harness/base/error.h"
#include "harness/exec/pinning.h"

namespace sluice {

std::vector<CoRunLoad> co_run_loads(int cores) {
  std::vector<CoRunLoad> loads;
  for (const bool own_core : {true, false}) {
    if (cores < (own_core ? 1 : 2)) continue;
    for (const Resource resource : {Resource::compute, Resource::memory, Resource::allocation})
      for (const double slowdown : {1.25, 1.5, 2.0, 3.0}) loads.push_back({resource, slowdown, own_core});
  }
  return loads;
}

int co_run_cores() {
  for (const int cores : {2, 1}) {
    try {
      pin_to_cores(cores, nullptr);
      return cores;
    } catch (const InputError&) {
    }
  }
  return 0;
}

}  // namespace sluice
