// TorchWorker: the stages of one rank, as the executor's Worker: looks up the weight version an
// instruction names, runs the stage module, and hands tensors on. Tensors that change ranks change
// owners: what the sender still needs is copied, as on any transport, so that a rank's counted
// memory is its own.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "harness/exec/executor.h"
#include "harness/exec/session.h"
#include "harness/exec/torch/stage/memory_counter.h"
#include "harness/exec/torch/stage/micro_batch_slices.h"
#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/torch/stage/stage_module.h"
#include "harness/exec/torch/stage/stage_weights.h"
#include "harness/exec/torch/stage/tensor_message.h"

namespace sluice {

// What all ranks of a session share while a program runs. Read-only then.
struct RunContext {
  const SessionSpec* spec = nullptr;
  at::TensorOptions options;  // dtype of features, weights, activations
  const RunRequest* request = nullptr;
  const Program* program = nullptr;
  std::int64_t first_update = 0;                     // updates done before this run
  at::Tensor synthetic_features, synthetic_targets;  // where there is no feed
};

// The values of model input `input` (or the targets) of samples as a tensor [n, ...].
at::Tensor load_input(const RunContext& context, bool train, std::size_t input, std::span<const std::int64_t> indices);
at::Tensor load_targets(const RunContext& context, bool train, std::span<const std::int64_t> indices);

// A copy of a stage's newest weights (flat; of a sharded stage this rank's slice) and running
// statistics.
struct StageSnapshot {
  at::Tensor weights;
  std::vector<at::Tensor> buffers;
};

class TorchWorker : public Worker {
 public:
  // stages: the ones this rank holds, or runs the W of (Placement::weight_gradient_ranks).
  // interfaces, placement: of all stages. device: null on the CPU.
  TorchWorker(Rank rank, const RunContext& context, std::vector<StageId> stages, const Placement& placement,
              const std::vector<StageInterface>& interfaces,
              const std::vector<std::vector<at::Tensor>>& initial_weights, RankDevice* device = nullptr);

  void begin_run(const Program& program) override;
  void begin_iteration(int iteration) override;
  void compute(const Instruction& op) override;
  Message take(const Instruction& send) override;
  void put(const Instruction& receive, Message message) override;
  Buffer gradients(StageId stage) override;
  Gathering begin_gather(StageId stage) override;
  void free_weights(StageId stage) override;
  Buffer begin_reduce_scatter(StageId stage) override;
  void end_reduce_scatter(StageId stage) override;
  void add_reduced(StageId stage, const void* sum) override;
  void step(const Instruction& step) override;
  void end_run() override;
  DeviceClock* clock() override { return device_; }

  at::Device device() const { return options_.device(); }
  StageModule& module(StageId stage) { return *state(stage).module; }
  StageWeights& weights(StageId stage) { return *state(stage).weights; }
  MemoryCounters* counters() const { return counters_; }
  const std::vector<double>& losses() const { return losses_; }  // per update of the run: this rank's part
  // Per update: of how many micro-batches that is the sum; of how many it must be, over all ranks.
  const std::vector<int>& loss_parts() const { return loss_parts_; }
  int micros_of_update(std::size_t update) const;
  // keep_weights: the flat weights (of a sharded stage this rank's slice) after each step of the
  // run
  const std::vector<std::vector<double>>& kept_weights(StageId stage) { return state(stage).kept; }
  const std::vector<StageSnapshot>& snapshots(StageId stage) { return state(stage).snapshots; }

