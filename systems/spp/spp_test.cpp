// SPP as a system: its plans and orders on real clusters' terms, and where its own model and the
// virtual clock tell the same time.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/pipeline/plan_description.h"
#include "harness/pipeline/system.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/simulate.h"
#include "systems/spp/device_order.h"
#include "systems/spp/replicated_partition.h"

namespace sluice {
namespace {

const System& spp_system() { return find_system("spp", "test"); }

Options options_of(const std::map<std::string, std::string>& given) {
  return resolve_options(spp_system().options, given, "test");
}

// Backward: a third input gradient, the rest weight gradient. Outputs and parameters in bytes.
CostGraph costs_of(const std::vector<double>& forward, const std::vector<double>& backward,
                   const std::vector<std::int64_t>& outputs, const std::vector<std::int64_t>& parameters) {
  CostGraph graph{.model = "m", .source = "test", .device = "d", .micro_batch = 1, .layers = {}};
  for (std::size_t l = 0; l < forward.size(); ++l)
    graph.layers.push_back({.name = "layer" + std::to_string(l),
                            .inputs = {static_cast<int>(l) - 1},
                            .forward = Seconds(forward[l]),
                            .input_gradient = Seconds(0.25 * backward[l]),
                            .weight_gradient = Seconds(0.75 * backward[l]),
                            .update = Seconds(0),
                            .parameters = Bytes(parameters[l]),
                            .output = Bytes(l < outputs.size() ? outputs[l] : 0)});
  return graph;
}

Cluster cluster_of(const SquareMatrix& bandwidths) {
  Cluster cluster{.name = "c", .source = "", .devices = {}, .links = {}};
  cluster.devices.resize(bandwidths.size());
  for (std::size_t a = 0; a < bandwidths.size(); ++a)
    for (std::size_t b = a + 1; b < bandwidths.size(); ++b)
      cluster.links.push_back({DeviceId(a), DeviceId(b), bandwidths.at(a, b), Seconds(0), true, -1});
  return cluster;
}

struct Case {
  CostGraph costs;
  Cluster cluster;
  int microbatches;

