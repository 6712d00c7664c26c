// PyTorch's tables of pipeline schedules: comma-separated values, one line per rank, one cell per action.
// torch.distributed.pipelining's _PipelineScheduleRuntime._load_csv reads them; torchtitan's
// pipeline_parallel_schedule_csv passes them to it. Written and read against PyTorch 2.15.
//
// Compute cells are this harness's own texts of ops, "5I2", except pairs: "(5F1;2B0)OVERLAP_F_B". An empty cell is a
// step in which a rank waits. A table with communication has cells like "0SEND_F1" (stage 0 sends the activation of
// micro-batch 1), "1RECV_F1", "1SEND_B1", "0RECV_B1", "0WAIT_SEND_F1" (wait until it is received), and for sharded
// weights 0UNSHARD, 0RESHARD, 0REDUCE_GRAD, 0WAIT_REDUCE_GRAD.
#pragma once

#include <string>
#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

struct PyTorchTable {
  std::string csv;
  std::vector<std::string> lost;  // parts of the program that the table cannot express; one sentence each
};

// The two formats of PyTorch's _load_csv: ops alone, to which PyTorch adds sends and receives; or with them, in the
// order of in_rendezvous_order() (message_order.h), with waits for sends and reductions of gradients at PyTorch's
// places.
enum class TableFormat : std::uint8_t { compute_only, compute_comms };

// The order that `schedule` lists, as the table of `program`, which was lowered from it. Throws InputError at `where`
// for orders that PyTorch cannot run, or would run differently: a stage on several ranks, updates without a flush,
// micro-batches in groups, weight gradients on another rank, a stage graph that is not a chain, inference.
PyTorchTable pytorch_table(const Schedule& schedule, const Program& program, const std::string& where,
                           TableFormat format = TableFormat::compute_only);

struct OrderFromTable {
  Schedule schedule;
  StageGraph graph;     // a chain
  Placement placement;  // one rank per stage: that of its first op
  // Of the ops (check_schedule.h). If there are none, of the communication cells: missing ones, a message out of place,
  // or ranks that wait for one another, with buffered sends or with sends that wait for their receives. Then of the
  // cells of sharded weights and reductions (pytorch_table_check.h).
  std::vector<Violation> faults;
  bool messages_out_of_order = false;  // all cells exist, but their order deadlocks
  bool communication = false;          // there are communication cells
};

// Throws InputError with file, line and cell: not an action, a stage on two ranks, a stage on no rank.
OrderFromTable read_pytorch_table(const std::string& text, const std::string& file);

// The table of a file, without faults. Throws InputError with its first faults, or if the file cannot be read.
OrderFromTable read_valid_table(const std::string& file);

}  // namespace sluice
