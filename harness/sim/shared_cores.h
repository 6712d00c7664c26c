// Costs of instructions on one machine whose executor was measured (`sluice profile`): its ranks share cores, caches
// and memory. An op runs at the measured speed while the other ranks wait. Under contention it is slower, in proportion
// to the number of ranks that compute; ranks beyond the number of cores share them equally. Speeds change whenever a
// rank begins or ends an op. Messages, collectives, copies of stashes and the wake-up after a long wait take the rank's
// own time, as in the executor.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/program/program.h"
#include "harness/sim/costs.h"
#include "harness/sim/message_bytes.h"
#include "harness/sim/work.h"

namespace sluice {

class SharedCores {
 public:
  // costs.machine must be given. All references must outlive this.
  SharedCores(const Program& program, const Costs& costs, const MessageBytes& message_bytes,
              const Cluster::OneMachine& machine);

  // Rank r begins the op or step at `position` of its program at `now`, seconds. Until it ends, r keeps a core busy.
  void begin_op(std::size_t r, std::size_t position, int iteration, double now);
  void end_op(std::size_t r, double now);
  // When the first running op ends if no other begins before, and its rank, the smallest if several end together;
  // infinite: no rank is busy.
  std::pair<double, std::size_t> next_end() const;

  // All in seconds of the rank that runs the instruction.
  double send_seconds(const Instruction& send) const;
  double receive_seconds(const Instruction& receive) const;
  double stash_seconds(const Instruction& move) const;
  // Rank r reaches a collective, which takes this time after its last member has reached it.
  double collective_seconds(std::size_t r, const Instruction& collective);
  // Wake-up latency of a rank that waited from `since` until `until`, and the notify cost of the sender that wakes it:
  // 0 if it was still spinning. Processes always spin.
  double wake_up_latency(double since, double until) const { return sleeps(since, until) ? own_.wake_up.value : 0; }
  double notify_seconds(double since, double until) const { return sleeps(since, until) ? own_.notify.value : 0; }

 private:
  // Seconds while the other ranks wait, and the slowdown factor under the measured contention.
  struct OpCost {
    double seconds = 0, contended_ratio = 1;
  };
  struct StageState {
    bool clear = true;           // the gradients must be zeroed before the first is added
    double pending = 0;          // micro-batches whose batched weight gradient has not run yet
    std::vector<int> predicted;  // per prediction: the last iteration that has made it
  };
  struct RankState {
    bool busy = false;
    Work work;
    double contended_ratio = 1;
    std::vector<StageState> stages;
  };

  OpCost op_cost(std::size_t r, std::size_t position, int iteration);
  bool next_op_is_weight_gradient(std::size_t r, std::size_t position) const;
  double batched_seconds(const StageCost& stage, double microbatches) const;
  double clear_seconds(std::size_t r, StageId stage);
  void change_speeds(double now);
  double slowdown(double contended_ratio, int neighbours) const;
  bool sleeps(double since, double until) const {
    return !machine_.between_processes && until - since > own_.spin_time.value;
  }
  double message_seconds(double of_threads, const Instruction& message) const;
  double group_size(StageId stage) const {
    return static_cast<double>(program_.placement.stages[stage.index()].size());
  }

  const Program& program_;
  const Costs& costs_;
  const MessageBytes& message_bytes_;
  const MachineCosts& own_;
  const Cluster::OneMachine machine_;
  std::vector<RankState> ranks_;
};

}  // namespace sluice
