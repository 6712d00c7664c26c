#include "harness/cli/assumptions.h"

#include <fmt/format.h>

#include "harness/base/visible_text.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/profile_workload.h"

namespace sluice {

namespace {

std::string collectives_of(const Cluster& cluster) {
  switch (cluster.all_reduce) {
    case AllReduce::apart:
      return "ring over all ranks of a stage, not slowed down by other traffic";
    case AllReduce::ring:
      return "ring over all ranks of a stage, on links that messages use too";
    case AllReduce::nodes:
      return "hierarchical by node, on links that messages use too";
  }
  return "";
}

std::string precision_of(const RunCase& c) {
  std::string text = choice_name(c.precision);
  if (c.attention != AttentionScores::fused) text += ", attention scores " + choice_name(c.attention);
  return text;
}

// The state in bytes per parameter, as the memory model counts it (sim/stage_memory.h).
std::string optimizer_of(const EvaluatedPlan& e) {
  const ModelGraph& model = e.p.workload->model;
  const OptimizerSpec& optimizer = e.c.optimizer;
  const Storage& s = e.p.storage;
  double elements = optimizer.state_tensors();  // per parameter
  if (!model.layers.empty()) {
    std::int64_t state = 0;
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) state += state_elements(optimizer, model, l);
    elements = static_cast<double>(state) / static_cast<double>(parameter_count(model));
  }
  std::string text = fmt::format("{}{}, {:.3g} bytes of state per parameter", choice_name(optimizer.kind),
                                 optimizer.kind == OptimizerKind::sgd && optimizer.momentum > 0 ? " with momentum" : "",
                                 elements * static_cast<double>(s.state.value));
  if (s.master.value > 0) text += fmt::format(" and {} of fp32 copies", s.master.value);
  return text + (is_calibrated(e.c.costs) ? ", in every peak and update" : ", in every peak");
}

}  // namespace

std::string costs_text(const EvaluatedPlan& e) {
  const RunCase& c = e.c;
  if (is_profile_workload(*e.p.workload)) return "published profile " + visible(c.workload);
  if (is_cost_file(c.costs)) return "measured profile, file " + visible(c.costs);
  if (is_calibrated(c.costs)) return visible(e.p.costs.source) + ": times of kernels by their shapes";
  if (c.costs == kMeasuredCosts) return "measured profile of this machine";
  return "analytic roofline of the cluster's first device";
}

Assumption overlap_of(Bytes gradient_buckets) {
  if (gradient_buckets.value == 0) return {"overlap", "gradients of replicas are all-reduced after the backward"};
  return {"overlap", fmt::format("gradients of replicas are all-reduced during the backward, in buckets of {:g} MB",
                                 static_cast<double>(gradient_buckets.value) / 1e6)};
}

std::vector<Assumption> assumptions_of(const EvaluatedPlan& e) {
  return {{"collectives", collectives_of(e.p.cluster)},
          {"precision", precision_of(e.c)},
          {"optimizer", optimizer_of(e)},
          {"costs", costs_text(e)}};
}

}  // namespace sluice
