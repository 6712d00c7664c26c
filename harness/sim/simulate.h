// The virtual clock: runs a Program against costs and links, in discrete events, without computing any tensor. Ranks
// execute their instructions in order; sends do not occupy the rank, unless the cluster's block (Cluster::sends): then
// it goes on when the message is there; a receive waits for the message.
//
// Links: a transfer takes latency + bytes / bandwidth and occupies every medium on its path for bytes / bandwidth;
// transfers that share a medium (one direction of a link, both directions of a half-duplex one, a group of links)
// queue, first come first served. Where the cluster's links are shared fairly (Cluster::sharing), they go on in
// parallel with each other instead, at max-min fair rates (fair_transfers.h): a medium carries what its links carry, a
// channel's messages follow one another, and a ring is one transfer of all its steps.
//
// All-reduces of gradients are rings that meet no other traffic, or, by Cluster::all_reduce, collectives on the links
// like gathers, in one ring or in two levels. With Costs::gradient_buckets they, and reduce-scatters, are cut into
// buckets that begin during the backward, one after the other; without, their ranks wait in one after the backward.
//
// Interference: ops, steps and transfers are work at the speed that episodes leave to their device or link, integrated
// exactly (base/work.h).
//
// Gathers and reduce-scatters (sharded stages) overlap a rank's ops, on a communication engine that takes a rank's
// one after the other; each begins when the engines of all members have come to it. A ring: n - 1 steps of 1 / n of the
// bytes, each a transfer on every hop of the ring at once.
//
// Moves of stashes overlap a rank's ops, on a link to the host of its own (host_link.h).
//
// On a cluster that is one machine (Cluster::one_machine) with measured costs (Costs::machine), instructions cost what
// shared_cores.h says, and the rules for links, collectives and host links above do not apply. Interference and
// inference are simulated as on other clusters there. Not modelled: gradient reductions that overlap the backward in
// buckets, on a thread of their own; here they take the rank's time after the backward.
#pragma once

#include <span>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/interference.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"
#include "harness/sim/costs.h"
#include "harness/sim/simulation.h"

namespace sluice {

// rank_devices[r]: the device of rank r. Throws InputError if one does not exist or two of them that exchange messages
// have no path. The program must have passed its check (check_program.h); a deadlock here is a defect and throws
// logic_error.
Simulation simulate(const Program& program, const Costs& costs, const Cluster& cluster,
                    std::span<const DeviceId> rank_devices, const SimulateOptions& options = {});

}  // namespace sluice
