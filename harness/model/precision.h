// Precision and attention: the number formats of a run's tensors. The executor computes in fp32 and with fused
// attention; all others are only simulated, on the virtual clock without training.
#pragma once

#include "harness/base/choice.h"
#include "harness/base/quantities.h"

namespace sluice {

// The format of compute, and the copies of every parameter. Mixed precision (Micikevicius et al., ICLR 2018) computes
// in 16 bit and steps fp32 copies of the weights; with Adam's two moments, in bytes per parameter:
//   mixed                 16 = 2 weight + 2 gradient + 12 (Rajbhandari et al., ZeRO, SC 2020)
//   mixed_fp32_gradients  18 = 2 weight + 4 gradient, summed and reduced in fp32, + 12
//   mixed_two_gradients   20 = 2 weight + 2 gradient + 4 of an fp32 copy of it + 12
// The last two are Megatron-LM's, with bf16 and with fp16 (Megatron Core User Guide, distributed optimizer).
enum class Precision { fp32, mixed, mixed_fp32_gradients, mixed_two_gradients };

// What attention keeps of its scores, a matrix per head, for its backward: one log-sum-exp per position (fused: the
// backward recomputes the scores), the softmax's output, or that, a dropout mask and the dropout's output.
enum class AttentionScores { fused, kept, kept_with_dropout };

template <>
struct Choices<Precision> {
  static constexpr Choice<Precision> all[] = {{Precision::fp32, "fp32"},
                                              {Precision::mixed, "mixed"},
                                              {Precision::mixed_fp32_gradients, "mixed_fp32_gradients"},
                                              {Precision::mixed_two_gradients, "mixed_two_gradients"}};
};
template <>
struct Choices<AttentionScores> {
  static constexpr Choice<AttentionScores> all[] = {{AttentionScores::fused, "fused"},
                                                    {AttentionScores::kept, "kept"},
                                                    {AttentionScores::kept_with_dropout, "kept_with_dropout"}};
};

// Bytes of an element of each kind of tensor. Token ids (8), masks (1) and the positions of maxima (8) are the same in
// every precision; statistics of norms, log-sum-exps and log-probabilities are never kept in less than fp32.
struct Storage {
  Storage() = default;
  Storage(Precision precision, AttentionScores attention);
  // As in the executor: all elements have one size.
  Storage(Bytes element) : activation(element), weight(element), gradient(element), state(element) {}

  Bytes activation{4};  // also of gradients of activations, messages, and tensor-parallel sums
  Bytes weight{4};      // weights that ops read: the newest, old versions, predictions, gathered copies
  Bytes gradient{4};    // of weights: as it is accumulated, and summed over replicas
  Bytes state{4};       // of the optimizer's tensors, and of the directions of predictions
  Bytes master{0};      // fp32 copies that the optimizer works on: of the weight, and of a 16-bit gradient
  AttentionScores attention = AttentionScores::fused;

  bool is_16_bit() const { return activation < Bytes(4); }
  Bytes statistic() const { return activation < Bytes(4) ? Bytes(4) : activation; }
};

}  // namespace sluice
