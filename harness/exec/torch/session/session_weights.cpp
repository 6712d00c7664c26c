// The weights of a session between runs: of one layer, and all of them to and from a checkpoint.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/exec/bytes.h"
#include "harness/exec/torch/session/torch_session.h"
#include "harness/model/expert_spread.h"

namespace sluice {

std::int64_t TorchSession::size_of(StageId stage) const {
  const ModelGraph& model = model_of_all_replicas();
  std::int64_t size = 0;
  for (const int l : spec_.plan.stages[stage.index()].layers) size += trained_parameter_count(model.layers[l]);
  return size;
}

std::vector<at::Tensor> TorchSession::of_all_replicas(StageId stage, const FlatOf& flat) const {
  std::vector<at::Tensor> all;
  for (const Rank r : placement_.stages[stage.index()]) {
    at::Tensor own;
    if (here(r)) own = flat(worker(r.index()), stage);
    all.push_back(processes() ? broadcast_tensor(*processes(), own, r.value) : own);
    if (owns(stage)) all.back() = all.back().to(owner_of(stage).device());
  }
  return all;
}

at::Tensor TorchSession::whole(StageId stage, const FlatOf& flat) const {
  if (spreads_experts(stage)) return merged(stage, of_all_replicas(stage, flat));
  if (!sharded(stage)) return owns(stage) ? flat(owner_of(stage), stage) : at::Tensor();
  return at::cat(of_all_replicas(stage, flat)).narrow(0, 0, size_of(stage));
}

bool TorchSession::spreads_experts(StageId stage) const {
  return whole_experts_ && std::ranges::any_of(spec_.plan.stages[stage.index()].layers,
                                               [&](int l) { return replicas_of_experts(spec_.model.layers[l]) > 1; });
}

// Parameters are one after another in a flat tensor, and a replica's part of one is a range of its experts.
at::Tensor TorchSession::merged(StageId stage, std::span<const at::Tensor> replicas) const {
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (const int l : spec_.plan.stages[stage.index()].layers) {
    const std::vector<ParameterSpec> own = trained_parameters(spec_.model.layers[l]);
    for (std::size_t p = 0; p < own.size(); ++p) {
      const std::int64_t count = elements(own[p].shape);
      const std::size_t holders = is_part_of_experts(spec_.model.layers[l], p) ? replicas.size() : 1;
      for (std::size_t r = 0; r < holders; ++r) parts.push_back(replicas[r].narrow(0, first, count));
      first += count;
    }
  }
  return at::cat(parts);
}

at::Tensor TorchSession::part_of_replica(StageId stage, const at::Tensor& whole, std::size_t replica) const {
  const auto replicas = static_cast<std::int64_t>(placement_.stages[stage.index()].size());
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (const int l : spec_.plan.stages[stage.index()].layers) {
    const std::vector<ParameterSpec> own = trained_parameters(spec_.model.layers[l]);
    for (std::size_t p = 0; p < own.size(); ++p) {
      const std::int64_t count = elements(own[p].shape);
      const bool is_part = is_part_of_experts(spec_.model.layers[l], p);
      parts.push_back(whole.narrow(0, first + (is_part ? static_cast<std::int64_t>(replica) * count : 0), count));
      first += is_part ? replicas * count : count;
    }
  }
  return at::cat(parts);
}

// Of the one layer, all parameters one after another.
static std::vector<double> joined(std::span<const at::Tensor> parameters) {
  std::vector<double> values;
  for (const at::Tensor& p : parameters) {
    const at::Tensor all = p.to(at::kDouble).cpu().contiguous();
    values.insert(values.end(), all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
  }
  return values;
}

std::vector<double> TorchSession::frozen_layer(int layer) const {
  for (std::size_t s = 0; s < spec_.plan.stages.size(); ++s) {
    std::size_t first = 0;
    for (const int l : spec_.plan.stages[s].layers) {
      if (!spec_.model.layers[l].frozen) continue;
      const std::size_t count = parameters(spec_.model.layers[l]).size();
      if (l == layer) {
        const StageId stage(s);
        const auto own = [&] { return std::span(owner_of(stage).frozen(stage)).subspan(first, count); };
        const std::size_t copied = spec_.model.layers[l].copy_of < 0 ? 0 : 1;
        return from_owner(stage, owns(stage) ? joined(own().subspan(copied)) : std::vector<double>());
      }
      first += count;
    }
  }
  throw std::logic_error("layer " + std::to_string(layer) + " is in no stage");
}

std::vector<double> TorchSession::of_layer(int layer, const FlatOf& flat) const {
  const ModelGraph& model = model_of_all_replicas();
  if (model.layers[layer].frozen) return frozen_layer(layer);
  for (std::size_t s = 0; s < spec_.plan.stages.size(); ++s) {
    std::int64_t offset = 0;
    for (const int l : spec_.plan.stages[s].layers) {
      const std::int64_t n = trained_parameter_count(model.layers[l]);
      if (l == layer) {
        // A copy is another layer's weight.
        const std::int64_t copied =
            model.layers[l].copy_of < 0 ? 0 : elements(parameters(model.layers[l]).front().shape);
        const at::Tensor all = whole(StageId(s), flat);
        if (!owns(StageId(s))) return from_owner(StageId(s), std::vector<double>());
        const at::Tensor part = all.narrow(0, offset + copied, n - copied).to(at::kDouble).cpu().contiguous();
        return from_owner(StageId(s),
                          std::vector<double>(part.data_ptr<double>(), part.data_ptr<double>() + part.numel()));
      }
      offset += n;
    }
  }
  throw std::logic_error("layer " + std::to_string(layer) + " is in no stage");
}

std::vector<double> TorchSession::from_owner(StageId stage, std::vector<double> values) const {
  if (!processes()) return values;
  ByteWriter out;
  out.list(values);
  const std::string bytes = processes()->broadcast(out.bytes(), owner_rank(stage).value);
  ByteReader(bytes).list(values);
  return values;
}

std::vector<double> TorchSession::of_whole_layer(int layer, const FlatOf& flat) const {
  if (!spec_.tensor) return of_layer(layer, flat);
  return joined(whole_parameters(layer, flat));
}

std::vector<double> TorchSession::weights(int layer) const {
  return of_whole_layer(layer, [](TorchWorker& w, StageId s) { return w.weights(s).newest_flat(); });
}

std::vector<double> TorchSession::gradients(int layer) const {
  if ((spec_.tensor ? spec_.tensor->whole : spec_.model).layers[layer].frozen) return {};
  return of_whole_layer(layer, [](TorchWorker& w, StageId s) { return w.weights(s).gradients_flat(); });
}

Json TorchSession::identity() const {
  Json plan = Json::array();
  for (const PlanStage& stage : spec_.plan.stages) plan.push_back(stage.layers);
  const OptimizerSpec& o = spec_.optimizer;
  Json optimizer = {static_cast<int>(o.kind), o.momentum > 0, o.nesterov, o.momentum_ema};
  if (o.treats_matrices())
    for (const int more : {static_cast<int>(o.matrices), static_cast<int>(o.sides), static_cast<int>(o.source)})
      optimizer.push_back(more);
  Json model = {spec_.model.name, parameter_count(model_of_all_replicas())};
  for (const LayerSpec& layer : spec_.model.layers)
    if (layer.frozen) model.push_back(layer.name);
  return {{"model", model},
          {"plan", plan},
          {"optimizer", optimizer},
          {"precision", spec_.double_precision ? "double" : "float"},
          {"seed", spec_.seed}};
}

CheckpointStage TorchSession::checkpoint_of(StageId id) const {
  CheckpointStage stage;
  StageWeights::State state;
  if (owns(id)) state = owner_of(id).weights(id).state();
  if (sharded(id) || spreads_experts(id)) {
    const auto tensors = from_owner(id, {static_cast<double>(state.tensors.size())});
    state.tensors.resize(static_cast<std::size_t>(tensors[0]));
    for (std::size_t k = 0; k < state.tensors.size(); ++k)
      state.tensors[k] = whole(id, [&](TorchWorker& w, StageId s) { return w.weights(s).state().tensors[k]; });
  }
  if (owns(id)) {
    for (const at::Tensor& buffer : owner_of(id).module(id).buffers())
      state.tensors.push_back(buffer.to(context_.options.dtype()).contiguous().flatten());
    for (at::Tensor& tensor : state.tensors) tensor = tensor.cpu();
    stage = {state.numbers, state.tensors};
  }
  if (processes()) send_to_first_process(stage, owner_rank(id).value);
  return stage;
}

// What the owner of a stage keeps of it, to the first process, which writes the checkpoint.
void TorchSession::send_to_first_process(CheckpointStage& stage, int owner) const {
  if (owner == 0) return;
  if (processes()->rank() == owner) {
    send_tensors(*processes(), 0, stage.tensors);
    processes()->send(0, std::as_bytes(std::span(stage.numbers)));
  } else if (processes()->rank() == 0) {
    stage.tensors = receive_tensors(*processes(), owner);
    const std::vector<std::byte> numbers = processes()->receive(owner);
    stage.numbers.resize(numbers.size() / sizeof stage.numbers[0]);
    std::memcpy(stage.numbers.data(), numbers.data(), numbers.size());
  }
}

void TorchSession::save(const std::string& path) const {
  const c10::InferenceMode no_autograd;
  Checkpoint checkpoint{.of = identity(), .updates = updates_, .stages = {}};
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    checkpoint.stages.push_back(checkpoint_of(StageId(s)));
  }
  agree_on_error(processes(), [&] {
    if (!processes() || processes()->rank() == 0) write_checkpoint(checkpoint, path);
  });
}

void TorchSession::load(const std::string& path, bool of_any_plan) {
  loaded_ = true;
  const c10::InferenceMode no_autograd;
  Checkpoint checkpoint;
  agree_on_error(processes(), [&] { checkpoint = read_checkpoint(path, identity(), context_.options, of_any_plan); });
  if (checkpoint.of.at("plan") != identity().at("plan")) return load_of_other_plan(checkpoint, path);
  const auto wrong = [&](std::size_t stage) {
    return InputError(path, "stage " + std::to_string(stage) + " is not this run's",
                      "delete it, and the case starts anew");
  };
  if (checkpoint.stages.size() != interfaces_.size()) throw wrong(checkpoint.stages.size());
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    CheckpointStage& stage = checkpoint.stages[s];
    for (std::size_t k = 0; k < placement_.stages[s].size(); ++k) {
      const Rank r = placement_.stages[s][k];
      if (!here(r)) continue;
      const std::vector<at::Tensor> buffers = worker(r.index()).module(StageId(s)).buffers();
      if (stage.tensors.size() < buffers.size()) throw wrong(s);
      const std::size_t own = stage.tensors.size() - buffers.size();
      for (std::size_t b = 0; b < buffers.size(); ++b)
        if (stage.tensors[own + b].numel() != buffers[b].numel()) throw wrong(s);
      for (std::size_t b = 0; b < buffers.size(); ++b)
        buffers[b].copy_(stage.tensors[own + b].view(buffers[b].sizes()));
      std::vector<at::Tensor> tensors(stage.tensors.begin(), stage.tensors.begin() + static_cast<std::ptrdiff_t>(own));
      if (spreads_experts(StageId(s)))
        for (at::Tensor& tensor : tensors) {
          if (tensor.numel() != size_of(StageId(s))) throw wrong(s);
          tensor = part_of_replica(StageId(s), tensor, k);
        }
      worker(r.index()).weights(StageId(s)).restore({std::move(tensors), stage.numbers});
    }
  }
  updates_ = checkpoint.updates;
}

}  // namespace sluice
