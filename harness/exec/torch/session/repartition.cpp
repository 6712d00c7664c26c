// Another plan for a session: what the layers have, layer by layer, and its way to their new ranks.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <signal.h>

#include <algorithm>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/exec/bytes.h"
#include "harness/exec/torch/session/torch_session.h"
#include "harness/exec/word_hash.h"

namespace sluice {

static std::int64_t parameters_of(const ModelGraph& model, int layer) {
  return trained_parameter_count(model.layers[layer]);
}

std::vector<TorchSession::LayerState> TorchSession::layers_of(StageId stage) const {
  TorchWorker& worker = owner_of(stage);
  const StageWeights::State state = worker.weights(stage).state();
  const auto versions = static_cast<std::size_t>(state.numbers.at(1));
  const std::vector<std::vector<at::Tensor>> buffers = worker.module(stage).buffers_by_layer();
  std::vector<LayerState> result;
  std::int64_t offset = 0;
  const std::vector<int>& layers = spec_.plan.stages[stage.index()].layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t n = parameters_of(spec_.model, layers[i]);
    LayerState& layer = result.emplace_back();
    // The pipe is drained: only the newest version is read again.
    for (std::size_t k = versions - 1; k < state.tensors.size(); ++k)
      layer.pieces.push_back(state.tensors[k].narrow(0, offset, n));
    layer.buffers = buffers[i];
    offset += n;
  }
  return result;
}

std::vector<std::uint64_t> TorchSession::layer_digests() const {
  const c10::InferenceMode no_autograd;
  std::vector<std::uint64_t> digests(spec_.model.layers.size(), 0);
  for (std::size_t s = 0; s < placement_.stages.size(); ++s) {
    if (!owns(StageId(s))) continue;
    const StageWeights::State state = owner_of(StageId(s)).weights(StageId(s)).state();
    const std::int64_t numbers[] = {state.numbers.front(), state.numbers.back()};  // steps; the newest version's
    const std::vector<LayerState> layers = layers_of(StageId(s));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::uint64_t& hash = digests[spec_.plan.stages[s].layers[i]];
      hash = word_hash(numbers, sizeof numbers);
      for (const auto* tensors : {&layers[i].pieces, &layers[i].buffers})
        for (const at::Tensor& tensor : *tensors) {
          const at::Tensor values = tensor.cpu().contiguous();
          hash = word_hash(values.const_data_ptr(), values.nbytes(), hash);
        }
    }
  }
  if (!processes()) return digests;
  ByteWriter out;
  out.list(digests);
  std::ranges::fill(digests, 0);
  for (const std::string& bytes : processes()->all_gather(out.bytes())) {
    std::vector<std::uint64_t> theirs;
    ByteReader(bytes).list(theirs);
    for (std::size_t l = 0; l < digests.size(); ++l) digests[l] += theirs[l];  // 0 but in the layer's owner
  }
  return digests;
}

// The most that a rank has held, under this plan or one before.
MemoryByKind TorchSession::peak_of(Rank rank) const {
  const MemoryByKind now = worker(rank.index()).counters()->peak();
  if (earlier_peaks_.empty()) return now;
  const MemoryByKind& before = earlier_peaks_[rank.index()];
  return before.total() > now.total() ? before : now;
}

// Of one of this process's stages.
StageWeights::State TorchSession::own_state() const {
  for (std::size_t s = 0; s < placement_.stages.size(); ++s)
    if (owns(StageId(s))) return owner_of(StageId(s)).weights(StageId(s)).state();
  throw std::logic_error("a process without a stage");
}

