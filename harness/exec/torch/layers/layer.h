// A layer as three functions over ATen: forward, input gradient, weight gradient. There is no autograd graph, so weight
// versions, stashes, split backwards and exact memory need no special machinery. Layers hold no weights: the version to
// use is an argument. One object per layer of a stage; used by one thread at a time.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <span>
#include <vector>

#include "harness/model/layer_spec.h"

namespace sluice {

// The positions of its sequences that an op works on, where they are cut into chunks (harness/model/sequence_chunks.h);
// count 1: all of them.
struct SequenceChunk {
  int count = 1;                                  // chunks of a sequence
  std::int64_t first = 0, length = 0, whole = 0;  // its first position; how many; of the sequence
  // A chunk's loss is its contribution to the mean over its micro-batch, times the number of chunks, so that the mean
  // over all chunks is the mean over all micro-batches. This is the factor of a mean over the chunk's positions.
  double weight() const { return count == 1 ? 1 : static_cast<double>(length * count) / static_cast<double>(whole); }
};

// What one layer keeps for one micro-batch. forward fills it; input_gradient may replace entries by
// what weight_gradient needs and drops the others; weight_gradient leaves it empty.
struct LayerStash {
  std::vector<at::Tensor> kept;
  SequenceChunk chunk = {};
  // The layer's stash of the previous chunk, which is in flight as long as this one: attention reads its keys and
  // values there and adds to their gradients. Null: the first chunk, or the whole.
  LayerStash* earlier = nullptr;
  // Of spread experts: the rows that every replica has for every held expert, [replicas, held experts]. The host needs
  // them, and they count as none of the device's memory.
  std::vector<std::int64_t> received = {};
};

struct ForwardMode {
  bool training = true;
  std::uint64_t seed = 0;     // of the run
  std::int64_t sequence = 0;  // number of this micro-batch in the run: dropout masks depend on
                              // (seed, layer index in the model, sequence) only, never on the stage cut
  int micro_batches = 1;      // this many at once, of equal size: `sequence` and the ones after it
  bool recomputing = false;   // this micro-batch's second forward: running statistics include it already
  SequenceChunk chunk = {};
  at::Tensor whole_target = {};  // of a chunk: the target of its whole sequences
};

class Layer {
 public:
  virtual ~Layer() = default;
  // in: one tensor per declared input, batch dimension first. stash is null when evaluating. target is used by losses
  // only. May write into in[0]'s storage iff the layer's StashSpec says output_is_input and `may_overwrite` (the
  // producer does not keep its output and no other layer reads it).
  virtual at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights,
                             const at::Tensor& target, const ForwardMode& mode, bool may_overwrite,
                             LayerStash* stash) = 0;
  // dy: gradient of the output; for a loss a scalar that multiplies the loss. It may be overwritten if the caller has
  // the only reference to it and to its storage, and it may be kept: a caller that holds the buffer must not change it
  // until the weight gradient is done. Returns one gradient per input (undefined tensor if needs_input[i] is false).
  // `weights` are used only here, never in weight_gradient, so a rule may pass another version than the forward's.
  virtual std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                                 const std::vector<bool>& needs_input, LayerStash& stash) = 0;
  // Adds this layer's weight gradients of all the given micro-batches to `gradients` (order of
  // parameters(spec)). More than one stash: batched, one larger GEMM where the layer knows how.
  virtual void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) = 0;
  // Non-trainable state (running statistics); shared with the layer, not copies.
  virtual std::vector<at::Tensor> buffers() const { return {}; }
};

// input_shapes are without the batch dimension. options: dtype and device of the tensors (fp32 on CPU by default).
std::unique_ptr<Layer> make_layer(const LayerSpec& spec, std::span<const Shape> input_shapes, int index_in_model,
                                  const at::TensorOptions& options);

// The weights in the file of a Module layer, in fp32 on the CPU. Throws InputError as make_layer() does.
std::vector<at::Tensor> stored_weights(const LayerSpec& layer);

}  // namespace sluice
