// Memory of a rank over a program: what the rules say must be resident, split by kind, in program order. Peaks depend
// on the order of a rank's ops only, not on any timing, so they are exact on both clocks; with a trace they become a
// timeline. Stages whose ranks share them (Program::sharded): the shards and whole vectors of sharding.h, each from the
// instruction that makes it to the one that drops it. Buffers of old versions and predictions are kept for the next
// ones, so `versions` never shrinks.
//
// A stash that moves counts on the device until its free, on the host from its way out to the I or B that waits for its
// way back, and on the device again from that.
//
// Buffers (the data feed's samples, what ops allocate while they run) are predicted where they were measured: the peak
// has what the peak of everything adds to that of what is resident. waiting_messages.h adds messages.
#pragma once

#include <vector>

#include "harness/pipeline/memory_by_kind.h"
#include "harness/program/program.h"
#include "harness/sim/stage_memory.h"

namespace sluice {

// What a rank holds after an instruction (a forward: while it runs).
struct MemoryPoint : MemoryByKind {
  std::size_t instruction = 0;  // index into the rank's program
  // Of sharded stages, and part of weights and gradients: gathered copies (with ZeRO-1 the whole weights less the
  // shard), and whole gradients that wait for their reduce-scatter.
  Bytes gathered, unscattered;
  // With the data feed's samples: while the instruction runs, where that was measured with what it allocates; and once
  // it has ended.
  Bytes everything, left;
};

struct RankMemory {
  // One point per compute instruction, step, gather, free, reduce-scatter and move of a stash; `host` as it is there.
  std::vector<MemoryPoint> timeline;
  MemoryPoint peak;        // the one of largest total
  int peak_in_flight = 0;  // micro-batches between F and the end of I/B, all stages of the rank
  int peak_versions = 1;   // weight tensors of a stage in use at once: versions, the newest included, and
                           // predictions
};

// One for every rank. stages: of the program. timeline: whether to keep every point or the peak only.
std::vector<RankMemory> memory(const Program& program, const std::vector<StageMemory>& stages, bool timeline = false);

}  // namespace sluice
