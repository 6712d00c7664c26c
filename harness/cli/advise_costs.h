// The defaults of precision and costs of `sluice advise`, and the lines that it prints about them.
#pragma once

#include <string>
#include <vector>

#include "harness/case/entry.h"
#include "harness/cli/evaluated_plan.h"

namespace sluice {

// The entry with defaults for "precision" and "costs". Workloads that train on this machine keep fp32. Full-size ones
// (Workload::runs_for_real is false) use mixed precision if every device of the cluster states a 16-bit peak. Costs are
// calibrated if every device has a calibration for that precision. Given settings stay unchanged.
struct AdviceCosts {
  Entry entry;
  bool default_precision = false;  // "precision" was not given
  std::string why_analytic;        // why the default is not calibrated; "": it is, or costs were given
};
AdviceCosts with_default_costs(const Entry& entry);

// The lines above the tables: the costs and their precision, the source of their measurements, and the error of such
// costs. plan: the winner's.
std::vector<std::string> cost_lines(const AdviceCosts& costs, const EvaluatedPlan& plan);
// The same for --json.
Json cost_document(const AdviceCosts& costs, const EvaluatedPlan& plan);

}  // namespace sluice
