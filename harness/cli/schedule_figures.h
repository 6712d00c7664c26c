// The figures of `sluice schedule` for an order of ops, from a system or from a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/uniform_chain.h"
#include "harness/program/program.h"
#include "harness/program/pytorch_table.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {

// Seconds of F, I and W, of a message, and of copying what a micro-batch keeps one way to or from the host's memory.
struct OpCosts {
  struct OfStage {
    double forward = 1, input_gradient = 1, weight_gradient = 1;
    std::optional<double> pair = {};  // F of one micro-batch and B of another as an overlapped pair; absent: F + I + W
  };
  std::vector<OfStage> stages{OfStage{}};  // one for all of them, or one for each
  double latency = 0, host_copy = 0;
};
// "10/12/8+1", the message being 0 by default; "10/12/8,5/6/4+1", one F/I/W per stage; "10/12/8/27": with the seconds
// of a pair; or "costs.json+1", a cost graph (cost_graph.h) with one layer per stage. Throws InputError.
OpCosts parse_op_costs(const std::string& text);

enum class CostsOf {
  stage,  // per stage, for any number of stages per rank
  rank,   // of a rank's share of the model: all stages together take this times the number of ranks
};

// An order of ops on the ranks of a uniform chain.
struct OrderOfOps {
  std::string name;                // of the system or file
  const System* system = nullptr;  // none: from a file
  Options options;
  Schedule schedule;
  OpRule rule_of_ops = {};  // instead of the schedule, which is then empty
  int microbatches = 0;     // per update
  StageGraph graph;
  Placement placement;
  std::vector<DeviceId> devices;  // per rank
  WeightRule rule;
  Sharding sharding;
  Offload offload;
  Theory theory;
  std::vector<StageCost> costs;      // per stage, of one op
  std::vector<double> share;         // per stage, of a rank's share of the model
  double latency = 0;                // seconds of a message
  MicrobatchSizes sizes;             // if they differ, costs and host_copies are those of one sample
  std::vector<Seconds> host_copies;  // per stage, one way
};

// A system's order for `microbatches` on `ranks` ranks of a chain; as_rule: as a rule of ops, if it has one. Throws the
// system's own InputErrors.
OrderOfOps order_of(const System& system, const Options& options, int ranks, int microbatches,
                    const MicrobatchSizes& sizes, const OpCosts& costs, CostsOf costs_of, bool as_rule = false);

// The order of a table of PyTorch without faults. name: of the order. Throws InputError: sizes for another number of
// micro-batches, costs for another number of stages.
OrderOfOps order_from_table(OrderFromTable table, const std::string& name, const MicrobatchSizes& sizes,
                            const OpCosts& costs, CostsOf costs_of);

// For a rule of ops, only: simulation.bubble, update_free, update_barrier, seconds_per_microbatch and peak.
struct ScheduleFigures {
  Program program;
  Simulation simulation;              // of one update (asynchronous: one run)
  double update_free = 0;             // seconds of an update after others, without a barrier between updates
  double update_barrier = 0;          // the same with a barrier between updates; asynchronous: 0
  double seconds_per_microbatch = 0;  // in steady state
  std::vector<RankPeak> peak;
  // Per rank: max activations held, in micro-batches of a rank's share of the model.
  std::vector<double> activations;
  std::vector<int> whole_in_flight;  // per rank: micro-batches in flight that keep more than a stage's input
  std::vector<int> weight_versions;  // per rank
  std::vector<RankCollectives> collectives;
  std::size_t messages = 0;  // between ranks, in one run of the program
};
struct WantedFigures {
  bool repeated = true;  // also simulate consecutive updates
  bool trace = false;
};
ScheduleFigures figures_of(const OrderOfOps& order, const WantedFigures& wanted);

// The ops of a rank with the version that each reads: "0F3@2", predicted two updates ahead "0F3@2+2", a W "0W3".
std::vector<std::string> reads_of(const std::vector<Instruction>& rank, int sequence_chunks = 1);

// "variant=h1 chunks=2": the options that differ from their defaults.
std::string chosen_options(const OrderOfOps& order);

// One line per order, the fastest first.
std::string schedule_comparison(const std::vector<OrderOfOps>& orders, const std::vector<ScheduleFigures>& figures);

}  // namespace sluice
