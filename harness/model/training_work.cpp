#include "harness/model/training_work.h"

#include <algorithm>

namespace sluice {

namespace {

template <class... Kinds>
bool is_one_of(const LayerSpec& layer) {
  return (std::holds_alternative<Kinds>(layer.kind) || ...);
}

bool multiplies(const LayerSpec& layer) {
  return is_one_of<Linear, Conv2d, ConvNd, ConvTranspose2d, PatchEmbedding, LstmCell, Lstm, Attention, CrossAttention,
                   RelativeAttention, Experts>(layer);
}

bool reads_sequences(const LayerSpec& layer) {
  return is_one_of<Lstm, Attention, CrossAttention, RelativeAttention>(layer);
}

}  // namespace

std::optional<std::int64_t> tokens_per_sample(const ModelGraph& model) {
  const std::vector<Shape> shapes = model.shapes();
  const auto loss =
      std::ranges::find_if(model.layers, [](const LayerSpec& l) { return is_one_of<CrossEntropyLoss>(l); });
  if (loss != model.layers.end())
    if (const Shape scores = input_shapes(model, shapes, *loss).front(); scores.size() == 2) return scores[0];
  std::int64_t tokens = 0;
  if (std::ranges::any_of(model.layers, reads_sequences))
    for (const ModelInput& input : model.inputs)
      if (input.is_token_ids) tokens += elements(input.shape);
  return tokens > 0 ? std::optional(tokens) : std::nullopt;
}

Flops forward_flops(const ModelGraph& model) {
  const std::vector<Shape> shapes = model.shapes();
  Flops sum;
  for (const LayerSpec& layer : model.layers) sum += flops(layer, input_shapes(model, shapes, layer)).forward;
  return sum;
}

Flops model_flop_per_sample(const ModelGraph& model, bool forward_only) {
  const std::vector<Shape> shapes = model.shapes();
  Flops sum;
  for (const LayerSpec& layer : model.layers) {
    if (!multiplies(layer)) continue;
    const LayerFlops passes = flops(layer, input_shapes(model, shapes, layer), AttentionScores::kept);
    sum += passes.forward;
    if (!forward_only) sum += passes.input_gradient + passes.weight_gradient;
  }
  return sum;
}

}  // namespace sluice
