// What a sample is to the people who train a model: how many tokens, and how many FLOPs its gradient takes.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/model/model.h"

namespace sluice {

// Positions that the loss predicts, where it is a cross entropy over [positions, classes]; otherwise, of a model with
// attention or an LSTM, the lengths of its inputs of token ids together. nullopt: a sample has no tokens (images, rows
// of features).
std::optional<std::int64_t> tokens_per_sample(const ModelGraph& model);

// Of a sample's forward, all that flops() counts.
Flops forward_flops(const ModelGraph& model);

// Model FLOPs: those of products, convolutions, recurrences and attention (whole score matrices, also under a causal
// mask), forward and, unless forward_only, both gradients; a multiply-add is two. Nothing is counted again that is
// computed again. Of a GPT with N weights in its products, L layers, width h and T positions: T (6 N + 12 L h T), as in
// PaLM's appendix B (Chowdhery et al., JMLR 2023) and Megatron-LM.
Flops model_flop_per_sample(const ModelGraph& model, bool forward_only = false);

}  // namespace sluice
