// The weights of one stage on one rank: flat tensors (one a version) with a view a parameter, the
// gradient accumulator, and the optimizer. A step writes the next version: in place when nobody
// will read the old one again, into another buffer when somebody will. No version is ever copied:
// keeping the old one means not overwriting it. A prediction is a tensor of its own, made in one
// fused pass; it is no pointer switch because its values exist nowhere else.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <span>
#include <vector>

#include "harness/core/layer_spec.h"
#include "harness/core/program.h"
#include "harness/exec/session.h"
#include "harness/exec/torch/memory_counter.h"
#include "harness/exec/torch/optimizer.h"

namespace sluice {

class StageWeights {
 public:
  StageWeights(const std::vector<ParameterSpec>& parameters, std::span<const at::Tensor> initial,
               const OptimizerSpec& optimizer, const at::TensorOptions& options,
               MemoryCounters* counters);

  // How the program uses them; once before the first begin(). Adds what prediction keeps.
  void follow(const WeightRule& rule, StageId stage);
  // How often a program reads each version (counted from its start) and each predicted tensor.
  // Versions that the next run still reads count as read once more.
  struct Uses {
    std::map<std::int32_t, int> versions;
    std::vector<int> predictions;
  };
  // Starts an iteration of a program: the newest version becomes version 0.
  void begin(const Uses& uses);
  // What a compute instruction reads; a prediction is made on first use. Throws logic_error if it
  // is gone. learning_rate: the current one, for predictions.
  std::span<const at::Tensor> read(const Instruction& op, double learning_rate);
  void used(const Instruction& op);  // the read is over
  std::span<const at::Tensor> newest() const { return versions_.back().views; }
  const at::Tensor& newest_flat() const { return versions_.back().flat; }

  // Views of the accumulator; the first call after a step clears it.
  std::span<const at::Tensor> gradients();
  const at::Tensor& gradients_flat();
  // gradient_scale multiplies the gradient first.
  void step(double learning_rate, double gradient_scale = 1);

  // Checkpoints: every tensor that outlives a run (old versions that the next run reads included),
  // in a fixed order, and the numbers that go with them.
  struct State {
    std::vector<at::Tensor> tensors;
    std::vector<std::int64_t> numbers;
  };
  State state() const;
  void restore(const State& state);  // throws logic_error if it is not of these weights and rule

 private:
  struct Version {
    std::int32_t number = 0;
    int uses = 0;
    at::Tensor flat;
    std::vector<at::Tensor> views;
  };
  Version make_version() const;
  Version take_buffer(MemoryKind kind);  // from those nobody reads any more, or a new one
  std::vector<at::Tensor> views_of(const at::Tensor& flat) const;
  std::int32_t absolute(std::int32_t version) const;
  std::span<const at::Tensor> predicted(const Instruction& op, double learning_rate);
  void release(Version& version);

  const std::vector<ParameterSpec> parameters_;
  at::TensorOptions options_;
  MemoryCounters* counters_;
  std::vector<Version> versions_;     // ascending, numbered over the session; the newest is last
  std::vector<Version> predictions_;  // by id of the program; no tensor: not made, or gone
  std::vector<Version> spare_;        // buffers nobody reads any more
  std::int32_t base_ = 0;             // the version the program calls 0
  std::map<std::int32_t, int> uses_;  // by number over the session
  at::Tensor gradient_;
  std::vector<at::Tensor> gradient_views_;
  bool clear_gradient_ = true;
  Optimizer optimizer_;
  WeightRule rule_;
  StageId stage_;
  at::Tensor moving_average_;  // of W_new - W_old; PipeMare only
};

}  // namespace sluice
