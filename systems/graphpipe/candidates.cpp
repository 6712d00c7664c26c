#include "systems/graphpipe/candidates.h"

#include <algorithm>
#include <limits>

#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"
#include "systems/graphpipe/kfkb.h"

namespace sluice {

// Edges that make the stages a sequence, in addition to those that the graph has.
static std::vector<std::pair<StageId, StageId>> edges_of_a_sequence(const StageGraph& graph) {
  std::vector<std::pair<StageId, StageId>> edges;
  for (std::size_t s = 1; s < graph.size(); ++s)
    if (std::ranges::find(graph.successors[s - 1], StageId(s)) == graph.successors[s - 1].end())
      edges.push_back({StageId(s - 1), StageId(s)});
  return edges;
}

void Candidates::add(const StageSearchResult& found, const std::vector<Pipelining>& kinds) {
  states_ += found.states;
  complete_ = complete_ && found.complete;
  if (found.stages.empty()) return;
  for (const Pipelining kind : kinds) {
    PlannedPipeline made = plan_of(found, kind);
    made.plan.search.objective = per_sample(found.slowest);
    plans_.push_back(std::move(made));
  }
}

double Candidates::min_objective() const {
  double least = std::numeric_limits<double>::infinity();
  for (const PlannedPipeline& known : plans_) least = std::min(least, known.plan.search.objective);
  return least;
}

PlannedPipeline Candidates::plan_of(const StageSearchResult& found, Pipelining kind) const {
  Plan plan{.micro_batch = problem_.costs.micro_batch};
  std::vector<int> ks;
  int device = 0;
  for (const FoundStage& stage : found.stages) {
    PlanStage& made = plan.stages.emplace_back();
    made.layers = operators_.layers_of(stage.vertices);
    made.microbatches_per_op = stage.config.micro_batch / stage.degree;
    for (int d = 0; d < stage.degree; ++d) made.devices.emplace_back(device++);
    ks.push_back(stage.config.k);
  }
  Plan sequence = plan;
  sequence.imposed_edges = edges_of_a_sequence(stage_graph(plan, problem_.costs));
  const bool held_as_sequence = kind == Pipelining::graph_held_as_sequence && !sequence.imposed_edges.empty();
  if (kind == Pipelining::sequence) plan = sequence;
  // The system's schedule knows the stages and their edges alone: for it every k is 1, and stages hold what their
  // longest path needs. The orders of all other plans are given with them.
  if (!held_as_sequence && std::ranges::all_of(ks, [](int k) { return k == 1; })) return plan;
  const StageGraph graph = stage_graph(plan, problem_.costs);
  const Placement placement = ranks_of(plan).placement;
  const std::vector<int> in_flight = kfkb_in_flight(held_as_sequence ? stage_graph(sequence, problem_.costs) : graph,
                                                    stage_configs(graph, placement, ks), problem_.microbatches);
  return {plan, kfkb_orders(graph, placement, ks, problem_.microbatches, in_flight)};
}

std::vector<PlannedPipeline> Candidates::plans(Bytes memory) {
  if (plans_.empty() && !complete_) {  // cut short before anything was found
    const int stages = std::min(problem_.devices, operators_.count());
    Plan row = balanced_chain(problem_, stages, "graphpipe");
    row.search.objective = per_sample(row.search.objective);
    plans_.push_back(std::move(row));
  }
  if (plans_.empty())
    throw InputError("graphpipe",
                     "no stages use all of " + std::to_string(problem_.devices) + " devices and fit into " +
                         to_text(memory) + " each",
                     "use another number of devices or micro-batches, or larger devices");
  for (PlannedPipeline& found : plans_) {
    SearchReport& report = found.plan.search;
    report.objective_name = "slowest stage, per sample";
    report.states = states_;
    report.complete = complete_;
  }
  return std::move(plans_);
}

}  // namespace sluice
