// GraphPipe (Jeon et al., ASPLOS 2025, arXiv 2406.17145): graph pipeline parallelism. Stages form a
// DAG, as the model's branches do, instead of a sequence; branches run at the same time, and a
// stage holds as many micro-batches as the stages on its longest path to the end, not as many as
// come after it in some order. Two branches of two stages and a join, as a graph and as a sequence:
//
//   rank 0  a1   F0 F1 F2 B0 F3 B1 ..   depth 3          rank 0  a1   F0 F1 F2 F3 F4 B0 ..  depth 5
//   rank 1  a2      F0 F1 B0 F2 B1 ..                    rank 1  a2      F0 F1 F2 F3 ..
//   rank 2  b1   F0 F1 F2 B0 F3 B1 ..                    rank 2  b1         F0 F1 F2 ..
//   rank 3  b2      F0 F1 B0 F2 B1 ..                    rank 3  b2            F0 F1 ..
//   rank 4  join       F0 B0 F1 B1 ..                    rank 4  join             F0 B0 ..
//
// The planner (section 5): series-parallel tree of the operators (series_parallel.h; views and
// losses ride with the operator before them), binary search on the time per sample of the slowest
// stage with a dynamic program over the tree (stage_graph_search.h), kFkB orders (kfkb.h). Time per
// sample of a stage: F + B of its micro-batch, the messages of both directions on links as they are
// between neighbouring devices, over the micro-batch's samples, and its all-reduce over the
// batch's.
//
// That objective does not see the depth of the pipeline: without a memory limit, pure data
// parallelism is best. So the search is also run with every limit on the data-parallel degree, and
// of all plans the one that the common simulator finds fastest is taken (rank=simulated), or the
// one the paper's objective does (rank=objective).
//
// partition=series_parallel  the paper's stages
//          =absorb_joins     the operator after the branches (a concat) in a branch's last stage
//          =sequential       sequential pipelining, as the authors emulate it: the operators in one
//                            row, and each stage waits for the one before it, needed or not
//          =best             the first two, and the row with the edges that the model has, holding
//                            what its longest path or what a sequence needs
// degrees=powers_of_two      data-parallel degrees as in the paper
//        =any                every degree, where replicas take micro-batches in turn
// micro_batch=case           every op takes the run's micro-batch; replicas take them in turn
//            =uniform        one b for all stages (the paper's evaluation), the best power of two
//                            times the run's micro-batch; replicas share it equally
//            =per_stage      a b, and a k up to option `k`, for every stage (section 6)
// Gradients do not depend on b, but for layers that look at a whole micro-batch: a batch
// normalisation's statistics are of the micro-batch of its own stage.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>

#include "harness/base/error.h"
#include "harness/pipeline/system.h"
#include "harness/plan/chain_partition.h"
#include "systems/graphpipe/kfkb.h"
#include "systems/graphpipe/operators.h"
#include "systems/graphpipe/series_parallel.h"
#include "systems/graphpipe/stage_graph_search.h"

namespace sluice {

namespace {

struct Candidate {
  Plan plan;
  double objective = 0;  // seconds per sample of the slowest stage
};

class Planner {
 public:
  Planner(const Problem& problem, const Options& options)
      : problem_(problem), options_(options), machine_(problem, "graphpipe"), operators_(problem.costs) {}

  Plan run() {
    const SeriesParallelTree tree =
        series_parallel(static_cast<int>(operators_.layers.size()), operators_.edges, "graphpipe: the model");
    const auto search_row = [&](std::vector<Order> orders) {
      search_all(in_a_row(vertices_below(tree, tree.root)), false, orders);
    };
    const std::string& partition = options_.text("partition");
    const bool is_row =
        std::ranges::none_of(tree.nodes, [](const auto& n) { return n.kind == SeriesParallelTree::Kind::parallel; });
    if (partition == "sequential") {
      search_row({Order::sequence});
    } else if (is_row) {
      search_row({Order::graph});
    } else {
      if (partition != "absorb_joins") search_all(tree, false, {Order::graph});
      if (partition != "series_parallel") search_all(tree, true, {Order::graph});
      if (partition == "best") search_row({Order::graph, Order::as_sequence});
    }
    return best();
  }

