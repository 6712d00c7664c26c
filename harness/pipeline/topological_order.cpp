#include "harness/pipeline/topological_order.h"

namespace sluice {

std::vector<StageId> topological_order(const StageGraph& graph) {
  std::vector<StageId> order;
  std::vector<std::size_t> waiting(graph.size());  // predecessors that are not in the order yet
  for (std::size_t s = 0; s < graph.size(); ++s) {
    waiting[s] = graph.predecessors[s].size();
    if (waiting[s] == 0) order.emplace_back(s);
  }
  for (std::size_t done = 0; done < order.size(); ++done)
    for (const StageId next : graph.successors[order[done].index()])
      if (--waiting[next.index()] == 0) order.push_back(next);
  return order;
}

}  // namespace sluice
