// TorchSession: the Session of harness/exec/session.h over LibTorch. It builds the workers of all ranks, runs programs
// on them, and between runs evaluates with the newest weights, and saves and restores them.
//
// With a process group, every process has a session with one worker, that of its own rank. Every public function is
// then collective, and the private functions say how one process's data reaches the others.
//
// In several files: session.cpp (set-up, runs, losses), session_weights.cpp (weights and checkpoints), evaluation.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/exec/session.h"
#include "harness/exec/torch/session/across_processes.h"
#include "harness/exec/torch/session/checkpoint.h"
#include "harness/exec/torch/session/device_backend.h"
#include "harness/exec/torch/stage/stage_worker.h"

namespace sluice {

class Json;

class TorchSession : public Session {
 public:
  explicit TorchSession(const SessionSpec& spec);

  RunResult run(const Program& program, const RunRequest& request) override;
  Evaluation evaluate() override;
  Evaluation evaluate_snapshot(std::size_t k) override;
  void save(const std::string& path) const override;
  void load(const std::string& path, bool of_any_plan = false) override;
  std::vector<MemoryByKind> peak_memory() const override;
  void reset_peak_memory() override;
  std::vector<double> weights(int layer) const override;
  std::vector<double> gradients(int layer) const override;
  std::int64_t updates_done() const override { return updates_; }
  std::vector<std::uint64_t> layer_digests() const override;
  void repartition(const Plan& plan) override;

 private:
  // A flat tensor of a stage on its worker; of a sharded stage this rank's slice.
  using FlatOf = std::function<at::Tensor(TorchWorker&, StageId)>;
  // By stage and parameter.
  using WeightsOf = std::vector<std::vector<at::Tensor>>;

  // Set-up.
  // The workers of the plan's ranks, with these weights by layer and parameter.
  void make_workers(const std::vector<std::vector<at::Tensor>>& initial);
  std::vector<std::vector<at::Tensor>> starting_weights() const;   // by layer and parameter
  void join_groups(const Program& program, Transport& transport);  // tensor-parallel ones, and replicas of experts
  std::vector<RankDevice*> rank_devices() const;
  RankDevice* device_of(std::size_t rank) const { return devices_.empty() ? nullptr : devices_[rank].get(); }
  std::unique_ptr<Transport> make_transport(const Program& program);

  // Who holds what. The owner of a stage is the first of its replicas.
  ProcessGroup* processes() const { return spec_.processes; }
  bool here(Rank rank) const { return !processes() || processes()->rank() == rank.value; }
  Rank owner_rank(StageId stage) const { return placement_.stages[stage.index()].front(); }
  bool owns(StageId stage) const { return here(owner_rank(stage)); }
  TorchWorker& worker(std::size_t rank) const { return static_cast<TorchWorker&>(*workers_[rank]); }
  TorchWorker& own_worker() const { return worker(processes() ? static_cast<std::size_t>(processes()->rank()) : 0); }
  TorchWorker& owner_of(StageId stage) const { return worker(owner_rank(stage).index()); }
  // The model of which ranks hold parts: with whole experts.
  const ModelGraph& model_of_all_replicas() const { return whole_experts_ ? *whole_experts_ : spec_.model; }
  bool spreads_experts(StageId stage) const;
  bool sharded(StageId stage) const { return spec_.sharding.active() && placement_.stages[stage.index()].size() > 1; }
  std::int64_t size_of(StageId stage) const;  // parameters

  // Results of a run.
  struct RankLosses {
    std::vector<double> losses;                 // per update: the rank's part
    std::vector<int> parts;                     // per update: number of micro-batches in it
    std::vector<std::uint64_t> output_digests;  // inference: per micro-batch, 0 if another rank made the output
    TensorSums sums;
  };
  void check_sharding(const Program& program) const;
  std::vector<RankLosses> losses_of_ranks() const;
  void drop_unfinished_losses(const std::vector<RankLosses>& ranks, std::vector<double>& losses) const;
  // keep_weights: the stage's weights after each update, gathered if it is sharded.
  std::vector<std::vector<double>> kept_weights(StageId stage) const;
  std::vector<std::vector<double>> kept_by(Rank rank, StageId stage) const;
  // The same of a stage with spread experts. first: of its first replica.
  std::vector<std::vector<double>> merged(StageId stage, const std::vector<std::vector<double>>& first) const;