 private:
  // What the stages wait for, and how many micro-batches they hold.
  enum class Order {
    graph,        // the model's edges; as many as the longest path takes
    as_sequence,  // the model's edges; as many as a sequence of the stages takes
    sequence,     // every stage waits for the one before it
  };

  SeriesParallelTree in_a_row(const std::vector<int>& vertices) const {
    std::vector<std::pair<int, int>> edges;
    for (std::size_t i = 1; i < vertices.size(); ++i) edges.push_back({vertices[i - 1], vertices[i]});
    return series_parallel(static_cast<int>(vertices.size()), edges, "graphpipe");
  }

  static std::vector<int> powers_of_two(int most) {
    std::vector<int> result;
    for (int n = 1; n <= most; n *= 2) result.push_back(n);
    return result;
  }

  // With every limit on the data-parallel degree, and every micro-batch where one holds for all
  // (which is a candidate too where every stage may have its own).
  void search_all(const SeriesParallelTree& tree, bool absorb_joins, const std::vector<Order>& orders) {
    const int most = std::min({problem_.devices, problem_.microbatches, options_.integer("max_degree")});
    const std::string& micro_batch = options_.text("micro_batch");
    StageSearchSpace space;
    space.devices = problem_.devices;
    space.microbatches = problem_.microbatches;
    space.degrees = powers_of_two(most);
    const std::vector<int> limits = space.degrees;
    space.rate_is_degree = micro_batch == "case";
    if (space.rate_is_degree && options_.text("degrees") == "any") {
      space.degrees.resize(static_cast<std::size_t>(std::min(most, 30)));
      std::iota(space.degrees.begin(), space.degrees.end(), 1);
    }
    space.rates.clear();
    if (space.rate_is_degree) {
      for (const int degree : space.degrees) space.rates.push_back({degree, 1});
    } else {
      for (const int b : powers_of_two(problem_.microbatches))
        for (int k = 1; k <= (micro_batch == "per_stage" ? options_.integer("k") : 1); ++k)
          space.rates.push_back({b, k});
    }
    space.absorb_joins = absorb_joins;
    space.overlap_communication = options_.flag("overlap");
    prepare_costs(space.micros_per_op());
    space.work = [&](std::span<const int> vertices) { return work(vertices, space); };
    space.footprint = [&](std::span<const int> vertices) { return footprint(vertices); };
    space.look = [&](std::span<const int> vertices) { return look(vertices); };
    space.memory = machine_.memory.value;
    StageGraphSearch search(tree, space);
    const auto run = [&](StageSearchLimits of) {
      of.seconds = seconds_left();
      if (!simulates()) of.faster_than = least_objective() * micro_batch_;
      add(search.run(of), orders);
    };
    if (!simulates()) {
      // The objective is best without limits; large micro-batches, mostly the best, come first.
      for (std::size_t r = space.rates.size(); micro_batch != "case" && r-- > 0;) run({.rate = static_cast<int>(r)});
      if (micro_batch != "uniform") run({});
      return;
    }
    for (const int limit : limits) {
      // The largest power of two is no limit on what is no power of two.
      const int degree = limit == limits.back() ? most : limit;
      if (micro_batch == "case") run({.max_degree = degree});
      for (int r = 0; micro_batch != "case" && r < static_cast<int>(space.rates.size()); ++r)
        run({.max_degree = degree, .rate = r});
    }
    // The objective does not see that few large micro-batches leave a pipeline empty: every limit.
    for (const int b : powers_of_two(micro_batch == "per_stage" ? problem_.microbatches : 0))
      for (const int degree : limits)
        if (degree <= b) run({.max_degree = degree, .max_micro_batch = b});
  }

  bool simulates() const { return problem_.simulate && options_.text("rank") == "simulated"; }

  double least_objective() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& c : candidates_) least = std::min(least, c.objective);
    return least;
  }

