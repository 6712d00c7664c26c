// Evaluation on the test samples: a forward through all stages, one after another, and generated text.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "harness/base/stop.h"
#include "harness/exec/bytes.h"
#include "harness/exec/torch/session/torch_session.h"

namespace sluice {

constexpr std::int64_t kChunk = 500;  // samples of one forward

Evaluation TorchSession::evaluate() {
  const c10::InferenceMode no_autograd;
  return evaluate_with([](TorchWorker& w, StageId s) { return w.weights(s).newest_flat(); });
}

Evaluation TorchSession::evaluate_snapshot(std::size_t k) {
  const c10::InferenceMode no_autograd;
  // Running statistics live in the modules: those of the snapshot replace them for the evaluation.
  std::vector<std::vector<at::Tensor>> now(interfaces_.size());
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    if (!owns(StageId(s))) continue;
    const std::vector<at::Tensor> buffers = owner_of(StageId(s)).module(StageId(s)).buffers();
    const StageSnapshot& snapshot = owner_of(StageId(s)).snapshots(StageId(s)).at(k);
    auto& saved = now[s];
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      saved.push_back(buffers[b].clone());
      buffers[b].copy_(snapshot.buffers[b]);
    }
  }
  const Evaluation result = evaluate_with([&](TorchWorker& w, StageId s) { return w.snapshots(s)[k].weights; });
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    if (!owns(StageId(s))) continue;
    const std::vector<at::Tensor> buffers = owner_of(StageId(s)).module(StageId(s)).buffers();
    for (std::size_t b = 0; b < buffers.size(); ++b) buffers[b].copy_(now[s][b]);
  }
  return result;
}

TorchSession::WeightsOf TorchSession::weights_of(const FlatOf& flat) const {
  WeightsOf weights;
  if (spec_.tensor) {  // one stage with all layers, which every process has whole
    weights.emplace_back();
    const std::vector<LayerSpec>& layers = spec_.tensor->whole.layers;
    for (const bool frozen : {false, true})  // as StageModule takes them
      for (int l = 0; l < static_cast<int>(layers.size()); ++l)
        if (layers[l].frozen == frozen)
          for (const at::Tensor& p : whole_parameters(l, flat))
            weights.front().push_back(p.to(context_.options.dtype()));
    return weights;
  }
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    const StageId id(s);
    std::vector<at::Tensor>& of_stage = weights.emplace_back();
    const at::Tensor all = whole(id, flat);
    if (!owns(id)) continue;
    TorchWorker& worker = owner_of(id);
    of_stage = spreads_experts(id) ? views_of_whole(id, all) : worker.weights(id).views_of(all);
    of_stage.insert(of_stage.end(), worker.frozen(id).begin(), worker.frozen(id).end());
    for (const auto& [owner, parameter] : worker.borrowed(id))
      of_stage.push_back(worker.weights(owner).views_of(flat(worker, owner))[parameter]);
  }
  return weights;
}

std::vector<at::Tensor> TorchSession::views_of_whole(StageId stage, const at::Tensor& all) const {
  std::vector<at::Tensor> views;
  std::int64_t first = 0;
  for (const int l : spec_.plan.stages[stage.index()].layers)
    for (const ParameterSpec& p : trained_parameters(model_of_all_replicas().layers[l])) {
      views.push_back(all.narrow(0, first, elements(p.shape)).view(p.shape));
      first += elements(p.shape);
    }
  return views;
}

// flat: what every stage reads, its newest weights or those of a snapshot.
Evaluation TorchSession::evaluate_with(const FlatOf& flat) const {
  const NoStopScope together(processes() != nullptr);
  const WeightsOf weights = weights_of(flat);
  at::set_num_threads(1);  // with more, a busy machine makes the threads wait for one another
  Evaluation result;
  if (!spec_.feed) throw std::logic_error("a synthetic workload has no test samples");
  const std::int64_t n = spec_.feed->test_samples;
  double correct = 0, scored = 0;
  for (std::int64_t first = 0; first < n; first += kChunk) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kChunk, n - first)));
    std::iota(indices.begin(), indices.end(), first);
    const at::Tensor target = load_targets(context_, false, indices);
    const auto [loss, prediction] = predict(load_inputs(indices), target, weights);
    if (!owns(loss_stage_)) continue;
    result.loss += loss.item<double>() * static_cast<double>(indices.size());
    if (target.scalar_type() == at::kLong) {
      // Padding (-100) is no class, so it is never hit.
      correct += prediction.argmax(-1).cpu().eq(target).sum().item<double>();
      scored += target.ge(0).sum().item<double>();
    }
  }
  result.loss /= static_cast<double>(n);
  result.accuracy = scored > 0 ? correct / scored : 0;
  if (processes()) {
    ByteWriter out;
    out.value(result.loss);
    out.value(result.accuracy);
    const std::string bytes = processes()->broadcast(out.bytes(), owner_rank(loss_stage_).value);
    ByteReader in(bytes);
    in.value(result.loss);
    in.value(result.accuracy);
  }
  if (spec_.feed->decoding) result.extra[spec_.feed->decoding->metric] = decoded_score(*spec_.feed->decoding, weights);
  return result;
}

