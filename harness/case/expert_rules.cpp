#include "harness/case/expert_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/case/costs.h"
#include "harness/model/expert_spread.h"

namespace sluice {

static const std::string kReplicated = "use replicated experts";

int expert_replicas(const RunCase& c, const System& system) { return system.data_parallel ? c.ranks : c.data_parallel; }

void check_spread_experts(const RunCase& c, const System& system, const Workload& workload, const std::string& where) {
  if (workload.model.layers.empty())
    throw InputError(where, "'" + c.workload + "' is a file of costs, which has no layers", kReplicated);
  try {
    spread_experts(workload.model, expert_replicas(c, system));
  } catch (const InputError& e) {
    throw InputError(where, e.what());
  }
}

void reject_spread_and_sharded() {
  throw InputError("experts", "sharding divides all weights among replicas by itself",
                   "leave sharding out, or " + kReplicated);
}

void reject_spread_experts(const RunCase& c, const System& system) {
  const auto reject = [](const std::string& reason) { throw InputError("experts", reason, kReplicated); };
  if (!system.synchronous)
    reject(c.system + " updates without a flush, so that its replicas do not run their ops in one order");
  if (c.tensor > 1) reject("tensor divides experts among the devices of a group by itself");
  if (c.sharding != StageSharding::system && c.sharding != StageSharding::none) reject_spread_and_sharded();
  if (c.task == Task::inference) reject("inference runs with whole layers");
  if (c.optimizer.treats_matrices()) reject(choice_name(c.optimizer.kind) + " has state of whole matrices");
  if (is_cost_file(c.costs)) reject("a file of costs holds those of whole layers; or use another source of costs");
  if (c.device == DeviceKind::cuda) reject("all-to-alls are between threads or processes on the CPU");
  if (expert_replicas(c, system) == 1)
    reject(c.system + " decides by itself how often a stage is replicated; or give data_parallel");
}

void require_lock_step(const Program& program, const ModelGraph& spread, const Plan& plan) {
  std::vector<bool> exchanges;  // by stage
  for (const PlanStage& stage : plan.stages)
    exchanges.push_back(
        std::ranges::any_of(stage.layers, [&](int l) { return replicas_of_experts(spread.layers[l]) > 1; }));
  std::vector<std::vector<std::pair<Opcode, StageId>>> orders(program.rank_count());
  for (std::size_t r = 0; r < program.rank_count(); ++r)
    for (const Instruction& i : program.ranks[r])
      if (reads_weights(i.opcode) && exchanges[i.stage.index()]) orders[r].emplace_back(i.opcode, i.stage);
  const auto replicas = static_cast<std::size_t>(replicas_of_experts(spread));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (!exchanges[s]) continue;
    const std::vector<Rank>& ranks = program.placement.stages[s];
    const std::string stage = "stage " + std::to_string(s);
    if (ranks.size() != replicas)
      throw InputError("experts",
                       stage + " has " + std::to_string(ranks.size()) + " replicas, and experts are spread over " +
                           std::to_string(replicas),
                       kReplicated);
    for (const Rank rank : ranks)
      if (orders[rank.index()] != orders[ranks.front().index()])
        throw InputError("experts",
                         "ranks " + std::to_string(ranks.front().value) + " and " + std::to_string(rank.value) +
                             ", replicas of " + stage +
                             ", run their ops in different orders, and each op meets those of the other replicas",
                         "choose micro-batches that the replicas divide, or " + kReplicated);
  }
}

}  // namespace sluice
