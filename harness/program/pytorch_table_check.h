// What a table of PyTorch says of messages and of sharded weights, held against the runtime that executes it
// (torch.distributed.pipelining.schedules._PipelineScheduleRuntime, PyTorch 2.15).
#pragma once

#include <string>
#include <vector>

#include "harness/program/pytorch_table.h"

namespace sluice {

struct TableCell {
  std::vector<Op> ops = {};  // compute: one, or the two of a pair; else empty
  std::string action = {};   // "SEND_F", "WAIT_SEND_F", "UNSHARD", ...; compute and empty cells: none
  StageId stage{};
  Micro micro{};
  bool is_message() const { return action.starts_with("SEND_") || action.starts_with("RECV_"); }
  bool is_wait() const { return action.starts_with("WAIT_SEND_"); }
};

// cells: of every rank, in order; table: its order and communication.
// - A message between ranks is sent once, after the op that makes it, and received once, before the op that reads it.
//   Two ranks match messages by their order, so that they are received in the order in which they are sent. A send is
//   waited for once. Ranks do not wait for each other in a circle: a WAIT_SEND ends when the receiver has posted the
//   receive, a compute op begins when its message was sent.
// - Where weights are unsharded anywhere, ops run between the UNSHARD and the RESHARD or REDUCE_GRAD of their stage,
//   and every stage ends in a REDUCE_GRAD after its last backward. A rank waits for a reduction before its next one.
std::vector<Violation> faults_of_cells(const std::vector<std::vector<TableCell>>& cells, const OrderFromTable& table);

}  // namespace sluice
