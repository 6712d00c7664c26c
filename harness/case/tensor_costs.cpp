#include "harness/case/tensor_costs.h"

#include <algorithm>
#include <utility>

#include "harness/base/error.h"

namespace sluice {

Seconds sum_seconds(const Cluster& cluster, int degree, Bytes bytes) {
  double seconds_per_byte = 0;
  Seconds latency;
  Paths paths(cluster);
  for (int k = 0; k < degree; ++k) {
    Seconds own;
    for (const Hop& hop : paths.between(DeviceId(k), DeviceId((k + 1) % degree))) {
      const Link& link = hop.link;
      own += link.latency;
      seconds_per_byte = std::max(seconds_per_byte, 1 / link.bandwidth);
    }
    latency = std::max(latency, own);
  }
  const double steps = 2.0 * (degree - 1);
  return Seconds(steps * (latency.value + static_cast<double>(bytes.value) / degree * seconds_per_byte));
}

// Of a layer's F, I and W with their sums: what F of one micro-batch and B of another take where sums hide behind
// products (Pairs::overlap).
static double overlapped_share(const LayerCost& part, Seconds sums) {
  const Seconds backward = part.input_gradient + part.weight_gradient, all = part.forward + backward;
  return all.value > 0 ? std::max({all - sums, sums, part.forward, backward}).value / all.value : 1;
}

CostGraph member_costs(const CostGraph& whole, const TensorModel& model, const Cluster& cluster,
                       const CostFormula& formula) {
  if (static_cast<int>(cluster.devices.size()) < model.degree)
    throw InputError("tensor", std::to_string(model.degree) + " devices cannot share a layer on a cluster of " +
                                   std::to_string(cluster.devices.size()));
  const CostGraph whole_by_formula = formula(model.whole);
  CostGraph own = formula(model.member);
  own.source = whole.source;
  own.device = whole.device;
  own.machine = whole.machine;
  const auto scaled = [](Seconds measured, Seconds of_part, Seconds of_whole) {
    return of_whole.value > 0 ? Seconds(measured.value * of_part.value / of_whole.value) : measured;
  };
  const auto sums = [&](const std::vector<std::int64_t>& elements) {
    Seconds all;
    for (const std::int64_t n : elements)
      all += sum_seconds(cluster, model.degree, n * whole.micro_batch * whole.storage.activation);
    return all;
  };
  for (std::size_t l = 0; l < own.layers.size(); ++l) {
    LayerCost& part = own.layers[l];
    const LayerCost &measured = whole.layers[l], &by_formula = whole_by_formula.layers[l];
    if (!measured.variants.empty())
      throw InputError("tensor", "layer '" + part.name + "' has published variants, which say how it is shared",
                       "leave tensor out");
    const Seconds forward_sums = sums(model.layers[l].forward_sums);
    const Seconds input_gradient_sums = sums(model.layers[l].input_gradient_sums);
    part.forward = scaled(measured.forward, part.forward, by_formula.forward) + forward_sums;
    part.input_gradient =
        scaled(measured.input_gradient, part.input_gradient, by_formula.input_gradient) + input_gradient_sums;
    part.weight_gradient = scaled(measured.weight_gradient, part.weight_gradient, by_formula.weight_gradient);
    for (DeviceTime& time : part.on) {
      time.forward += forward_sums;
      time.input_gradient += input_gradient_sums;
    }
    part.update = scaled(measured.update, part.update, by_formula.update);
    part.fused = measured.fused;
    part.pair_share = measured.pair_share;
    if (cluster.pairs == Pairs::overlap) {
      if (measured.pair_share)
        throw InputError("tensor",
                         "layer '" + part.name + "' has a pair_share, and the cluster overlaps pairs by itself",
                         "leave pair_share or pairs=overlap out");
      part.pair_share = overlapped_share(part, forward_sums + input_gradient_sums);
    }
    if (model.layers[l].rule == LayerSplit::Rule::whole) part.measured = measured.measured;
  }
  return own;
}

CostGraph word_slice_costs(const CostGraph& whole, const TensorModel& words, const Cluster& cluster,
                           const CostFormula& formula) {
  const CostGraph member = member_costs(whole, words, cluster, formula);
  CostGraph all = formula(words.all);
  all.source = whole.source;
  all.device = whole.device;
  all.machine = whole.machine;
  for (std::size_t l = 0; l < all.layers.size(); ++l) {
    const int layer = words.parts[l].layer;
    if (layer < 0) continue;
    LayerCost own = member.layers[layer];
    own.name = all.layers[l].name;
    own.inputs = all.layers[l].inputs;
    all.layers[l] = std::move(own);
  }
  return all;
}

}  // namespace sluice
