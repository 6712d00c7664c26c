#include "harness/pipeline/sharding.h"

#include <algorithm>
#include <map>
#include <set>

namespace sluice {

static std::vector<Collective> gathers(const std::vector<Op>& ops, Sharding::Gather rule) {
  std::vector<Collective> result;
  if (rule == Sharding::Gather::never || rule == Sharding::Gather::after_step) return result;
  std::set<StageId> seen;
  StageId resident(-1);
  for (std::size_t k = 0; k < ops.size(); ++k) {
    if (ops[k].kind == OpKind::weight_gradient) continue;
    const StageId stage = ops[k].stage;
    const bool first = seen.insert(stage).second;
    if (rule == Sharding::Gather::on_use || (rule == Sharding::Gather::once && first) ||
        (rule == Sharding::Gather::on_visit && stage != resident))
      result.push_back({k, stage});
    resident = stage;
  }
  return result;
}

static std::vector<Collective> reductions(const std::vector<Op>& ops, const Sharding& sharding) {
  std::vector<Collective> result;
  if (sharding.reduce == Sharding::Reduce::never) return result;
  const auto makes_gradient = [](const Op& op) {
    return op.kind == OpKind::backward || op.kind == OpKind::weight_gradient;
  };
  // Micro-batches of every stage in the order of their numbers, and of every reduction how many are still to come.
  std::map<StageId, std::vector<Micro>> microbatches;
  for (const Op& op : ops)
    if (makes_gradient(op)) microbatches[op.stage].push_back(op.micro);
  std::map<StageId, std::vector<int>> to_come;
  const auto reduction_of = [&](StageId stage, Micro micro) {
    const auto& sorted = microbatches[stage];
    const auto place = static_cast<std::size_t>(std::ranges::lower_bound(sorted, micro) - sorted.begin());
    if (sharding.reduce == Sharding::Reduce::per_microbatch) return place;
    return sharding.microbatches_per_reduction == 0
               ? 0
               : place / static_cast<std::size_t>(sharding.microbatches_per_reduction);
  };
  for (auto& [stage, list] : microbatches) {
    std::ranges::sort(list);
    auto& left = to_come[stage];
    for (const Micro micro : list) {
      const std::size_t reduction = reduction_of(stage, micro);
      left.resize(std::max(left.size(), reduction + 1), 0);
      ++left[reduction];
    }
  }
  for (std::size_t k = 0; k < ops.size(); ++k)
    if (makes_gradient(ops[k]) && --to_come[ops[k].stage][reduction_of(ops[k].stage, ops[k].micro)] == 0)
      result.push_back({k, ops[k].stage});
  return result;
}

std::vector<RankCollectives> collectives(const Schedule& schedule, const Sharding& sharding) {
  std::vector<RankCollectives> result;
  for (const auto& ops : schedule.ranks) result.push_back({gathers(ops, sharding.gather), reductions(ops, sharding)});
  return result;
}

}  // namespace sluice
