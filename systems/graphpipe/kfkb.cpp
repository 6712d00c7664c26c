#include "systems/graphpipe/kfkb.h"

#include <algorithm>

#include "harness/pipeline/topological_order.h"

namespace sluice {

static int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

int in_flight_before(StageConfig stage, int next_in_flight, StageConfig next, int microbatches) {
  const int mine = stage.k * stage.micro_batch, theirs = next.k * next.micro_batch;
  const int need = next_in_flight + std::max(theirs, 2 * mine - theirs);
  return std::min(round_up(microbatches, stage.micro_batch),
                  round_up(need, std::max(stage.micro_batch, next.micro_batch)));
}

int in_flight_of_sink(StageConfig stage, int microbatches) {
  return std::min(round_up(microbatches, stage.micro_batch), stage.k * stage.micro_batch);
}

std::vector<StageConfig> stage_configs(const StageGraph& graph, const Placement& placement, std::span<const int> ks) {
  std::vector<StageConfig> result;
  for (std::size_t s = 0; s < graph.size(); ++s)
    result.push_back({graph.microbatches_per_op_of(StageId(s)) * static_cast<int>(placement.stages[s].size()),
                      ks.empty() ? 1 : ks[s]});
  return result;
}

std::vector<int> kfkb_in_flight(const StageGraph& graph, std::span<const StageConfig> configs, int microbatches) {
  std::vector<int> in_flight(graph.size(), 0);
  const std::vector<StageId> order = topological_order(graph);
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t s = order[k].index();
    int& mine = in_flight[s];
    mine = in_flight_of_sink(configs[s], microbatches);
    for (const StageId t : graph.successors[s])
      mine = std::max(mine, in_flight_before(configs[s], in_flight[t.index()], configs[t.index()], microbatches));
  }
  return in_flight;
}

StageOrders kfkb_orders(const StageGraph& graph, const Placement& placement, std::span<const int> ks,
                        int microbatches) {
  return kfkb_orders(graph, placement, ks, microbatches,
                     kfkb_in_flight(graph, stage_configs(graph, placement, ks), microbatches));
}

StageOrders kfkb_orders(const StageGraph& graph, const Placement& placement, std::span<const int> ks, int microbatches,
                        std::span<const int> in_flight) {
  const std::vector<StageConfig> config = stage_configs(graph, placement, ks);
  StageOrders orders(graph.size());
  for (std::size_t s = 0; s < graph.size(); ++s) {
    // One micro-batch of the stage is one op on every replica.
    const int ops = microbatches / graph.microbatches_per_op_of(StageId(s));
    const int replicas = static_cast<int>(placement.stages[s].size());
    const int count = (ops + replicas - 1) / replicas;
    const auto run = [&](OpKind kind, int micro_batch) {
      for (int op = micro_batch * replicas; op < std::min(ops, (micro_batch + 1) * replicas); ++op)
        orders[s].push_back({kind, StageId(s), Micro(op)});
    };
    orders[s].reserve(2 * static_cast<std::size_t>(ops));
    int forwards = 0, backwards = 0;
    const int first = (in_flight[s] + config[s].micro_batch - 1) / config[s].micro_batch;
    while (forwards < std::min(first, count)) run(OpKind::forward, forwards++);
    while (backwards < count) {
      for (int i = 0; i < config[s].k && backwards < forwards; ++i) run(OpKind::backward, backwards++);
      for (int i = 0; i < config[s].k && forwards < count; ++i) run(OpKind::forward, forwards++);
    }
  }
  return orders;
}

}  // namespace sluice
