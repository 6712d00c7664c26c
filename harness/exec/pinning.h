// Pinning: every rank on a core of its own, through hwloc, so that the operating system moves no rank and no two share
// a core. Ranks take the cores in hwloc's order, in which neighbours share caches and memory. A build without hwloc
// rejects.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/base/ids.h"
#include "harness/exec/process_group.h"

namespace sluice {

bool hwloc_built();
std::string hwloc_library();  // "hwloc 2.9.0"; "" without

// Where a rank may run: a machine, and those of its cores, by hwloc's numbers, that the rank's process may use.
struct UsableCores {
  std::string machine;
  std::vector<int> cores;
};

// A core per rank, no core of a machine twice. A launcher that binds processes gives each its own cores, or all of them
// the same: the rank with the fewest usable cores chooses first. Throws InputError: there are too few cores.
std::vector<int> assign_cores(const std::vector<UsableCores>& ranks);

class Pinning {
 public:
  virtual ~Pinning() = default;
  // Puts the calling thread on the core of a rank of this process. Throws std::runtime_error.
  virtual void bind(Rank rank) const = 0;
  // Per rank, the processing units of its core as its operating system numbers them: "3", with two threads per core
  // "3,19".
  virtual const std::vector<std::string>& cpus() const = 0;
};

// For `ranks` ranks of this process, or one in each member of a process group (then collective). Throws InputError:
// built without hwloc, or fewer cores than ranks.
std::unique_ptr<Pinning> pin_to_cores(int ranks, ProcessGroup* processes);

}  // namespace sluice