  double seconds_left() const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin_;
    return std::max(0.0, options_.integer("time_limit") - gone.count());
  }

  void add(const StageSearchResult& found, const std::vector<Order>& orders) {
    states_ += found.states;
    complete_ = complete_ && found.complete;
    if (found.stages.empty()) return;
    for (const Order order : orders) {
      Candidate candidate{plan_of(found, order), found.slowest / micro_batch_};
      const bool known =
          std::ranges::any_of(candidates_, [&](const Candidate& c) { return same(c.plan, candidate.plan); });
      if (!known) candidates_.push_back(std::move(candidate));
    }
  }

  static bool same(const Plan& a, const Plan& b) {
    return a.order == b.order && a.imposed_edges == b.imposed_edges &&
           std::ranges::equal(a.stages, b.stages, [](const PlanStage& x, const PlanStage& y) {
             return x.layers == y.layers && x.devices == y.devices && x.micros_per_op == y.micros_per_op;
           });
  }

  const LinkCost& ring(int degree) {
    const auto known = rings_.find(degree);
    if (known != rings_.end()) return known->second;
    return rings_[degree] = machine_.ring(degree);
  }

  // What operators and messages cost, by operator and by sending layer.
  struct GroupingCosts {
    std::vector<double> compute, message;  // seconds
  };

  GroupingCosts costs_of(const CostGraph& graph) const {
    GroupingCosts made;
    for (const LayerCost& layer : graph.layers)  // each way: activations and their gradients
      made.message.push_back(2 * (machine_.neighbour.latency +
                                  machine_.neighbour.seconds_per_byte * static_cast<double>(layer.output.value)));
    for (const auto& layers : operators_.layers) {
      Seconds seconds;
      for (const int l : layers) {
        const LayerCost& layer = graph.layers[static_cast<std::size_t>(l)];
        seconds += layer.forward + layer.input_gradient + layer.weight_gradient;
      }
      made.compute.push_back(seconds.value / machine_.speed);
    }
    return made;
  }
  GroupingCosts costs_at(int micros_per_op) const {
    if (micros_per_op == 1) return costs_of(problem_.costs);
    if (!problem_.costs_at) return costs_of(grouped_costs(problem_.costs, micros_per_op));
    return costs_of(*problem_.costs_at(micros_per_op * problem_.costs.micro_batch));
  }

  void prepare_costs(const std::vector<int>& choices) {
    by_micros_per_op_.clear();
    for (const int micros_per_op : choices) {
      const auto known = costs_.find(micros_per_op);
      by_micros_per_op_.push_back(known != costs_.end()
                                      ? &known->second
                                      : &costs_.emplace(micros_per_op, costs_at(micros_per_op)).first->second);
    }
    parameters_.clear();
    kinds_.clear();
    std::map<std::vector<double>, double> kinds;
    for (const auto& layers : operators_.layers) {
      const std::size_t o = parameters_.size();
      double& bytes = parameters_.emplace_back();
      for (const int l : layers)
        bytes += static_cast<double>(problem_.costs.layers[static_cast<std::size_t>(l)].parameters.value);
      const std::vector<int> alone{static_cast<int>(o)};
      const StageFootprint kept = footprint(alone);
      std::vector<double> kind{bytes, static_cast<double>(kept.always), static_cast<double>(kept.per_op),
                               static_cast<double>(kept.per_micro_batch)};
      for (const GroupingCosts* of : by_micros_per_op_) kind.push_back(of->compute[o]);
      kinds_.push_back(kinds.try_emplace(kind, static_cast<double>(kinds.size())).first->second);
    }
  }

  std::vector<double> look(std::span<const int> vertices) const {
    std::vector<double> result = operators_.signature(vertices);
    for (const int v : vertices) result.push_back(kinds_[static_cast<std::size_t>(v)]);
    return result;
  }

  StageWork work(std::span<const int> vertices, const StageSearchSpace& space) {
    const std::vector<int> crossing = operators_.crossing(vertices);
    StageWork result;
    double parameters = 0;
    for (const int v : vertices) parameters += parameters_[static_cast<std::size_t>(v)];
    for (const GroupingCosts* of : by_micros_per_op_) {
      double seconds = 0, messages = 0;
      for (const int v : vertices) seconds += of->compute[static_cast<std::size_t>(v)];
      for (const int l : crossing) messages += of->message[static_cast<std::size_t>(l)];
      result.compute.push_back(seconds);
      result.communication.push_back(messages);
    }
    for (const int degree : space.degrees)
      result.all_reduce.push_back(2.0 * (degree - 1) *
                                  (parameters / degree * ring(degree).seconds_per_byte + ring(degree).latency));
    return result;
  }

  StageFootprint footprint(std::span<const int> vertices) {
    const std::vector<int> layers = operators_.layers_of(vertices);
    if (problem_.footprint) {
      const auto f = problem_.footprint(layers);
      return {f.always.value, f.per_micro_batch.value, problem_.costs.micro_batch * f.per_sample.value};
    }
    StageFootprint result;
    for (const int l : layers) {
      const LayerCost& layer = problem_.costs.layers[static_cast<std::size_t>(l)];
      result.always += 2 * layer.parameters.value;
      result.per_micro_batch += layer.output.value;
    }
    return result;
  }

  Plan plan_of(const StageSearchResult& found, Order order) const {
    Plan plan;
    plan.micro_batch = problem_.costs.micro_batch;
    std::vector<int> groups;
    int device = 0;
    for (const FoundStage& stage : found.stages) {
      PlanStage& made = plan.stages.emplace_back();
      made.layers = operators_.layers_of(stage.vertices);
      made.micros_per_op = stage.rate.micro_batch / stage.degree;
      for (int d = 0; d < stage.degree; ++d) made.devices.emplace_back(device++);
      groups.push_back(stage.rate.group);
    }
    StageGraph graph = stage_graph(plan, problem_.costs);
    Plan sequence = plan;
    for (std::size_t s = 1; s < plan.stages.size(); ++s)
      if (std::ranges::find(graph.successors[s - 1], StageId(s)) == graph.successors[s - 1].end())
        sequence.imposed_edges.push_back({StageId(s - 1), StageId(s)});
    if (order == Order::sequence) plan = sequence, graph = stage_graph(plan, problem_.costs);
    // With k = 1 and what the longest path takes, the order follows from the stages.
    const bool follows = order != Order::as_sequence || sequence.imposed_edges.empty();
    if (!follows || std::ranges::any_of(groups, [](int k) { return k > 1; })) {
      const Placement placement = ranks_of(plan).placement;
      const std::vector<int> in_flight = kfkb_in_flight(follows ? graph : stage_graph(sequence, problem_.costs),
                                                        rates(graph, placement, groups), problem_.microbatches);
      plan.order = kfkb_orders(graph, placement, groups, problem_.microbatches, in_flight);
    }
    return plan;
  }

  Plan best() {
    if (candidates_.empty() && !complete_) {  // cut short before anything was found
      const int stages = std::min(problem_.devices, static_cast<int>(operators_.layers.size()));
      Plan row = balanced_chain(problem_, stages, "graphpipe");
      row.objective /= micro_batch_;
      const double objective = row.objective;
      candidates_.push_back({std::move(row), objective});
    }
    if (candidates_.empty()) {
      throw InputError("graphpipe",
                       "no stages use all of " + std::to_string(problem_.devices) + " devices and fit into " +
                           to_text(machine_.memory) + " each",
                       "use another number of devices or micro-batches, or larger devices");
    }
    Candidate* chosen = nullptr;
    double least = 0;
    for (Candidate& c : candidates_) {
      const double seconds = simulates() ? problem_.simulate(c.plan).value : c.objective;
      if (!chosen || seconds < least) chosen = &c, least = seconds;
    }
    Plan plan = std::move(chosen->plan);
    plan.search = SearchReport{chosen->objective, "slowest stage, per sample", states_, complete_};
    plan.objective = chosen->objective;
    plan.states = states_;
    plan.complete = complete_;
    return plan;
  }

  const Problem& problem_;
  const Options& options_;
  const double micro_batch_ = static_cast<double>(problem_.costs.micro_batch);  // samples
  NeighbourMachine machine_;
  Operators operators_;
  std::map<int, GroupingCosts> costs_;  // by number of micro-batches per op
  std::vector<const GroupingCosts*> by_micros_per_op_;
  std::vector<double> parameters_;  // bytes of every operator
  std::vector<double> kinds_;       // of every operator: the same for the same costs
  std::map<int, LinkCost> rings_;
  std::vector<Candidate> candidates_;
  std::int64_t states_ = 0;
  bool complete_ = true;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

