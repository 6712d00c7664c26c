// Where the gathers, frees and reduce-scatters of one rank stand between its compute ops: the part
// of lowering (program.cpp) that sharding.h describes.
#pragma once

#include <vector>

#include "harness/program/program.h"

namespace sluice {

struct ShardedPlaces {
  // Per op of the rank, in the order they run in. Of a pair, before its first, after its second.
  std::vector<std::vector<Instruction>> before, after;
  bool active() const { return !before.empty(); }
};

// Empty unless the program (placement and sharding are looked at) shards a stage of these ops.
ShardedPlaces sharded_places(const Program& program, const std::vector<Op>& ops);

}  // namespace sluice