  PlannedPipeline planned(const std::map<std::string, std::string>& given = {}) const {
    const Problem problem{costs, cluster, static_cast<int>(cluster.devices.size()), microbatches, microbatches, {}};
    return make_plan(spp_system(), problem, options_of(given));
  }
  Plan plan(const std::map<std::string, std::string>& given = {}) const { return planned(given).plan; }
  Program program(const PlannedPipeline& p, const std::map<std::string, std::string>& given = {}) const {
    const RankMap map = ranks_of(p.plan);
    const StageGraph graph = stage_graph(p.plan, costs);
    const Schedule schedule = spp_system().schedule({.graph = graph,
                                                     .placement = map.placement,
                                                     .ranks = static_cast<int>(map.devices.size()),
                                                     .microbatches = microbatches,
                                                     .order = p.order},
                                                    options_of(given));
    const auto found = check(schedule, graph, map.placement);
    if (!found.empty()) throw std::logic_error(found.front().text);
    return lower(schedule, graph, map.placement, WeightRule{});
  }
  double simulated(const PlannedPipeline& p, const std::map<std::string, std::string>& given = {}) const {
    const Program lowered = program(p, given);
    EXPECT_TRUE(check(lowered).empty());
    return simulate(lowered, sluice::costs_of(p.plan, costs, cluster), cluster, ranks_of(p.plan).devices).end;
  }
};

SquareMatrix bandwidths_of(std::size_t n, double otherwise, const std::vector<std::tuple<int, int, double>>& links) {
  SquareMatrix result(n, otherwise);
  for (const auto& [a, b, bandwidth] : links)
    result.at(a, static_cast<std::size_t>(b)) = result.at(b, static_cast<std::size_t>(a)) = bandwidth;
  return result;
}

Case case_a() {
  return {costs_of({1, 1, 2, 2}, {2, 2, 4, 4}, {1, 2, 1}, {5, 5, 10, 20}),
          cluster_of(bandwidths_of(3, 1, {{0, 1, 10}})), 4};
}

Case case_b() {
  return {costs_of({1, 1, 1, 1, 1, 3}, {2, 2, 2, 2, 2, 6}, {4, 2, 2, 1, 1}, {1, 1, 1, 2, 8, 16}),
          cluster_of(bandwidths_of(4, 1, {{0, 2, 8}, {1, 3, 8}})), 8};
}

std::string text_of(const Plan& plan) {
  std::string text;
  for (const PlanStage& stage : plan.stages) {
    text += "[" + std::to_string(stage.layers.front()) + "," + std::to_string(stage.layers.back() + 1) + ")@";
    for (const DeviceId d : stage.devices) text += std::to_string(d.value);
    text += " ";
  }
  return text;
}

TEST(SppTest, PublishedCases) {
  const Plan a = case_a().plan();
  EXPECT_EQ(text_of(a), "[0,3)@01 [3,4)@2 ");
  EXPECT_DOUBLE_EQ(a.search.objective, 33);
  EXPECT_TRUE(a.search.complete);
  EXPECT_GT(a.search.states, 0);
  const Plan b = case_b().plan();
  EXPECT_EQ(text_of(b), "[0,4)@02 [4,6)@13 ");
  EXPECT_DOUBLE_EQ(b.search.objective, 55.125);
}

TEST(SppTest, TheOtherWayRoundMayBeBetter) {
  const Plan plan = case_a().plan({{"orient", "both"}});
  EXPECT_EQ(text_of(plan), "[0,2)@2 [2,4)@10 ");
  EXPECT_DOUBLE_EQ(plan.search.objective, 32);
}

// Every order of the devices, every cut, every dealing out: 32 is the best there is for case A, and
// what SPP finds is the best for case B.
TEST(SppTest, TheBestOverAllDeviceOrders) {
  const auto best_of_all = [](const Case& c) {
    const LayerChain chain = layer_chain(c.costs);
    const SquareMatrix bandwidths = pair_bandwidths(c.cluster, static_cast<int>(c.cluster.devices.size()));
    std::vector<int> order(bandwidths.size());
    std::iota(order.begin(), order.end(), 0);
    const int groups = chain.groups(), devices = static_cast<int>(order.size());
    double best = 1e300;
    do {
      ReplicationProblem p{.chain = chain, .bandwidths = bandwidths, .speeds = std::vector<double>(order.size(), 1)};
      for (std::size_t x = 0; x < order.size(); ++x)
        for (std::size_t y = 0; y < order.size(); ++y)
          p.bandwidths.at(x, y) = bandwidths.at(order[x], static_cast<std::size_t>(order[y]));
      // A bit a boundary: where stages end, in the chain and in the order.
      for (unsigned cuts = 0; cuts < 1u << (groups - 1); ++cuts)
        for (unsigned splits = 0; splits < 1u << (devices - 1); ++splits) {
          std::vector<int> ends, device_ends;
          for (int k = 1; k < groups; ++k)
            if (cuts >> (k - 1) & 1u) ends.push_back(k);
          for (int k = 1; k < devices; ++k)
            if (splits >> (k - 1) & 1u) device_ends.push_back(k);
          if (ends.size() != device_ends.size()) continue;
          ends.push_back(groups);
          device_ends.push_back(devices);
          std::vector<ReplicatedStage> stages;
          for (std::size_t s = 0; s < ends.size(); ++s)
            stages.push_back({s ? ends[s - 1] : 0, ends[s], s ? device_ends[s - 1] : 0, device_ends[s]});
          best = std::min(best, list_schedule(pipeline_times(p, stages), c.microbatches).makespan);
        }
    } while (std::ranges::next_permutation(order).found);
    return best;
  };
  EXPECT_DOUBLE_EQ(best_of_all(case_a()), 32);
  EXPECT_DOUBLE_EQ(best_of_all(case_b()), 55.125);
}

// Links near enough to each other in speed that no message takes a detour over two. Never more
// devices than stages can use: one for every layer, or (replicas) one for every layer and
// micro-batch.
Case arbitrary_case(bool zero_transfers, bool replicas) {
  const auto list = [](std::size_t n, int from, int to) {
    std::vector<double> values;
    for (std::size_t k = 0; k < n; ++k) values.push_back(*rc::gen::inRange(from, to));
    return values;
  };
  const auto bytes = [&](std::size_t n, int to) {
    std::vector<std::int64_t> values;
    for (const double v : list(n, 0, to)) values.push_back(static_cast<std::int64_t>(v));
    return values;
  };
  const auto layers = *rc::gen::inRange<std::size_t>(1, 7);
  const int microbatches = *rc::gen::inRange(1, 11);
  const std::size_t usable = layers * (replicas ? static_cast<std::size_t>(microbatches) : 1);
  const auto devices = *rc::gen::inRange<std::size_t>(1, std::min<std::size_t>(5, usable) + 1);
  SquareMatrix bandwidths(devices, 1);
  for (std::size_t a = 0; a < devices; ++a)
    for (std::size_t b = a + 1; b < devices; ++b)
      bandwidths.at(a, b) = bandwidths.at(b, a) = *rc::gen::element(5, 6, 7, 8);
  return {
      costs_of(list(layers, 0, 10), list(layers, 0, 10), bytes(layers - 1, zero_transfers ? 1 : 10), bytes(layers, 20)),
      cluster_of(bandwidths), microbatches};
}

RC_GTEST_PROP(SppTest, EveryOrderItEmitsChecksAndLowers, ()) {
  const Case c = arbitrary_case(false, true);
  const std::map<std::string, std::string> given = {{"order", *rc::gen::element<std::string>("strict", "ready")},
                                                    {"channel", *rc::gen::element<std::string>("shared", "duplex")},
                                                    {"merge_last", *rc::gen::element<std::string>("yes", "no")},
                                                    {"orient", *rc::gen::element<std::string>("paper", "both")},
                                                    {"all_devices", *rc::gen::element<std::string>("yes", "no")}};
  RC_ASSERT(check(c.program(c.planned(given), given)).empty());
}

// One device a stage, duplex channels of their own, no latency: the model is the virtual clock's.
RC_GTEST_PROP(SppTest, WithoutReplicasItsModelIsTheVirtualClock, ()) {
  const Case c = arbitrary_case(false, false);
  const int stages = static_cast<int>(c.cluster.devices.size());
  const std::map<std::string, std::string> given = {{"order", *rc::gen::element<std::string>("strict", "ready")},
                                                    {"channel", "duplex"},
                                                    {"stages", std::to_string(stages)},
                                                    {"merge_last", *rc::gen::element<std::string>("yes", "no")}};
  const PlannedPipeline planned = c.planned(given);
  RC_ASSERT(static_cast<int>(planned.plan.stages.size()) == stages);
  RC_ASSERT(std::abs(c.simulated(planned, given) - planned.plan.search.objective) <= 1e-9);
}

// The same where transfers take no time, whatever the channel: nothing waits for it.
RC_GTEST_PROP(SppTest, WithoutTransfersSharedChannelsAgreeToo, ()) {
  const Case c = arbitrary_case(true, false);
  const std::map<std::string, std::string> given = {{"stages", std::to_string(c.cluster.devices.size())}};
  const Plan plan = c.plan(given);
  RC_ASSERT(std::abs(c.simulated(plan, given) - plan.search.objective) <= 1e-9);
}

// One stage is data parallelism: M / r micro-batches on each of r replicas take as long as M of
// which each replica does an r-th, and the ring's slowest link is the slowest of all where all are
// equal.
TEST(SppTest, OneStageAgreesWhereReplicasShareTheMicroBatchesEvenly) {
  const Case c{costs_of({1, 2, 3}, {2, 4, 6}, {1, 1}, {6, 6, 12}), cluster_of(bandwidths_of(3, 2, {})), 6};
  const Plan plan = c.plan({{"stages", "1"}});
  EXPECT_EQ(plan.stages.front().devices.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.search.objective, 6 * 18 / 3. + 2 * 2 / 3. * 24 / 2);
  EXPECT_DOUBLE_EQ(c.simulated(plan), plan.search.objective);
}

// Where they do not agree. Case A's stage 0 has two replicas: the model has both work on each
// micro-batch, so that its first result is there after 2 s; here each takes every other one whole,
// and the first result is there after 4 s.
TEST(SppTest, AReplicaTakesWholeMicroBatches) {
  const Case c = case_a();
  const Plan plan = c.plan();
  const Program program = c.program(plan);
  const Simulation s = simulate(program, sluice::costs_of(plan, c.costs, c.cluster), c.cluster, ranks_of(plan).devices);
  EXPECT_EQ(s.trace.ranks[0].front().end, 4);
  EXPECT_EQ(s.trace.ranks[1].front().end, 4);  // micro-batch 1, at the same time
  EXPECT_GT(s.end, plan.search.objective);
}

// A stage may not have more replicas than there are micro-batches; the planner's model does not mind.
TEST(SppTest, AsManyReplicasAsMicroBatches) {
  const Case c{costs_of({1, 1}, {1, 1}, {1}, {0, 0}), cluster_of(bandwidths_of(2, 1, {})), 1};
  const Plan plan = c.plan();  // one stage would take 2 s on both devices together
  EXPECT_EQ(text_of(plan), "[0,1)@0 [1,2)@1 ");
  EXPECT_DOUBLE_EQ(plan.search.objective, 6);
  EXPECT_EQ(text_of(c.plan({{"all_devices", "no"}})), "[0,2)@0 ");
}

TEST(SppTest, BadInputIsRejected) {
  const Case c{costs_of({1}, {1}, {}, {0}), cluster_of(bandwidths_of(3, 1, {})), 2};
  EXPECT_EQ(error_of([&] { c.plan(); }),
            "spp: no plan of 1 cuttable layers uses all of 3 devices with at most 2 replicas a "
            "stage, one a micro-batch; use more micro-batches, fewer devices, or all_devices=no");
  EXPECT_EQ(error_of([&] {
              case_a().plan({{"stages", "4"}});
            }),
            "spp: no plan of 4 stages of 4 cuttable layers uses all of 3 devices with at most 4 "
            "replicas a stage, one a micro-batch; use more micro-batches, fewer devices, or "
            "all_devices=no");
  const Case more = case_a();
  EXPECT_EQ(error_of([&] {
              make_plan(spp_system(), {more.costs, more.cluster, 4, 4, 4, {}}, options_of({}));
            }),
            "spp: 4 ranks on a cluster of 3 devices; use fewer ranks or a larger cluster");
}

TEST(SppTest, ASearchThatIsCutShortSaysSo) {
  // 1 MiB holds the tables of the first rows only.
  std::vector<double> seconds(60, 1);
  const std::vector<std::int64_t> bytes(60, 1);
  const Case c{costs_of(seconds, seconds, bytes, bytes), cluster_of(bandwidths_of(24, 1e3, {})), 32};
  const Plan whole = c.plan(), part = c.plan({{"table_limit", "1"}});
  EXPECT_TRUE(whole.search.complete);
  EXPECT_FALSE(part.search.complete);
  EXPECT_LT(part.search.states, whole.search.states);
  EXPECT_GE(part.search.objective, whole.search.objective);
  const Json json = to_json(describe_plan(part, c.costs, "spp", std::nullopt));
  EXPECT_EQ(json["complete"], false);
  EXPECT_EQ(json["objective"], part.search.objective);
  EXPECT_EQ(json["objective_name"], "iteration time of its own model");
}

TEST(SppTest, StagesThatDoNotFitAreLeftOut) {
  // A layer of 1 GiB of weights needs 3 GiB and its output; all four need 12, more than one has.
  Case c{costs_of({1, 1, 1, 1}, {2, 2, 2, 2}, {0, 0, 0}, {1 << 30, 1 << 30, 1 << 30, 1 << 30}),
         cluster_of(bandwidths_of(2, 1e12, {})), 4};
  for (Device& device : c.cluster.devices) device.memory = GiB(7);
  EXPECT_EQ(c.plan().stages.size(), 1u);
  EXPECT_EQ(text_of(c.plan({{"memory", "yes"}})), "[0,2)@0 [2,4)@1 ");
  for (Device& device : c.cluster.devices) device.memory = GiB(5);
  EXPECT_NE(error_of([&] { c.plan({{"memory", "yes"}}); }).find("within the devices' memory"), std::string::npos);
}

// Of the plans for every number of stages, the one that the simulator likes best.
TEST(SppTest, TheSimulatorMayChooseTheNumberOfStages) {
  const Case c{costs_of({1, 1, 1, 1}, {2, 2, 2, 2}, {0, 0, 0}, {64, 64, 64, 64}), cluster_of(bandwidths_of(4, 64, {})),
               4};
  Problem problem{c.costs, c.cluster, 4, 4, 4, {}};
  problem.simulate = [&](const PlannedPipeline& planned) { return Seconds(c.simulated(planned)); };
  double least = 1e300;
  std::size_t stages = 0;
  for (int x = 1; x <= 4; ++x) {
    const Plan plan = c.plan({{"stages", std::to_string(x)}});
    if (c.simulated(plan) < least) least = c.simulated(plan), stages = plan.stages.size();
  }
  const Plan plan = make_plan(spp_system(), problem, options_of({{"rank", "simulated"}})).plan;
  EXPECT_EQ(plan.stages.size(), stages);
  EXPECT_DOUBLE_EQ(c.simulated(plan), least);
}

TEST(SppTest, DevicesOfOneServerMakeAStage) {
  // Servers {0, 3} and {1, 2}: fast inside, slow between.
  const Case c{costs_of({1, 1, 1, 1}, {2, 2, 2, 2}, {1, 1, 1}, {64, 64, 64, 64}),
               cluster_of(bandwidths_of(4, 8, {{0, 3, 512}, {1, 2, 512}})), 16};
  EXPECT_EQ(text_of(c.plan({{"stages", "2"}})), "[0,2)@03 [2,4)@12 ");
}

Schedule schedule_of(int ranks, int microbatches, const std::map<std::string, std::string>& given) {
  return spp_system().schedule({chain(ranks), one_stage_per_rank(ranks), ranks, microbatches}, options_of(given));
}

// As drawn at the head of spp.cpp.
TEST(SppTest, TheOrderOfThreeStages) {
  EXPECT_EQ(to_text(schedule_of(3, 6, {})),
            "rank 0: 0F0 0F1 0F2 0F3 0F4 0F5 0B0 0B1 0B2 0B3 0B4 0B5\n"
            "rank 1: 1F0 1F1 1F2 1F3 1B0 1F4 1B1 1F5 1B2 1B3 1B4 1B5\n"
            "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5\n");
  // Unmerged, the last backward has a position of its own: stage 0 forwards one more before it.
  EXPECT_EQ(to_text(schedule_of(2, 6, {{"merge_last", "no"}})),
            "rank 0: 0F0 0F1 0F2 0F3 0F4 0B0 0F5 0B1 0B2 0B3 0B4 0B5\n"
            "rank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 1F5 1B5\n");
}

// Replicas 0 and 1 of the first stage take every other micro-batch; a round is two of them.
TEST(SppTest, TheOrderOfReplicas) {
  const Placement placement{{{Rank(0), Rank(1)}, {Rank(2)}}};
  const Schedule schedule = spp_system().schedule({chain(2), placement, 3, 11}, options_of({}));
  EXPECT_EQ(to_text(schedule),
            "rank 0: 0F0 0F2 0F4 0F6 0B0 0F8 0B2 0F10 0B4 0B6 0B8 0B10\n"
            "rank 1: 0F1 0F3 0F5 0F7 0B1 0F9 0B3 0B5 0B7 0B9\n"
            "rank 2: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 1F5 1B5 1F6 1B6 1F7 1B7 1F8 1B8 1F9 "
            "1B9 1F10 1B10\n");
}

}  // namespace
}  // namespace sluice
