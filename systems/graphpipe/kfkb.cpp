#include "systems/graphpipe/kfkb.h"

#include <algorithm>

namespace sluice {

static int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

int in_flight_before(StageRate stage, int next_in_flight, StageRate next, int microbatches) {
  const int mine = stage.group * stage.micro_batch, theirs = next.group * next.micro_batch;
  const int need = next_in_flight + std::max(theirs, 2 * mine - theirs);
  return std::min(round_up(microbatches, stage.micro_batch),
                  round_up(need, std::max(stage.micro_batch, next.micro_batch)));
}

int in_flight_of_sink(StageRate stage, int microbatches) {
  return std::min(round_up(microbatches, stage.micro_batch), stage.group * stage.micro_batch);
}

std::vector<StageRate> rates(const StageGraph& graph, const Placement& placement, std::span<const int> groups) {
  std::vector<StageRate> result;
  for (std::size_t s = 0; s < graph.size(); ++s)
    result.push_back({graph.micros_per_op_of(StageId(s)) * static_cast<int>(placement.stages[s].size()),
                      groups.empty() ? 1 : groups[s]});
  return result;
}

std::vector<int> kfkb_in_flight(const StageGraph& graph, std::span<const StageRate> rates, int microbatches) {
  std::vector<int> in_flight(graph.size(), 0);
  std::vector<std::size_t> waiting(graph.size()), ready;
  for (std::size_t s = 0; s < graph.size(); ++s)
    if ((waiting[s] = graph.successors[s].size()) == 0) ready.push_back(s);
  while (!ready.empty()) {
    const std::size_t s = ready.back();
    ready.pop_back();
    int& mine = in_flight[s];
    mine = in_flight_of_sink(rates[s], microbatches);
    for (const StageId t : graph.successors[s])
      mine = std::max(mine, in_flight_before(rates[s], in_flight[t.index()], rates[t.index()], microbatches));
    for (const StageId p : graph.predecessors[s])
      if (--waiting[p.index()] == 0) ready.push_back(p.index());
  }
  return in_flight;
}

std::vector<std::vector<Op>> kfkb_orders(const StageGraph& graph, const Placement& placement,
                                         std::span<const int> groups, int microbatches) {
  return kfkb_orders(graph, placement, groups, microbatches,
                     kfkb_in_flight(graph, rates(graph, placement, groups), microbatches));
}

std::vector<std::vector<Op>> kfkb_orders(const StageGraph& graph, const Placement& placement,
                                         std::span<const int> groups, int microbatches,
                                         std::span<const int> in_flight) {
  const std::vector<StageRate> rate = rates(graph, placement, groups);
  std::vector<std::vector<Op>> orders(graph.size());
  for (std::size_t s = 0; s < graph.size(); ++s) {
    // One micro-batch of the stage is one op on every replica.
    const int ops = microbatches / graph.micros_per_op_of(StageId(s));
    const int replicas = static_cast<int>(placement.stages[s].size());
    const int count = (ops + replicas - 1) / replicas;
    const auto run = [&](OpKind kind, int micro_batch) {
      for (int op = micro_batch * replicas; op < std::min(ops, (micro_batch + 1) * replicas); ++op)
        orders[s].push_back({kind, StageId(s), Micro(op)});
    };
    orders[s].reserve(2 * static_cast<std::size_t>(ops));
    int forwards = 0, backwards = 0;
    const int first = (in_flight[s] + rate[s].micro_batch - 1) / rate[s].micro_batch;
    while (forwards < std::min(first, count)) run(OpKind::forward, forwards++);
    while (backwards < count) {
      for (int i = 0; i < rate[s].group && backwards < forwards; ++i) run(OpKind::backward, backwards++);
      for (int i = 0; i < rate[s].group && forwards < count; ++i) run(OpKind::forward, forwards++);
    }
  }
  return orders;
}

Schedule schedule_of_orders(const std::vector<std::vector<Op>>& orders, const Placement& placement, int ranks,
                            int microbatches) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = microbatches};
  for (const auto& order : orders)
    for (const Op& op : order) schedule.ranks[placement.rank_of(op.stage, op.micro).index()].push_back(op);
  return schedule;
}

}  // namespace sluice
