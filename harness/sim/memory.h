// Memory of a rank over a program: the tensors that must be resident, by kind, in program order. Peaks depend only on
// the order of a rank's ops, not on times, so they are exact on both clocks; with a trace they become a timeline. For
// stages that are sharded over their ranks (Program::sharded): the shards and whole vectors of sharding.h, each from
// the instruction that makes it to the one that drops it. Buffers of old versions and predictions are reused, so
// `versions` never shrinks.
//
// A stash that moves counts on the device until its free, on the host from the start of its copy to the I or B that
// waits for the copy back, and on the device again from the start of the copy back.
//
// Buffers (the data feed's samples, temporaries of ops) are predicted if they were measured: the difference between the
// peak of everything and the peak of the resident tensors. waiting_messages.h adds messages.
#pragma once

#include <vector>

#include "harness/pipeline/memory_by_kind.h"
#include "harness/program/program.h"
#include "harness/sim/stage_memory.h"

namespace sluice {

// What a rank holds after an instruction (a forward: while it runs).
struct MemoryPoint : MemoryByKind {
  std::size_t instruction = 0;  // index into the rank's program
  // Parts of weights and gradients for sharded stages: gathered copies (with ZeRO-1 the whole weights minus the shard),
  // and whole gradients that wait for their reduce-scatter.
  Bytes gathered, unscattered;
  // With the data feed's samples: while the instruction runs, where that was measured with what it allocates; and once
  // it has ended.
  Bytes everything, left;
};

struct RankMemory {
  // One point per compute instruction, step, gather, free, reduce-scatter and move of a stash; `host` at that point.
  std::vector<MemoryPoint> timeline;
  MemoryPoint peak;        // the point with the largest total
  int peak_in_flight = 0;  // micro-batches between F and the end of I/B, all stages of the rank
  int peak_versions = 1;   // weight tensors of a stage in use at once: versions, including the newest, and predictions
};

// One per rank. stages: of the program. timeline: keep every point; false: only the peak.
std::vector<RankMemory> memory(const Program& program, const std::vector<StageMemory>& stages, bool timeline = false);

}  // namespace sluice
