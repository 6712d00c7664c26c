// The virtual clock: runs a Program against costs and links, in discrete events, without computing any tensor. Ranks
// execute their instructions in order. Sends do not occupy the rank; if the cluster's block (Cluster::sends), it
// continues when the message has arrived. A receive waits for the message.
//
// Links: a transfer takes latency + bytes / bandwidth and occupies every medium on its path for bytes / bandwidth.
// Transfers that share a medium (one direction of a link, both directions of a half-duplex one, a group of links)
// queue, first come first served. With fair sharing (Cluster::sharing) they run in parallel instead, at max-min fair
// rates (fair_transfers.h): a medium has the capacity of its links, messages of a channel follow one another, and a
// ring is one transfer of all its steps.
//
// All-reduces of gradients are rings without contention or, by Cluster::all_reduce, collectives on the links like
// gathers, in one ring or in two levels. With Costs::gradient_buckets, they and reduce-scatters are cut into buckets
// that begin during the backward, one after the other; otherwise their ranks wait in them after the backward.
//
// Interference: ops, steps and transfers are work at the speed that episodes leave to their device or link, integrated
// exactly (base/work.h).
//
// Gathers and reduce-scatters (sharded stages) overlap a rank's ops, on a communication engine per rank that runs one
// at a time; each begins when the engines of all members have reached it. A ring: n - 1 steps of 1 / n of the bytes,
// each a transfer on every hop of the ring at once.
//
// Moves of stashes overlap a rank's ops, on the rank's own link to the host (host_link.h).
//
// On a cluster that is one machine (Cluster::one_machine) with measured costs (Costs::machine), shared_cores.h has the
// costs of instructions, and the rules for links, collectives and host links above do not apply; those for interference
// and inference do. Not modelled: gradient reductions that overlap the backward in buckets, on a separate thread; here
// they take the rank's time after the backward.
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

// rank_devices[r]: the device of rank r. Throws InputError if one does not exist, or if two that exchange messages have
// no path. The program must have passed its check (check_program.h); a deadlock here is a defect and throws
// logic_error.
Simulation simulate(const Program& program, const Costs& costs, const Cluster& cluster,
                    std::span<const DeviceId> rank_devices, const SimulateOptions& options = {});

}  // namespace sluice
