// GraphPipe on the virtual clock: the published cases, and what must hold of every plan.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <map>
#include <numeric>
#include <random>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/orders.h"
#include "harness/pipeline/system.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"
#include "systems/graphpipe/kfkb.h"
#include "systems/graphpipe/published_vectors.h"

namespace sluice {
namespace {

// Stages by name: seconds of F of one micro-batch (B takes twice that), one rank or more each.
struct Pipeline {
  std::vector<std::string> names;
  std::vector<double> work;
  StageGraph graph;
  Placement placement;
  std::vector<int> ks;

  Pipeline(const std::vector<std::pair<std::string, double>>& stages, const std::vector<std::string>& edges,
           std::vector<int> replicas = {}) {
    for (const auto& [name, seconds] : stages) {
      names.push_back(name);
      work.push_back(seconds);
    }
    std::vector<std::pair<StageId, StageId>> ids;
    for (const std::string& edge : edges) {
      const std::size_t dash = edge.find('-');
      ids.push_back({id(edge.substr(0, dash)), id(edge.substr(dash + 1))});
    }
    graph = stage_graph(static_cast<int>(names.size()), ids, "test");
    replicas.resize(names.size(), 1);
    int rank = 0;
    for (const int n : replicas) {
      auto& home = placement.stages.emplace_back();
      for (int r = 0; r < n; ++r) home.emplace_back(rank++);
    }
  }
  StageId id(const std::string& name) const {
    return StageId(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin()));
  }

