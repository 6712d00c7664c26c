// Program: what a rank really runs. Lowering takes a schedule (compute ops only) and adds sends,
// receives, gradient reductions and optimizer steps, and writes the weight version into every
// compute instruction. Both clocks run this and nothing else.
//
// Messages between two ranks travel in channels, one per (sender, receiver), first in first out.
// Sends follow the op that makes the value and never block; a receive stands before the first op
// that needs it, and the receives of a channel are in the order of its sends (an early message is
// taken early), so the two ends agree by construction. A stage steps after its last gradient; a
// replicated one at the end of the rank's program, after an all-reduce.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/schedule.h"
#include "harness/core/weight_rule.h"

namespace sluice {

enum class Do : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  reduce_gradients,  // all-reduce over the stage's replicas
  optimizer_step,
};

struct Instruction {
  Do what = Do::forward;
  StageId stage;       // the rank's own stage
  Micro micro;         // compute: the stage's own op number; communication: the message's on its
                       // edge (the same unless stages take several micro-batches at once,
                       // StageGraph::grouping); step: the index of the update
  StageId peer_stage;  // communication: the stage at the other end
  std::int32_t channel =
      -1;  // communication: index into Program::channels; reduce: the stage's group
  std::int32_t version = 0;  // compute: weight version to read, counted from the program's start;
                             // step: the version it makes
};

std::string to_text(const Instruction& instruction);  // "5I2", "send_activation 5->6 2", "step 5"

struct Channel {
  Rank from, to;
  std::int32_t messages = 0;  // in one run of the program
};

struct Program {
  std::vector<std::vector<Instruction>> ranks;
  std::vector<Channel> channels;
  StageGraph graph;
  Placement placement;
  int microbatches = 0;
  int updates = 0;  // optimizer steps of each stage in one run
  WeightRule rule;
  std::size_t rank_count() const { return ranks.size(); }
};

// Throws InputError if the schedule does not pass check() (check.h); the message is the first
// violation.
Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement,
              const WeightRule& rule);

}  // namespace sluice
