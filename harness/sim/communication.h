// What a program makes its ranks send, counted from its instructions: the same on both clocks.
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
  double messages = 0;    // between ranks: activations, their gradients, what a W elsewhere reads and its sums
  double gathers = 0;     // weights
  double reductions = 0;  // gradients: reduce-scatters and all-reduces
  double total() const { return messages + gathers + reductions; }
};

// Per rank, of an iteration: the tensor-parallel sums (model/tensor_split.h) inside its ops, as the executor performs
// them. plan: of model.all.
std::vector<TensorSums> tensor_sums(const Program& program, const TensorModel& model, const Plan& plan,
                                    std::int64_t micro_batch, std::int64_t element = 4);

// Bytes of the tensor that an all-reduce sums: of a reduce_gradients or of a step group's.
double reduced_bytes(const Program& program, const Instruction& all_reduce, const Costs& costs);

// Per rank, of an iteration: one update. An asynchronous program's run has several; they share it.
std::vector<SentBytes> sent_bytes(const Program& program, const Costs& costs);

}  // namespace sluice