double TorchSession::decoded_score(const Decoding& decoding, const WeightsOf& weights) const {
  std::vector<std::vector<std::int32_t>> generated;
  for (std::int64_t first = 0; first < decoding.samples; first += kChunk) {
    const std::int64_t end = std::min(first + kChunk, decoding.samples);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(end - first));
    std::iota(indices.begin(), indices.end(), first);
    auto texts = generate(decoding, load_inputs(indices), weights);
    std::move(texts.begin(), texts.end(), std::back_inserter(generated));
  }
  return decoding.score(generated);
}

std::vector<at::Tensor> TorchSession::load_inputs(std::span<const std::int64_t> test_samples) const {
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < spec_.model.inputs.size(); ++i)
    inputs.push_back(load_input(context_, false, i, test_samples));
  return inputs;
}

TorchSession::Prediction TorchSession::predict(const std::vector<at::Tensor>& inputs, const at::Tensor& target,
                                               const WeightsOf& weights) const {
  if (spec_.tensor) return predict_whole(inputs, target, weights);
  std::map<int, at::Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[-1 - static_cast<int>(i)] = inputs[i];
  Prediction result;
  for (std::size_t s = 0; s < interfaces_.size(); ++s) {
    if (!owns(StageId(s))) {
      if (reads(processes()->rank(), s)) {
        const auto out = receive_tensors(*processes(), placement_.stages[s].front().value);
        for (std::size_t k = 0; k < out.size(); ++k) values[interfaces_[s].sends[k]] = out[k];
      }
      continue;
    }
    TorchWorker& owner = owner_of(StageId(s));
    std::vector<at::Tensor> received;
    for (const int producer : interfaces_[s].receives) received.push_back(values.at(producer).to(owner.device()));
    std::optional<StageModule> whole;
    if (spreads_experts(StageId(s))) {
      whole.emplace(*whole_experts_, spec_.plan.stages[s].layers, interfaces_[s], context_.options);
      const std::vector<at::Tensor> from = owner.module(StageId(s)).buffers(), to = whole->buffers();
      for (std::size_t b = 0; b < to.size(); ++b) to[b].copy_(from[b]);
    }
    StageModule& module = whole ? *whole : owner.module(StageId(s));
    const auto out = module.forward(received, weights[s], target.to(owner.device()), {.training = false}, nullptr,
                                    &result.loss, &result.prediction);
    for (std::size_t k = 0; k < out.size(); ++k) values[interfaces_[s].sends[k]] = out[k];
    for (int p = 0; processes() && p < processes()->size(); ++p)
      if (p != processes()->rank() && reads(p, s)) send_tensors(*processes(), p, out);
  }
  return result;
}

bool TorchSession::reads(int process, std::size_t from) const {
  for (std::size_t s = 0; s < interfaces_.size(); ++s)
    if (placement_.stages[s].front().value == process)
      for (const int producer : interfaces_[s].receives)
        if (std::ranges::count(interfaces_[from].sends, producer) > 0) return true;
  return false;
}

// Greedy decoding of some test samples: see Decoding.
std::vector<std::vector<std::int32_t>> TorchSession::generate(const Decoding& decoding, std::vector<at::Tensor> inputs,
                                                              const WeightsOf& weights) const {
  const std::int64_t n = inputs[1].size(0), most = inputs[1].size(1);
  std::vector<std::vector<std::int32_t>> texts(static_cast<std::size_t>(n));
  std::vector<bool> ended(texts.size(), false);
  at::Tensor prefix = at::full({n, 1}, decoding.begin, at::kLong);
  for (std::int64_t length = 1; length <= most && std::ranges::count(ended, false) > 0; ++length) {
    inputs[1] = prefix;
    const Prediction all = predict(inputs, at::zeros_like(prefix), weights);
    at::Tensor next;
    if (owns(loss_stage_)) next = all.prediction.select(1, length - 1).argmax(-1).cpu();
    if (processes()) next = broadcast_tensor(*processes(), next, owner_rank(loss_stage_).value);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto id = next.const_data_ptr<std::int64_t>()[i];
      const auto text = static_cast<std::size_t>(i);
      ended[text] = ended[text] || id == decoding.end;
      if (!ended[text]) texts[text].push_back(static_cast<std::int32_t>(id));
    }
    prefix = at::cat({prefix, next.unsqueeze(1)}, 1);
  }
  return texts;
}

}  // namespace sluice
