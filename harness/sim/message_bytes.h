// Bytes of the messages of a program.
#pragma once

#include <utility>
#include <vector>

#include "harness/program/program.h"
#include "harness/sim/costs.h"

namespace sluice {

// A send and its receive have the same bytes; control messages and all other instructions have 0. Both arguments must
// outlive this.
class MessageBytes {
 public:
  MessageBytes(const Program& program, const Costs& costs);

  double of(const Instruction& message) const;
  // For a sent activation: the bytes that its sender also keeps, and has to copy (SimulatedEdge::copied).
  double copied(const Instruction& send) const;

 private:
  struct Edge {
    StageId peer{-1};
    double activation = 0, gradient = 0, copied = 0;  // bytes of one micro-batch
  };
  // In units of the whole sequences of one micro-batch.
  double size(const Instruction& message) const;
  const Edge& edge(const Instruction& message) const;

  const Program& program_;
  const Costs& costs_;
  using Edges = std::vector<std::vector<Edge>>;  // per stage: both directions of all its edges
  Edges edges_of(const Costs& costs) const;
  std::vector<Edges> edges_;  // for each size of micro-batches
};

}  // namespace sluice
