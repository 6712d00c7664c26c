// Tensor parallelism: how the layers of a model are divided among the devices of a group, which all hold the same stage
// (Shoeybi et al., Megatron-LM, arXiv 1909.08053; Narayanan et al., SC 2021).
//
//   two linear layers or convolutions, with what     a device has a part of the first one's outputs (channels), and the
//   works on each output by itself between them:     same of the second one's inputs; the second one's outputs and the
//   activations, dropout, pools, batch               first one's input gradients are summed over the group. A pair that
//   normalisation, flattening                        begins with a convolution whose channels the degree does not
//                                                    divide is whole. Where outputs of two such layers are multiplied
//                                                    (a gate), both are divided alike
//   attention                                        a part of the heads; outputs and input gradients are summed
//   experts                                          a part of the experts, and the router whole; outputs and input
//                                                    gradients are summed, and the gradients of the chosen p, on
//                                                    which the router depends. All devices have all tokens: a sum of
//                                                    what their experts add takes the place of two all-to-alls
//   embedding                                        a range of the table's rows; outputs are summed
//   linear layer before the cross entropy, and that  a range of the classes; summed are the linear layer's input
//                                                    gradients, and in the loss a number for every position and device
//
// Every other layer is whole on every device, which all compute the same: normalisations, additions, position
// embeddings, pools, recurrent layers, linear layers and convolutions without a partner. So are the biases that are
// added after a sum; one device adds them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// A device's part of a parameter: of dimension `dimension`, which holds blocks whose sizes are in the ratio of `blocks`
// (query, key and value of attention), the member's share of every block.
struct ParameterPart {
  int dimension = -1;  // -1: whole
  std::vector<std::int64_t> blocks = {1};
};

// How one layer is divided.
struct LayerSplit {
  // outputs: also of the layers of such a pair that stand between its two, which work on the part that there is.
  enum class Rule { whole, outputs, inputs, heads, experts, rows, classes } rule = Rule::whole;
  std::vector<ParameterPart> parameters = {};
  int added_once = -1;  // the parameter that one member adds after the sum (a bias); -1: none
  // The sums over the group in a forward and in an input gradient: elements of one sample in each.
  std::vector<std::int64_t> forward_sums = {}, input_gradient_sums = {};
};

struct TensorModel {
  int degree = 1;
  ModelGraph whole;
  ModelGraph member;  // what one device of the group holds
  // What a group of `degree` devices runs: the members' models in parallel, every layer `degree` times, or, where only
  // some layers are divided (word_slices.h), those `degree` times and the others once. The last layer is the loss that
  // counts.
  ModelGraph all;
  std::vector<LayerSplit> layers;  // by layer of the whole model
  // What a layer of `all` is: a member's part of a layer of the whole model; layer -1: a sum that only `all` has.
  struct Part {
    int layer, member;
  };
  std::vector<Part> parts;       // by layer of `all`
  std::vector<int> first_parts;  // by layer of the whole model: its first part in `all`, the others follow

  int whole_layer(int layer) const { return parts[layer].layer; }  // of a layer of `all`
  int member_of(int layer) const { return parts[layer].member; }
  int parts_of(int whole_layer) const;  // how many layers of `all` are parts of it
  const LayerSplit& split_of(int layer) const;
};

// Throws InputError where the degree does not divide the heads of an attention, the width between two linear layers,
// the rows of an embedding or the classes, with the numbers, or no layer has a rule.
TensorModel split_tensors(const ModelGraph& model, int degree);

// Sums over a group, and the bytes of the tensors that are summed.
struct TensorSums {
  std::int64_t count = 0, bytes = 0;
  TensorSums& operator+=(const TensorSums& other) {
    count += other.count;
    bytes += other.bytes;
    return *this;
  }
  friend bool operator==(const TensorSums&, const TensorSums&) = default;
};
// Of these layers of model.all, in one forward or one input gradient of a micro-batch of `samples`.
TensorSums forward_sums(const TensorModel& model, std::span<const int> layers, std::int64_t samples,
                        std::int64_t element = 4);
TensorSums input_gradient_sums(const TensorModel& model, std::span<const int> layers, std::int64_t samples,
                               std::int64_t element = 4);

}  // namespace sluice
