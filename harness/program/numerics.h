// Numerics: what a program computes, as one number. Two programs of one number make the same floating-point operations
// on the same operands in the same order of summation, layer by layer, so that they train to the same bits, however
// they are cut into stages, placed and ordered. What times depend on is no part of it.
//
// It is found by running the program on symbols in place of tensors. The weights of a layer after a step are a symbol
// made of those before it, of the sum of the layer's gradients in the order in which they are added, and of what the
// step depends on; the output of a layer is one made of its inputs and of the version, or the prediction, that it
// reads. At the end the number is made of the weights and the running statistics of all layers and of the losses in
// the order in which they are added. A sum of two is the same either way round; a sum of more depends on the order.
//
// Sharded stages, weight gradients on a rank of their own, divided input gradients, batched weight gradients, sequences
// in chunks and stages that take several micro-batches an op are not run on symbols: their programs have the same
// number only if they are the same instructions on the same layers.
#pragma once

#include <cstdint>

#include "harness/model/model.h"
#include "harness/pipeline/plan.h"
#include "harness/program/program.h"

namespace sluice {

struct NumericsOptions {
  bool batched_weight_gradients = false;  // SessionSpec's
  bool snapshots = false;  // running statistics are read after every step, not only when the program has ended
};

// The program must have passed its check. plan: of the program. Of one run of the program, from weights that are given.
std::uint64_t numerics(const Program& program, const ModelGraph& model, const Plan& plan,
                       const NumericsOptions& options = {});

}  // namespace sluice
