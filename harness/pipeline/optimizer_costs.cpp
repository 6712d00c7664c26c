#include "harness/pipeline/optimizer_costs.h"

#include <algorithm>

#include "harness/model/kernel_times.h"

namespace sluice {

namespace {

// matrix_directions.h: y = a y + (b y y' + c (y y')^2) y, with y of m rows, m <= n.
Seconds newton_schulz_seconds(const Calibration& c, double m, double n) {
  constexpr int kSteps = 5;
  const auto product = [&](double rows, double columns, double reduction) {
    return product_seconds(c, {1, rows, columns, reduction});
  };
  return (product(m, m, n) + product(m, m, m) + product(m, n, m)) * kSteps;
}

// The gradient and the first moment are rotated, the step is rotated back.
Seconds rotation_seconds(const Calibration& c, const OptimizerSpec& optimizer, double rows, double columns) {
  const bool both = optimizer.sides == RotationSides::both, left = both || rows < columns, right = both || !left;
  const auto of_side = [&](double side, double other) {
    const Seconds average =
        optimizer.source == RotationSource::second ? product_seconds(c, {1, side, side, other}) : Seconds(0);
    return average + product_seconds(c, {1, side, other, side}) * 3;
  };
  return (left ? of_side(rows, columns) : Seconds(0)) + (right ? of_side(columns, rows) : Seconds(0));
}

Seconds matrix_seconds(const Calibration& c, const OptimizerSpec& optimizer, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  return optimizer.kind == OptimizerKind::muon
             ? newton_schulz_seconds(c, std::min(rows, columns), std::max(rows, columns))
             : rotation_seconds(c, optimizer, rows, columns);
}

}  // namespace

void add_optimizer_state(CostGraph& graph, const ModelGraph& model, const OptimizerSpec& optimizer,
                         const Calibration& calibration) {
  const double rate = calibration.memory_bandwidth * calibration.stream_share;
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    const LayerSpec& layer = model.layers[l];
    if (layer.frozen) continue;
    const std::int64_t state = state_elements(optimizer, model, l) * graph.storage.state.value;
    Seconds& update = graph.layers[l].update;
    update += Seconds(2 * static_cast<double>(state) / rate);
    for (const ParameterSpec& parameter : parameters(layer))
      if (is_matrix(optimizer, model, l, parameter)) update += matrix_seconds(calibration, optimizer, parameter.shape);
  }
}

}  // namespace sluice
