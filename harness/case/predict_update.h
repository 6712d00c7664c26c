// The time and memory of a prepared case's update on the virtual clock.
#pragma once

#include <functional>
#include <vector>

#include "harness/case/prepared.h"
#include "harness/pipeline/optimizer.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {

// The virtual clock's costs of the ops of its plan.
Costs costs_of(const Prepared& p);

// The program that the updates of a plan repeat.
Program program_of_updates(const Prepared& p);
// Seconds of an update in the steady state, without interference.
Seconds simulated_update(const Prepared& p, const Program& program);

// Of a program of the case. With costs that were measured on this machine, buffers are part of the peaks, of messages
// that wait too.
std::vector<RankMemory> predicted_memory(const Prepared& p, const Program& program, const OptimizerSpec& optimizer);

// The times at which the updates of a run end; `times`: its length as a multiple of the shortest run's.
using UpdateEnds = std::function<std::vector<double>(int times)>;
// Seconds of an update in the steady state (results/steady_window.h). The run is doubled until it shows the steady
// state; synchronous systems run updates one after another without a barrier. tail: updates at the end that are faster
// because nothing follows them; the shortest run has at least three more. If nothing repeats in 16 times the shortest
// run: the mean of the second half.
Seconds steady_update(const UpdateEnds& ends, std::size_t tail = 0);

}  // namespace sluice