// The same of a checkpoint, whose stages hold all versions, then the optimizer's tensors, then the buffers.
std::vector<TorchSession::LayerState> TorchSession::layers_of(const std::vector<int>& layers,
                                                              const CheckpointStage& stage,
                                                              const std::string& path) const {
  const auto versions = stage.numbers.size() - 2;
  const StageWeights::State own = own_state();
  const std::size_t tensors = versions + own.tensors.size() - static_cast<std::size_t>(own.numbers.at(1));
  if (stage.tensors.size() != tensors)
    throw InputError(path, "holds running statistics, which stay with their plan",
                     "delete it, and the case starts anew");
  std::int64_t elements = 0;
  for (const int l : layers) elements += parameters_of(spec_.model, l);
  for (const at::Tensor& tensor : stage.tensors)
    if (tensor.numel() != elements)
      throw InputError(path, "holds other weights than its layers have", "delete it, and the case starts anew");
  std::vector<LayerState> result;
  std::int64_t offset = 0;
  for (const int l : layers) {
    const std::int64_t n = parameters_of(spec_.model, l);
    LayerState& layer = result.emplace_back();
    for (std::size_t k = versions - 1; k < tensors; ++k) layer.pieces.push_back(stage.tensors[k].narrow(0, offset, n));
    offset += n;
  }
  return result;
}

// Of all layers by their number; those of other processes' stages are not looked at.
void TorchSession::restore_layers(const std::vector<LayerState>& layers, std::int64_t steps) {
  for (std::size_t s = 0; s < placement_.stages.size(); ++s) {
    const StageId stage(s);
    if (!owns(stage)) continue;
    const std::vector<int>& own = spec_.plan.stages[s].layers;
    StageWeights::State state{.tensors = {}, .numbers = {steps, 1, static_cast<std::int32_t>(updates_)}};
    const std::size_t pieces = layers[own.front()].pieces.size();
    for (std::size_t k = 0; k < pieces; ++k) {
      std::vector<at::Tensor> parts;
      for (const int l : own) parts.push_back(layers[l].pieces[k]);
      state.tensors.push_back(at::cat(parts));
    }
    owner_of(stage).weights(stage).restore(state);
    const std::vector<std::vector<at::Tensor>> buffers = owner_of(stage).module(stage).buffers_by_layer();
    for (std::size_t i = 0; i < own.size(); ++i)
      for (std::size_t b = 0; b < buffers[i].size(); ++b)
        buffers[i][b].copy_(layers[own[i]].buffers.at(b).view(buffers[i][b].sizes()));
  }
}

