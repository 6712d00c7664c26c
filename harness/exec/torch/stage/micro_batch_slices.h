// Micro-batch slices: the part of an op's tensors that one message holds. Stages may take different numbers of the
// schedule's micro-batches at once (StageGraph::microbatches_per_op); a message holds the greatest common divisor of
// both. Stage a takes 4 micro-batches at once, b takes 6, a message holds 2:
//
//   ops of a   [    F0     ] [    F1     ] [    F2     ]
//   messages   [  0  |  1  |  2  |  3  |  4  |  5  ]         F1 of a makes messages 2 and 3, its slices 0 and 1 of 2;
//   ops of b   [       F0        |       F1        ]         message 3 is slice 0 of 3 of F1 of b
//
// Samples are rows of dimension 0, in the order of their micro-batches.
#pragma once

#include <ATen/ATen.h>

#include "harness/pipeline/schedule.h"

namespace sluice {

struct MicroBatchSlice {
  Micro op;        // the stage's op whose tensors are cut
  int number = 0;  // index of the slice, from 0
  int of = 1;      // number of slices
  bool whole() const { return of == 1; }
};

// Number of messages into which an op of `stage` cuts the tensors that it exchanges with `peer`.
int slices_per_op(const StageGraph& graph, StageId stage, StageId peer);
// The slice of an op of `stage` in `message`, between `stage` and `peer`.
MicroBatchSlice slice_of_message(const StageGraph& graph, StageId stage, Micro message, StageId peer);

// The rows of a slice: a view, or the tensor itself if the slice is whole.
at::Tensor rows_of(const at::Tensor& tensor, const MicroBatchSlice& slice);
// Writes `part` into the rows of a slice. The first part allocates the tensor; a whole one becomes the tensor.
void put_rows(at::Tensor& tensor, at::Tensor part, const MicroBatchSlice& slice);
// Adds `part` to the rows of a slice in the same way. Overwrites `sum` only if there is no other reference to it.
void add_rows(at::Tensor& sum, at::Tensor part, const MicroBatchSlice& slice);

}  // namespace sluice
