// Initial weights, drawn as torch::nn draws them.
#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "harness/base/stop.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {
namespace {

// Always drawn in fp32 on the CPU and converted: every precision and device starts from one model.
at::Tensor draw(const ParameterSpec& parameter, at::Generator& generator) {
  at::Tensor values = at::empty(parameter.shape, at::kFloat);
  switch (parameter.init) {
    case ParameterSpec::Init::uniform:
      return values.uniform_(-parameter.bound, parameter.bound, generator);
    case ParameterSpec::Init::normal:
      return values.normal_(0, parameter.bound, generator);
    case ParameterSpec::Init::ones:
      return values.fill_(1);
    case ParameterSpec::Init::zeros:
    case ParameterSpec::Init::stored:
      break;
  }
  return values.zero_();
}

}  // namespace

std::vector<std::vector<at::Tensor>> initial_weights(const ModelGraph& model, std::uint64_t seed,
                                                     const at::TensorOptions& options) {
  std::map<int, at::Generator> generators;  // by block
  std::vector<std::vector<at::Tensor>> result;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    const int block = layer.block < 0 ? static_cast<int>(i) : layer.block;
    std::vector<at::Tensor>& weights = result.emplace_back();
    if (std::holds_alternative<Module>(layer.kind)) {
      for (const at::Tensor& weight : stored_weights(layer))
        weights.push_back(weight.to(options, false, /*copy=*/true));
      continue;
    }
    // As in PyTorch, where a module draws a weight before it is tied to another's.
    for (const ParameterSpec& parameter : parameters(untied(layer))) {
      stop_now();
      auto found = generators.find(block);
      if (found == generators.end()) {
        const std::uint64_t stream = seed + static_cast<std::uint64_t>(block);
        found = generators.emplace(block, at::detail::createCPUGenerator(stream)).first;
      }
      weights.push_back(draw(parameter, found->second).to(options));
    }
    if (layer.tied_to >= 0) weights.erase(weights.begin());
    if (layer.copy_of >= 0) weights.front() = result[layer.copy_of].front().clone();
  }
  return result;
}

}  // namespace sluice
