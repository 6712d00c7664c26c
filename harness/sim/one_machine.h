// The virtual clock of one machine whose executor was measured (`sluice profile`): its ranks are cores that share
// memory and caches. An op runs at its own speed beside ranks that wait, and slower beside ranks that compute, in
// proportion to how many of them do; speeds change whenever a rank begins or ends one. Messages, reductions, gathers,
// the zeroing of gradients and the waking of a rank that waited long take the rank's own time, as in the executor.
//
// Everything is taken in order of time, so that it is slower than the engine of simulate.cpp, and exact.
#pragma once

#include "harness/model/cluster.h"
#include "harness/program/program.h"
#include "harness/sim/costs.h"
#include "harness/sim/simulation.h"

namespace sluice {

// costs.machine must be given. Throws logic_error for a deadlock, as simulate().
Simulation simulate_one_machine(const Program& program, const Costs& costs, const Cluster::OneMachine& machine,
                                const SimulateOptions& options);

}  // namespace sluice
