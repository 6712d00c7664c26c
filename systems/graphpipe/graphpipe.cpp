// GraphPipe (Jeon et al., ASPLOS 2025, arXiv 2406.17145): graph pipeline parallelism. Section 3: given the graph of
// operators G_C, B micro-batches an update and devices D, choose a DAG of stages G_S: stage i = (G_i, b_i, D_i, Pi_i)
// has operators G_i, a micro-batch b_i, devices D_i (several: data parallelism) and an order of forwards and backwards
// Pi_i. Branches run at the same time, and a stage holds as many micro-batches as the stages on its longest path to the
// end, not as many as come after it in a sequence. Two branches of two stages and a join, as a graph and as a sequence:
//
//   rank 0  a1   F0 F1 F2 B0 F3 B1 ..   depth 3          rank 0  a1   F0 F1 F2 F3 F4 B0 ..  depth 5
//   rank 1  a2      F0 F1 B0 F2 B1 ..                    rank 1  a2      F0 F1 F2 F3 ..
//   rank 2  b1   F0 F1 F2 B0 F3 B1 ..                    rank 2  b1         F0 F1 F2 ..
//   rank 3  b2      F0 F1 B0 F2 B1 ..                    rank 3  b2            F0 F1 ..
//   rank 4  join       F0 B0 F1 B1 ..                    rank 4  join             F0 B0 ..
//
// Section 5, the planner, file by file:
//   operators.h, series_parallel.h   G_C and its series-parallel tree
//   stage_costs.h                    TPS, the time per sample of a stage, and its memory
//   stage_graph_search.h             algorithm 1: a binary search on the TPS t of the slowest stage
//   stage_graph_dp.h, stage_lists.h  SearchStageGraph(G_C, D, t): the dynamic program over the tree
//   kfkb.h                           ComputeInFlight and ScheduleTask: k forwards, k backwards in turn
//   candidates.h                     the plans that it keeps; which of them is taken: harness/plan/make_plan.h
//
// The objective, the least TPS of the slowest stage, does not see the depth of the pipeline: without a memory limit,
// pure data parallelism is best.
//
// partition=series_parallel  the paper's stages
//          =absorb_joins     the operator after the branches (a concat) in a branch's last stage
//          =sequential       sequential pipelining, as the authors emulate it: the operators in one row, and each stage
//                            waits for the one before it, needed or not
//          =best             the first two, and the row with the edges that the model has, holding what its longest
//                            path or what a sequence needs
// degrees=powers_of_two      data-parallel degrees as in the paper
//        =any                every degree, where replicas take micro-batches in turn
// micro_batch=case           every op takes the run's micro-batch; replicas take them in turn
//            =uniform        one b for all stages (the paper's evaluation), the best power of two times the run's
//                            micro-batch; replicas share it equally
//            =per_stage      a b, and a k up to option `k`, for every stage (section 6)
// Gradients do not depend on b, except for layers that work on a whole micro-batch: the statistics of a batch
// normalisation are of the micro-batch of its own stage.
#include <algorithm>
#include <numeric>

#include "harness/base/thread_seconds.h"
#include "harness/pipeline/orders.h"
#include "harness/pipeline/system.h"
#include "harness/plan/planner_options.h"
#include "systems/graphpipe/candidates.h"
#include "systems/graphpipe/kfkb.h"
#include "systems/graphpipe/operators.h"
#include "systems/graphpipe/series_parallel.h"
#include "systems/graphpipe/stage_costs.h"
#include "systems/graphpipe/stage_graph_search.h"

namespace sluice {

namespace {

std::vector<int> powers_of_two(int most) {
  std::vector<int> result;
  for (int n = 1; n <= most; n *= 2) result.push_back(n);
  return result;
}

SeriesParallelTree in_a_row(const std::vector<int>& vertices) {
  std::vector<std::pair<int, int>> edges;
  for (std::size_t i = 1; i < vertices.size(); ++i) edges.push_back({vertices[i - 1], vertices[i]});
  return series_parallel(static_cast<int>(vertices.size()), edges, "graphpipe");
}

bool has_branches(const SeriesParallelTree& tree) {
  return std::ranges::any_of(tree.nodes, [](const auto& n) { return n.kind == SeriesParallelTree::Kind::parallel; });
}

class Planner {
 public:
  Planner(const Problem& problem, const Options& options)
      : problem_(problem),
        options_(options),
        micro_batch_(options.text("micro_batch")),
        simulates_(options.text("rank") == "simulated"),
        operators_(problem.costs),
        costs_(problem, operators_),
        candidates_(problem, operators_) {}

