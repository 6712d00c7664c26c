// Offload: the stashes of a rank that are in its host's memory between a forward and its backward (PipeOffload). A
// stash is what a stage keeps of one micro-batch. It has three moves, each before an op of the rank:
//   out     a copy to the host begins, overlapping the rank's ops
//   free    the rank waits for the end of that copy and frees the device's memory
//   back    memory on the device is allocated again and a copy from the host begins; the I or B waits for its end and
//           then frees the host's memory
// A rank's copies run one at a time on its host link, in the order of the moves. Tensors that another stage of the rank
// also keeps or still has to read (at a turning point of the pipeline) stay on the device, and so do the input samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

struct StashMove {
  enum class Kind : std::uint8_t { out, free, back } kind = Kind::out;
  std::size_t before = 0;  // index into the rank's ops; for an overlapped pair, before both
  StageId stage;
  Micro micro;
  friend bool operator==(const StashMove&, const StashMove&) = default;
};

struct Offload {
  std::vector<std::vector<StashMove>> ranks;  // per rank, in order of `before`; empty: nothing moves
  bool active() const {
    return std::ranges::any_of(ranks, [](const std::vector<StashMove>& moves) { return !moves.empty(); });
  }
};

}  // namespace sluice