  std::vector<int> in_flight(int microbatches) const {
    return kfkb_in_flight(graph, stage_configs(graph, placement, ks), microbatches);
  }
  double seconds(int microbatches) const { return seconds(microbatches, in_flight(microbatches)); }
  double seconds(int microbatches, const std::vector<int>& held) const {
    const int ranks = placement.rank_count();
    const Schedule schedule =
        orders::on_ranks(kfkb_orders(graph, placement, ks, microbatches, held), placement, ranks, microbatches);
    Costs costs;
    for (std::size_t s = 0; s < work.size(); ++s) {
      const double f = work[s] * graph.microbatches_per_op_of(StageId(s));
      costs.stages.push_back({Seconds(f), Seconds(2 * f), Seconds(0), Seconds(0), Bytes(0)});
    }
    const Program program = lower(schedule, graph, placement, WeightRule{});
    EXPECT_TRUE(check(program).empty());
    return simulate(program, costs, latency_cluster(ranks, Seconds(0)), identity_devices(ranks), {.trace = false}).end;
  }
  // In flight times work, the most and the sum.
  std::pair<double, double> stash(int microbatches) const {
    const auto held = in_flight(microbatches);
    double peak = 0, sum = 0;
    for (std::size_t s = 0; s < work.size(); ++s) {
      peak = std::max(peak, work[s] * held[s]);
      sum += work[s] * held[s];
    }
    return {peak, sum};
  }
};

std::vector<std::pair<std::string, double>> stages_of(const Json& v, std::vector<std::string> order) {
  std::vector<std::pair<std::string, double>> stages;
  for (const std::string& name : order) stages.emplace_back(name, v["stages"][name].get<double>());
  return stages;
}

void expect_case(const Pipeline& p, const Json& expected, int batch) {
  EXPECT_EQ(p.seconds(batch), expected["T"]) << expected;
  const auto held = p.in_flight(batch);
  if (expected.contains("inflight")) {
    for (const auto& [name, count] : expected["inflight"].items()) EXPECT_EQ(held[p.id(name).index()], count) << name;
  }
  if (expected.contains("stash")) {
    for (const auto& [name, held_work] : expected["stash"].items())
      EXPECT_EQ(held[p.id(name).index()] * p.work[p.id(name).index()], held_work) << name;
  }
}

TEST(GraphPipeVectors, ThreeStagesThatFeedOne) {  // TV1, figure 2 of the paper
  const auto v = vector_named("GP-TV1");
  const auto stages = stages_of(v, {"p", "q", "r", "j"});
  for (const char* kind : {"spp", "gpp"})
    expect_case(Pipeline(stages, v[kind]["edges"].get<std::vector<std::string>>()), v[kind], v["B"].get<int>());
}

TEST(GraphPipeVectors, TwoBranchesWithTheJoinInTheSecond) {  // TV2
  const auto v = vector_named("GP-TV2");
  const auto stages = stages_of(v, {"A1", "A2", "B1", "B2"});
  for (const char* kind : {"spp", "gpp"})
    expect_case(Pipeline(stages, v[kind]["edges"].get<std::vector<std::string>>()), v[kind], v["B"].get<int>());
}

TEST(GraphPipeVectors, LessInFlightAllowsLargerMicroBatches) {  // TV2, F(b) = (1 + b) / 2
  const auto v = vector_named("GP-TV2");
  const auto& affine = v["affine"];
  const auto stages = stages_of(v, {"A1", "A2", "B1", "B2"});
  for (const std::string kind : {"spp", "gpp"})
    for (const int b : {1, 2}) {
      Pipeline p(stages, v[kind]["edges"].get<std::vector<std::string>>());
      for (double& work : p.work) work *= 0.5 + 0.5 * b;
      const int microbatches = v["B"].get<int>() / b;
      if (b == 1) {
        EXPECT_EQ(p.seconds(microbatches), affine[kind + "_b1_T"]);
        continue;
      }
      const auto& expected = affine[kind + "_b2"];
      EXPECT_EQ(p.seconds(microbatches), expected["T"]);
      const Pipeline one_sample(stages, v[kind]["edges"].get<std::vector<std::string>>());  // stash: in samples
      EXPECT_EQ(b * one_sample.stash(microbatches).first, expected["peak"]);
      EXPECT_EQ(b * one_sample.stash(microbatches).first <= affine["mem_cap"].get<double>(), expected["feasible"]);
    }
}

TEST(GraphPipeVectors, WholeBranchesOnTwoReplicasEach) {  // TV2, counter-case: b = 2
  const Pipeline p({{"A", 3}, {"B", 3}}, {"A-B"}, {2, 2});
  EXPECT_EQ(p.seconds(8), 45);
  EXPECT_EQ(p.in_flight(8), (std::vector{4, 2}));  // of two replicas: 2 x 3 micro-batches each
}

TEST(GraphPipeVectors, TwoBranchesAndAJoinOfItsOwn) {  // TV2b
  const auto v = vector_named("GP-TV2b");
  const auto stages = stages_of(v, {"A1", "A2", "B1", "B2", "C"});
  auto operators = stages;  // stash counts operators: the join is one, of work 2
  operators.back().second = 1;
  const std::map<std::string, std::vector<std::string>> edges = {
      {"spp", {"A1-A2", "A2-B1", "B1-B2", "B2-C"}}, {"gpp", v["gpp"]["edges"].get<std::vector<std::string>>()}};
  for (const auto& [kind, list] : edges) {
    const Pipeline p(stages, list);
    EXPECT_EQ(p.seconds(v["B"].get<int>()), v[kind]["T"]);
    EXPECT_EQ(p.in_flight(v["B"].get<int>())[0], v[kind]["depth"]);
    EXPECT_EQ(Pipeline(operators, list).stash(v["B"].get<int>()).second, v[kind]["stash_total_op_units"]);
  }
}

TEST(GraphPipeVectors, CaseStudy) {  // TV3
  std::vector<std::pair<std::string, double>> stages;
  std::vector<std::string> branches, sequence;
  for (const char branch : {'a', 'b'})
    for (int k = 0; k < 4; ++k) {
      const std::string name = branch + std::to_string(k);
      if (k > 0) branches.push_back(branch + std::to_string(k - 1) + "-" + name);
      if (!stages.empty()) sequence.push_back(stages.back().first + "-" + name);
      stages.emplace_back(name, 1);
    }
  auto joined = branches;
  joined.push_back("a3-b3");
  for (const auto& c : vector_named("GP-TV3")["cases"]) {
    const int b = c["b"].get<int>(), microbatches = c["B"].get<int>() / b;
    const auto seconds = [&](const std::vector<std::string>& edges) {
      return b * Pipeline(stages, edges).seconds(microbatches);
    };
    EXPECT_EQ(seconds(branches), c["gpp_T_free_join"]);
    if (c.contains("spp_T")) {
      EXPECT_EQ(seconds(sequence), c["spp_T"]);
    }
    if (c.contains("gpp_T_join_in_b3")) {
      EXPECT_EQ(seconds(joined), c["gpp_T_join_in_b3"]);
    }
  }
}

TEST(GraphPipeVectors, MicroBatchesPerStage) {  // TV4, figure 5 of the paper
  const auto v = vector_named("GP-TV4");
  Pipeline p(stages_of(v, {"S1", "S2", "S3"}), {"S1-S2", "S2-S3"});
  p.graph.microbatches_per_op = {4, 4, 4};
  EXPECT_EQ(p.seconds(16), v["uniform_b4"]["T"]);
  p.graph.microbatches_per_op = {1, 2, 4};
  EXPECT_EQ(p.seconds(16), v["per_stage_b_1_2_4"]["T"]);
}

TEST(GraphPipeVectors, FlexFlowsStageFiles) {  // TV5
  const auto v = vector_named("GP-TV5");
  std::vector<std::pair<std::string, double>> stages;
  for (int s = 0; s < 6; ++s) stages.emplace_back(std::to_string(s), 1);
  EXPECT_EQ(Pipeline(stages, v["gpp_edges"].get<std::vector<std::string>>()).seconds(16), v["unit_T_N16"]["gpp"]);
  EXPECT_EQ(Pipeline(stages, {"0-1", "1-2", "2-3", "3-4", "4-5"}).seconds(16), v["unit_T_N16"]["spp"]);
}

// Larger buffers do not help: chains of equal time per sample, mixed micro-batches and k.
RC_GTEST_PROP(GraphPipeProperties, TheRulesBuffersAreAsGoodAsLargerOnes, ()) {
  const int n = *rc::gen::inRange(1, 5), microbatches = 8 * *rc::gen::inRange(1, 4);
  std::vector<std::pair<std::string, double>> stages;
  std::vector<std::string> edges;
  for (int s = 0; s < n; ++s) {
    stages.emplace_back(std::to_string(s), 1);
    if (s > 0) edges.push_back(std::to_string(s - 1) + "-" + std::to_string(s));
  }
  Pipeline p(stages, edges);
  for (int s = 0; s < n; ++s) {
    p.graph.microbatches_per_op.push_back(1 << *rc::gen::inRange(0, 3));
    p.ks.push_back(*rc::gen::inRange(1, 3));
  }
  std::vector<int> larger = p.in_flight(microbatches);
  const double seconds = p.seconds(microbatches);
  const int more = *rc::gen::inRange(1, 5);
  for (int& held : larger) held = std::min(microbatches, held + 8 * more);
  RC_ASSERT(seconds <= p.seconds(microbatches, larger) + 1e-9);
}

// The same for every DAG of equal stages, k = 1: one round for a micro-batch and for every further
// stage on the longest path.
RC_GTEST_PROP(GraphPipeProperties, EqualStagesTakeMicroBatchesAndDepthRounds, ()) {
  const int n = *rc::gen::inRange(1, 9), microbatches = *rc::gen::inRange(1, 12);
  std::vector<std::pair<std::string, double>> stages;
  std::vector<std::string> edges;
  std::vector<int> depth(static_cast<std::size_t>(n), 1);
  for (int a = n; a-- > 0;)
    for (int b = a + 1; b < n; ++b)
      if (*rc::gen::inRange(0, 3) == 0) {
        edges.push_back(std::to_string(a) + "-" + std::to_string(b));
        int& d = depth[a];
        d = std::max(d, depth[b] + 1);
      }
  for (int s = 0; s < n; ++s) stages.emplace_back(std::to_string(s), 1);
  const Pipeline p(stages, edges);
  RC_ASSERT(p.seconds(microbatches) == 3.0 * (microbatches + *std::ranges::max_element(depth) - 1));
}

// --- plans ---

// A random model: a DAG of layers in which every layer but the last is read.
CostGraph random_model(std::mt19937& random, int layers) {
  const auto upto = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  CostGraph graph{.model = "random", .source = "test", .device = "d", .micro_batch = 1, .layers = {}};
  for (int l = 0; l < layers; ++l) {
    LayerCost layer{.name = "layer" + std::to_string(l)};
    const double f = upto(1, 6);
    layer.forward = Seconds(f);
    layer.input_gradient = Seconds(f);
    layer.weight_gradient = Seconds(f);
    layer.parameters = Bytes(upto(0, 50));
    layer.output = Bytes(upto(1, 8));
    for (int p = std::max(0, l - 4); p < l; ++p)
      if (upto(0, 2) == 0) layer.inputs.push_back(p);
    if (layer.inputs.empty()) layer.inputs = {-1};
    graph.layers.push_back(layer);
  }
  LayerCost& last = graph.layers.back();
  for (int l = 0; l + 1 < layers; ++l) {
    bool is_read = false;
    for (const LayerCost& other : graph.layers)
      is_read = is_read || std::ranges::find(other.inputs, l) != other.inputs.end();
    if (!is_read) last.inputs.push_back(l);
  }
  std::erase(last.inputs, -1);
  if (last.inputs.empty()) last.inputs = {-1};
  return graph;
}

struct Planned {
  Plan plan;
  RankMap ranks;
  StageGraph graph;
  Schedule schedule;
  Program program;
};

class Planning {
 public:
  Planning(CostGraph costs, int devices, int microbatches, Bytes memory = GiB(1))
      : costs_(std::move(costs)), devices_(devices), microbatches_(microbatches) {
    cluster_ = latency_cluster(devices, Seconds(0.01));
    cluster_.all_to_all->bandwidth = 100;
    for (Device& device : cluster_.devices) device.memory = memory;
  }

