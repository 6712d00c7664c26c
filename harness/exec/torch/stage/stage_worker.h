// TorchWorker: the stages of one rank, as the executor's Worker. It looks up the weight version of an instruction, runs
// the stage's layers, and makes the messages to other ranks. A tensor that is sent belongs to the receiving rank from
// then on; the sender copies what it still needs, so the counted memory of a rank is its own.
//
// In several files: stage_worker.cpp (set-up, dispatch, losses, steps), _compute.cpp (forward, input and weight
// gradients), _messages.cpp (between stages), _collectives.cpp (between the replicas of a stage).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/exec/session.h"
#include "harness/exec/torch/layers/expert_group.h"
#include "harness/exec/torch/stage/memory_counter.h"
#include "harness/exec/torch/stage/micro_batch_slices.h"
#include "harness/exec/torch/stage/moved_stash.h"
#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/torch/stage/run_context.h"
#include "harness/exec/torch/stage/stage_module.h"
#include "harness/exec/torch/stage/stage_weights.h"
#include "harness/exec/torch/stage/tensor_message.h"
#include "harness/exec/worker.h"

namespace sluice {

// A copy of a stage's newest weights (flat; of a sharded stage this rank's slice) and running statistics.
struct StageSnapshot {
  at::Tensor weights;
  std::vector<at::Tensor> buffers;
};

class TorchWorker : public Worker {
 public:
  // stages: those of this rank, including stages of which it computes only the weight gradients
  // (Placement::weight_gradient_ranks). interfaces, placement: of all stages. initial_weights: of whole experts.
  // device: null on the CPU.
  TorchWorker(Rank rank, const RunContext& context, std::vector<StageId> stages, const Placement& placement,
              const std::vector<StageInterface>& interfaces,
              const std::vector<std::vector<at::Tensor>>& initial_weights, RankDevice* device = nullptr);

  void begin_run(const Program& program) override;
  void begin_iteration(int iteration) override;
  void compute(const Instruction& op) override;
  Message take(const Instruction& send) override;
  void put(const Instruction& receive, Message message) override;
  Buffer gradients(StageId stage) override;
  std::vector<Buffer> shared_gradients(StageId stage) override;
  bool compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready) override;
  Gathering begin_gather(StageId stage) override;
  void free_weights(StageId stage) override;
  Buffer begin_reduce_scatter(StageId stage) override;
  void end_reduce_scatter(StageId stage) override;
  void add_reduced(StageId stage, const void* sum) override;
  Buffer begin_copies(const Instruction& reduction) override;
  void end_copies(const Instruction& reduction) override;
  Buffer begin_norm() override;
  void clip() override;
  void move_stash(const Instruction& move) override;
  void step(const Instruction& step) override;
  void end_run() override;
  TensorGroup& tensor_group() { return tensor_group_; }
  void join_expert_groups(Transport& transport);
  TensorSums group_sums() const;  // of a run: of its tensor-parallel group, or of the exchanges of spread experts
  DeviceClock* clock() override { return device_; }

  at::Device device() const { return options_.device(); }
  StageModule& module(StageId stage) { return *state(stage).module; }
  StageWeights& weights(StageId stage) { return *state(stage).weights; }
  // The weights that a stage uses of other stages of the rank, in the order of StageModule::borrowed().
  struct Borrowed {
    StageId owner;
    std::size_t parameter;
  };
  const std::vector<at::Tensor>& frozen(StageId stage) { return state(stage).frozen; }
  const std::vector<Borrowed>& borrowed(StageId stage) { return state(stage).borrowed; }
  MemoryCounters* counters() const { return counters_; }
  const std::vector<double>& losses() const { return losses_; }  // per update of the run: this rank's part
  // Per update: number of micro-batches in this rank's losses(); number that must be in those of all ranks.
  const std::vector<int>& loss_parts() const { return loss_parts_; }
  int microbatches_of_update(std::size_t update) const;
  // Inference: per micro-batch of the run, a hash of the model's output; 0 if another rank made it.
  const std::vector<std::uint64_t>& output_digests() const { return output_digests_; }
  // With RunRequest::keep_weights: the flat weights (for a sharded stage this rank's slice) after each step of the run.
  const std::vector<std::vector<double>>& kept_weights(StageId stage) { return state(stage).kept; }
  const std::vector<StageSnapshot>& snapshots(StageId stage) { return state(stage).snapshots; }

