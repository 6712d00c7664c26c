#include "results/plan_facts.h"

#include <algorithm>
#include <vector>

namespace sluice {

using nlohmann::json;

// Edges go from earlier stages to later ones: stages are listed in topological order.
static int longest_path(const json& edges, std::size_t stages) {
  std::vector<int> before(stages, 1);
  std::vector<std::pair<std::size_t, std::size_t>> sorted;
  for (const json& edge : edges)
    if (edge.is_array() && edge.size() == 2 && edge[0].is_number_integer() && edge[1].is_number_integer())
      sorted.emplace_back(edge[0].get<std::size_t>(), edge[1].get<std::size_t>());
  std::ranges::sort(sorted);
  for (const auto& [from, to] : sorted)
    if (from < stages && to < stages) before[to] = std::max(before[to], before[from] + 1);
  return before.empty() ? 0 : *std::ranges::max_element(before);
}

std::optional<PlanFacts> plan_facts(const Record& record) {
  const json& plan = record.plan;
  const auto stages = plan.find("stages");
  if (stages == plan.end() || !stages->is_array() || stages->empty()) return std::nullopt;
  const auto number = [&](const char* name) {
    const auto found = plan.find(name);
    return found != plan.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  PlanFacts facts{.objective_name = plan.value("objective_name", std::string()),
                  .objective = number("objective"),
                  .search_seconds = number("search_seconds"),
                  .states = static_cast<std::int64_t>(number("states")),
                  .stages = static_cast<int>(stages->size()),
                  .depth = longest_path(plan.value("edges", json::array()), stages->size()),
                  .complete = plan.value("complete", true)};
  // What harness/pipeline/plan.h says for plans without a search report.
  facts.searched = !facts.objective_name.empty() && facts.objective_name != "slowest stage";
  return facts;
}

}  // namespace sluice
