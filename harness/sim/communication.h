// What the ranks of a program send, counted from its instructions: the same on both clocks.
#pragma once

#include <vector>

#include "harness/base/quantities.h"
#include "harness/model/tensor_split.h"
#include "harness/program/program.h"
#include "harness/sim/costs.h"

namespace sluice {

// Bytes that a rank sends. Collectives are rings of n members: a gather and a reduce-scatter send (n - 1) / n of the
// stage's bytes, an all-reduce twice that.
struct SentBytes {
  double messages = 0;    // between ranks: activations, their gradients, inputs of a W on another rank and its sums
  double gathers = 0;     // weights
  double reductions = 0;  // gradients: reduce-scatters and all-reduces
  double total() const { return messages + gathers + reductions; }
};

// Per rank, for one iteration: the tensor-parallel sums (model/tensor_split.h) inside its ops, as the executor performs
// them. plan: for model.all.
std::vector<TensorSums> tensor_sums(const Program& program, const TensorModel& model, const Plan& plan,
                                    std::int64_t micro_batch, std::int64_t element = 4);

// Per rank, for one iteration: the all-to-alls of spread experts (model/expert_spread.h) inside its ops, and the bytes
// that it hands to them where every expert gets the same number of rows. plan: for the model.
std::vector<TensorSums> expert_exchanges(const Program& program, const ModelGraph& model, const Plan& plan,
                                         std::int64_t micro_batch, std::int64_t element = 4);

// Bytes of the tensor that an all-reduce sums: for reduce_gradients or for a step group.
double reduced_bytes(const Program& program, const Instruction& all_reduce, const Costs& costs);

// Per rank, for one update: an asynchronous program's run has several, and the bytes are divided by their number.
std::vector<SentBytes> sent_bytes(const Program& program, const Costs& costs);

}  // namespace sluice