  // Weights and checkpoints.
  // A flat tensor of the whole stage, gathered if it is sharded or its experts are spread. Undefined if this process
  // does not own the stage and neither is the case.
  at::Tensor whole(StageId stage, const FlatOf& flat) const;
  std::vector<at::Tensor> of_all_replicas(StageId stage, const FlatOf& flat) const;
  // Of a stage with spread experts: a flat tensor of the whole stage from those of its replicas, in their order; and
  // the part of one replica.
  at::Tensor merged(StageId stage, std::span<const at::Tensor> replicas) const;
  at::Tensor part_of_replica(StageId stage, const at::Tensor& whole, std::size_t replica) const;
  std::vector<double> frozen_layer(int layer) const;                  // a frozen layer's weights
  std::vector<double> of_layer(int layer, const FlatOf& flat) const;  // one layer's part of its stage's flat tensor
  std::vector<double> of_whole_layer(int layer, const FlatOf& flat) const;  // of a split model, all parts
  // Of layer `layer` of the whole model that groups share, merged from the members' parts, by parameter.
  std::vector<at::Tensor> whole_parameters(int layer, const FlatOf& flat) const;
  std::vector<double> from_owner(StageId stage, std::vector<double> values) const;  // the values of the stage's owner
  Json identity() const;  // the model, plan, optimizer, precision and seed that a checkpoint must agree with
  CheckpointStage checkpoint_of(StageId stage) const;
  void send_to_first_process(CheckpointStage& stage, int owner) const;

  // The state of one layer outside its plan: a piece of each flat tensor of its stage (newest weights, optimizer
  // state), and its running statistics.
  struct LayerState {
    std::vector<at::Tensor> pieces, buffers;
  };
  MemoryByKind peak_of(Rank rank) const;
  StageWeights::State own_state() const;
  std::vector<LayerState> layers_of(StageId stage) const;  // views of the stage's tensors
  std::vector<LayerState> layers_of(const std::vector<int>& layers, const CheckpointStage& stage,
                                    const std::string& path) const;
  void restore_layers(const std::vector<LayerState>& layers, std::int64_t steps);
  void load_of_other_plan(const Checkpoint& checkpoint, const std::string& path);

  // Evaluation.
  struct Prediction {
    at::Tensor loss, prediction;
  };
  Evaluation evaluate_with(const FlatOf& flat) const;
  void copy_buffers(const StageModule& whole) const;
  Prediction predict_whole(const std::vector<at::Tensor>& inputs, const at::Tensor& target,
                           const WeightsOf& weights) const;
  WeightsOf weights_of(const FlatOf& flat) const;  // by stage; empty for stages of other owners
  std::vector<at::Tensor> views_of_whole(StageId stage, const at::Tensor& all) const;  // of a whole stage's parameters
  double decoded_score(const Decoding& decoding, const WeightsOf& weights) const;
  std::vector<at::Tensor> load_inputs(std::span<const std::int64_t> test_samples) const;
  // The model's output, stage after stage; with a process group only on the process with the loss.
  Prediction predict(const std::vector<at::Tensor>& inputs, const at::Tensor& target, const WeightsOf& weights) const;
  bool reads(int process, std::size_t from) const;  // whether it owns a stage that reads an output of stage `from`
  std::vector<std::vector<std::int32_t>> generate(const Decoding& decoding, std::vector<at::Tensor> inputs,
                                                  const WeightsOf& weights) const;

  SessionSpec spec_;
  std::optional<ModelGraph> whole_experts_;  // with_whole_experts(), where they are spread
  RunContext context_;
  std::vector<StageInterface> interfaces_;
  Placement placement_;
  std::vector<std::unique_ptr<RankDevice>> devices_;  // by rank, null for ranks of other processes; empty: CPU
  std::unique_ptr<DeviceTransports> nccl_;
  StageId loss_stage_;
  TensorCodec codec_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by rank, null for ranks of other processes
  std::int64_t updates_ = 0;
  int moves_ = 0;                            // repartitions
  bool loaded_ = false;                      // whether load() was called
  std::vector<MemoryByKind> earlier_peaks_;  // by rank, of workers under earlier plans
};

}  // namespace sluice
