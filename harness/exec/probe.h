// Probe: the timed actions of a rank, layer by layer, for the profile. A run without one reads no clock between layers.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

// One action of a rank.
struct ProbeSample {
  enum class Kind : std::uint8_t {
    op,               // a whole compute instruction, including its layers, loads and the rest
    forward,          // of a layer
    input_gradient,   // of a layer
    weight_gradient,  // of a layer, of `microbatches` micro-batches
    load,             // of the data that an op reads
    step,             // an optimizer step
    clear,            // the zeroing of a stage's gradients
    take,             // making a message
    put               // receiving a message
  };
  Kind kind = Kind::op;
  Opcode opcode = Opcode::forward;  // the instruction's
  StageId stage{-1};
  int layer = -1;             // index into the model's layers
  int microbatches = 1;       // micro-batches of a weight gradient
  double start = 0, end = 0;  // seconds, on a clock that all ranks of a machine share
  std::int64_t bytes = 0;     // of a message
  // Counted allocations above those at the start: the peak, and those at the end.
  std::int64_t peak = 0, left = 0;
};

class Probe {
 public:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void add(const ProbeSample& sample) { samples_.push_back(sample); }
  const std::vector<ProbeSample>& samples() const { return samples_; }
  void clear() { samples_.clear(); }

 private:
  std::vector<ProbeSample> samples_;
};

}  // namespace sluice
