// One make() per kind of layer, called by make_layer(), and what several kinds share. Internal to this folder.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/exec/torch/layers/layer.h"
#include "harness/model/layer_spec.h"

namespace sluice {

std::unique_ptr<Layer> make(const Linear& spec);
std::unique_ptr<Layer> make(const Embedding& spec);
std::unique_ptr<Layer> make(const Conv2d& spec);
std::unique_ptr<Layer> make(const ConvNd& spec);
std::unique_ptr<Layer> make(const ConvTranspose2d& spec);
std::unique_ptr<Layer> make(const Pool2d& spec);
std::unique_ptr<Layer> make(const Upsample& spec);
std::unique_ptr<Layer> make(const BatchNorm& spec, const at::TensorOptions& options);
std::unique_ptr<Layer> make(const InstanceNorm& spec);
std::unique_ptr<Layer> make(const GroupNorm& spec);
std::unique_ptr<Layer> make(const LayerNorm& spec);
std::unique_ptr<Layer> make(const RmsNorm& spec);
std::unique_ptr<Layer> make(const Activation& spec);
// parts, part: of the last dimension, or of the channels where whole ones are dropped, the input is one of `parts`
// equal parts; the mask is that of the whole.
std::unique_ptr<Layer> make(const Dropout& spec, int index_in_model, int parts = 1, int part = 0);
std::unique_ptr<Layer> make(const PositionEmbedding& spec);
std::unique_ptr<Layer> make(const PatchEmbedding& spec);
std::unique_ptr<Layer> make(const ClassToken& spec);
std::unique_ptr<Layer> make(const LstmCell& spec);
std::unique_ptr<Layer> make(const Lstm& spec);
std::unique_ptr<Layer> make(const Attention& spec);
std::unique_ptr<Layer> make(const CrossAttention& spec);
std::unique_ptr<Layer> make(const RelativeAttention& spec);
// first: of the experts that it holds. sum: over the devices that share the experts, in place, of the part of the
// gradient that each has; outputs and input gradients are parts, too, which the caller sums.
std::unique_ptr<Layer> make(const Experts& spec, std::int64_t first = 0, std::function<void(at::Tensor&)> sum = {});
std::unique_ptr<Layer> make(const SequencePool& spec, std::span<const Shape> input_shapes);
std::unique_ptr<Layer> make(const Add& spec);
std::unique_ptr<Layer> make(const Multiply& spec);
std::unique_ptr<Layer> make(const Concat& spec, std::span<const Shape> input_shapes);
// Reads the file of the layer's Module. Throws InputError: it is missing or differs from the declaration, or has a
// number type in which TorchScript of fp32 does not compute.
std::unique_ptr<Layer> make_module(const LayerSpec& layer, int index_in_model, const at::TensorOptions& options);
std::unique_ptr<Layer> make(const Flatten& spec, std::span<const Shape> input_shapes);
std::unique_ptr<Layer> make(const Permute& spec);
std::unique_ptr<Layer> make(const CrossEntropyLoss& spec, std::span<const Shape> input_shapes);
std::unique_ptr<Layer> make(const MseLoss& spec);
std::unique_ptr<Layer> make(const BinaryCrossEntropyLoss& spec);

// Whether the caller's reference is the only one to this tensor and to its storage, so that it may be overwritten.
bool is_sole_owner(const at::Tensor& tensor);

// x as rows of its last dimension: [batch, ..., width] -> [rows, width], a view where possible.
at::Tensor as_rows(const at::Tensor& x);

// a b for matrices a: [m, k] and b: [k, n], either of which may be a transposed view; plus bias:
// [n] on every row, if there is one. Large products of floats on the CPU are oneDNN's, which uses
// AVX-512 on every processor that has it; what torch's own mm calls (MKL) does so on Intel's only.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor* bias = nullptr);

// x W^T + bias for rows x. bias may be null.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias);

// weight_gradient += dz^T x and bias_gradient += column sums of dz, straight into the gradients.
// dz: [rows, out], x: [rows, in]. bias_gradient may be null.
void add_affine_gradients(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& weight_gradient,
                          const at::Tensor* bias_gradient);
void add_column_sums(const at::Tensor& dz, const at::Tensor& sums);

// The tensors at `position` of all the stashes one below the other: the first itself if there is
// only one. Rows of several micro-batches become rows of one larger product.
at::Tensor stacked(std::span<LayerStash* const> stashes, std::size_t position);

void clear(std::span<LayerStash* const> stashes);

// Base of the layers without weights, which have nothing to do in W and keep nothing after I.
class WeightlessLayer : public Layer {
 public:
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) final;
  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override;

 protected:
  // Of one input that needs it.
  virtual at::Tensor gradient(const at::Tensor& dy, std::size_t input, LayerStash& stash) = 0;
};

// The attention core on [batch, heads, steps, head width]: CPU tensors use torch's flash kernel, others the same
// algorithm written in matrix products. Both return the output and the log-sum-exp of every row of scores, from which
// both backwards recompute the probabilities. key_ids: token ids [batch, key steps], where 0 is padding without
// attention, or undefined; every sample has a real token.
struct AttentionCore {
  at::Tensor output, log_sum_exp;
};
struct AttentionGradients {
  at::Tensor q, k, v;
};
AttentionCore attend_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                           const at::Tensor& key_ids = {});
AttentionGradients attend_flash_backward(const at::Tensor& dy, const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const AttentionCore& forward, bool causal,
                                         const at::Tensor& key_ids = {});
AttentionCore attend_products(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                              const at::Tensor& key_ids = {});
AttentionGradients attend_products_backward(const at::Tensor& dy, const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const AttentionCore& forward, bool causal,
                                            const at::Tensor& key_ids = {});

// A cross entropy is the mean over a sample's positions with a target, then over the samples. Per sample, the number of
// these positions, at least 1: [samples, 1], in the type of `like`. And the weight of every position; in a chunk of the
// sequence, times the chunks. target: [samples, positions], negative if there is none.
at::Tensor real_positions(const at::Tensor& target, const at::Tensor& like);
at::Tensor loss_shares(const at::Tensor& target, const at::Tensor& counts, const SequenceChunk& chunk = {});

// 1 at real tokens and 0 at padding, [batch, steps, 1], in the type of `like`.
at::Tensor real_tokens(const at::Tensor& ids, const at::Tensor& like);

}  // namespace sluice
