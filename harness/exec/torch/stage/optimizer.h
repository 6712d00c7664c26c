// Optimizer: an update rule over flat tensors, and the direction of its last step for weight prediction. With the
// gradient g, the weights w and the learning rate r, in torch's order of weight decay, momentum and bias correction:
//
//   sgd      g += decay w; v = mu v + (1 - dampening) g;       w -= r v (no momentum: r g; Nesterov: r (g + mu v))
//   adam     g += decay w; m = b1 m + (1 - b1) g; s = b2 s + (1 - b2) g^2;
//            w -= r (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + epsilon)
//   adamw    as adam, but with w -= r decay w before the step instead of decay in g
//   nadam    as adam, but with b1_t = b1 (1 - 0.5 * 0.96^(t psi)) and P_t the product of b1_1 ... b1_t, of direction
//            b1_{t+1} m / (1 - P_{t+1}) + (1 - b1_t) g / (1 - P_t) instead of m / (1 - b1^t)
//   nadamw   as nadam, with AdamW's decay
//   rmsprop  g += decay w; s = alpha s + (1 - alpha) g^2;      w -= r g / (sqrt(s) + epsilon)
//   muon, rotated_adam: harness/exec/torch/stage/matrix_directions.h, with AdamW's decay
//
// Delta, what predictions multiply by the rate (WeightRule::Delta):
//   state                what the step subtracted over r, without AdamW's decay unless the rule includes it
//   state_plus_gradient  sgd with momentum: mu v + (1 - dampening) g (momentum_ema: (1 - mu) g), else as state
//   momentum_only        sgd with momentum: mu v, else as state
//   first_moment         v or m as it is; of optimizers that keep one: sgd with momentum, and the Adams but the rotated
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <optional>
#include <vector>

#include "harness/exec/torch/stage/matrix_directions.h"
#include "harness/pipeline/optimizer.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

class Optimizer {
 public:
  // parameters: those of the stage, for optimizers that treat matrices; others ignore them.
  Optimizer(const OptimizerSpec& spec, std::int64_t elements, const at::TensorOptions& options,
            const std::vector<FlatParameter>& parameters = {});

  // beta1 becomes b + rise (0.99 - b), where b is the initial value.
  void raise_beta1(double rise) { spec_.beta1 = beta1_ + rise * (0.99 - beta1_); }

  // From now on delta(kind) exists after each step. kind: state, state_plus_gradient, momentum_only or first_moment.
  // decay_in_delta: AdamW's decoupled weight decay is part of state.
  void track(WeightRule::Delta kind, bool decay_in_delta = false);
  // `to` may be `from` (in place).
  void step(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double learning_rate);
  // The direction of the last step, as above. Undefined before the first step.
  const at::Tensor& delta(WeightRule::Delta kind) const;
  std::int64_t steps() const { return steps_; }

  // All state for a checkpoint except steps().
  std::vector<at::Tensor> state() const;
  void set_steps(std::int64_t steps);
  // The decoupled weight decay of a step, in place; nothing if decay is part of the gradient.
  void decay(at::Tensor& weights, double learning_rate) const;

 private:
  bool has_momentum() const { return spec_.kind == OptimizerSpec::Kind::sgd && spec_.momentum > 0; }
  // The kinds differ only with a momentum buffer.
  WeightRule::Delta effective(WeightRule::Delta kind) const;
  at::Tensor& kept(WeightRule::Delta kind) { return deltas_[static_cast<std::size_t>(kind)]; }
  void sgd(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate);
  void adaptive(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate);
  void by_matrix(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate);
  bool decays_apart() const;                 // decoupled decay
  double momentum_of(std::int64_t t) const;  // b1_t of nadam

  OptimizerSpec spec_;
  const double beta1_ = spec_.beta1;
  at::TensorOptions options_;
  std::int64_t elements_, steps_ = 0;
  bool decay_in_delta_ = false;
  double momentum_product_ = 1;                 // P_t of nadam
  std::optional<MatrixDirections> directions_;  // muon, rotated_adam
  at::Tensor first_, second_;                   // momentum or first moment; second moment
  std::array<at::Tensor, 3> deltas_;            // by Delta; defined where tracked and not first_ itself
};

}  // namespace sluice
