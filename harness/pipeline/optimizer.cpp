#include "harness/pipeline/optimizer.h"

namespace sluice {

int OptimizerSpec::state_tensors() const {
  switch (kind) {
    case OptimizerKind::sgd:
      return momentum > 0 ? 1 : 0;
    case OptimizerKind::rmsprop:
      return 1;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return 2;
  }
  return 0;
}

bool uses_delta(const WeightRule& rule, StageId stage, WeightRule::Delta delta) {
  const auto uses = [&](const std::vector<int>& horizon, WeightRule::Delta kind) {
    return kind == delta && !horizon.empty() && horizon[stage.index()] != 0;
  };
  return uses(rule.forward_horizon, rule.forward_delta) || uses(rule.backward_horizon, rule.backward_delta);
}

int delta_tensors(const OptimizerSpec& optimizer, const WeightRule& rule, StageId stage) {
  using Delta = WeightRule::Delta;
  const bool momentum = optimizer.kind == OptimizerKind::sgd && optimizer.momentum > 0;
  const bool state = uses_delta(rule, stage, Delta::state);
  const bool plus = uses_delta(rule, stage, Delta::state_plus_gradient);
  const bool only = uses_delta(rule, stage, Delta::momentum_only);
  int n = uses_delta(rule, stage, Delta::weight_moving_average) ? 1 : 0;
  if (momentum) {
    if (state && optimizer.nesterov) ++n;
    n += (plus ? 1 : 0) + (only ? 1 : 0);
  } else if (state || plus || only) {
    ++n;  // without a momentum buffer the forms of the released programs are all the last step
  }
  return n;
}

}  // namespace sluice
