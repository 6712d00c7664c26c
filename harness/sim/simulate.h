// The virtual clock: runs a Program against costs and links, in discrete events, without numbers.
// Ranks execute their instructions in order; sends do not occupy the rank; a receive waits for the
// message.
//
// Links: a transfer takes latency + bytes / bandwidth and occupies every medium on its path for
// bytes / bandwidth; transfers that share a medium (one direction of a link, both directions of a
// half-duplex one, a group) queue, first come first served.
//
// Gathers and reduce-scatters (sharded stages) run beside a rank's ops, on a communication engine
// that takes a rank's one after the other; each begins when the engines of all members have come to
// it. A ring: n - 1 steps of 1 / n of the bytes, each a transfer on every hop of the ring at once.
#pragma once

#include <span>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/pipeline/plan.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"

namespace sluice {

struct SimulatedEdge {
  StageId from, to;
  Bytes bytes;  // of one micro-batch's activation; its gradient has the same size. A message
                // between stages that both take several at once has that many times as much
};

struct Costs {
  std::vector<StageCost> stages;     // per stage, on the device it runs on
  std::vector<SimulatedEdge> edges;  // missing edge: 0 bytes
  // Per stage, of one micro-batch: what a W on another rank is sent (outputs of the layers with
  // weights, and of those before them); empty: 0 bytes.
  std::vector<Bytes> weight_stash = {};
};

// Costs of a plan. micro-batches of plan.micro_batch samples, as the cost graph's.
Costs costs_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster);
// Uniform stages (`sluice schedule --costs F/I/W`), seconds.
Costs uniform_costs(int stages, double forward, double input_gradient, double weight_gradient);

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
  // Takes sends in order of time even where no two senders share a medium, which changes nothing
  // but the speed (a check of the faster engine).
  bool time_ordered = false;
};

// rank_devices[r]: the device of rank r. Throws InputError if one does not exist or two of them
// that exchange messages have no path. The program must check (lower() makes no other); a deadlock
// here is a defect and throws logic_error.
Simulation simulate(const Program& program, const Costs& costs, const Cluster& cluster,
                    std::span<const DeviceId> rank_devices, const SimulateOptions& options = {});

// A cluster of `ranks` devices; a message between any two takes `latency` and no time per byte.
Cluster latency_cluster(int ranks, Seconds latency);
std::vector<DeviceId> identity_devices(int ranks);

}  // namespace sluice