Schedule graphpipe_schedule(const ScheduleProblem& problem, const Options&) {
  return schedule_of_orders(
      problem.order.empty() ? kfkb_orders(problem.graph, problem.placement, {}, problem.microbatches) : problem.order,
      problem.placement, problem.ranks, problem.microbatches);
}

// Stages of one time each, k = 1: as many rounds of F and B as micro-batches, and one for every
// further stage on the longest path. Section 6.
Theory graphpipe_theory(const ScheduleProblem& problem, const Options&) {
  Theory theory;
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  theory.weight_versions.assign(ranks, 1);
  theory.staleness.assign(ranks, 0);
  if (!problem.order.empty()) return theory;
  const auto rate = rates(problem.graph, problem.placement, {});
  const auto in_flight = kfkb_in_flight(problem.graph, rate, problem.microbatches);
  theory.in_flight.assign(ranks, 0);
  bool equal = true;
  int depth = 0;
  for (std::size_t s = 0; s < problem.graph.size(); ++s) {
    const auto& home = problem.placement.stages[s];
    const int replicas = static_cast<int>(home.size()), b = rate[s].micro_batch;
    const int ops = problem.microbatches * replicas / b;
    for (int r = 0; r < replicas; ++r)
      theory.in_flight[home[static_cast<std::size_t>(r)].index()] +=
          std::min((in_flight[s] + b - 1) / b, (ops - r + replicas - 1) / replicas);
    equal =
        equal && b == rate[0].micro_batch && home.size() == problem.placement.stages[0].size() && ops % replicas == 0;
  }
  std::vector<int> unlimited =
      kfkb_in_flight(problem.graph, rate, static_cast<int>(problem.graph.size()) * rate[0].micro_batch);
  for (const int n : unlimited) depth = std::max(depth, n / rate[0].micro_batch);
  if (equal) {
    const int rounds = problem.microbatches / rate[0].micro_batch;
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
    .synchronous = true,
    .options = {{"partition",
                 "best",
                 "series_parallel (the paper's), absorb_joins, sequential (each stage after the one "
                 "before it) or best of the first two and a row with the model's own edges",
                 {"best", "series_parallel", "absorb_joins", "sequential"}},
                {"micro_batch",
                 "case",
                 "case: the run's, replicas in turn; uniform: the best multiple of it for all "
                 "stages; per_stage: one for every stage",
                 {"case", "uniform", "per_stage"}},
                {"rank",
                 "simulated",
                 "how the best of all plans is chosen: by the common simulator or by the paper's "
                 "objective",
                 {"simulated", "objective"}},
                {"overlap", "no", "messages overlap compute in the planner's objective", kYesNo},
                {"degrees",
                 "powers_of_two",
                 "data-parallel degrees of a stage; any: with micro_batch=case, up to 30",
                 {"powers_of_two", "any"}},
                {"max_degree", "1024", "largest data-parallel degree of a stage"},
                {"k", "1", "largest k of kFkB tried, with micro_batch=per_stage"},
                {"time_limit", "60", "seconds after which the search ends with the best so far"}},
    .plan = [](const Problem& p, const Options& o) { return Planner(p, o).run(); },
    .schedule = graphpipe_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory = graphpipe_theory,
};

}  // namespace sluice