 private:
  // The tensors of one op's micro-batches in a stage. An op takes one or several micro-batches at once.
  struct Slot {
    std::vector<at::Tensor> received;          // per interface.receives
    std::vector<at::Tensor> outputs;           // per interface.sends, until the last message is made of it
    std::vector<int> outputs_left;             // messages still to be made of them
    std::vector<at::Tensor> output_gradients;  // per interface.sends, summed as they arrive
    std::vector<at::Tensor> input_gradients;   // per interface.receives, until the last message is made of it
    std::vector<int> input_gradients_left;     // messages still to be made of them
    StageModule::Passed passed;                // of this stage's divided product, until the message is made
    std::vector<at::Tensor> divided;  // of the next stage's: its part of the gradient, then what the rest needs
    StageStashTensors stash;
    std::shared_ptr<MovedStash> moved;  // of the stash, what is on the host or comes from there
    std::vector<at::Tensor> data;       // those tensors of the stash that are the data feed's, until the input gradient
  };
  // The tensors between this stage and another one.
  struct Edge {
    std::vector<std::size_t> own, other;  // their places in this stage's list of sends or receives, and in the other's
    std::vector<bool> has_gradient;       // whether that comes back
  };
  struct State {
    StageId id;
    StageInterface interface;
    std::unique_ptr<ExpertGroup> experts;  // null: none are spread over its replicas
    std::unique_ptr<StageModule> module;
    std::unique_ptr<StageWeights> weights;  // null on a rank that computes only the stage's weight gradients
    std::vector<Borrowed> borrowed;
    std::vector<at::Tensor> frozen;         // weights of its frozen layers; see StageModule::frozen_count()
    std::vector<at::Tensor> with_borrowed;  // weights, or their gradients, of a stage that borrows or has frozen ones
    std::map<StageId, Edge> successors, predecessors;
    std::vector<int> messages_per_output;              // per interface.sends: how many messages one op makes of it
    std::vector<int> messages_per_input_gradient;      // per interface.receives: likewise of its gradient
    std::vector<StageModule::GradientBucket> buckets;  // of the gradients; empty: they are reduced after the backward
    bool has_loss = false;
    bool counts_loss = false;  // has the model's last layer: with tensor parallelism every member of a group has a loss
    // The next stage, which passes a part of its input gradient here (PlanStage::passed_channels), its first layer, and
    // that layer's input.
    std::optional<StageId> divided_after;
    LayerSpec divided_layer;
    Shape divided_input;
    std::vector<Slot> slots;                // per op of one iteration
    StageWeights::Uses uses;                // how the program uses the stage's weights
    std::vector<std::vector<double>> kept;  // see kept_weights()
    std::vector<StageSnapshot> snapshots;   // see snapshots()
    // Batched weight gradients: waiting stashes. Their weight gradient is computed at the update or, if backwards are
    // split, with the last of consecutive weight gradients in the program.
    std::vector<StageStashTensors> pending;
    std::vector<bool>
        ends_batch;  // per weight gradient of the stage in the order of the program: whether it is such a last one
    std::size_t next_weight_gradient = 0;
    // Instead of `weights`, if this rank computes only the stage's weight gradients: their sum, flat, and one view per
    // parameter.
    at::Tensor gradient_sum;
    std::vector<at::Tensor> gradient_sum_views;
    bool clear_gradient_sum = true;
  };

