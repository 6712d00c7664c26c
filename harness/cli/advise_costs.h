// Which precision and costs `sluice advise` takes where its command line says neither, and what it says of them.
#pragma once

#include <string>
#include <vector>

#include "harness/case/entry.h"
#include "harness/cli/evaluated_plan.h"

namespace sluice {

// The entry with what it leaves out of "precision" and "costs". Workloads that train on this machine keep fp32 and,
// in fp32, analytic costs. Full-size ones (Workload::runs_for_real is false) are trained in mixed precision where every
// device of the cluster states a peak in 16 bit. Costs are calibrated in 16 bit, and for full-size workloads in fp32
// too, where every device has a calibration for that precision. What the entry says stays as it is.
struct AdviceCosts {
  Entry entry;
  bool default_precision = false;  // "precision" was left out
  std::string why_analytic;        // why the default is not calibrated; "": it is, or was not tried
};
AdviceCosts with_default_costs(const Entry& entry);

// The lines above the tables: the costs and their precision, whom measurements are from, and how far such costs were
// off. plan: the winner's.
std::vector<std::string> cost_lines(const AdviceCosts& costs, const EvaluatedPlan& plan);
// The same for --json.
Json cost_document(const AdviceCosts& costs, const EvaluatedPlan& plan);

}  // namespace sluice
