// One update rule over flat tensors, and the direction of its last step for weight prediction.
// Formulas: specs/async_systems.md section 4; torch's conventions for the order of weight decay,
// momentum and bias correction.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <vector>

#include "harness/exec/session.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, std::int64_t elements, const at::TensorOptions& options);

  // From now on delta(kind) is there after each step. state, state_plus_gradient, momentum_only.
  // decay_in_delta: AdamW's decoupled weight decay counts as part of it.
  void track(WeightRule::Delta kind, bool decay_in_delta = false);
  // `to` may be `from` (in place).
  void step(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double learning_rate);
  // What the last step subtracted over the learning rate, without decoupled weight decay; or a
  // released code's form of it. Meaningless before the first step.
  const at::Tensor& delta(WeightRule::Delta kind) const;
  std::int64_t steps() const { return steps_; }

  // Everything a checkpoint must hold besides steps().
  std::vector<at::Tensor> state() const;
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  bool has_momentum() const { return spec_.kind == OptimizerSpec::Kind::sgd && spec_.momentum > 0; }
  // The released codes differ from the plain form with a momentum buffer only.
  WeightRule::Delta effective(WeightRule::Delta kind) const;
  at::Tensor& kept(WeightRule::Delta kind) { return deltas_[static_cast<std::size_t>(kind)]; }
  void sgd(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate);
  void adaptive(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate);

  OptimizerSpec spec_;
  at::TensorOptions options_;
  std::int64_t elements_, steps_ = 0;
  bool decay_in_delta_ = false;
  at::Tensor first_, second_;         // momentum or first moment; second moment
  std::array<at::Tensor, 3> deltas_;  // by Delta; defined where tracked and not first_ itself
};

}  // namespace sluice
