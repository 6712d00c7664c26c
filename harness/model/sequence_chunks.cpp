#include "harness/model/sequence_chunks.h"

#include "harness/base/error.h"
#include "harness/model/training_work.h"

namespace sluice {

namespace {

// What in a layer's kind stands against chunks, as the end of a sentence about it; "" if nothing does.
struct FaultOf {
  std::span<const Shape> in;

  std::string operator()(const Linear&) const { return ""; }
  std::string operator()(const LayerNorm&) const { return ""; }
  std::string operator()(const RmsNorm&) const { return ""; }
  std::string operator()(const Activation&) const { return ""; }
  std::string operator()(const Dropout& k) const { return k.channels ? "leaves out whole channels" : ""; }
  std::string operator()(const Embedding&) const { return ""; }
  std::string operator()(const PositionEmbedding&) const { return ""; }
  std::string operator()(const Add&) const { return ""; }
  std::string operator()(const Multiply&) const { return ""; }
  std::string operator()(const CrossEntropyLoss&) const { return ""; }
  std::string operator()(const MseLoss&) const { return ""; }
  std::string operator()(const BinaryCrossEntropyLoss&) const { return ""; }
  std::string operator()(const Experts& k) const {
    return k.capacity > 0 ? "drops tokens by how many of the whole sequence came before" : "";
  }
  std::string operator()(const Concat& k) const { return k.axis == 0 ? "joins sequences end to end" : ""; }
  std::string operator()(const Attention& k) const {
    if (!k.causal) return "is not causal: every position attends to later ones";
    return in.size() > 1 ? "leaves out padding" : "";
  }
  template <class Kind>
  std::string operator()(const Kind&) const {
    return "works on more than one position of a sequence";
  }
};

std::string quoted(const LayerSpec& layer) { return "layer '" + layer.name + "' (" + kind_name(layer.kind) + ")"; }

}  // namespace

std::string sequence_fault(const ModelGraph& model) {
  if (model.layers.empty()) return "the workload has costs and no layers";
  const std::vector<Shape> shapes = model.shapes();
  const std::int64_t length = model.inputs.front().shape.empty() ? 0 : model.inputs.front().shape.front();
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec& layer = model.layers[l];
    const std::vector<Shape> inputs = input_shapes(model, shapes, layer);
    if (const std::string fault = std::visit(FaultOf{inputs}, layer.kind); !fault.empty())
      return quoted(layer) + " " + fault;
    const std::size_t dimensions = std::holds_alternative<Embedding>(layer.kind) ? 1 : 2;
    for (const Shape& shape : inputs)
      if (shape.size() != dimensions || shape.front() != length)
        return quoted(layer) + " reads " + to_text(shape) + ", which is no sequence of " + std::to_string(length) +
               " positions";
  }
  return "";
}

std::int64_t sequence_length(const ModelGraph& model) { return model.inputs.front().shape.front(); }

ModelGraph with_sequence_length(const ModelGraph& model, std::int64_t length) {
  ModelGraph result = model;
  for (ModelInput& input : result.inputs) input.shape.front() = length;
  return result;
}

static void require_positions(std::int64_t length, int chunks) {
  if (length < chunks)
    throw InputError("sequence_chunks",
                     std::to_string(chunks) + " chunks of sequences of " + std::to_string(length) + " positions",
                     "use at most as many chunks as there are positions");
}

std::vector<std::int64_t> even_cut(std::int64_t length, int chunks) {
  require_positions(length, chunks);
  std::vector<std::int64_t> cut{0};
  for (int c = 0; c < chunks; ++c) cut.push_back(cut.back() + length / chunks + (c < length % chunks ? 1 : 0));
  return cut;
}

std::vector<std::int64_t> balanced_cut(std::int64_t length, int chunks,
                                       const std::function<double(std::int64_t)>& work) {
  require_positions(length, chunks);
  std::vector<std::int64_t> cut{0};
  for (int c = 1; c < chunks; ++c) {
    const double wanted = work(length) * c / chunks;
    // The least prefix with that much work, or the one before it where that is nearer. Every chunk has a position.
    std::int64_t low = cut.back() + 1, high = length - (chunks - c);
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (work(middle) < wanted)
        low = middle + 1;
      else
        high = middle;
    }
    if (low > cut.back() + 1 && wanted - work(low - 1) < work(low) - wanted) --low;
    cut.push_back(low);
  }
  cut.push_back(length);
  return cut;
}

std::vector<std::int64_t> balanced_cut(const ModelGraph& model, int chunks) {
  // Of causal attention the first n positions take as much as a sequence of n.
  return balanced_cut(sequence_length(model), chunks,
                      [&](std::int64_t n) { return forward_flops(with_sequence_length(model, n)).value; });
}

PairShares pair_shares(const LayerSpec& layer, std::span<const Shape> inputs) {
  const auto* attention = std::get_if<Attention>(&layer.kind);
  if (!attention || !attention->causal) return {};
  // The rest of the work is in proportion to the positions: what t positions take is a t + b t (t + 1) / 2, so that
  // twice as many take b t^2 more than twice that.
  const auto t = static_cast<double>(inputs[0][0]);
  const LayerFlops once = flops(layer, inputs);
  const Shape twice_as_long{2 * inputs[0][0], inputs[0][1]};
  const LayerFlops twice = flops(layer, {&twice_as_long, 1});
  const auto share = [&](Flops one, Flops two) {
    return (two.value - 2 * one.value) / (t * t) * (t * (t + 1) / 2) / one.value;
  };
  return {share(once.forward, twice.forward), share(once.input_gradient, twice.input_gradient)};
}

double share_of_positions(std::span<const std::int64_t> cut, std::size_t chunk) {
  return static_cast<double>(cut[chunk + 1] - cut[chunk]) / static_cast<double>(cut.back());
}

double share_of_pairs(std::span<const std::int64_t> cut, std::size_t chunk) {
  const auto pairs = [](std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n + 1) / 2; };
  return (pairs(cut[chunk + 1]) - pairs(cut[chunk])) / pairs(cut.back());
}

}  // namespace sluice
