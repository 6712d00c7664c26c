// Seconds of a stage's ops without interference.
#pragma once

#include "harness/program/program.h"
#include "harness/sim/costs.h"

namespace sluice {

// For one stage and micro-batch, or chunk of its sequence. A backward costs I and W together; a recomputation costs a
// forward; other instructions than compute ops cost nothing.
struct ComputeSeconds {
  double forward, input_gradient, weight_gradient;
  double pair_share;  // StageCost::pair_share

  double of(const Instruction& i) const { return i.in_pair ? pair_share * alone(i.opcode) : alone(i.opcode); }

  double alone(Opcode opcode) const {
    switch (opcode) {
      case Opcode::forward:
      case Opcode::recompute:
        return forward;
      case Opcode::backward:
        return input_gradient + weight_gradient;
      case Opcode::input_gradient:
        return input_gradient;
      case Opcode::weight_gradient:
        return weight_gradient;
      default:
        return 0;
    }
  }
};

inline ComputeSeconds compute_seconds_of(const Program& program, const Costs& costs, StageId stage, Micro micro) {
  const StageCost& cost = costs.at(program, micro).stages[stage.index()];
  const Costs::ChunkParts part = program.sequence_chunks == 1
                                     ? Costs::ChunkParts{}
                                     : costs.parts_of(program, stage, program.sequence_chunk_of(micro));
  return {cost.forward.value * part.forward, cost.input_gradient.value * part.input_gradient,
          cost.weight_gradient.value * part.weight_gradient, cost.pair_share};
}

}  // namespace sluice
