// Measures the cost graph of a model on this machine: each layer alone, on one thread or one GPU, as a stage would run
// it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <numeric>

#include "harness/base/stop.h"
#include "harness/exec/profile_samples.h"
#include "harness/exec/session.h"
#include "harness/exec/torch/session/device_backend.h"
#include "harness/exec/torch/session/libtorch.h"
#include "harness/exec/torch/session/torch_words.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {

namespace {

std::vector<std::int64_t> batched(std::int64_t batch, const Shape& shape) {
  std::vector<std::int64_t> full{batch};
  full.insert(full.end(), shape.begin(), shape.end());
  return full;
}

// gpu: by its own clock, or the host's time to queue the work, if that is longer. In a run the host is ahead of a GPU
// that has enough to do; so the GPU is kept busy until the work is queued, or it would wait for each kernel.
double seconds_of(RankDevice* gpu, const std::function<void()>& work) {
  if (gpu) {
    gpu->synchronize();
    gpu->stay_busy();
    gpu->start(0);
  }
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double on_host = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return gpu ? std::max(on_host, gpu->seconds(gpu->mark())) : on_host;
}

// Two layers of the same signature are the same work.
std::string signature(const LayerSpec& spec, std::span<const Shape> inputs, const Shape& output) {
  std::string text = kind_name(spec.kind) + to_text(output);
  for (const Shape& shape : inputs) text += to_text(shape);
  for (const ParameterSpec& parameter : parameters(spec)) text += to_text(parameter.shape);
  return text + std::to_string(flops(spec, inputs).forward.value);
}

CostGraph measure(const ModelGraph& model, std::int64_t micro_batch, int repeats, RankDevice* gpu) {
  know_torch_errors();
  const c10::InferenceMode no_autograd;
  const int threads_before = at::get_num_threads();
  at::set_num_threads(1);
  const at::TensorOptions on_host = at::kFloat;
  const at::TensorOptions options = gpu ? on_host.device(gpu->device()) : on_host;
  const auto seconds = [&](const std::function<void()>& work) { return seconds_of(gpu, work); };
  const std::vector<Shape> shapes = model.shapes();
  const auto initial = initial_weights(model, 1, options);
  CostGraph graph{.model = model.name,
                  .source = "profile",
                  .device = gpu ? "cuda" : "cpu thread",
                  .micro_batch = micro_batch,
                  .layers = {}};
  at::Generator generator = at::detail::createCPUGenerator(1);
  std::map<std::string, std::size_t> measured;  // signature -> layer

  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    stop_now();
    const LayerSpec& spec = model.layers[l];
    std::vector<Shape> input_shapes;
    std::vector<at::Tensor> inputs;
    std::vector<bool> needs;
    for (const int p : spec.inputs) {
      const bool from_model = p < 0;
      const std::size_t source = static_cast<std::size_t>(from_model ? -1 - p : p);
      input_shapes.push_back(from_model ? model.inputs[source].shape : shapes[source]);
      const bool tokens = from_model && model.inputs[source].is_token_ids;
      // No padding: the work is that of the declared length. Rows of a table from all over it.
      const std::int64_t ids = tokens ? std::max<std::int64_t>(vocabulary(model, static_cast<int>(source)), 2) : 0;
      inputs.push_back(tokens ? at::randint(1, ids, batched(micro_batch, input_shapes.back()), generator, at::kLong)
                              : at::randn(batched(micro_batch, input_shapes.back()), generator, on_host));
      inputs.back() = inputs.back().to(options.device());
      needs.push_back(!from_model);
    }
    // Whether the input gradient is wanted is part of the work.
    const std::string same = signature(spec, input_shapes, shapes[l]) + (needs.at(0) ? "" : " first");
    if (const auto found = measured.find(same); found != measured.end()) {
      LayerCost cost = graph.layers[found->second];
      cost.name = spec.name;
      cost.inputs = spec.inputs;
      graph.layers.push_back(cost);
      continue;
    }
    measured[same] = l;
    at::Tensor target;
    if (has_dense_target(spec.kind)) {
      target = at::randn(batched(micro_batch, input_shapes[0]), generator, on_host);
    } else if (is_loss(spec.kind)) {
      target = at::zeros(batched(micro_batch, Shape(input_shapes[0].begin(), input_shapes[0].end() - 1)), at::kLong);
    }
    if (target.defined()) target = target.to(options.device());
    const auto layer = make_layer(spec, input_shapes, static_cast<int>(l), options);
    const std::vector<at::Tensor>& weights = initial[l];
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& w : weights) gradients.push_back(at::zeros_like(w));

    std::vector<double> forward, input_gradient, weight_gradient;
    at::Tensor dy;
    for (int k = 0; k < repeats + 2; ++k) {
      LayerStash stash;
      at::Tensor y;
      forward.push_back(
          seconds([&] { y = layer->forward(inputs, weights, target, {.training = true}, false, &stash); }));
      if (!dy.defined() || !gpu)  // drawing numbers for a GPU takes far longer than the layer does
        dy = is_loss(spec.kind) ? at::ones({}, options) : at::randn(y.sizes(), generator, on_host).to(options.device());
      y.reset();
      input_gradient.push_back(seconds([&] { layer->input_gradient(dy, weights, needs, stash); }));
      LayerStash* one[] = {&stash};
      weight_gradient.push_back(weights.empty() ? 0 : seconds([&] { layer->weight_gradient(one, gradients); }));
    }
    for (auto* times : {&forward, &input_gradient, &weight_gradient}) times->erase(times->begin(), times->begin() + 2);
    std::vector<double> update{0};
    if (!weights.empty()) {
      update.clear();
      for (int k = 0; k < repeats; ++k)
        update.push_back(seconds([&] {
          for (std::size_t w = 0; w < weights.size(); ++w) at::add(weights[w], gradients[w], -0.1);
        }));
    }
    graph.layers.push_back({.name = spec.name,
                            .inputs = spec.inputs,
                            .forward = Seconds(median_of(forward)),
                            .input_gradient = Seconds(median_of(input_gradient)),
                            .weight_gradient = Seconds(median_of(weight_gradient)),
                            .update = Seconds(median_of(update)),
                            .parameters = Bytes(4 * parameter_count(spec)),
                            .output = output_bytes(model, shapes, static_cast<int>(l), micro_batch),
                            .fused = is_fused_with_predecessor(spec),
                            .input_channels = input_channels(spec)});
  }
  at::set_num_threads(threads_before);
  return graph;
}

}  // namespace

// Layer by layer, each with weights of its own.
static CostGraph measure_untied(const ModelGraph& model, std::int64_t micro_batch, int repeats,
                                const std::string& device) {
  if (device != "cuda") return measure(model, micro_batch, repeats, nullptr);
  // On a thread of its own: the stream is the thread's.
  return std::async(std::launch::async,
                    [&] {
                      const auto gpu = make_rank_devices(1);
                      gpu[0]->enter();
                      return measure(model, micro_batch, repeats, gpu[0].get());
                    })
      .get();
}

CostGraph libtorch::measure_costs(const ModelGraph& model, std::int64_t micro_batch, int repeats,
                                  const std::string& device) {
  CostGraph graph = measure_untied(untied(model), micro_batch, repeats, device);
  count_tied_weights_once(graph, model);
  count_frozen_layers(graph, model);
  return graph;
}

}  // namespace sluice
