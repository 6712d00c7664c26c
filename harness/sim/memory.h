// Memory of a rank over a program: what the rules say must be resident, split by kind, in program
// order. Peaks depend on the order of a rank's ops only, not on any timing (specs/sync_schedules.md
// section 0), so they are exact on both clocks; with a trace they become a timeline.
// Stages whose ranks share them (Program::sharded): the shards and whole vectors of sharding.h,
// each from the instruction that makes it to the one that drops it. Buffers of old versions and
// predictions are kept for the next ones, so `versions` never shrinks.
#pragma once

#include <vector>

#include "harness/base/quantities.h"
#include "harness/program/program.h"
#include "harness/sim/boundary_values.h"

namespace sluice {

// Of a whole stage.
struct StageMemory {
  Bytes weights;  // of one version
  Bytes gradients;
  Bytes optimizer;     // momentum, Adam's moments, ...
  Bytes stash;         // of one micro-batch between F and the end of I or B
  Bytes weight_stash;  // of one micro-batch between I and the end of W
  Bytes input;         // of one micro-batch between F and its recomputation, where F keeps no stash
  // Of the stash, what a stage before or after on the same rank holds too: it counts once.
  BoundaryValues boundary = {};
};

struct MemoryPoint {
  std::size_t instruction;  // index into the rank's program, after which this holds (F: while it runs)
  Bytes weights, versions, gradients, optimizer, activations;
  // Of sharded stages, and part of weights and gradients: gathered copies (with ZeRO-1 the whole
  // weights less the shard), and whole gradients that wait for their reduce-scatter.
  Bytes gathered, unscattered;
  Bytes total() const { return weights + versions + gradients + optimizer + activations; }
};

struct RankMemory {
  std::vector<MemoryPoint> timeline;  // one point per compute instruction, step, gather, free and
                                      // reduce-scatter
  MemoryPoint peak;                   // the one of largest total
  int peak_in_flight = 0;             // micro-batches between F and the end of I/B, all stages of the rank
  int peak_versions = 1;              // weight tensors of a stage in use at once: versions, the newest
                                      // included, and predictions
};

std::vector<RankMemory> memory(const Program& program, const std::vector<StageMemory>& stages, bool timeline = false);

}  // namespace sluice
