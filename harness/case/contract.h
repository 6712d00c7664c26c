// What every system must keep, whatever it is: its plans, schedules and weights fit together on generated problems, and
// what its theory promises is what the virtual clock shows; its messages have an order that ends where sends are
// buffered, where they wait for their receives, and with one queue for each pair of ranks and direction
// (program/message_order.h). `sluice check NAME` and the contract test hold it.
// Figures of Theory count chunk-micro-batches: with v chunks a rank, each of a rank's v stages counts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

struct ContractFault {
  std::string problem;  // "variant=h1 ranks=4 microbatches=8"; "" for what holds of the system itself
  std::string text;
  std::string drawing = {};  // what its ranks run until the fault; "" where there is no schedule to draw
};

struct ContractReport {
  std::vector<ContractFault> faults;
  std::map<std::string, std::string> rejections;  // what the system says, to the first problem it says it of
  int taken = 0, rejected = 0;                    // problems
  std::vector<std::string> notes;                 // what is allowed, but rarely meant
  // The first problem whose program as lowered, with a receive where an op needs it, ends only with buffered sends, and
  // its cycle of ranks; "": every problem's program ends also where a send waits for its receive.
  std::string needs_buffered_sends;
};

struct ContractOptions {
  int max_ranks = 6, max_microbatches = 13;
  std::size_t max_faults = 5;  // of each combination of options; the first says most
  // Is told of every problem before it is tried.
  std::function<void(const std::string& problem)> progress = {};
};

// What the contract cuts: equal layers, F : I : W = 1 : 1 : 1, four for every rank, so that 1, 2 or 4 stages a rank are
// all equal; and a loss that is fused with the last.
CostGraph contract_layers(int ranks);

// Every combination of every option that has choices, and 1, 2 and 4 stages a rank where there is `chunks`; other
// numbers keep their defaults.
std::vector<Options> contract_choices(const System& system);

// All that is wrong, in a fixed order: with the system itself, then by options, ranks and micro-batches.
ContractReport check_contract(const System& system, const ContractOptions& options = {});

// What of a schedule runs, an op after the other, until its ranks wait for one another or for what nobody runs; drawn
// with a line for every rank that says where it stops. Ops of a wrong rank or place run like others.
std::string drawing_until_fault(const Schedule& schedule, const StageGraph& graph);

}  // namespace sluice
