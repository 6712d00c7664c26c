#include "results/plan_facts.h"

#include <algorithm>
#include <vector>

namespace sluice {

// Edges go from earlier stages to later ones: stages are listed in topological order.
static int longest_path(std::vector<std::pair<int, int>> edges, int stages) {
  std::vector<int> before(static_cast<std::size_t>(stages), 1);
  std::ranges::sort(edges);
  for (const auto& [from, to] : edges)
    if (from < stages && to < stages) {
      int& longest = before[to];
      longest = std::max(longest, before[from] + 1);
    }
  return before.empty() ? 0 : *std::ranges::max_element(before);
}

std::optional<PlanFacts> plan_facts(const Record& record) {
  if (!record.plan || record.plan->stages.empty()) return std::nullopt;
  const PlanDescription& plan = *record.plan;
  const int stages = static_cast<int>(plan.stages.size());
  PlanFacts facts{.objective_name = plan.objective_name,
                  .objective = plan.objective.value_or(0),
                  .search_seconds = plan.search_seconds,
                  .states = plan.states,
                  .stages = stages,
                  .depth = longest_path(plan.edges, stages),
                  .complete = plan.complete};
  // What harness/pipeline/plan.h says for plans without a search report.
  facts.searched = !facts.objective_name.empty() && facts.objective_name != "slowest stage";
  return facts;
}

}  // namespace sluice
