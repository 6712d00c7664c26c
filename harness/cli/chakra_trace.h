// A Program with its costs as execution traces of MLCommons Chakra, which ASTRA-sim and other simulators replay: one
// file a rank, PREFIX.RANK.et. Field numbers and names are those of Chakra 1.0.0
// (github.com/mlcommons/chakra, schema/protobuf/et_def.proto), the attributes and their types those that its feeder and
// ASTRA-sim's (astra-sim/workload/Workload.cc) read.
//
// A simulator that replays the durations and moves the bytes behaves like the virtual clock: a rank runs its ops one
// after the other, a send does not occupy it, a receive waits, gathers and reduce-scatters of sharded weights overlap
// the ops. data_deps express all of this, which feeders resolve by default; ctrl_deps are empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/program/program.h"
#include "harness/sim/costs.h"

namespace sluice {

enum class ChakraType : std::uint8_t { compute = 4, send = 5, receive = 6, collective = 7 };        // NodeType
enum class ChakraCollective : std::uint8_t { all_reduce = 0, all_gather = 2, reduce_scatter = 7 };  // its enum

struct ChakraNode {
  std::uint64_t id = 0;  // of its rank: 0, 1, ...
  std::string name;      // the instruction: "0F1", "send_activation 0->1 1", "step 0"
  ChakraType type = ChakraType::compute;
  std::vector<std::uint64_t> data_deps;
  std::uint64_t micros = 0;  // compute: microseconds. Rounding errors are carried to the rank's next op
  // Send and receive: bytes of the message, at least 1; collective: a member's contribution (for a gather its shard,
  // for reductions the whole vector).
  std::int64_t bytes = 0;
  Rank source, destination;  // send and receive
  std::int32_t tag = 0;      // send and receive: the message's number between its two ranks
  ChakraCollective collective = ChakraCollective::all_reduce;
  int group = 0;  // collective: key in chakra_groups()
};

// Per rank. program: one run of it; costs: of its plan.
std::vector<std::vector<ChakraNode>> chakra_nodes(const Program& program, const Costs& costs);

// A file: GlobalMetadata and the nodes, each after its length.
std::string chakra_file(const std::vector<ChakraNode>& nodes);

// The ranks of every collective's group, as ASTRA-sim's file of communicator groups: {"1": [0, 1]}; "" if the program
// has no collectives. Group 0 is ASTRA-sim's name for all ranks and is not used.
std::string chakra_groups(const Program& program);

}  // namespace sluice
