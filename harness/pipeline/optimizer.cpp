#include "harness/pipeline/optimizer.h"

#include <algorithm>
#include <variant>

#include "harness/base/json_fields.h"

namespace sluice {

int OptimizerSpec::state_tensors() const {
  switch (kind) {
    case OptimizerKind::sgd:
      return momentum > 0 ? 1 : 0;
    case OptimizerKind::rmsprop:
    case OptimizerKind::muon:
      return 1;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::nadam:
    case OptimizerKind::nadamw:
      return 2;
    case OptimizerKind::rotated_adam: {
      const int a_side = source == RotationSource::second ? 2 : 1;
      return 2 + a_side * (sides == RotationSides::both ? 2 : 1);
    }
  }
  return 0;
}

// The first and the last layer that has weights, its own or those of the layer that it is tied to.
static std::pair<int, int> ends_of(const ModelGraph& model) {
  int first = -1, last = -1;
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    if (parameter_count(model.layers[l]) == 0 && model.layers[l].tied_to < 0) continue;
    if (first < 0) first = l;
    last = l;
  }
  return {first, last};
}

bool is_matrix(const OptimizerSpec& optimizer, const ModelGraph& model, int layer, const ParameterSpec& parameter) {
  if (!optimizer.treats_matrices() || parameter.shape.size() != 2) return false;
  // A copy is treated as the weight that it is of, so that both get the same update.
  if (const int owner = model.layers[layer].copy_of; owner >= 0) return is_matrix(optimizer, model, owner, parameter);
  if (std::holds_alternative<Embedding>(model.layers[layer].kind)) return false;
  if (optimizer.matrices == MatrixParameters::all) return true;
  const auto [first, last] = ends_of(model);
  return layer != first && layer != last;
}

std::int64_t state_elements(const OptimizerSpec& optimizer, const ModelGraph& model, int layer) {
  const LayerSpec& spec = model.layers[layer];
  if (spec.frozen) return 0;
  if (!optimizer.treats_matrices()) return optimizer.state_tensors() * parameter_count(spec);
  std::int64_t elements_of_state = 0;
  for (const ParameterSpec& p : parameters(spec)) {
    const std::int64_t n = elements(p.shape);
    if (!is_matrix(optimizer, model, layer, p)) {
      elements_of_state += 2 * n;
    } else if (optimizer.kind == OptimizerKind::muon) {
      elements_of_state += n;
    } else {
      const std::int64_t rows = p.shape[0], columns = p.shape[1];
      const std::int64_t a_side = optimizer.source == RotationSource::second ? 2 : 1;
      const std::int64_t left = rows * rows, right = columns * columns;
      elements_of_state +=
          2 * n + a_side * (optimizer.sides == RotationSides::both ? left + right : std::min(left, right));
    }
  }
  return elements_of_state;
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
  const bool averages =
      uses_delta(rule, stage, Delta::weight_moving_average) || uses_delta(rule, stage, Delta::update_moving_average);
  int n = averages ? 1 : 0;
  if (rule.error_feedback != WeightRule::ErrorFeedback::none) ++n;  // the update before
  if (momentum) {
    if (state && optimizer.nesterov) ++n;
    n += (plus ? 1 : 0) + (only ? 1 : 0);
  } else if (state || plus || only) {
    ++n;  // without a momentum buffer the forms of the released programs are all the last step
  }
  return n;
}

Json to_json(const OptimizerSpec& optimizer) { return write_fields(optimizer); }

}  // namespace sluice