  // None: the planner rejects.
  std::optional<Planned> plan(const std::map<std::string, std::string>& settings) const {
    const System& system = find_system("graphpipe", "test");
    const Options options = resolve_options(system.options, settings, "test");
    Problem problem{costs_, cluster_, devices_, microbatches_, microbatches_, {}};
    problem.simulate = [&](const PlannedPipeline& found) { return seconds(complete(found, system, options)); };
    try {
      return complete(make_plan(system, problem, options), system, options);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  Seconds seconds(const Planned& p) const {
    return Seconds(
        simulate(p.program, costs_of(p.plan, costs_, cluster_), cluster_, p.ranks.devices, {.trace = false}).end);
  }
  // What the planner takes for the memory of a stage where it is told nothing else.
  Bytes peak_bytes(const Planned& p) const {
    std::vector<StageMemory> stages;
    for (const PlanStage& stage : p.plan.stages) {
      StageMemory& m = stages.emplace_back();
      for (const int l : stage.layers) {
        const LayerCost& layer = costs_.layers[l];
        m.weights += layer.parameters;
        m.gradients += layer.parameters;
        m.stash += layer.output * stage.microbatches_per_op;
      }
    }
    Bytes peak;
    for (const RankMemory& m : memory(p.program, stages)) peak = std::max(peak, m.peak.total());
    return peak;
  }
  const CostGraph& costs() const { return costs_; }

 private:
  Planned complete(const PlannedPipeline& found, const System& system, const Options& options) const {
    const Plan& plan = found.plan;
    Planned p{.plan = plan, .ranks = ranks_of(plan), .graph = stage_graph(plan, costs_)};
    const ScheduleProblem order{.graph = p.graph,
                                .placement = p.ranks.placement,
                                .ranks = static_cast<int>(p.ranks.devices.size()),
                                .microbatches = microbatches_,
                                .order = found.order};
    p.schedule = system.schedule(order, options);
    p.program = lower(p.schedule, p.graph, p.ranks.placement, system.weights(order, options));
    return p;
  }

  CostGraph costs_;
  Cluster cluster_;
  int devices_, microbatches_;
};

// No path leaves a stage and comes back.
bool convex(const Plan& plan, const CostGraph& costs) {
  const auto stage_of = stage_of_layers(plan, costs.layers.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<bool> outside_after(costs.layers.size(), false);
    for (std::size_t l = 0; l < costs.layers.size(); ++l)
      for (const int p : costs.layers[l].inputs) {
        if (p < 0) continue;
        const auto before = static_cast<std::size_t>(p);
        const bool left =
            outside_after[before] || (stage_of[before] == static_cast<int>(s) && stage_of[l] != static_cast<int>(s));
        if (left && stage_of[l] == static_cast<int>(s)) return false;
        outside_after[l] = outside_after[l] || left;
      }
  }
  return true;
}

RC_GTEST_PROP(GraphPipePlans, AreConvexStagesOnAllDevicesThatFit, ()) {
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  const int layers = *rc::gen::inRange(1, 12), devices = *rc::gen::inRange(1, 7);
  const int microbatches = *rc::gen::element(4, 6, 7, 8);
  const Bytes memory(*rc::gen::element(100, 400, 100000));
  const Planning planning(random_model(random, layers), devices, microbatches, memory);
  const auto micro_batch = *rc::gen::element<std::string>("case", "uniform", "per_stage");
  const auto partition = *rc::gen::element<std::string>("best", "series_parallel", "absorb_joins", "sequential");
  const auto planned = planning.plan({{"micro_batch", micro_batch},
                                      {"partition", partition},
                                      {"degrees", *rc::gen::element<std::string>("powers_of_two", "any")},
                                      {"k", "2"}});
  RC_CLASSIFY(planned.has_value(), "planned");
  if (!planned) return;
  const Plan& plan = planned->plan;
  RC_ASSERT(planned->ranks.devices.size() == static_cast<std::size_t>(devices));
  std::size_t used = 0;
  for (const PlanStage& stage : plan.stages) used += stage.devices.size();
  RC_ASSERT(used == static_cast<std::size_t>(devices));
  RC_ASSERT(convex(plan, planning.costs()));
  RC_ASSERT(check(planned->program).empty());
  RC_ASSERT(planning.peak_bytes(*planned) <= memory);
  RC_ASSERT(plan.search.complete);
}

// A sequence is what there is for a model without branches.
RC_GTEST_PROP(GraphPipePlans, OfAChainAreSequences, ()) {
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  CostGraph chain = random_model(random, *rc::gen::inRange(1, 12));
  for (std::size_t l = 0; l < chain.layers.size(); ++l) chain.layers[l].inputs = {static_cast<int>(l) - 1};
  const Planning planning(chain, *rc::gen::inRange(1, 7), 8);
  const auto graph = planning.plan({{"partition", "best"}});
  const auto sequence = planning.plan({{"partition", "sequential"}});
  RC_ASSERT(graph.has_value() == sequence.has_value());
  if (!graph) return;
  RC_ASSERT(graph->plan.stages.size() == sequence->plan.stages.size());
  for (std::size_t s = 0; s < graph->plan.stages.size(); ++s) {
    RC_ASSERT(graph->plan.stages[s].layers == sequence->plan.stages[s].layers);
    RC_ASSERT(graph->plan.stages[s].devices == sequence->plan.stages[s].devices);
  }
  RC_ASSERT(graph->schedule == sequence->schedule);
}

RC_GTEST_PROP(GraphPipePlans, MoreChoiceIsNeverWorseByTheObjective, ()) {
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  const Planning planning(random_model(random, *rc::gen::inRange(2, 10)), *rc::gen::inRange(1, 6), 8, Bytes(300));
  const auto objective = [&](const std::string& partition, const std::string& micro_batch) {
    const auto p = planning.plan({{"partition", partition}, {"micro_batch", micro_batch}, {"rank", "objective"}});
    return p ? p->plan.search.objective : 1e300;
  };
  RC_ASSERT(objective("best", "case") <= objective("series_parallel", "case") + 1e-12);
  RC_ASSERT(objective("best", "case") <= objective("absorb_joins", "case") + 1e-12);
  RC_ASSERT(objective("series_parallel", "per_stage") <= objective("series_parallel", "uniform") + 1e-12);
}

TEST(GraphPipePlans, BranchesHoldLessThanASequenceAndFinishEarlier) {
  // Two branches of two equal layers, and a join: one device for each.
  CostGraph costs{.model = "m", .source = "test", .device = "d", .micro_batch = 1, .layers = {}};
  const auto add = [&](std::vector<int> inputs) {
    costs.layers.push_back({"layer" + std::to_string(costs.layers.size()), std::move(inputs), Seconds(1), Seconds(1),
                            Seconds(1), Seconds(0), Bytes(0), Bytes(0)});
  };
  add({-1}), add({0}), add({-1}), add({2}), add({1, 3});
  const Planning planning(costs, 5, 8);
  const auto graph = planning.plan({{"max_degree", "1"}}).value();
  const auto sequence = planning.plan({{"max_degree", "1"}, {"partition", "sequential"}}).value();
  EXPECT_EQ(graph.plan.stages.size(), 5u);
  EXPECT_TRUE(graph.plan.imposed_edges.empty());
  EXPECT_EQ(sequence.plan.imposed_edges, (std::vector<std::pair<StageId, StageId>>{{StageId(1), StageId(2)}}));
  const auto in_flight = [](const Planned& p) {
    std::vector<int> held;
    for (const RankPeak& peak : peaks(p.schedule)) held.push_back(peak.in_flight);
    return held;
  };
  EXPECT_EQ(in_flight(graph), (std::vector{3, 2, 3, 2, 1}));
  EXPECT_EQ(in_flight(sequence), (std::vector{5, 4, 3, 2, 1}));
  EXPECT_LT(planning.seconds(graph), planning.seconds(sequence));
}

TEST(GraphPipePlans, WhatDoesNotFitIsRejected) {
  std::mt19937 random(1);
  const Planning planning(random_model(random, 6), 2, 4, Bytes(1));
  EXPECT_FALSE(planning.plan({}));
}

}  // namespace
}  // namespace sluice
