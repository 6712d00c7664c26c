// What messages add to the memory of the rank that sends them. A message is the sender's own memory from its send until
// the op of the receiver that takes it begins, so that a rank that is ahead of its neighbour holds several. Which ones
// wait at once depends on the times of the run: unlike memory.h's, these peaks are as good as the costs.
#pragma once

#include <vector>

#include "harness/program/program.h"
#include "harness/program/trace.h"
#include "harness/sim/memory.h"

namespace sluice {

// Raises the buffers of the ranks' peaks to what the messages of `trace` make of them. memory: of the program, with its
// timeline, which is dropped; trace: of the program's first iteration.
void add_waiting_messages(const Program& program, const Trace& trace, std::vector<RankMemory>& memory);

}  // namespace sluice
