// A session whose layers are shared by groups of ranks (tensor parallelism): it divides the initial weights, and puts
// the members' parts together for whoever asks for weights or evaluates.
#include "harness/exec/torch/session/tensor_groups.h"

#include <c10/core/InferenceMode.h>

#include <numeric>

#include "harness/exec/torch/layers/member_layer.h"
#include "harness/exec/torch/session/torch_session.h"

namespace sluice {

std::vector<std::vector<at::Tensor>> member_weights(const TensorModel& model, std::uint64_t seed,
                                                    const at::TensorOptions& options) {
  const std::vector<std::vector<at::Tensor>> whole = initial_weights(model.whole, seed, options);
  std::vector<std::vector<at::Tensor>> result;
  for (const auto& [layer, member] : model.parts) {
    std::vector<at::Tensor>& own = result.emplace_back();
    if (layer < 0) continue;
    for (std::size_t p = 0; p < whole[layer].size(); ++p)
      own.push_back(part_of(whole[layer][p], model.layers[layer].parameters[p], model.degree, member));
  }
  return result;
}

void TorchSession::join_groups(const Program& program, Transport& transport) {
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    if (!here(Rank(r))) continue;
    worker(r).join_expert_groups(transport);
    if (!spec_.tensor) continue;
    worker(r).tensor_group().join(transport, program.tensor_group_of(Rank(r)), static_cast<int>(r) % program.tensor);
  }
}

std::vector<at::Tensor> TorchSession::whole_parameters(int layer, const FlatOf& flat) const {
  const TensorModel& model = *spec_.tensor;
  const int first = model.first_parts[layer];
  const std::vector<ParameterSpec> own = parameters(model.all.layers[first]);
  std::vector<std::vector<at::Tensor>> parts(own.size());  // by parameter and member
  for (int member = 0; member < model.parts_of(layer); ++member) {
    const at::Tensor values = at::tensor(of_layer(first + member, flat), at::kDouble);
    std::int64_t offset = 0;
    for (std::size_t p = 0; p < own.size(); ++p) {
      const std::int64_t n = elements(own[p].shape);
      parts[p].push_back(values.narrow(0, offset, n).view(own[p].shape));
      offset += n;
    }
  }
  std::vector<at::Tensor> result;
  for (std::size_t p = 0; p < own.size(); ++p) result.push_back(whole_of(parts[p], model.layers[layer].parameters[p]));
  return result;
}

// Running statistics: a member's own channels of a layer that works on a part of the channels; elsewhere every member
// has them whole, and the first one's count.
void TorchSession::copy_buffers(const StageModule& whole) const {
  const std::vector<std::vector<at::Tensor>> to = whole.buffers_by_layer();
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    const std::vector<int>& layers = spec_.plan.stages[s].layers;
    std::vector<std::vector<at::Tensor>> from(layers.size());
    if (owns(StageId(s))) from = owner_of(StageId(s)).module(StageId(s)).buffers_by_layer();
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (spec_.tensor->whole_layer(layers[l]) < 0) continue;
      const auto& target = to[spec_.tensor->whole_layer(layers[l])];
      const int member = spec_.tensor->member_of(layers[l]);
      const bool in_parts = spec_.tensor->split_of(layers[l]).rule == LayerSplit::Rule::outputs;
      if (member > 0 && !in_parts) continue;
      for (std::size_t b = 0; b < target.size(); ++b) {
        at::Tensor own = owns(StageId(s)) ? from[l][b].cpu() : at::Tensor();
        if (processes()) own = broadcast_tensor(*processes(), own, owner_rank(StageId(s)).value);
        (in_parts ? target[b].narrow(0, member * own.size(0), own.size(0)) : target[b]).copy_(own);
      }
    }
  }
}

// One after another on this process, with the whole layers; every process does the same.
TorchSession::Prediction TorchSession::predict_whole(const std::vector<at::Tensor>& inputs, const at::Tensor& target,
                                                     const WeightsOf& weights) const {
  const ModelGraph& model = spec_.tensor->whole;
  std::vector<int> layers(model.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  const std::vector<int> stage_of(layers.size(), 0);
  const StageInterface interface = interfaces(model, stage_of, 1).front();
  StageModule module(model, layers, interface, context_.options);
  copy_buffers(module);
  std::vector<at::Tensor> received;
  for (const int input : interface.receives) received.push_back(inputs[-1 - input]);
  Prediction result;
  module.forward(received, weights.front(), target, {.training = false}, nullptr, &result.loss, &result.prediction);
  return result;
}

}  // namespace sluice
