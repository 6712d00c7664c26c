// What every layer kind is declared with, named once: the reader and writer of sluice/model/1 (model_json.h) and the
// test that holds its JSON schema all walk these lists. A visitor has, for a key and a member of the kind,
//   size    a count of at least 1; where the kind has no default (0) it must be given
//   window  the same of what slides over an image, which is small
//   extent  a count of at least 0, with a default
//   number  with a default and its bounds
//   flag    true or false, with a default
//   choice  one of several names, in the order of the enumerators, with a default
//   text    not empty
//   bytes   a count of at least 0, 0 by default
//   shape   at least one dimension; shapes: a list of such, of any length, [] for a scalar; empty by default
//   counts  a list of counts between the given numbers, empty by default
#pragma once

#include <array>

#include "harness/model/layer_spec.h"

namespace sluice {

constexpr std::int64_t kMaxSize = 100'000'000;  // of one dimension
constexpr std::int64_t kMaxWindow = 10'000;

template <class Kind>
struct KindTag {};

constexpr std::array kActivationNames = {"relu", "gelu",       "tanh",  "sigmoid",     "gelu_tanh",
                                         "silu", "leaky_relu", "relu6", "hardsigmoid", "hardswish"};

void visit_fields(auto& v, KindTag<Linear>) {
  v.size("in", &Linear::in), v.size("out", &Linear::out), v.flag("bias", &Linear::bias);
}
void visit_fields(auto& v, KindTag<Conv2d>) {
  v.size("in", &Conv2d::in), v.size("out", &Conv2d::out), v.window("kernel", &Conv2d::kernel);
  v.window("stride", &Conv2d::stride), v.extent("padding", &Conv2d::padding), v.flag("bias", &Conv2d::bias);
  v.extent("kernel_w", &Conv2d::kernel_w), v.extent("padding_w", &Conv2d::padding_w);
  v.size("groups", &Conv2d::groups);
}
void visit_fields(auto& v, KindTag<ConvNd>) {
  v.size("in", &ConvNd::in), v.size("out", &ConvNd::out), v.counts("kernel", &ConvNd::kernel, 1, kMaxWindow);
  v.counts("stride", &ConvNd::stride, 1, kMaxWindow), v.counts("padding", &ConvNd::padding, 0, kMaxWindow);
  v.counts("dilation", &ConvNd::dilation, 1, kMaxWindow), v.flag("bias", &ConvNd::bias);
  v.size("groups", &ConvNd::groups);
}
void visit_fields(auto& v, KindTag<ConvTranspose2d>) {
  v.size("in", &ConvTranspose2d::in), v.size("out", &ConvTranspose2d::out);
  v.window("kernel", &ConvTranspose2d::kernel), v.window("stride", &ConvTranspose2d::stride);
  v.extent("padding", &ConvTranspose2d::padding), v.flag("bias", &ConvTranspose2d::bias);
}
void visit_fields(auto& v, KindTag<RmsNorm>) {
  v.size("features", &RmsNorm::features), v.number("epsilon", &RmsNorm::epsilon, 0, 1);
}
void visit_fields(auto& v, KindTag<Pool2d>) {
  v.choice("mode", &Pool2d::mode, std::array{"max", "average", "global_average"});
  v.window("kernel", &Pool2d::kernel), v.window("stride", &Pool2d::stride), v.extent("padding", &Pool2d::padding);
}
void visit_fields(auto& v, KindTag<BatchNorm>) {
  v.size("features", &BatchNorm::features);
  v.number("momentum", &BatchNorm::momentum, 0, 1), v.number("epsilon", &BatchNorm::epsilon, 0, 1);
}
void visit_fields(auto& v, KindTag<Upsample>) { v.window("factor", &Upsample::factor); }
void visit_fields(auto& v, KindTag<InstanceNorm>) {
  v.size("features", &InstanceNorm::features), v.number("epsilon", &InstanceNorm::epsilon, 0, 1);
}
void visit_fields(auto& v, KindTag<GroupNorm>) {
  v.size("features", &GroupNorm::features), v.size("groups", &GroupNorm::groups);
  v.number("epsilon", &GroupNorm::epsilon, 0, 1);
}
void visit_fields(auto& v, KindTag<LayerNorm>) {
  v.size("features", &LayerNorm::features), v.number("epsilon", &LayerNorm::epsilon, 0, 1);
}
void visit_fields(auto& v, KindTag<Activation>) { v.choice("function", &Activation::kind, kActivationNames); }
void visit_fields(auto& v, KindTag<Dropout>) {
  v.number("probability", &Dropout::probability, 0, 1), v.flag("channels", &Dropout::channels);
}
void visit_fields(auto& v, KindTag<Embedding>) {
  v.size("vocabulary", &Embedding::vocabulary), v.size("width", &Embedding::width);
}
void visit_fields(auto& v, KindTag<PositionEmbedding>) {
  v.size("steps", &PositionEmbedding::steps), v.size("width", &PositionEmbedding::width);
  v.number("deviation", &PositionEmbedding::deviation, 0, 1e6);
}
void visit_fields(auto& v, KindTag<PatchEmbedding>) {
  v.size("channels", &PatchEmbedding::channels), v.window("patch", &PatchEmbedding::patch);
  v.size("width", &PatchEmbedding::width);
}
void visit_fields(auto& v, KindTag<ClassToken>) { v.size("width", &ClassToken::width); }
void visit_fields(auto& v, KindTag<LstmCell>) { v.size("in", &LstmCell::in), v.size("hidden", &LstmCell::hidden); }
void visit_fields(auto& v, KindTag<Lstm>) {
  v.size("in", &Lstm::in), v.size("hidden", &Lstm::hidden), v.flag("reverse", &Lstm::reverse);
}
void visit_fields(auto& v, KindTag<Attention>) {
  v.size("width", &Attention::width), v.size("heads", &Attention::heads), v.flag("causal", &Attention::causal);
  v.number("rotary", &Attention::rotary, 0, 1e12), v.extent("inner", &Attention::inner);
  v.extent("kv_heads", &Attention::kv_heads), v.flag("qkv_bias", &Attention::qkv_bias);
  v.flag("proj_bias", &Attention::proj_bias);
}
void visit_fields(auto& v, KindTag<CrossAttention>) {
  v.size("width", &CrossAttention::width), v.size("memory", &CrossAttention::memory);
  v.size("heads", &CrossAttention::heads), v.extent("inner", &CrossAttention::inner);
  v.flag("bias", &CrossAttention::bias);
}
void visit_fields(auto& v, KindTag<RelativeAttention>) {
  v.size("width", &RelativeAttention::width), v.size("heads", &RelativeAttention::heads);
  v.extent("inner", &RelativeAttention::inner);
}
void visit_fields(auto& v, KindTag<Experts>) {
  v.size("features", &Experts::features), v.size("hidden", &Experts::hidden), v.size("experts", &Experts::experts);
  v.size("top_k", &Experts::top_k), v.flag("gated", &Experts::gated);
  v.choice("function", &Experts::activation, kActivationNames), v.number("capacity", &Experts::capacity, 0, 1e3);
}
void visit_fields(auto& v, KindTag<SequencePool>) {
  v.choice("mode", &SequencePool::mode, std::array{"mean", "last", "first"});
}
void visit_fields(auto& v, KindTag<Concat>) { v.extent("axis", &Concat::axis); }
void visit_fields(auto& v, KindTag<Module>) {
  v.text("file", &Module::file), v.text("digest", &Module::digest), v.bytes("bytes", &Module::bytes);
  v.shape("output", &Module::output), v.shapes("weights", &Module::weights), v.shapes("buffers", &Module::buffers);
  v.counts("random", &Module::random, 1, kMaxSize);
  v.counts("token_inputs", &Module::token_inputs, 0, kMaxSize);
  v.bytes("vocabulary", &Module::vocabulary);
  constexpr double kMaxFlop = 1e18;
  v.number("forward_flop", &Module::forward_flop, 0, kMaxFlop);
  v.number("input_gradient_flop", &Module::input_gradient_flop, 0, kMaxFlop);
  v.number("weight_gradient_flop", &Module::weight_gradient_flop, 0, kMaxFlop);
  v.flag("keeps_input", &Module::keeps_input), v.flag("keeps_output", &Module::keeps_output);
  v.bytes("stash", &Module::stash), v.bytes("stash_per_microbatch", &Module::stash_per_microbatch);
  v.bytes("weight_stash", &Module::weight_stash);
  v.bytes("weight_stash_per_microbatch", &Module::weight_stash_per_microbatch);
}
void visit_fields(auto&, KindTag<Add>) {}
void visit_fields(auto&, KindTag<Multiply>) {}
void visit_fields(auto&, KindTag<Flatten>) {}
void visit_fields(auto& v, KindTag<Permute>) { v.counts("axes", &Permute::axes, 0, kMaxWindow); }
void visit_fields(auto&, KindTag<CrossEntropyLoss>) {}
void visit_fields(auto&, KindTag<MseLoss>) {}
void visit_fields(auto&, KindTag<BinaryCrossEntropyLoss>) {}

// Calls `use` with a tag of every kind of LayerKind, in its order.
template <class Use>
void for_every_kind(Use use) {
  [&]<class... Kinds>(std::variant<Kinds...>*) { (use(KindTag<Kinds>{}), ...); }(static_cast<LayerKind*>(nullptr));
}

}  // namespace sluice
