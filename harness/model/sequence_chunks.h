// Sequence chunks: whether a model's sequences can be cut into chunks that run one after the other, where to cut them,
// and the share of a layer's work in a chunk.
//
// Layers that work on each position separately need no rule. Causal attention of a chunk also reads the keys and values
// of the chunks before it, so the same number of positions takes longer at a later place.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// Why sequences cannot be cut, naming the first layer that prevents it: "layer 'conv1' (Conv2d) works on more than one
// position of a sequence"; "" if they can. Every value must be of [positions, ...], with one length for all, and
// attention causal and without padding.
std::string sequence_fault(const ModelGraph& model);

// Positions of the model's sequences; sequence_fault() must be "".
std::int64_t sequence_length(const ModelGraph& model);

// The same model for shorter sequences.
ModelGraph with_sequence_length(const ModelGraph& model, std::int64_t length);

// Cuts: chunk c is the positions cut[c] to cut[c + 1] - 1, none of them empty. Both throw InputError for more chunks
// than positions.
//
// Equal lengths; if they do not divide, the first chunks have one position more.
std::vector<std::int64_t> even_cut(std::int64_t length, int chunks);
// Equal work, to the nearest position. work(n): of the first n positions of a sequence, ascending.
std::vector<std::int64_t> balanced_cut(std::int64_t length, int chunks,
                                       const std::function<double(std::int64_t)>& work);
// By the FLOPs of the model's forward.
std::vector<std::int64_t> balanced_cut(const ModelGraph& model, int chunks);

// The shares of a layer's forward and input gradient for pairs of positions: attention's scores and sums.
struct PairShares {
  double forward = 0, input_gradient = 0;
};
PairShares pair_shares(const LayerSpec& layer, std::span<const Shape> inputs);

// The share of a sequence's positions, and of its pairs of a position with itself and earlier ones, in the chunk
// `cut[c]` to `cut[c + 1] - 1`.
double share_of_positions(std::span<const std::int64_t> cut, std::size_t chunk);
double share_of_pairs(std::span<const std::int64_t> cut, std::size_t chunk);

}  // namespace sluice
