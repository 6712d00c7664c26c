// Expands a plan for tensor-parallel groups to all devices. A plan for groups treats each group as one device. Group g
// becomes the devices g degree ... g degree + degree - 1, and every stage, layer, rank and device x of the groups' plan
// becomes the `degree` ones from x degree on. A stage of member k feeds only stages of member k: with the layers of
// TensorModel::all the members' pipelines run in parallel, and they exchange sums only inside their ops.
#pragma once

#include <vector>

#include "harness/pipeline/plan.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

// Throws InputError for a plan whose stages take several micro-batches at once, or have parts on other devices than
// their own.
Plan members_of(const Plan& groups, int degree);
Schedule members_of(const Schedule& groups, int degree);
WeightRule members_of(WeightRule groups, int degree);  // of a system with a flush
CostGraph members_of(const CostGraph& member, int degree);
// The values of every group's ranks, from one value per group.
template <class Value>
std::vector<Value> members_of(const std::vector<Value>& groups, int degree) {
  std::vector<Value> result;
  for (const Value& value : groups) result.insert(result.end(), static_cast<std::size_t>(degree), value);
  return result;
}

// A members' plan in the form of its groups: stages with all their devices and the degree (PlanStage::tensor).
Plan shared_plan(const Plan& members, int degree);

// The plan for groups of a plan in which each replica of a stage has `degree` neighbouring devices (PlanStage::tensor).
// Throws InputError if stages have other degrees, or a replica's devices are no such group.
Plan groups_of(const Plan& plan, int degree);

}  // namespace sluice
