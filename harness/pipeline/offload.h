// Offload: the stashes of a rank that wait in its host's memory between a forward and its backward (PipeOffload). A
// stash is what a stage keeps of one micro-batch; three moves take it out and bring it back, each before an op of the
// rank:
//   out     a copy to the host begins, overlapping the rank's ops
//   free    the rank waits until that copy is over, and gives the device's memory back
//   back    memory on the device is taken again and a copy from the host begins; the I or B waits until it is over, and
//           then gives the host's memory back
// A rank's copies take turns on its host link, in the order of the moves. What of a stash another stage of the rank
// keeps or is still to read (where the pipeline turns round) stays on the device, and so do the data feed's samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

struct StashMove {
  enum class Kind : std::uint8_t { out, free, back } kind = Kind::out;
  std::size_t before = 0;  // index into the rank's ops; of an overlapped pair, before both
  StageId stage;
  Micro micro;
  friend bool operator==(const StashMove&, const StashMove&) = default;
};

struct Offload {
  std::vector<std::vector<StashMove>> ranks;  // per rank, in order, `before` never falling; empty: nothing moves
  bool active() const {
    return std::ranges::any_of(ranks, [](const std::vector<StashMove>& moves) { return !moves.empty(); });
  }
};

// Every stash whose backward does not follow within three ops of its forward: out after the forward, free an op later,
// back an op before the I or B.
Offload offload_all(const Schedule& schedule);

}  // namespace sluice
