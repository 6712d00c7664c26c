// The host links of the virtual clock: copies of stashes between a device and its host (harness/pipeline/offload.h). A
// rank has a link of its own, which takes one copy after the other in the order of the rank's program, each for
// Costs::host_copies of its stage. Neither ops nor messages slow it down.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "harness/program/trace.h"
#include "harness/sim/costs.h"

namespace sluice {

class HostLinks {
 public:
  // Throws InputError for a program that moves stashes, where a device has no host link (Device::host_bandwidth).
  HostLinks(const Program& program, const Costs& costs);

  // Rank r comes to a move at `now`. Returns when it goes on: a copy does not hold it, a free waits for its copy.
  double move(std::size_t r, const Instruction& i, double now, bool traced);
  // When rank r can begin an op at `now`: later where it needs a stash that is on its way back.
  double ready(std::size_t r, const Instruction& i, double now) const {
    return links_.empty() || !reads_stash(i.opcode) ? now : std::max(now, copied_at(r, i));
  }

  double end() const { return end_; }
  const std::vector<std::vector<TraceEvent>>& first_iteration() const { return trace_; }

 private:
  // When the last copy of a stash is over; 0: it has not been copied.
  double& copied(std::size_t r, const Instruction& i) {
    return links_[r].copied[i.stage.index() * microbatches_ + i.micro.index()];
  }
  double copied_at(std::size_t r, const Instruction& i) const {
    return links_[r].copied[i.stage.index() * microbatches_ + i.micro.index()];
  }

  struct Link {
    double free_at = 0;
    std::vector<double> copied;  // per stage and micro-batch
  };
  const Program& program_;
  const Costs& costs_;
  std::size_t microbatches_ = 0;
  std::vector<Link> links_;  // empty: nothing moves
  std::vector<std::vector<TraceEvent>> trace_;
  double end_ = 0;
};

}  // namespace sluice
