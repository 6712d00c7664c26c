#include "harness/case/precision_rules.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/profile_workload.h"

namespace sluice {

Storage storage_of(const RunCase& c) { return {c.precision, c.attention}; }

bool counted_only(const RunCase& c) { return c.precision != Precision::fp32 || c.attention != AttentionScores::fused; }

std::string counted_in(const RunCase& c) {
  std::string text;
  if (c.precision != Precision::fp32) text = choice_name(c.precision);
  if (c.attention != AttentionScores::fused)
    text += (text.empty() ? "scores " : ", scores ") + choice_name(c.attention);
  return text.empty() ? "" : " (" + text + ")";
}

// Of a file of costs, only weights, gradients and the optimizer's state are counted in another precision.
static void check_precision_of_file(const RunCase& c, const std::string& where) {
  if (c.costs == "raw")
    throw InputError(where, "raw costs are the file's numbers, whatever they are of", "leave one of the two out");
  const CostGraph& costs = profile_workload(c.workload, c.costs)->costs;
  const bool has_variants =
      std::ranges::any_of(costs.layers, [](const LayerCost& layer) { return !layer.variants.empty(); });
  if (has_variants)
    throw InputError(where, "'" + c.workload + "' says itself what its layers' variants keep in memory",
                     "leave it out");
}

// runs: what the executor does instead.
static void require_counting(const RunCase& c, const Workload& workload, const std::string& where,
                             const std::string& runs) {
  if (c.clock == Clock::wall || is_this_machine(c))
    throw InputError(where, "the executor computes " + runs,
                     "use the virtual clock with a described cluster, or leave it out");
  if (workload.model.layers.empty())
    throw InputError(where, "'" + c.workload + "' is a file of costs, whose bytes and seconds are what they are",
                     "leave it out");
  const bool calibrated_in_16_bit = is_calibrated(c.costs) && storage_of(c).is_16_bit();
  if (c.costs != kAnalyticCosts && !calibrated_in_16_bit)
    throw InputError(where, "'" + c.costs + "' costs are of layers that compute " + runs,
                     "use analytic costs, or calibrated ones in 16 bit");
}

void check_precision(const RunCase& c, const Workload& workload, const std::string& where) {
  if (c.precision == Precision::fp32) return;
  if (is_profile_workload(workload))
    check_precision_of_file(c, where);
  else
    require_counting(c, workload, where, "in fp32");
}

void check_attention(const RunCase& c, const Workload& workload, const std::string& where) {
  if (c.attention == AttentionScores::fused) return;
  require_counting(c, workload, where, "attention whose backward makes the scores again");
  const bool attends = std::ranges::any_of(workload.model.layers, [](const LayerSpec& layer) {
    return std::holds_alternative<Attention>(layer.kind) || std::holds_alternative<CrossAttention>(layer.kind) ||
           std::holds_alternative<RelativeAttention>(layer.kind);
  });
  if (!attends) throw InputError(where, "'" + c.workload + "' has no layer of attention", "leave it out");
}

void reject_scores_of_chunks() {
  throw InputError("attention", "the scores of sequences that are cut into chunks cannot be kept",
                   "use fused, or a system that leaves sequences whole");
}

}  // namespace sluice
