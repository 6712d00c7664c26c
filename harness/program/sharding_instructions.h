// The gathers, frees and reduce-scatters of one rank and their places among its compute ops: the part of lowering that
// sharding.h describes.
#pragma once

#include <vector>

#include "harness/program/program.h"

namespace sluice {

struct ShardingInstructions {
  // Per op of the rank, in order. For an overlapped pair: before its first op, after its second.
  std::vector<std::vector<Instruction>> before, after;
  bool empty() const { return before.empty(); }
};

// Empty unless the program (its placement and sharding) shards a stage of these ops.
ShardingInstructions sharding_instructions(const Program& program, const std::vector<Op>& ops);

}  // namespace sluice
