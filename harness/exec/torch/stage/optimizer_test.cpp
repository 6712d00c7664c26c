#include "harness/exec/torch/stage/optimizer.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Delta = WeightRule::Delta;

// mu = 1/2, dampening = 1/4. The released program of PipeOptim (optimizer.py, sgd_load_predicted_weights) predicts with
// mu v + (1 - dampening) g, where v holds g already. Gradients 1, 2:
//   v = 1;                        direction 1/2 x 1 + 3/4 x 1 = 1.25
//   v = 1/2 x 1 + 3/4 x 2 = 2;    direction 1/2 x 2 + 3/4 x 2 = 2.5
TEST(OptimizerDelta, TheCodesDirectionCountsTheDampenedLastGradientTwice) {
  const OptimizerSpec spec{.kind = OptimizerSpec::Kind::sgd, .momentum = 0.5, .dampening = 0.25};
  Optimizer optimizer(spec, 1, at::kDouble);
  optimizer.track(Delta::state);
  optimizer.track(Delta::state_plus_gradient);
  at::Tensor weights = at::tensor({10.0}, at::kDouble);
  optimizer.step(weights, weights, at::tensor({1.0}, at::kDouble), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::state).item<double>(), 1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::state_plus_gradient).item<double>(), 1.25);
  optimizer.step(weights, weights, at::tensor({2.0}, at::kDouble), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::state).item<double>(), 2);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::state_plus_gradient).item<double>(), 2.5);
  EXPECT_DOUBLE_EQ(weights.item<double>(), 9.7);
}

// As above without dampening and with decay 1: g' = g + w goes into v, the gradient that is added again has no decay.
// w = 2, g = 1: v = 3; direction 1/2 x 3 + 1.
TEST(OptimizerDelta, TheGradientThatTheCodeAddsAgainIsWithoutWeightDecay) {
  const OptimizerSpec spec{.kind = OptimizerSpec::Kind::sgd, .momentum = 0.5, .weight_decay = 1};
  Optimizer optimizer(spec, 1, at::kDouble);
  optimizer.track(Delta::state_plus_gradient);
  at::Tensor weights = at::tensor({2.0}, at::kDouble);
  optimizer.step(weights, weights, at::tensor({1.0}, at::kDouble), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::state_plus_gradient).item<double>(), 2.5);
}

// b1 = 1/2, no bias correction: gradients 1, 2 give m = 1/2, then 1/4 + 1. The step itself is sign-like.
TEST(OptimizerDelta, TheSmoothedGradientOfAdamIsItsFirstMoment) {
  const OptimizerSpec spec{.kind = OptimizerSpec::Kind::adam, .beta1 = 0.5, .beta2 = 0.5, .epsilon = 0};
  Optimizer optimizer(spec, 1, at::kDouble);
  optimizer.track(Delta::first_moment);
  at::Tensor weights = at::tensor({10.0}, at::kDouble);
  optimizer.step(weights, weights, at::tensor({1.0}, at::kDouble), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::first_moment).item<double>(), 0.5);
  EXPECT_DOUBLE_EQ(weights.item<double>(), 9.9);
  optimizer.step(weights, weights, at::tensor({2.0}, at::kDouble), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::first_moment).item<double>(), 1.25);
}

// Of SGD with momentum it is the buffer, also under Nesterov's step.
TEST(OptimizerDelta, TheSmoothedGradientOfSgdIsItsBuffer) {
  const OptimizerSpec spec{.kind = OptimizerSpec::Kind::sgd, .momentum = 0.5, .nesterov = true};
  Optimizer optimizer(spec, 1, at::kDouble);
  optimizer.track(Delta::first_moment);
  at::Tensor weights = at::tensor({10.0}, at::kDouble);
  optimizer.step(weights, weights, at::tensor({1.0}, at::kDouble), 0.1);
  optimizer.step(weights, weights, at::tensor({2.0}, at::kDouble), 0.1);
  EXPECT_DOUBLE_EQ(optimizer.delta(Delta::first_moment).item<double>(), 2.5);
}

}  // namespace
}  // namespace sluice
