// Numerics: the computation of a program as one number. Two programs with the same number run the same floating-point
// operations on the same operands in the same order of summation, layer by layer, so they train to the same bits for
// any cut into stages, placement and order. Properties that only affect times are not part of it.
//
// It is computed by running the program on symbols instead of tensors. The weights of a layer after a step are a symbol
// made of those before it, of the sum of the layer's gradients in the order in which they are added, and of the step's
// parameters. The output of a layer is a symbol made of its inputs and of the version, or the prediction, that it
// reads. The number is made of the final weights and running statistics of all layers and of the losses in the order in
// which they are added. A sum of two is commutative; a sum of more depends on the order.
//
// Sharded stages, weight gradients on a separate rank, divided input gradients, batched weight gradients, sequence
// chunks and stages that take several micro-batches per op are not run on symbols: their programs have the same number
// only if they are the same instructions on the same layers.
#pragma once

#include <cstdint>

#include "harness/model/model.h"
#include "harness/pipeline/plan.h"
#include "harness/program/program.h"

namespace sluice {

struct NumericsOptions {
  bool batched_weight_gradients = false;  // SessionSpec's
  bool snapshots = false;                 // running statistics are read after every step, not only at the program's end
};

// The program must have passed its check. plan: of the program. For one run of the program, from given weights.
std::uint64_t numerics(const Program& program, const ModelGraph& model, const Plan& plan,
                       const NumericsOptions& options = {});

}  // namespace sluice
