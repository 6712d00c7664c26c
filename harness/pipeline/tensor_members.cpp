#include "harness/pipeline/tensor_members.h"

#include <utility>

#include "harness/base/error.h"

namespace sluice {

static void reject_other_parallelism(const PlanStage& stage) {
  const std::string remedy = "leave tensor out";
  if (stage.microbatches_per_op != 1)
    throw InputError("tensor", "a stage of the plan takes several micro-batches at once", remedy);
  if (stage.weight_gradient_device || stage.passed_channels > 0)
    throw InputError("tensor", "the plan divides a layer's gradients by itself", remedy);
}

Plan members_of(const Plan& groups, int degree) {
  if (degree == 1) return groups;
  const auto all = [&](int group) {
    std::vector<int> members;
    for (int k = 0; k < degree; ++k) members.push_back(group * degree + k);
    return members;
  };
  Plan plan = groups;
  plan.stages.clear();
  plan.imposed_edges.clear();
  plan.rank_order.clear();
  for (const PlanStage& stage : groups.stages) {
    reject_other_parallelism(stage);
    for (int k = 0; k < degree; ++k) {
      PlanStage& own = plan.stages.emplace_back(stage);
      own.tensor = 1;
      for (int& layer : own.layers) layer = layer * degree + k;
      for (DeviceId& device : own.devices) device = DeviceId(device.value * degree + k);
    }
  }
  // In the order of the groups' ranks, so that the members of a group are neighbours.
  for (const DeviceId device : ranks_of(groups).devices)
    for (const int member : all(device.value)) plan.rank_order.emplace_back(member);
  for (const auto& [from, to] : groups.imposed_edges)
    for (int k = 0; k < degree; ++k) plan.imposed_edges.emplace_back(from.value * degree + k, to.value * degree + k);
  return plan;
}

Schedule members_of(const Schedule& groups, int degree) {
  Schedule schedule = groups;
  schedule.ranks.clear();
  for (const std::vector<Op>& ops : groups.ranks)
    for (int k = 0; k < degree; ++k)
      for (Op& op : schedule.ranks.emplace_back(ops)) op.stage = StageId(op.stage.value * degree + k);
  return schedule;
}

WeightRule members_of(WeightRule groups, int degree) {
  std::vector<bool> recomputing;
  for (const bool recomputes : groups.recomputing)
    recomputing.insert(recomputing.end(), static_cast<std::size_t>(degree), recomputes);
  groups.recomputing = std::move(recomputing);
  return groups;
}

CostGraph members_of(const CostGraph& member, int degree) {
  CostGraph all = member;
  all.layers.clear();
  all.larger.clear();
  for (const LayerCost& layer : member.layers)
    for (int k = 0; k < degree; ++k) {
      LayerCost& own = all.layers.emplace_back(layer);
      own.name += "/" + std::to_string(k);
      for (int& input : own.inputs)
        if (input >= 0) input = input * degree + k;
      own.variants.clear();
    }
  return all;
}

Plan shared_plan(const Plan& members, int degree) {
  if (degree == 1) return members;
  Plan plan = members;
  plan.stages.clear();
  for (std::size_t s = 0; s < members.stages.size(); s += static_cast<std::size_t>(degree)) {
    PlanStage& shared = plan.stages.emplace_back(members.stages[s]);
    shared.tensor = degree;
    for (int& layer : shared.layers) layer /= degree;
    shared.devices.clear();
    for (const DeviceId device : members.stages[s].devices)
      for (int k = 0; k < degree; ++k) shared.devices.emplace_back(device.value + k);
  }
  return plan;
}

Plan groups_of(const Plan& plan, int degree) {
  Plan groups = plan;
  const std::string remedy = "use the virtual clock, or tensor_parallel=no";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<DeviceId> devices = std::exchange(groups.stages[s].devices, {});
    if (plan.stages[s].tensor != degree)
      throw InputError("plan",
                       "stage " + std::to_string(s) + " has tensor-parallel degree " +
                           std::to_string(plan.stages[s].tensor) + ", another " + std::to_string(degree) +
                           "; all stages of a run have one degree",
                       remedy);
    for (std::size_t d = 0; d < devices.size(); d += static_cast<std::size_t>(degree)) {
      for (int k = 0; k < degree; ++k)
        if (devices[d].value % degree != 0 || devices[d + static_cast<std::size_t>(k)].value != devices[d].value + k)
          throw InputError("plan", "the tensor-parallel devices of stage " + std::to_string(s) + " are no neighbours",
                           remedy);
      groups.stages[s].devices.emplace_back(devices[d].value / degree);
    }
    groups.stages[s].tensor = 1;
    groups.stages[s].variants.clear();
  }
  return groups;
}

}  // namespace sluice
