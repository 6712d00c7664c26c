// Checks the cells of sharded weights and reductions of gradients in a table of PyTorch against the runtime that runs
// it (torch.distributed.pipelining.schedules._PipelineScheduleRuntime, PyTorch 2.15).
#pragma once

#include <string>
#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

struct TableMessage {
  Opcode opcode{};  // of a send or receive along an edge
  StageId stage;
  Micro micro;
};

struct TableCell {
  enum class Kind { none, compute, message, wait, of_stage } kind = Kind::none;
  std::vector<Op> ops = {};   // compute: one, or the two of a pair
  TableMessage message = {};  // wait: for this send
  std::string action = {};    // of_stage: "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"
  StageId stage = {};         // of_stage
};

// cells: of every rank, in order. If weights are unsharded anywhere, ops run between the UNSHARD and the RESHARD or
// REDUCE_GRAD of their stage, and every stage ends in a REDUCE_GRAD after its last backward. In a table with messages a
// rank waits for a reduction before its next one.
std::vector<Violation> faults_of_stages(const std::vector<std::vector<TableCell>>& cells, bool communication);

}  // namespace sluice
