// What an update of a prepared case takes on the virtual clock, in time and memory.
#pragma once

#include <functional>
#include <vector>

#include "harness/case/prepared.h"
#include "harness/pipeline/optimizer.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {

// What the virtual clock takes for the ops of its plan.
Costs costs_of(const Prepared& p);

// The program that a plan's updates repeat.
Program program_of_updates(const Prepared& p);
// An update of it in the steady state, interference aside.
Seconds simulated_update(const Prepared& p, const Program& program);

// Of a program of the case. With costs that were measured on this machine, buffers are part of the peaks, of messages
// that wait too.
std::vector<RankMemory> predicted_memory(const Prepared& p, const Program& program, const OptimizerSpec& optimizer);

// The moments at which the updates of a run end; `times`: its length as a multiple of the shortest run's.
using UpdateEnds = std::function<std::vector<double>(int times)>;
// Seconds of an update in the steady state (results/steady_window.h), which doubles the run until it shows: synchronous
// systems run updates one after another without a barrier. tail: updates at the end that are faster because nothing
// follows them; the shortest run has at least three more. Where nothing repeats in 16 times the shortest run: the
// mean of the second half.
Seconds steady_update(const UpdateEnds& ends, std::size_t tail = 0);

}  // namespace sluice