void TorchSession::repartition(const Plan& plan) {
  const c10::InferenceMode no_autograd;
  const NoStopScope together(processes() != nullptr);
  if (!devices_.empty()) throw std::logic_error("layers on GPUs do not move");
  const RankMap ranks = ranks_of(plan);
  if (ranks.devices.size() != workers_.size()) throw std::logic_error("a plan of other ranks than the session's");
  for (const Placement& placement : {placement_, ranks.placement})
    for (const auto& stage : placement.stages)
      if (stage.size() != 1) throw std::logic_error("only stages with one rank each can move their layers");
  // A rank that dies here takes its layers with it; what was saved to a file stays as it was.
  const bool in_this_move = spec_.fail_move >= 0 && spec_.fail_move == moves_++ && !loaded_;
  const bool dies = spec_.fail_rank >= 0 && (in_this_move || updates_ == spec_.fail_update);
  const bool dies_here = dies && here(Rank(spec_.fail_rank));
  try {
    agree_on_error(processes(), [&] {
      if (dies_here && !spec_.fail_killed)
        throw InputError("rank " + std::to_string(spec_.fail_rank), "failed on purpose while layers move");
    });
  } catch (const InputError& e) {
    throw RunStopped(RunStopped::Kind::failed, Rank(spec_.fail_rank), e.what());
  }
  std::vector<LayerState> layers(spec_.model.layers.size());
  std::vector<Rank> from(layers.size()), to(layers.size());
  for (std::size_t s = 0; s < spec_.plan.stages.size(); ++s) {
    std::vector<LayerState> own;
    if (owns(StageId(s))) own = layers_of(StageId(s));
    for (LayerState& layer : own)
      for (auto* tensors : {&layer.pieces, &layer.buffers})
        for (at::Tensor& tensor : *tensors) tensor = tensor.clone();
    const std::vector<int>& of_stage = spec_.plan.stages[s].layers;
    for (std::size_t i = 0; i < of_stage.size(); ++i) {
      from[of_stage[i]] = owner_rank(StageId(s));
      if (!own.empty()) layers[of_stage[i]] = std::move(own[i]);
    }
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const int l : plan.stages[s].layers) to[l] = ranks.placement.stages[s].front();
  // Sends do not wait for the receiver, so that every process sends all that leaves it and then receives.
  for (const bool sending : {true, false}) {
    if (!sending && dies_here && spec_.fail_killed) ::raise(SIGKILL);
    for (std::size_t l = 0; processes() && l < layers.size(); ++l) {
      if (from[l] == to[l]) continue;
      LayerState& layer = layers[l];
      if (sending && here(from[l])) {
        send_tensors(*processes(), to[l].value, layer.pieces);
        send_tensors(*processes(), to[l].value, layer.buffers);
      } else if (!sending && here(to[l])) {
        layer.pieces = receive_tensors(*processes(), from[l].value);
        layer.buffers = receive_tensors(*processes(), from[l].value);
      }
    }
  }
  std::int64_t steps = 0;  // every stage has made as many as any other
  std::vector<MemoryByKind> peaks(workers_.size());
  for (std::size_t s = 0; s < placement_.stages.size(); ++s) {
    if (!owns(StageId(s))) continue;
    steps = owner_of(StageId(s)).weights(StageId(s)).state().numbers.at(0);
    peaks[owner_rank(StageId(s)).index()] = peak_of(owner_rank(StageId(s)));
  }
  earlier_peaks_ = std::move(peaks);
  spec_.plan = plan;
  make_workers(starting_weights());  // frozen weights are those; the others are moved
  restore_layers(layers, steps);
}

// The layers of every stage of a checkpoint. Throws InputError: not each of the model's layers once.
static std::vector<std::vector<int>> layers_of_stages(const Checkpoint& checkpoint, std::size_t layers,
                                                      const std::string& path) {
  const Json& plan = checkpoint.of.at("plan");
  std::vector<std::vector<int>> result;
  std::vector<bool> seen(layers, false);
  bool right = plan.is_array() && plan.size() == checkpoint.stages.size();
  for (std::size_t s = 0; right && s < checkpoint.stages.size(); ++s) {
    result.emplace_back();
    right = plan.at(s).is_array() && !plan.at(s).empty() && checkpoint.stages[s].numbers.size() > 2;
    for (std::size_t i = 0; right && i < plan.at(s).size(); ++i) {
      const Json& number = plan.at(s).at(i);
      const double layer = number.is_number_integer() ? number.get<double>() : -1;
      right = layer >= 0 && layer < static_cast<double>(layers) && !seen[static_cast<std::size_t>(layer)];
      if (right) seen[static_cast<std::size_t>(layer)] = true;
      result.back().push_back(static_cast<int>(layer));
    }
  }
  if (!right || std::ranges::count(seen, false) > 0)
    throw InputError(path, "does not hold each layer of this model once", "delete it, and the case starts anew");
  return result;
}

void TorchSession::load_of_other_plan(const Checkpoint& checkpoint, const std::string& path) {
  std::vector<LayerState> layers(spec_.model.layers.size());
  const std::vector<std::vector<int>> stages = layers_of_stages(checkpoint, layers.size(), path);
  updates_ = checkpoint.updates;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::vector<LayerState> own = layers_of(stages[s], checkpoint.stages[s], path);
    for (std::size_t i = 0; i < own.size(); ++i) layers[stages[s][i]] = own[i];
  }
  restore_layers(layers, checkpoint.stages.front().numbers.front());
}

}  // namespace sluice