  // Set-up.
  void add_stage(StageId id, const Placement& placement, const std::vector<StageInterface>& interfaces,
                 const std::vector<std::vector<at::Tensor>>& initial_weights);
  void make_gradient_sum(State& s);
  void divide_products(State& s, const Placement& placement);
  Edge edge_between(const std::vector<int>& sends, const std::vector<int>& receives, bool own_is_sender) const;
  static void prepare_messages(State& s, const Program& program);
  void find_batch_ends(State& s, const Program& program) const;
  void count_weight_uses(State& s, const Program& program) const;

  State& state(StageId stage) { return states_[state_of_stage_[stage.index()]]; }
  bool holds(StageId stage, Micro micro) const;
  int microbatches_per_op_of(const State& s) const { return context_.program->graph.microbatches_per_op_of(s.id); }
  std::int64_t update_of(const State& s, std::int32_t version) const;
  double learning_rate(std::int64_t update) const;

  // Compute.
  void forward(State& s, const Instruction& op);
  void hand_to_successors(State& s, const Instruction& op, std::vector<at::Tensor> outputs);
  void infer(State& s, const Instruction& op);
  void add_output(const State& s, const Instruction& op, const at::Tensor& output);
  void finish_batch(const State& s, const Instruction& op);
  // Runs the stage's layers forward; sets `loss` if the stage holds the loss.
  std::vector<at::Tensor> run_forward(State& s, const Instruction& op, bool keep_stash, at::Tensor* loss);
  void input_gradient(State& s, const Instruction& op, Slot& slot);
  void finish_divided_gradient(State& s, Slot& slot);
  void weight_gradient(State& s, StageStashTensors& stash);
  void run_pending_weight_gradients(State& s);
  // The same for all whose gradients are in those of `s`.
  void finish_gradients(State& s);
  Borrowed place_of_weight(int layer) const;
  std::vector<std::pair<StageId, at::Tensor>> gradients_of_copies(const Instruction& reduction);
  std::span<const at::Tensor> gradient_views(State& s);
  std::span<const at::Tensor> read_weights(State& s, const Instruction& op);
  std::vector<std::int64_t> samples_of(const State& s, Micro op) const;
  SequenceChunk chunk_of(Micro op) const;
  void count_stash(const Slot& slot);
  void count_key_value_gradients(State& s, const Instruction& op);
  void add_loss(const State& s, int iteration, Micro op, double value);
  void read_losses(bool all);

  // Messages. visit(the slice of this stage's op, the slice of the peer's op): for every message between an op of this
  // stage and `peer` that stays on the rank.
  template <class Visit>
  void for_each_local_message(const State& s, Micro op, StageId peer, Visit visit);
  at::Tensor hand_out(at::Tensor& tensor, const MicroBatchSlice& slice, bool last_reader);
  Message take_stash(Slot& slot);
  void put_stash(Slot& slot, TensorMessage& message);
  void receive_on_device(std::vector<at::Tensor>& tensors, const RankDevice::Event& ready);

  // A loss in transit from the GPU, read when it has arrived, so that the host does not wait.
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
  std::deque<std::pair<at::Tensor, RankDevice::Event>> copied_;  // sources of copies: see receive_on_device()
  std::deque<RankDevice::Event> steps_;                          // steps that the GPU may not have finished: see step()
  MemoryCounters* counters_;
  TensorGroup tensor_group_;
  std::vector<State> states_;
  std::vector<bool> no_gradient_;                                     // without_gradient() of the session's model
  std::vector<std::size_t> state_of_stage_;                           // stage -> index into states_
  Probe* probe_ = nullptr;                                            // null: no samples
  const std::function<void(const Buffer&)>* bucket_ready_ = nullptr;  // during compute_in_buckets()
  at::Tensor squares_;     // of begin_norm(), per layer of the session's model
  double clip_scale_ = 1;  // of the gradients of the next steps
  int iteration_ = 0;
  std::vector<double> losses_;
  std::vector<int> loss_parts_;
  std::vector<std::uint64_t> output_digests_;
};

}  // namespace sluice
