// Pieces: what one message is of the tensors that the ops at its two ends make and take. Stages may
// take different numbers of the schedule's micro-batches at once (StageGraph::micros_per_op); a message
// holds as many as both are made of. Stage a takes 4 at once, b takes 6, a message holds 2:
//
//   a's ops    [    F0     ] [    F1     ] [    F2     ]
//   messages   [  0  |  1  |  2  |  3  |  4  |  5  ]         F1 is made of pieces 0 and 1 of 2,
//   b's ops    [       F0        |       F1        ]         message 3 is b's piece 0 of 3
//
// Samples are rows of dimension 0, in the order of their micro-batches.
#pragma once

#include <ATen/ATen.h>

#include "harness/pipeline/schedule.h"

namespace sluice {

struct Piece {
  Micro op;        // of the stage: the op that makes or takes it
  int number = 0;  // which piece of that op's tensors
  int of = 1;      // into how many they are cut
  bool whole() const { return of == 1; }
};

// Into how many messages an op of `stage` cuts what it exchanges with `peer`.
int slices_per_op(const StageGraph& graph, StageId stage, StageId peer);
Piece piece_of_message(const StageGraph& graph, StageId stage, Micro message, StageId peer);

// The rows of a piece: a view, or the tensor itself.
at::Tensor rows_of(const at::Tensor& tensor, const Piece& slice);
// Puts a part in its place. The tensor is made by the first part to come; a whole one becomes it.
void put_rows(at::Tensor& tensor, at::Tensor part, const Piece& slice);
// Adds a part, likewise. Writes over `sum` only where nobody else sees it.
void add_rows(at::Tensor& sum, at::Tensor part, const Piece& slice);

}  // namespace sluice
