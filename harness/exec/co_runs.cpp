#include "harness/exec/co_runs.h"

#include "harness/base/error.h"
#include "harness/exec/pinning.h"

namespace sluice {

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
