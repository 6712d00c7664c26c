// LayerSpec: one layer of a model, declared once and without LibTorch. From the declaration come,
// by formula, its output shape, parameters, FLOPs, and what its backward keeps ("stash"); the
// factory in harness/exec/torch builds the real layer from the same value, and a test compares the
// two. Shapes leave out the batch dimension: a 28x28 grey image is {1, 28, 28}, a sentence of 20
// embedded words is {20, 64}. Every tensor element takes 4 bytes (fp32) unless a function takes
// a Storage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "harness/base/quantities.h"
#include "harness/model/precision.h"

namespace sluice {

using Shape = std::vector<std::int64_t>;

std::int64_t elements(const Shape& shape);
std::string to_text(const Shape& shape);  // "[1, 28, 28]"

// y = x W^T + b on the last dimension. W: [out, in], b: [out].
struct Linear {
  std::int64_t in, out;
  bool bias = true;
};
// x: [in, h, w] -> [out, h', w'], h' = floor((h + 2 padding - kernel) / stride) + 1, and w' alike.
// W: [out, in / groups, kernel, kernel_across()]. groups: that many independent convolutions, each of its part of
// the channels; in and out are multiples.
struct Conv2d {
  std::int64_t in, out, kernel, stride = 1, padding = 0;
  bool bias = true;
  std::int64_t kernel_w = 0, padding_w = 0;  // along w; kernel_w 0: both as along h
  std::int64_t groups = 1;
  std::int64_t kernel_across() const { return kernel_w > 0 ? kernel_w : kernel; }
  std::int64_t padding_across() const { return kernel_w > 0 ? padding_w : padding; }
};
// x: [in, n_1, ..., n_d] -> [out, m_1, ..., m_d], d from 1 (sound) to 3 (film), and what Conv2d does not say of images:
// m_i = floor((n_i + 2 padding_i - dilation_i (kernel_i - 1) - 1) / stride_i) + 1. One number for each dimension;
// empty: stride and dilation 1, padding 0. W: [out, in / groups, kernel_1, ..., kernel_d], b: [out].
struct ConvNd {
  std::int64_t in, out;
  std::vector<std::int64_t> kernel, stride = {}, padding = {}, dilation = {};
  bool bias = true;
  std::int64_t groups = 1;
  std::int64_t stride_at(std::size_t i) const { return stride.empty() ? 1 : stride[i]; }
  std::int64_t padding_at(std::size_t i) const { return padding.empty() ? 0 : padding[i]; }
  std::int64_t dilation_at(std::size_t i) const { return dilation.empty() ? 1 : dilation[i]; }
};
// The transpose of a convolution: x: [in, h, w] -> [out, h', w'], h' = (h - 1) stride - 2 padding + kernel.
// W: [in, out, kernel, kernel], b: [out].
struct ConvTranspose2d {
  std::int64_t in, out, kernel, stride = 1, padding = 0;
  bool bias = true;
};
// x: [c, h, w]. global_average gives [c, 1, 1] and ignores kernel and stride; it takes [c, n_1, ..., n_d], too.
struct Pool2d {
  enum class Mode { max, average, global_average } mode = Mode::max;
  std::int64_t kernel = 2, stride = 2, padding = 0;
};
// x: [features] or [features, n_1, ..., n_d], d up to 3. Batch statistics when training, running ones when evaluating.
struct BatchNorm {
  std::int64_t features;
  double momentum = 0.1, epsilon = 1e-5;
};
// x: [features, h, w], of every sample and feature by itself: (x - mean) / sqrt(variance + epsilon), without weights
// and running statistics (Ulyanov et al., arXiv 1607.08022).
struct InstanceNorm {
  std::int64_t features;
  double epsilon = 1e-5;
};
// x: [features, ...], of every sample and group of features / groups of them, which follow one another, by itself; a
// scale and a shift for every feature (Wu and He, ECCV 2018, arXiv 1803.08494). Weight and bias: [features].
struct GroupNorm {
  std::int64_t features, groups;
  double epsilon = 1e-5;
};
// Over the last dimension. Weight and bias: [features].
struct LayerNorm {
  std::int64_t features;
  double epsilon = 1e-5;
};
// y = x / sqrt(mean of x^2 + epsilon) * W over the last dimension. W: [features] (Zhang and Sennrich, NeurIPS 2019).
struct RmsNorm {
  std::int64_t features;
  double epsilon = 1e-6;
};
// gelu: the exact (erf) form; gelu_tanh: its approximation by tanh; silu: x sigmoid(x); leaky_relu: x, or 0.01 x where
// x is negative; relu6: x between 0 and 6; hardsigmoid: relu6(x + 3) / 6; hardswish: x hardsigmoid(x) (Howard et al.,
// ICCV 2019, arXiv 1905.02244).
struct Activation {
  enum class Kind {
    relu,
    gelu,
    tanh,
    sigmoid,
    gelu_tanh,
    silu,
    leaky_relu,
    relu6,
    hardsigmoid,
    hardswish
  } kind = Kind::relu;
};
constexpr double kLeakySlope = 0.01;
// Whether the backward is of the output, not of the input.
inline bool backward_reads_output(const Activation& k) {
  using enum Activation::Kind;
  return k.kind == relu || k.kind == tanh || k.kind == sigmoid || k.kind == leaky_relu || k.kind == relu6;
}
// Of single elements, or of whole channels of an image (Tompson et al., CVPR 2015).
struct Dropout {
  double probability = 0.5;
  bool channels = false;
};
// Every element of an image becomes factor x factor of them: x: [c, h, w] -> [c, factor h, factor w].
struct Upsample {
  std::int64_t factor = 2;
};
// x: [t] of token ids (int64) -> [t, width]. W: [vocabulary, width].
struct Embedding {
  std::int64_t vocabulary, width;
};
// One step: inputs x: [in] and state: [2 hidden] (h then c) -> [2 hidden] (h' then c').
// Weights in torch's order i, f, g, o: w_ih [4h, in], w_hh [4h, h], b_ih [4h], b_hh [4h].
struct LstmCell {
  std::int64_t in, hidden;
};
// y = x + W[:t]: a learned vector for every position. x: [t, width], t <= steps. W: [steps, width],
// from N(0, deviation) (GPT-2's; Radford et al. 2019).
struct PositionEmbedding {
  std::int64_t steps, width;
  double deviation = 0.02;
};
// An image as a sequence of patches, each through one affine map: x: [channels, h, w] -> [(h / patch) (w / patch),
// width], row after row of patches; h and w are multiples of patch. W: [width, channels, patch, patch], b: [width]
// (ViT: Dosovitskiy et al., ICLR 2021, arXiv 2010.11929).
struct PatchEmbedding {
  std::int64_t channels, patch, width;
};
// A learned vector before the sequence: x: [t, width] -> [t + 1, width]. W: [width], zero at first (ViT).
struct ClassToken {
  std::int64_t width;
};
// Some layers over sequences take as a further input the token ids [t] that the sequence was embedded from, and leave
// out the positions of padding (id 0), which stands at the end. Ids are a model input: every stage that reads them gets
// them from the data, so they cost no message.
//
// One layer over a sequence, zero initial state: x: [t, in] -> [t, hidden]. Weights as LstmCell.
// reverse: from the last position to the first. With ids: state and output are zero at padding, so
// that the reverse direction begins at the last real token.
struct Lstm {
  std::int64_t in, hidden;
  bool reverse = false;
};
// Multi-head self-attention with its projections: x: [t, width] -> [t, width].
// Weights: qkv [inner + 2 kv_width(), width] (q, k, v; head-major inside each), qkv_bias, proj [width, inner],
// proj_bias. With ids: nobody attends to padding. rotary: q and k are turned by their positions (RoPE: Su et al., arXiv
// 2104.09864): of a head's width d, which is even, the pair (i, i + d / 2) at position t by t rotary^(-2i / d). 0: not.
// kv_heads: grouped-query attention (Ainslie et al., EMNLP 2023, arXiv 2305.13245): query head h reads key and value
// head h / (heads / kv_heads).
struct Attention {
  std::int64_t width, heads;
  bool causal = false;
  double rotary = 0;          // the base; usually 10,000
  std::int64_t inner = 0;     // width of all query heads together; 0: width
  std::int64_t kv_heads = 0;  // divides heads; 0: heads
  bool qkv_bias = true, proj_bias = true;
  std::int64_t heads_width() const { return inner > 0 ? inner : width; }
  std::int64_t queries_per_kv() const { return kv_heads > 0 ? heads / kv_heads : 1; }
  std::int64_t kv_width() const { return heads_width() / queries_per_kv(); }  // of all key heads together
};
// Attention from one sequence to another: x: [t, width], memory: [s, memory] -> [t, width].
// Weights: q [inner, width], q_bias, kv [2 inner, memory] (k, v; head-major), kv_bias, proj [width,
// inner], proj_bias; bias false: without the three biases. With ids, of the memory: nobody attends to its padding. One
// head is Luong's attention (EMNLP 2015, "general" score).
struct CrossAttention {
  std::int64_t width, memory, heads;
  std::int64_t inner = 0;  // of all heads together; 0: width
  bool bias = true;
  std::int64_t heads_width() const { return inner > 0 ? inner : width; }
};
// Self-attention that knows positions by their distances (Dai et al., ACL 2019, arXiv 1901.02860, section 3.3), as
// XLNet has it (arXiv 1906.08237), of one segment, unmasked: x: [t, width] -> [t, width]. The score of positions i and
// j is (q_i + content_bias) . k_j + (q_i + position_bias) . r_(i - j), where r_d is position times the sinusoids of d.
// Weights without bias: qkv [3 inner, width], position [inner, width], content_bias and position_bias [inner], proj
// [width, inner]. width is even.
struct RelativeAttention {
  std::int64_t width, heads;
  std::int64_t inner = 0;  // of all heads together; 0: width
  std::int64_t heads_width() const { return inner > 0 ? inner : width; }
};
// A mixture of experts (Shazeer et al., ICLR 2017, arXiv 1701.06538): every token, a row of the last dimension, goes
// through `top_k` of `experts` feed-forward networks. x: [..., features] -> the same. The router scores a token with
// W_router x; the top_k highest scores win (of equal ones the lower number), and y is the sum over them of p_e
// expert_e(x), p the softmax over the winning scores (Mixtral: Jiang et al., arXiv 2401.04088). Experts have no bias:
// W_down (f(W_gate x) * W_up x), or, not gated, W_down f(W_up x).
// Weights: router [experts, features], gate and up [experts, hidden, features], down [experts, features, hidden].
// capacity: of the tokens of one sample an expert takes the first capacity tokens top_k / experts, rounded up; to later
// ones it adds nothing, and their other p stay as they are (dropped tokens: Lepikhin et al., GShard, arXiv 2006.16668,
// with a sample as the group). 0: no limit.
struct Experts {
  std::int64_t features, hidden, experts, top_k = 2;
  bool gated = true;
  Activation::Kind activation = Activation::Kind::silu;
  double capacity = 0;
  std::int64_t held = 0;  // of a device that shares them with others (tensor_split.h): its number of experts; 0: all
  // Number of data-parallel replicas over which the experts are spread (expert_spread.h): each holds experts / spread,
  // and takes their rows from the micro-batches of all replicas.
  std::int64_t spread = 1;
  std::int64_t held_experts() const { return held > 0 ? held : experts / spread; }
  // Rows that one expert takes of a sample of `tokens` tokens at most, and that the held experts take of it where the
  // router gives every expert the same number. Costs assume that. All experts together never take more.
  std::int64_t capacity_of(std::int64_t tokens) const;
  std::int64_t rows_of(std::int64_t tokens) const;
};
// A sequence to one vector: x: [t, width] -> [width]. With ids, the mean of the real tokens or the last of them; first,
// where a class token stands, takes no ids.
struct SequencePool {
  enum class Mode { mean, last, first } mode = Mode::mean;
};
struct Add {};  // any number of inputs of one shape
// Two inputs of one shape, element by element: a gate (Shazeer, arXiv 2002.05202). Or an image [c, h, w] and a factor
// for each of its channels, [c, 1, 1] (squeeze-and-excitation: Hu et al., CVPR 2018, arXiv 1709.01507).
struct Multiply {};
struct Concat {
  std::int64_t axis = 0;  // of the shape without the batch dimension
};
// A part of a PyTorch model as TorchScript, which autograd runs (workloads/import_pytorch.py writes it). No formula
// knows it, so the file of the model declares what formulas say of other layers. Inputs and output are tensors with the
// batch first; every sample is computed alike. Initial weights are those in the file, whatever the seed.
struct Module {
  std::string file, digest;  // of the TorchScript, in `folder`; its crc32 in hexadecimal digits (module_file.h)
  std::int64_t bytes = 0;    // of that file
  std::string folder = {};   // of the model file; not part of the declaration
  Shape output = {};
  std::vector<Shape> weights = {}, buffers = {};  // buffers: running statistics and such, which are not trained
  std::vector<std::int64_t> random = {};          // numbers a sample that are drawn in training, of each draw (dropout)
  std::vector<std::int64_t> token_inputs = {};    // which inputs are token ids
  std::int64_t vocabulary = 0;                    // those ids are below it; 0: no input is ids
  double forward_flop = 0, input_gradient_flop = 0, weight_gradient_flop = 0;  // of a sample
  bool keeps_input = true, keeps_output = true;                                // until the end of W
  // Bytes (fp32) that are kept in addition, forward -> backward and, once split, input gradient -> weight gradient.
  std::int64_t stash = 0, stash_per_microbatch = 0, weight_stash = 0, weight_stash_per_microbatch = 0;
};
struct Flatten {};  // a view: [c, h, w] -> [c h w]
// The dimensions in another order, as a copy: dimension i of the output is dimension axes[i] of the input.
struct Permute {
  std::vector<std::int64_t> axes;
};
// Losses end a model. They take the prediction and, from outside, the target; their output is the
// mean over the micro-batch's samples (and, for MSE, elements), a scalar: shape {}.
// prediction [classes], target int64 class; or [t, classes] with target [t], -100 where there is
// nothing to predict (padding): then a sample's loss is the mean over its own real positions. Every
// sample counts the same, so that the mean over equal micro-batches is the mean over the batch,
// however the tokens fall, and does not depend on the padded length.
struct CrossEntropyLoss {};
struct MseLoss {};  // prediction and target of one shape
// The same, of predictions x as log-odds and targets y from 0 to 1: log(1 + e^x) - x y, the mean over the elements.
struct BinaryCrossEntropyLoss {};

using LayerKind =
    std::variant<Linear, Conv2d, ConvNd, ConvTranspose2d, Pool2d, Upsample, BatchNorm, InstanceNorm, GroupNorm,
                 LayerNorm, RmsNorm, Activation, Dropout, Embedding, PositionEmbedding, PatchEmbedding, ClassToken,
                 LstmCell, Lstm, Attention, CrossAttention, RelativeAttention, Experts, SequencePool, Add, Multiply,
                 Concat, Flatten, Permute, Module, CrossEntropyLoss, MseLoss, BinaryCrossEntropyLoss>;

struct LayerSpec {
  std::string name;
  LayerKind kind;
  // Producers of the inputs: index of an earlier layer, or -1, -2, ... for the model's input 0, 1, ...
  std::vector<int> inputs;
  // Layers with one `block` draw their initial weights from one generator seeded with seed + block,
  // in order, so weights do not depend on how a model is cut into stages. -1: the layer's own index.
  int block = -1;
  // Tied: the index of an earlier layer whose weight this one uses, both Linear or Embedding: an output head the table
  // of the embedding (Press and Wolf, EACL 2017). Gradients of both add up in that one weight. -1: a weight of its own.
  int tied_to = -1;
  // Its weights stay as they are (fine-tuning, LoRA): no weight gradient, no gradient memory, no optimizer state. A
  // layer and the one that it is tied to are both frozen or both not.
  bool frozen = false;
  // Of a model that stages run (with_copies): the layer whose weight this layer's first one is a copy of, which starts
  // equal to it, gets the same gradient and so stays equal; -1: none.
  int copy_of = -1;
};

std::string kind_name(const LayerKind& kind);  // "Linear", "Conv2d", ...
bool is_loss(const LayerKind& kind);
bool convolves(const LayerKind& kind);
// A loss whose target has the prediction's shape and is numbers, not classes.
bool has_dense_target(const LayerKind& kind);
// Which of the layer's inputs are token ids: its number, or -1 for none. It may have fewer inputs. Not of Module.
int token_input(const LayerKind& kind);
bool takes_ids(const LayerKind& kind, int input);

// Throws InputError naming the layer if the inputs do not fit (rank, width, count, empty output).
Shape output_shape(const LayerSpec& layer, std::span<const Shape> inputs);

struct ParameterSpec {
  std::string name;  // "weight", "bias", ...
  Shape shape;
  enum class Init { uniform, zeros, ones, normal, stored } init = Init::uniform;  // stored: in Module::file
  double bound = 0;  // uniform(-bound, bound); normal(0, bound). torch's defaults for each layer
};
// Names of a Module's weights and buffers in its file.
std::string module_weight(std::size_t number);
std::string module_buffer(std::size_t number);
// Its own, in the order the real layer takes them; a tied weight, which would be the first, is another layer's.
std::vector<ParameterSpec> parameters(const LayerSpec& layer);
std::int64_t parameter_count(const LayerSpec& layer);
// Of these, those that are trained: none of a frozen layer.
std::vector<ParameterSpec> trained_parameters(const LayerSpec& layer);
std::int64_t trained_parameter_count(const LayerSpec& layer);
// Whether it has a weight gradient: weights of its own or a tied one, and is not frozen.
bool learns(const LayerSpec& layer);
// The layer with a weight of its own.
LayerSpec untied(LayerSpec layer);

// FLOPs of one sample. A multiply-add is two; biases are not counted; a function of one element
// counts one. Backward of layers without weights: weight_gradient 0, and 0 for normalisations too,
// whose weight gradients come out of the same pass as the input gradient. Attention that keeps its scores computes all
// of them, also those that a causal mask hides, and not again in its backward.
struct LayerFlops {
  Flops forward, input_gradient, weight_gradient;
};
LayerFlops flops(const LayerSpec& layer, std::span<const Shape> inputs,
                 AttentionScores scores = AttentionScores::fused);

// What a layer keeps, so that bytes can be added up over a stage without counting a tensor twice
// (a ReLU's output is also the next Linear's input: one tensor).
struct StashSpec {
  bool keeps_input = false;      // forward -> backward: needs its input tensors
  bool keeps_output = false;     // forward -> backward: needs its output tensor
  Bytes extra{};                 // forward -> backward, per sample: own tensors (gates, masks, indices, ...)
  Bytes extra_per_microbatch{};  // the same, independent of the number of samples (batch statistics, ...)
  bool input_until_weight_gradient = false;            // input tensors also needed by the weight gradient
  bool output_gradient_until_weight_gradient = false;  // dy (after the activation) needed by it
  bool output_until_weight_gradient = false;           // the output tensor itself (an LSTM's hidden states)
  Bytes extra_until_weight_gradient{};                 // per sample, own tensors needed by it
  // The same, independent of the number of samples: normalisations compute their weight gradients
  // along with the input gradient and keep only these small sums until W adds them up.
  Bytes extra_until_weight_gradient_per_microbatch{};
  // Flatten: always a view. Activation: in place where that harms nobody (overwrites() in model.h).
  bool output_is_input = false;
};
// A frozen layer keeps nothing for W. Linear, Attention and Experts then keep no input at all: only W reads it.
StashSpec stash(const LayerSpec& layer, std::span<const Shape> inputs, const Storage& storage = {});
// Whether the first of what it keeps is its input, which its I does not read.
bool keeps_input_for_weights_only(const LayerKind& kind);
// Of the stash, per sample, what attention keeps of its scores; 0 for other layers.
Bytes kept_scores(const LayerSpec& layer, std::span<const Shape> inputs, const Storage& storage);

}  // namespace sluice
