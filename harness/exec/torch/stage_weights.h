// The weights of one stage on one rank: flat tensors (one a version) with a view a parameter, the
// gradient accumulator, and the optimizer. A step writes the next version: in place when nobody
// will read the old one again, into another buffer when somebody will. No version is ever copied:
// keeping the old one means not overwriting it.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "harness/core/layer_spec.h"
#include "harness/exec/session.h"
#include "harness/exec/torch/memory_counter.h"

namespace sluice {

// One update rule over flat tensors. `to` may be `from` (in place). Formulas:
// specs/async_systems.md; torch's conventions for the order of weight decay, momentum and bias
// correction.
class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, std::int64_t elements, const at::TensorOptions& options);
  void step(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient,
            double learning_rate);

 private:
  OptimizerSpec spec_;
  std::int64_t steps_ = 0;
  at::Tensor first_, second_;  // momentum or first moment; second moment
};

class StageWeights {
 public:
  StageWeights(const std::vector<ParameterSpec>& parameters, std::span<const at::Tensor> initial,
               const OptimizerSpec& optimizer, const at::TensorOptions& options,
               MemoryCounters* counters);

  // Starts an iteration of a program: the newest version becomes version 0, and version v will be
  // read uses[v] times.
  void begin(std::span<const int> uses);
  std::span<const at::Tensor> version(std::int32_t number);  // throws logic_error if it is gone
  void used(std::int32_t number);                            // one read of it is over
  std::span<const at::Tensor> newest() const { return versions_.back().views; }
  const at::Tensor& newest_flat() const { return versions_.back().flat; }

  // Views of the accumulator; the first call after a step clears it.
  std::span<const at::Tensor> gradients();
  const at::Tensor& gradients_flat();
  void step(double learning_rate);

 private:
  struct Version {
    std::int32_t number = 0;
    int uses = 0;
    at::Tensor flat;
    std::vector<at::Tensor> views;
  };
  Version make_version() const;
  std::vector<at::Tensor> views_of(const at::Tensor& flat) const;

  const std::vector<ParameterSpec> parameters_;
  at::TensorOptions options_;
  MemoryCounters* counters_;
  std::vector<Version> versions_;  // ascending; the newest is last
  std::vector<Version> spare_;     // buffers of versions nobody reads any more
  std::vector<int> uses_;
  at::Tensor gradient_;
  std::vector<at::Tensor> gradient_views_;
  bool clear_gradient_ = true;
  Optimizer optimizer_;
};

}  // namespace sluice
