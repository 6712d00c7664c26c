// Probe: what a rank did and when, layer by layer, for the profile. A run without one reads no clock between layers.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

// One thing that a rank did.
struct ProbeSample {
  enum class Kind : std::uint8_t {
    op,               // a whole compute instruction; the layers, loads and the rest of it lie within
    forward,          // of a layer
    input_gradient,   // of a layer
    weight_gradient,  // of a layer, of `microbatches` micro-batches
    load,             // of the data that an op reads
    step,             // an optimizer step
    clear,            // the zeroing of a stage's gradients
    take,             // a message made
    put               // a message taken in
  };
  Kind kind = Kind::op;
  Opcode opcode = Opcode::forward;  // the instruction's
  StageId stage{-1};
  int layer = -1;             // index into the model's layers
  int microbatches = 1;       // micro-batches that a weight gradient is of
  double start = 0, end = 0;  // seconds, on a clock that all ranks of a machine share
  std::int64_t bytes = 0;     // of a message
  // Counted allocations: the most, and what there is at the end, both above what there was at the start.
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
