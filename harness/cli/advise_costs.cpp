#include "harness/cli/advise_costs.h"

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/visible_text.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/precision_rules.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/cli/assumptions.h"
#include "results/model_error.h"

namespace sluice {

namespace {

// Any system of several ranks reads the values alike.
RunCase resolve_for_pipeline(Entry entry) {
  entry.values["system"] = "gpipe";
  return resolve(entry);
}

bool can_be_resolved(const Entry& entry) {
  try {
    resolve_for_pipeline(entry);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

AdviceCosts with_default_costs(const Entry& entry) {
  AdviceCosts chosen{.entry = entry};
  Json& values = chosen.entry.values;
  const bool precision_given = values.contains("precision"), costs_given = values.contains("costs");
  const std::string costs = values.value("costs", kAnalyticCosts);
  const Workload& workload = find_workload_or_profile(values.value("workload", ""), costs, "--workload");
  if (is_profile_workload(workload)) {
    if (costs_given && costs != "raw")
      fmt::print(stderr, "note: --costs has no effect: '{}' is a file of costs\n", visible(workload.name));
    return chosen;
  }
  if (!precision_given && !workload.runs_for_real) {
    Entry mixed = chosen.entry;
    mixed.values["precision"] = choice_name(Precision::mixed);
    chosen.default_precision = can_be_resolved(mixed);
    if (chosen.default_precision) chosen.entry = mixed;
  }
  if (costs_given) return chosen;
  Entry calibrated = chosen.entry;
  calibrated.values["costs"] = "calibrated";
  try {
    resolve_for_pipeline(calibrated);
    chosen.entry = calibrated;
  } catch (const InputError&) {
    const RunCase c = resolve_for_pipeline(chosen.entry);  // throws where something else is wrong
    chosen.why_analytic = "since not every device of '" + c.cluster + "' has a calibration in " +
                          (storage_of(c).is_16_bit() ? "16 bit" : "fp32");
  }
  return chosen;
}

std::vector<std::string> cost_lines(const AdviceCosts& costs, const EvaluatedPlan& plan) {
  const RunCase& c = plan.c;
  std::string first = "costs: ";
  if (is_profile_workload(*plan.p.workload) || !(c.costs == kAnalyticCosts || is_calibrated(c.costs)))
    return {first + costs_text(plan)};
  first += visible(plan.p.costs.source) + (costs.why_analytic.empty() ? "" : ", " + visible(costs.why_analytic)) +
           "; precision: " + choice_name(c.precision) +
           (costs.default_precision ? " (the default for full-size models)" : "");
  if (!is_calibrated(c.costs)) return {first, "  analytic: fixed shares of the devices' peaks, not measured"};
  std::vector<std::string> lines = {first};
  for (const Calibration* calibration : calibrations_of(plan.p.cluster, plan.p.storage))
    lines.push_back("  " + calibration->name + ": " + calibration->evidence);
  if (plan.p.storage.is_16_bit()) lines.push_back("  error: " + published_error_text());
  return lines;
}

Json cost_document(const AdviceCosts& costs, const EvaluatedPlan& plan) {
  Json document = {{"source", plan.p.costs.source},
                   {"precision", choice_name(plan.c.precision)},
                   {"default_precision", costs.default_precision},
                   {"evidence", Json::object()},
                   {"error", nullptr}};
  if (!is_calibrated(plan.c.costs)) return document;
  for (const Calibration* calibration : calibrations_of(plan.p.cluster, plan.p.storage))
    document["evidence"][calibration->name] = calibration->evidence;
  if (plan.p.storage.is_16_bit()) document["error"] = published_error_text();
  return document;
}

}  // namespace sluice