 private:
  // What one op of a stage takes, a micro-batch or several at once, on its way through the stage.
  struct Slot {
    std::vector<at::Tensor> received;          // per interface.receives
    std::vector<at::Tensor> outputs;           // per interface.sends, until handed out
    std::vector<int> outputs_left;             // messages still to be made of them
    std::vector<at::Tensor> output_gradients;  // per interface.sends, summed as they come
    std::vector<at::Tensor> input_gradients;   // per interface.receives, until handed out
    std::vector<int> input_gradients_left;     // messages still to be made of them
    StageStashTensors stash;
    std::vector<at::Tensor> data;  // of what the stash keeps, the feed's, until I
  };
  struct Edge {                           // what crosses between this stage and another
    std::vector<std::size_t> own, other;  // places in this stage's list and in the other's
  };
  struct State {
    StageId id;
    StageInterface interface;
    std::unique_ptr<StageModule> module;
    std::unique_ptr<StageWeights> weights;
    std::map<StageId, Edge> to, from;  // successors: sends -> their receives; predecessors
    std::vector<int> readers;          // per interface.sends: messages that an op makes of it
    std::vector<int> givers;           // per interface.receives: messages of its gradient
    bool has_loss = false;
    std::vector<Slot> slots;
    StageWeights::Uses uses;  // of its weights by the program
    // keep_weights, snapshots: of the run
    std::vector<std::vector<double>> kept;
    std::vector<StageSnapshot> snapshots;
    // Batched weight gradients: I done; W at the update, or of a split backward with the last of
    // the W that stand next to each other.
    std::vector<StageStashTensors> pending;
    std::vector<bool> ends_batch;  // of the stage's W, in the order of the program
    std::size_t next_weight_gradient = 0;
    // Instead of `weights` on a rank that runs only the stage's W: their sum, and a view a
    // parameter.
    at::Tensor sum;
    std::vector<at::Tensor> sum_views;
    bool clear_sum = true;
  };

  State& state(StageId stage) { return states_[place_[stage.index()]]; }
  bool holds(StageId stage, Micro micro) const;
  int micros_per_op_of(const State& s) const { return context_.program->graph.micros_per_op_of(s.id); }
  // The messages between an op of this rank and `peer` that stay on the rank: visit(the op's piece,
  // the piece of the peer's op).
  template <class Visit>
  void for_each_message_here(const State& s, Micro op, StageId peer, Visit visit);
  void forward(State& s, const Instruction& op);
  // The stage's forward; the loss's value where it holds the loss.
  std::vector<at::Tensor> run_forward(State& s, const Instruction& op, bool keep_stash, at::Tensor* loss);
  void note_loss(const State& s, int iteration, Micro op, double value);
  void read_losses(bool all);
  void take_over(std::vector<at::Tensor>& tensors, const RankDevice::Event& ready);
  std::int64_t update_of(const State& s, std::int32_t version) const;
  double learning_rate(std::int64_t update) const;
  std::span<const at::Tensor> read_weights(State& s, const Instruction& op);
  void input_gradient(State& s, const Instruction& op, Slot& slot);
  void weight_gradient(State& s, StageStashTensors& stash);
  std::span<const at::Tensor> gradient_views(State& s);
  void count_stash(const Slot& slot);
  Message take_stash(Slot& slot);
  void put_stash(Slot& slot, TensorMessage& message);
  void run_pending(State& s);
  std::vector<std::int64_t> samples_of(const State& s, Micro op) const;
  at::Tensor hand_out(at::Tensor& tensor, const Piece& slice, bool last_reader);

  // A loss on its way from the GPU: read when it has arrived, so that the host need not wait.
  struct PendingLoss {
    const State* stage = nullptr;
    int iteration = 0;
    Micro op;
    at::Tensor value;
    RankDevice::Event arrived;
  };

  Rank rank_;
  const RunContext& context_;
  RankDevice* device_;
  at::TensorOptions options_;  // the context's, on the rank's device
  std::deque<PendingLoss> pending_losses_;
  std::deque<std::pair<at::Tensor, RankDevice::Event>> copied_;  // see take_over()
  std::deque<RankDevice::Event> steps_;                          // that the GPU may still be at: see step()
  MemoryCounters* counters_;
  std::vector<State> states_;
  std::vector<std::size_t> place_;  // stage -> index into states_
  int iteration_ = 0;
  std::vector<double> losses_;
  std::vector<int> loss_parts_;
};

}  // namespace sluice
