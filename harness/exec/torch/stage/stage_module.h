// StageModule: the layers of one stage, connected as in the model's graph, run as forward, input gradient and weight
// gradient with an explicit stash. It holds no weights: the caller passes the version to use.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/exec/torch/layers/layer.h"
#include "harness/exec/torch/layers/member_layer.h"
#include "harness/exec/torch/stage/probe_scope.h"
#include "harness/model/model.h"

namespace sluice {

class ExpertGroup;

// All tensors that a stage keeps for one micro-batch in flight.
struct StageStashTensors {
  std::vector<LayerStash> layers;        // one per layer of the stage
  StageStashTensors* earlier = nullptr;  // of the previous chunk of the same sequences; it must not move
};

class StageModule {
 public:
  // layers: ascending indices into model.layers. `receives` and `sends` as by interfaces() (harness/model/model.h).
  // tensor: of a member of a tensor-parallel group; `model` is then its TensorModel::all. experts: of a replica over
  // which experts are spread, which it outlives; null: there are none.
  StageModule(const ModelGraph& model, std::vector<int> layers, const StageInterface& interface,
              const at::TensorOptions& options, const TensorShare& tensor = {}, ExpertGroup* experts = nullptr);
  ~StageModule();
  StageModule(StageModule&&) noexcept;

  // From now on every layer reports a sample to the probe; null: no reports.
  void observe(Probe* probe, MemoryCounters* counters, StageId stage);

  int last_layer() const;  // index into model.layers
  // All trained parameters of the stage in order of layers, then of parameters(layer): a tied weight once.
  const std::vector<ParameterSpec>& parameters() const;
  // Number of parameters of its frozen layers, in the same order. They follow the trained ones among the `weights` of
  // every call; among `gradients` each is an undefined tensor.
  std::size_t frozen_count() const;
  // Layers of other stages of the rank whose first parameters this stage's tied layers use: they follow its own among
  // the `weights` and `gradients` of every call.
  const std::vector<int>& borrowed() const;

  // received: one tensor per interface.receives. Returns one per interface.sends; if the stage holds the loss, `loss`
  // is set to its scalar. stash null: evaluation. prediction (optional): the loss's input.
  std::vector<at::Tensor> forward(std::span<const at::Tensor> received, std::span<const at::Tensor> weights,
                                  const at::Tensor& target, const ForwardMode& mode, StageStashTensors* stash,
                                  at::Tensor* loss, at::Tensor* prediction = nullptr);

  // sent_gradients: one per interface.sends (empty on the loss stage). loss_scale multiplies the loss gradient (1 /
  // number of micro-batches). Returns one per interface.receives, undefined for model inputs.
  std::vector<at::Tensor> input_gradient(std::span<const at::Tensor> sent_gradients, double loss_scale,
                                         std::span<const at::Tensor> weights, StageStashTensors& stash);

  // From now on input_gradient() leaves the gradient of the first layer's last `channels` input channels to the rank of
  // the previous stage (PlanStage::passed_channels): it returns that of the others, and take_passed() the inputs for
  // the rest. Throws std::invalid_argument: the stage receives more than that layer's input, or another layer reads it.
  void pass_channels(int channels);
  struct Passed {
    at::Tensor output_gradient, weights;  // of the first layer; of the channels passed on
  };
  Passed take_passed();  // of the last input_gradient()

  // Adds to `gradients` (order of parameters()). Leaves the stashes empty. after_step (optional): called after each of
  // the stage's layers, from the last one on, with its place in the stage.
  void weight_gradient(std::span<StageStashTensors* const> stashes, std::span<const at::Tensor> gradients,
                       const std::function<void(std::size_t step)>& after_step = {});
  // The buckets of the stage's flat gradients in the order in which weight_gradient() completes them: elements `first`
  // to `end`, complete at `step`. A tied weight is complete with the layer that has it, the first that uses it.
  struct GradientBucket {
    std::int64_t first = 0, end = 0;
    std::size_t step = 0;
  };
  std::vector<GradientBucket> gradient_buckets(Bytes least) const;

  // Non-trainable state (BatchNorm running statistics), in order; for evaluation and checkpoints.
  std::vector<at::Tensor> buffers() const;
  std::vector<std::vector<at::Tensor>> buffers_by_layer() const;

  // Bytes of distinct storages in a stash, which the declared stage_stash() predicts if `exclude` has the model's own
  // input data and the target, which are not the stage's.
  static std::int64_t stash_bytes(const StageStashTensors& stash, std::span<const at::Tensor> exclude = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Initial weights of every layer of the model: result[layer][parameter]. Seeds as LayerSpec::block
// says, torch's default initialisation in torch's order, so that it equals a PyTorch model built
// under torch.manual_seed(seed + block) before each block.
std::vector<std::vector<at::Tensor>> initial_weights(const ModelGraph& model, std::uint64_t seed,
                                                     const at::TensorOptions& options);

}  // namespace sluice
