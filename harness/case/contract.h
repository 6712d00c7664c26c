// The contract of every system. Its plans, schedules and weights fit together on generated problems. The virtual clock
// shows what its theory promises. Its messages have an order without deadlock if sends are buffered, if they wait for
// their receives, and with one queue for each pair of ranks and direction (program/message_order.h). `sluice check
// NAME` and the contract test check it. Figures of Theory count each of a rank's v stages: in-flight
// chunk-micro-batches.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

struct ContractFault {
  std::string problem;  // "variant=h1 ranks=4 microbatches=8"; "" for faults of the system itself
  std::string text;
  std::string drawing = {};  // ops of its ranks until the fault; "" if there is no schedule to draw
};

struct ContractReport {
  std::vector<ContractFault> faults;
  std::map<std::string, std::string> rejections;  // by message: the first problem that the system rejects with it
  int taken = 0, rejected = 0;                    // problems
  std::vector<std::string> notes;                 // allowed, but probably not intended
  // The first problem whose program as lowered, with each receive where an op needs it, deadlocks unless sends are
  // buffered, and its cycle of ranks; "": no program deadlocks if a send waits for its receive.
  std::string needs_buffered_sends;
};

struct ContractOptions {
  int max_ranks = 6, max_microbatches = 13;
  std::size_t max_faults = 5;  // per combination of options
  // Called with every problem before it is tried.
  std::function<void(const std::string& problem)> progress = {};
};

// The model of the contract: equal layers, F : I : W = 1 : 1 : 1, four per rank, so that 1, 2 or 4 stages per rank are
// equal; and a loss that is fused with the last layer.
CostGraph contract_layers(int ranks);

// Every combination of the values of all options with choices, and 1, 2 and 4 stages per rank if there is `chunks`;
// other numbers keep their defaults.
std::vector<Options> contract_choices(const System& system);

// All faults, in a fixed order: of the system itself, then by options, ranks and micro-batches.
ContractReport check_contract(const System& system, const ContractOptions& options = {});

// Runs a schedule op by op until its ranks wait for one another or for an op that no rank runs. The drawing has one
// line per rank up to where it stops. Ops on a wrong rank or at a wrong place run like others.
std::string drawing_until_fault(const Schedule& schedule, const StageGraph& graph);

}  // namespace sluice
