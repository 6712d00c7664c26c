// Vocabulary parallelism: head and embedding are cut by words into a slice for every rank, and every other layer stays
// whole (Yeung et al., arXiv 2411.05288).
//
//   embedding        a range of the table's rows; a sum that only TensorModel::all has adds the slices' outputs
//   head             the linear layer before the cross entropy: a range of the classes; its input gradient is the sum
//                    over the slices, as of any output that several layers read
//  cross entropy    of a range of the classes: one all-reduce over all ranks combines the maxima and sums of the
//                   exponentials of all slices, one number per position and slice and one for the target's score
#pragma once

#include <vector>

#include "harness/model/tensor_split.h"

namespace sluice {

// Throws InputError if the model's last two layers are not a linear layer and cross entropy, weights are tied, or the
// slices do not divide the classes or the rows of an embedding.
TensorModel slice_words(const ModelGraph& model, int slices);

// Per layer of words.all: its slice, -1 for a layer that is whole. Problem::word_slices.
std::vector<int> word_slices(const TensorModel& words);

}  // namespace sluice