  // The stage graphs that are searched: option `partition`.
  std::vector<PlannedPipeline> run() {
    const SeriesParallelTree tree = series_parallel(operators_.count(), operators_.edges, "graphpipe: the model");
    const SeriesParallelTree row = in_a_row(vertices_below(tree, tree.root));
    const std::string& partition = options_.text("partition");
    if (partition == "sequential") {
      search(row, {Pipelining::sequence});
    } else if (!has_branches(tree)) {
      search(row, {Pipelining::graph});
    } else {
      if (partition != "absorb_joins") search(tree, {Pipelining::graph});
      if (partition != "series_parallel") search(tree, {Pipelining::graph}, /*absorb_joins=*/true);
      if (partition == "best") search(row, {Pipelining::graph, Pipelining::graph_held_as_sequence});
    }
    return candidates_.plans(costs_.memory());
  }

 private:
  // The degrees and micro-batches that stages may have: options `degrees` and `micro_batch`.
  StageSearchSpace space(bool absorb_joins) {
    StageSearchSpace space{.devices = problem_.devices, .microbatches = problem_.microbatches};
    space.micro_batch_is_degree = micro_batch_ == "case";
    space.overlap_communication = options_.flag("overlap");
    space.absorb_joins = absorb_joins;
    space.degrees = powers_of_two(max_degree());
    space.configs.clear();
    if (space.micro_batch_is_degree) {
      if (options_.text("degrees") == "any") {
        space.degrees.resize(std::min(max_degree(), 30));
        std::iota(space.degrees.begin(), space.degrees.end(), 1);
      }
      for (const int degree : space.degrees) space.configs.push_back({degree, 1});
    } else {
      const int max_k = micro_batch_ == "per_stage" ? options_.integer("k") : 1;
      for (const int b : powers_of_two(problem_.microbatches))
        for (int k = 1; k <= max_k; ++k) space.configs.push_back({b, k});
    }
    costs_.give(space);
    return space;
  }

  // Searches a tree, and adds the stages found as plans of these kinds.
  void search(const SeriesParallelTree& tree, const std::vector<Pipelining>& kinds, bool absorb_joins = false) {
    const StageSearchSpace given = space(absorb_joins);
    StageGraphSearch search(tree, given);
    for (StageSearchLimits limits : limits_of(given)) {
      limits.seconds = seconds_left();
      if (!simulates_)
        limits.faster_than = candidates_.min_objective() * static_cast<double>(problem_.costs.micro_batch);
      candidates_.add(search.run(limits), kinds);
    }
  }

  // The objective is best without limits. One micro-batch for all stages is a candidate too where every stage may have
  // its own; large ones, mostly the best, come first. And since the objective does not see that few large micro-batches
  // leave a pipeline empty, the simulator also gets a plan for every limit on the micro-batch.
  std::vector<StageSearchLimits> limits_of(const StageSearchSpace& space) const {
    std::vector<StageSearchLimits> result;
    for (int c = static_cast<int>(space.configs.size()); micro_batch_ != "case" && c-- > 0;)
      result.push_back({.config = c});
    if (micro_batch_ != "uniform") result.push_back({});
    if (simulates_ && micro_batch_ == "per_stage")
      for (const int b : powers_of_two(problem_.microbatches)) result.push_back({.max_micro_batch = b});
    return result;
  }

  int max_degree() const {
    return std::min({problem_.devices, problem_.microbatches, problem_.max_replicas, options_.integer("max_degree")});
  }

  double seconds_left() const { return std::max(0.0, problem_.search_seconds - (thread_seconds() - begin_)); }

