// Pinning: every rank on its own core, through hwloc, so that the operating system moves no rank and no two share a
// core. Ranks take the cores in hwloc's order, in which neighbours share caches and memory. A build without hwloc
// rejects pinning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/base/ids.h"
#include "harness/exec/process_group.h"

namespace sluice {

bool hwloc_built();
std::string hwloc_library();  // "hwloc 2.9.0"; "" without

// The cores of a rank: a machine, and those of its cores, by hwloc's numbers, that the rank's process may use.
struct UsableCores {
  std::string machine;
  std::vector<int> cores;
};

// One core per rank; no core of a machine is used twice. A launcher that binds processes gives each its own cores, or
// the same to all: the rank with the fewest usable cores chooses first. Throws InputError if there are too few cores.
std::vector<int> assign_cores(const std::vector<UsableCores>& ranks);

class Pinning {
 public:
  virtual ~Pinning() = default;
  // Binds the calling thread to the core of a rank of this process. Throws std::runtime_error.
  virtual void bind(Rank rank) const = 0;
  // Per rank, the processing units of its core as its operating system numbers them: "3", with two threads per core
  // "3,19".
  virtual const std::vector<std::string>& cpus() const = 0;
};

// For `ranks` ranks of this process, or one in each member of a process group (then collective). Throws InputError if
// built without hwloc, or with fewer cores than ranks.
std::unique_ptr<Pinning> pin_to_cores(int ranks, ProcessGroup* processes);

}  // namespace sluice
