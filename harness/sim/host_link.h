// The host links of the virtual clock: copies of stashes between a device and its host (harness/pipeline/offload.h).
// Each rank has its own link, which runs one copy at a time in the order of the rank's program, each for
// Costs::host_copies of its stage. Ops and messages do not slow it down.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "harness/program/trace.h"
#include "harness/sim/costs.h"

namespace sluice {

class HostLinks {
 public:
  // Throws InputError for a program that moves stashes if a device has no host link (Device::host_bandwidth).
  HostLinks(const Program& program, const Costs& costs);

  // Rank r reaches a move at `now`. Returns when it continues: after a copy at once; a free waits for its copy.
  double move(std::size_t r, const Instruction& i, double now, bool traced);
  // When rank r can begin an op at `now`: later if it needs a stash whose copy back has not ended.
  double ready(std::size_t r, const Instruction& i, double now) const {
    return links_.empty() || !reads_stash(i.opcode) ? now : std::max(now, copied_at(r, i));
  }

  double end() const { return end_; }
  const std::vector<std::vector<TraceEvent>>& first_iteration() const { return trace_; }

 private:
  // When the last copy of a stash ends; 0: it has not been copied.
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