  const Problem& problem_;
  const Options& options_;
  const std::string& micro_batch_;  // the option
  bool simulates_;
  Operators operators_;
  StageCosts costs_;
  Candidates candidates_;
  double begin_ = thread_seconds();
};

Schedule graphpipe_schedule(const ScheduleProblem& problem, const Options&) {
  return orders::on_ranks(
      problem.order.empty() ? kfkb_orders(problem.graph, problem.placement, {}, problem.microbatches) : problem.order,
      problem.placement, problem.ranks, problem.microbatches);
}

// Stages of one time each, k = 1: as many rounds of F and B as micro-batches, and one for every
// further stage on the longest path. Section 6.
Theory graphpipe_theory(const ScheduleProblem& problem, const Options&) {
  Theory theory = flush_theory(problem.ranks);
  if (!problem.order.empty()) return theory;
  const auto configs = stage_configs(problem.graph, problem.placement, {});
  const auto in_flight = kfkb_in_flight(problem.graph, configs, problem.microbatches);
  theory.in_flight.assign(problem.ranks, 0);
  bool equal = true;
  int depth = 0;
  for (std::size_t s = 0; s < problem.graph.size(); ++s) {
    const auto& home = problem.placement.stages[s];
    const int replicas = static_cast<int>(home.size()), b = configs[s].micro_batch;
    const int ops = problem.microbatches * replicas / b;
    for (int r = 0; r < replicas; ++r)
      theory.in_flight[home[r].index()] += std::min((in_flight[s] + b - 1) / b, (ops - r + replicas - 1) / replicas);
    equal = equal && b == configs[0].micro_batch && home.size() == problem.placement.stages[0].size() &&
            ops % replicas == 0;
  }
  std::vector<int> unlimited =
      kfkb_in_flight(problem.graph, configs, static_cast<int>(problem.graph.size()) * configs[0].micro_batch);
  for (const int n : unlimited) depth = std::max(depth, n / configs[0].micro_batch);
  if (equal) {
    const int rounds = problem.microbatches / configs[0].micro_batch;
    theory.bubble_ratio = static_cast<double>(depth - 1) / (rounds + depth - 1);
  }
  return theory;
}

}  // namespace

extern const System graphpipe;
const System graphpipe = {
    .name = "graphpipe",
    .aliases = {"gpp"},
    .title = "GraphPipe",
    .citation =
        "Jeon et al., GraphPipe: Improving Performance and Scalability of DNN Training with Graph "
        "Pipeline Parallelism, ASPLOS 2025 (arXiv 2406.17145)",
    .written_from = {WrittenFrom::paper,
                     {{"stage costs", WrittenFrom::ours},
                      {"in-flight rule", WrittenFrom::ours},
                      {"partition=best", WrittenFrom::ours},
                      {"partition=absorb_joins", WrittenFrom::ours}},
                     "The equations of a stage's cost and the in-flight rule could not be read and are reconstructed; "
                     "partition=absorb_joins and partition=best are ours."},
    .synchronous = true,
    .one_size_only = "its planner's objective is for micro-batches of one size",
    .options =
        {{"partition",
          "best",
          "series_parallel (the paper's), absorb_joins (a join in a branch's last stage), sequential (each stage waits "
          "for the one before it) or best (the best of the first two and of a sequence with the model's own edges)",
          {"best", "series_parallel", "absorb_joins", "sequential"}},
         {"micro_batch",
          "case",
          "case: the run's, replicas in turn; uniform: for all stages the best power of two times it; per_stage: one "
          "per stage",
          {"case", "uniform", "per_stage"}},
         rank_option(),
         {"overlap", "no", "messages overlap compute in the planner's objective", kYesNo},
         only_with({"degrees",
                    "powers_of_two",
                    "data-parallel degrees of a stage; any: every degree up to 30",
                    {"powers_of_two", "any"}},
                   "micro_batch", {"case"}),
         {"max_degree", "1024", "largest data-parallel degree of a stage"},
         only_with({"k", "1", "largest k of kFkB tried"}, "micro_batch", {"per_stage"}),
         search_seconds_option()},
    .candidates = [](const Problem& problem, const Options& options) { return Planner(problem, options).run(); },
    .schedule = graphpipe_schedule,
    .theory = graphpipe_theory,
    .replicates = [](const Options&) { return true; },
};

}  // namespace sluice
