// The virtual clock: runs a Program against costs and links, in discrete events, without computing any tensor. Ranks
// execute their instructions in order; sends do not occupy the rank; a receive waits for the message.
//
// Links: a transfer takes latency + bytes / bandwidth and occupies every medium on its path for bytes / bandwidth;
// transfers that share a medium (one direction of a link, both directions of a half-duplex one, a group of links)
// queue, first come first served.
//
// Gathers and reduce-scatters (sharded stages) run beside a rank's ops, on a communication engine that takes a rank's
// one after the other; each begins when the engines of all members have come to it. A ring: n - 1 steps of 1 / n of the
// bytes, each a transfer on every hop of the ring at once.
#pragma once

#include <span>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"
#include "harness/sim/costs.h"

namespace sluice {

struct Simulation {
  Trace trace;                     // of the first iteration; empty unless asked for
  Bubbles bubble;                  // of the first iteration
  std::vector<double> update_end;  // when the last rank finished update u, seconds; all iterations
  double end = 0;                  // when everything is done
  std::int64_t instructions = 0;   // executed
};

struct SimulateOptions {
  int iterations = 1;  // the program, again and again, without a barrier between
  bool trace = true;
  // Takes sends in order of time even where no two senders share a medium, which changes nothing but the speed (a check
  // of the faster engine).
  bool time_ordered = false;
};

// rank_devices[r]: the device of rank r. Throws InputError if one does not exist or two of them that exchange messages
// have no path. The program must have passed its check (check_program.h); a deadlock here is a defect and throws
// logic_error.
Simulation simulate(const Program& program, const Costs& costs, const Cluster& cluster,
                    std::span<const DeviceId> rank_devices, const SimulateOptions& options = {});

}  // namespace sluice
