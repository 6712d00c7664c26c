// Precision and attention: what a run counts its tensors in. The executor computes in fp32 and with fused attention;
// everything else is counted only, on the virtual clock, without a training.
#pragma once

#include "harness/base/choice.h"
#include "harness/base/quantities.h"

namespace sluice {

// What training computes in, and what it keeps of every parameter. Mixed precision (Micikevicius et al., ICLR 2018)
// computes in 16 bit and steps fp32 copies of the weights; of Adam, in bytes a parameter, with its two moments:
//   mixed                 16 = 2 weight + 2 gradient + 12 (Rajbhandari et al., ZeRO, SC 2020)
//   mixed_fp32_gradients  18 = 2 weight + 4 gradient, summed and reduced in fp32, + 12
//   mixed_two_gradients   20 = 2 weight + 2 gradient + 4 of an fp32 copy of it + 12
// The last two are Megatron-LM's, with bf16 and with fp16 (Megatron Core User Guide, distributed optimizer).
enum class Precision { fp32, mixed, mixed_fp32_gradients, mixed_two_gradients };

// What attention keeps of its scores, a matrix for every head, for its backward: one log-sum-exp a position (fused: the
// backward makes the scores again), the softmax's output, or that, a dropout mask and the dropout's output.
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
  // As the executor keeps them: everything in elements of one size.
  Storage(Bytes element) : activation(element), weight(element), gradient(element), state(element) {}

  Bytes activation{4};  // also of gradients of activations, messages, and tensor-parallel sums
  Bytes weight{4};      // whatever passes read: the newest weights, old versions, predictions, gathered copies
  Bytes gradient{4};    // of weights: as it is accumulated, and summed over replicas
  Bytes state{4};       // of the optimizer's tensors, and of the directions that predictions go along
  Bytes master{0};      // fp32 copies that the optimizer works on: of the weight, and of a 16-bit gradient
  AttentionScores attention = AttentionScores::fused;

  bool is_16_bit() const { return activation < Bytes(4); }
  Bytes statistic() const { return activation < Bytes(4) ? Bytes(4) : activation; }
};

}  // namespace sluice
