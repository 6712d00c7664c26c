#include "harness/pipeline/plan.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/pipeline/plan_description.h"

namespace sluice {
namespace {

// A diamond: 0 -> 1, 0 -> 2, {1, 2} -> 3.
CostGraph diamond() {
  CostGraph graph{.model = "diamond", .source = "test", .device = "d", .micro_batch = 2, .layers = {}};
  const auto add = [&](const char* name, std::vector<int> inputs, double s, int bytes) {
    graph.layers.push_back({name, std::move(inputs), Seconds(s), Seconds(2 * s), Seconds(3 * s), Seconds(s / 2),
                            Bytes(100), Bytes(bytes)});
  };
  add("stem", {-1}, 1, 10);
  add("left", {0}, 2, 20);
  add("right", {0}, 3, 30);
  add("join", {1, 2}, 4, 40);
  return graph;
}

Plan plan_of(std::vector<PlanStage> stages) {
  Plan plan;
  plan.stages = std::move(stages);
  return plan;
}

Plan branches() {
  return plan_of({{{0}, {DeviceId(0)}}, {{1}, {DeviceId(1)}}, {{2}, {DeviceId(2)}}, {{3}, {DeviceId(3)}}});
}

TEST(StageOfLayersTest, FindsTheStageOfEveryLayer) {
  EXPECT_EQ(stage_of_layers(plan_of({{{0, 2}, {DeviceId(0)}}, {{1, 3}, {DeviceId(1)}}}), 4), (std::vector{0, 1, 0, 1}));
}

TEST(StageOfLayersTest, LayersInNoStageOrInTwoAreRejected) {
  const auto rejection = [](std::vector<PlanStage> stages) {
    return error_of([&] { stage_of_layers(plan_of(std::move(stages)), 3); });
  };
  EXPECT_EQ(rejection({{{0}, {}}, {{2}, {}}}), "plan: layer 1 is in no stage");
  EXPECT_EQ(rejection({{{0, 1}, {}}, {{1, 2}, {}}}), "plan: layer 1 is in stages 0 and 1");
  EXPECT_EQ(rejection({{{0, 1, 2, 3}, {}}}), "plan: stage 0 names layer 3, which does not exist");
  EXPECT_EQ(rejection({{{-1, 0, 1, 2}, {}}}), "plan: stage 0 names layer -1, which does not exist");
}

TEST(StageGraphOfPlanTest, BranchesOfTheModelAreBranchesOfStages) {
  const StageGraph graph = stage_graph(branches(), diamond());
  EXPECT_EQ(graph.successors[0], (std::vector{StageId(1), StageId(2)}));
  EXPECT_EQ(graph.predecessors[3], (std::vector{StageId(1), StageId(2)}));
}

TEST(StageGraphOfPlanTest, StagesThatNeedEachOtherAreRejected) {
  const Plan plan = plan_of({{{0, 3}, {DeviceId(0)}}, {{1, 2}, {DeviceId(1)}}});
  EXPECT_EQ(error_of([&] { stage_graph(plan, diamond()); }), "plan: the stages form a cycle through stage 0");
}

TEST(RanksOfTest, NumbersDevicesInOrderOfFirstUse) {
  const RankMap map =
      ranks_of(plan_of({{{0}, {DeviceId(5)}}, {{1}, {DeviceId(2), DeviceId(7)}}, {{2}, {DeviceId(5)}}}));
  EXPECT_EQ(map.devices, (std::vector{DeviceId(5), DeviceId(2), DeviceId(7)}));
  EXPECT_EQ(map.placement.stages[1], (std::vector{Rank(1), Rank(2)}));
  EXPECT_EQ(map.placement.stages[2], std::vector{Rank(0)});
  EXPECT_EQ(error_of([] { ranks_of(plan_of({{{0}, {}}})); }), "plan: a stage has no device");
}

TEST(RanksOfTest, AGivenOrderNumbersTheDevices) {
  Plan plan = plan_of({{{0}, {DeviceId(0), DeviceId(1)}}, {{1}, {DeviceId(1), DeviceId(0)}}});
  plan.rank_order = {DeviceId(1), DeviceId(0)};
  plan.replica_of = {0, 1, 1};
  const RankMap map = ranks_of(plan);
  EXPECT_EQ(map.devices, (std::vector{DeviceId(1), DeviceId(0)}));
  EXPECT_EQ(map.placement.stages[0], (std::vector{Rank(1), Rank(0)}));
  EXPECT_EQ(map.placement.replica_of, (std::vector<std::size_t>{0, 1, 1}));
  plan.rank_order = {DeviceId(0)};
  EXPECT_EQ(error_of([&] { ranks_of(plan); }), "plan: device 1 has no rank");
}

TEST(StageCostsTest, AddLayersAndTakeTheSlowestReplica) {
  Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(3), .links = {}};
  cluster.devices[1].speed = 0.5;
  const Plan plan = plan_of({{{0, 1}, {DeviceId(0)}}, {{2, 3}, {DeviceId(2), DeviceId(1)}}});
  const auto costs = stage_costs(plan, diamond(), cluster);
  EXPECT_DOUBLE_EQ(costs[0].forward.value, 3);
  EXPECT_DOUBLE_EQ(costs[0].input_gradient.value, 6);
  EXPECT_DOUBLE_EQ(costs[0].weight_gradient.value, 9);
  EXPECT_DOUBLE_EQ(costs[0].update.value, 1.5);
  EXPECT_EQ(costs[0].parameters, Bytes(200));
  EXPECT_DOUBLE_EQ(costs[1].forward.value, 14);  // 7 at half the speed
  EXPECT_EQ(error_of([&] {
              stage_costs(plan_of({{{0}, {DeviceId(3)}}}), diamond(), cluster);
            }),
            "plan: device 3 does not exist; cluster 'c' has 3");
}

// Layers 0 and 1 of the diamond take 6 and 12 seconds of F, I and W together: as pairs 0.5 x 6 and, as the cluster says
// for all that say nothing, 0.75 x 12.
TEST(StageCostsTest, APairTakesTheSharesOfItsLayers) {
  Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(1), .links = {}};
  CostGraph graph = diamond();
  const Plan plan = plan_of({{{0, 1}, {DeviceId(0)}}, {{2, 3}, {DeviceId(0)}}});
  EXPECT_EQ(stage_costs(plan, graph, cluster)[0].pair_share, 1);
  graph.layers[0].pair_share = 0.5;
  EXPECT_DOUBLE_EQ(stage_costs(plan, graph, cluster)[0].pair_share, (0.5 * 6 + 12) / 18);
  cluster.pair_share = 0.75;
  EXPECT_DOUBLE_EQ(stage_costs(plan, graph, cluster)[0].pair_share, (0.5 * 6 + 0.75 * 12) / 18);
  EXPECT_DOUBLE_EQ(stage_costs(plan, graph, cluster)[1].pair_share, 0.75);
}

// Layers 1 and 2 of the diamond can share their work between two devices, at 6 bytes more each way.
CostGraph shared_diamond() {
  CostGraph graph = diamond();
  for (const int l : {1, 2}) {
    LayerCost& layer = graph.layers[l];
    layer.variants = {{.tensor = 1, .id = "vanilla", .seconds = Seconds(12), .parameters = Bytes(100)},
                      {.tensor = 2,
                       .id = "shared",
                       .seconds = Seconds(6),
                       .parameters = Bytes(50),
                       .input_sync = {Bytes(6)},
                       .output_sync = {{3, Bytes(7)}}}};
  }
  return graph;
}

Plan shared_branches() {
  Plan plan = plan_of({{{0}, {DeviceId(0)}}, {{1, 2}, {}}, {{3}, {DeviceId(5)}}});
  for (int d = 1; d <= 4; ++d) plan.stages[1].devices.emplace_back(d);
  plan.stages[1].tensor = 2;
  plan.stages[1].variants = {1, 1};
  return plan;
}

TEST(RanksOfTest, DevicesThatShareLayersAreOneRank) {
  const RankMap map = ranks_of(shared_branches());
  EXPECT_EQ(map.devices, (std::vector{DeviceId(0), DeviceId(1), DeviceId(3), DeviceId(5)}));
  EXPECT_EQ(map.placement.stages[1], (std::vector{Rank(1), Rank(2)}));
  Plan odd = shared_branches();
  odd.stages[1].tensor = 3;
  EXPECT_EQ(error_of([&] { ranks_of(odd); }), "plan: 4 devices of a stage do not form tensor-parallel groups of 3");
}

TEST(StageCostsTest, VariantsReplaceALayersOwnTimes) {
  const Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(6), .links = {}};
  const auto costs = stage_costs(shared_branches(), shared_diamond(), cluster);
  EXPECT_DOUBLE_EQ(costs[1].forward.value, 4);  // a third of 6 + 6
  EXPECT_DOUBLE_EQ(costs[1].weight_gradient.value, 4);
  EXPECT_EQ(costs[1].parameters, Bytes(100));
  EXPECT_DOUBLE_EQ(costs[2].forward.value, 4);  // no variants
}

TEST(StageCostsTest, MeasuredDevicesGoByTheirOwnTimes) {
  CostGraph graph = diamond();
  graph.layers[0].on = {{"board", Seconds(7), Seconds(8), Seconds(9)}};
  Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(2), .links = {}};
  cluster.devices[1] = {.name = "board", .speed = 0.5};
  const auto costs = stage_costs(plan_of({{{0, 1}, {DeviceId(1)}}}), graph, cluster);
  EXPECT_DOUBLE_EQ(costs[0].forward.value, 7 + 2 / 0.5);
  EXPECT_DOUBLE_EQ(costs[0].weight_gradient.value, 9 + 6 / 0.5);
  // The slowest replica counts.
  const auto two = stage_costs(plan_of({{{0}, {DeviceId(0), DeviceId(1)}}}), graph, cluster);
  EXPECT_DOUBLE_EQ(two[0].forward.value, 7);
}

TEST(EdgeBytesTest, EdgesMayHaveBytesOfTheirOwn) {
  CostGraph graph = diamond();
  graph.layers[1].input_bytes = {Bytes(3)};
  graph.layers[2].input_bytes = {Bytes(4)};
  const Plan plan = plan_of({{{0}, {DeviceId(0)}}, {{1, 2}, {DeviceId(1)}}, {{3}, {DeviceId(2)}}});
  EXPECT_EQ(edge_bytes(plan, graph, StageId(0), StageId(1)), Bytes(4));  // the most asked for
}

TEST(EdgeBytesTest, SharedLayersSendMore) {
  EXPECT_EQ(edge_bytes(shared_branches(), shared_diamond(), StageId(0), StageId(1)), Bytes(16));
  EXPECT_EQ(edge_bytes(shared_branches(), shared_diamond(), StageId(1), StageId(2)), Bytes(20 + 7 + 30 + 7));
}

TEST(EdgeBytesTest, EveryTensorCrossesOnce) {
  const Plan plan = plan_of({{{0}, {DeviceId(0)}}, {{1, 2}, {DeviceId(1)}}, {{3}, {DeviceId(2)}}});
  EXPECT_EQ(edge_bytes(plan, diamond(), StageId(0), StageId(1)), Bytes(10));  // read by two layers
  EXPECT_EQ(edge_bytes(plan, diamond(), StageId(1), StageId(2)), Bytes(50));
  EXPECT_EQ(edge_bytes(plan, diamond(), StageId(0), StageId(2)), Bytes(0));
}

TEST(PlanJsonTest, NamesDegreesVariantsAndObjective) {
  Plan plan = shared_branches();
  plan.search = {.objective = 3, .objective_name = "seconds of something"};
  const Json json = to_json(describe_plan(plan, shared_diamond(), "s", std::nullopt));
  EXPECT_EQ(json["stages"][1]["data"], 2);
  EXPECT_EQ(json["stages"][1]["tensor"], 2);
  EXPECT_EQ(json["stages"][1]["variants"], (Json{"shared", "shared"}));
  EXPECT_FALSE(json["stages"][0].contains("variants"));
  EXPECT_EQ(json["objective_name"], "seconds of something");
}

TEST(PlanJsonTest, HasTheFieldsThatScriptsRead) {
  Plan plan = branches();
  plan.micro_batch = 2;
  plan.search.objective = 1.5;
  const auto json = to_json(describe_plan(plan, diamond(), "gpipe", Seconds(2.5)));
  EXPECT_EQ(json["system"], "gpipe");
  EXPECT_EQ(json["objective"], 1.5);
  EXPECT_EQ(json["simulated_seconds"], 2.5);
  EXPECT_EQ(json["micro_batch"], 2);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["stages"][1], (Json{{"layers", {1}}, {"devices", {1}}, {"data", 1}, {"tensor", 1}}));
  EXPECT_EQ(json["edges"].dump(), "[[0,1],[0,2],[1,3],[2,3]]");
  EXPECT_TRUE(to_json(describe_plan(plan, diamond(), "gpipe", std::nullopt))["simulated_seconds"].is_null());
}

TEST(PlanJsonTest, CutsAreWholePartsOfAPyTorchModel) {
  CostGraph graph = diamond();
  const Plan plan = plan_of({{{0, 1, 2}, {DeviceId(0)}}, {{3}, {DeviceId(1)}}});
  EXPECT_FALSE(to_json(describe_plan(plan, graph, "s", std::nullopt)).contains("module_fqns_per_model_part"));
  const auto parts = [&](std::vector<std::string> of_layers) {
    for (std::size_t l = 0; l < of_layers.size(); ++l) graph.layers[l].part = of_layers[l];
    return model_parts(plan, graph);
  };
  parts({"blocks.0", "left", "blocks.0", "head"});
  EXPECT_EQ(to_json(describe_plan(plan, graph, "s", std::nullopt))["module_fqns_per_model_part"].dump(),
            R"([["blocks.0","left"],["head"]])");
  // A function between modules has no part.
  EXPECT_EQ(parts({"blocks.0", "", "blocks.1", "head"}).names->front(),
            (std::vector<std::string>{"blocks.0", "blocks.1"}));
  EXPECT_EQ(parts({"blocks.0", "left", "blocks.1", "blocks.1"}).left_out,
            "'blocks.1' is in stages 0 and 1; torchtitan gives a stage whole children of the model, of its ModuleLists "
            "and of its ModuleDicts");
  EXPECT_EQ(parts({"blocks.0", "left", "blocks.1", ""}).left_out, "stage 1 holds no module");
}

TEST(PlanJsonTest, ASearchSpeaksForItself) {
  Plan plan = branches();
  plan.search.objective = 1.5;
  EXPECT_EQ(to_json(describe_plan(plan, diamond(), "s", std::nullopt))["objective_name"], "slowest stage");
  plan.search = {.objective = 7, .objective_name = "its own", .states = 42, .complete = false};
  const auto json = to_json(describe_plan(plan, diamond(), "s", std::nullopt));
  EXPECT_EQ(json["objective"], 7);
  EXPECT_EQ(json["objective_name"], "its own");
  EXPECT_EQ(json["states"], 42);
  EXPECT_EQ(json["complete"], false);
}

// Half the time where a rank holds half of the layers; three quarters of it between.
TEST(StageCostsTest, LayersAreFasterOnARankThatHoldsFewOfThem) {
  CostGraph graph = diamond();
  for (LayerCost& layer : graph.layers) {
    LayerMeasurement& m = layer.measured.emplace();
    m.split_weight_gradient = layer.weight_gradient;
    m.forward.half = m.weight_gradient.half = m.update.half = 0.5;
  }
  const Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(2), .links = {}};
  const auto whole = stage_costs(plan_of({{{0, 1, 2, 3}, {DeviceId(0)}}}), graph, cluster);
  EXPECT_EQ(whole[0].forward, Seconds(10));
  const auto halves = stage_costs(plan_of({{{0, 1}, {DeviceId(0)}}, {{2, 3}, {DeviceId(1)}}}), graph, cluster);
  EXPECT_EQ(halves[0].forward, Seconds(1.5));
  EXPECT_EQ(halves[0].input_gradient, Seconds(6));  // as in all of them
  EXPECT_EQ(halves[0].weight_gradient, Seconds(4.5));
  EXPECT_EQ(halves[0].split_weight_gradient, Seconds(4.5));
  EXPECT_EQ(halves[0].update, Seconds(0.75));
  const auto uneven = stage_costs(plan_of({{{0, 1, 2}, {DeviceId(0)}}, {{3}, {DeviceId(1)}}}), graph, cluster);
  EXPECT_EQ(uneven[0].forward, Seconds(6 * 0.75));
  EXPECT_EQ(uneven[1].forward, Seconds(2));  // a quarter: no less than half is known
  // Two stages of one rank count together.
  const auto interleaved =
      stage_costs(plan_of({{{0}, {DeviceId(0)}}, {{1}, {DeviceId(1)}}, {{2}, {DeviceId(0)}}, {{3}, {DeviceId(1)}}}),
                  graph, cluster);
  EXPECT_EQ(interleaved[2].forward, Seconds(1.5));
}

// A run of the whole model computes no input gradient of the first layer that learns; a stage that begins with it does.
TEST(StageCostsTest, AStageAfterOneThatLearnsNothingComputesAnInputGradientThatNoProfileHas) {
  CostGraph graph = diamond();
  for (LayerCost& layer : graph.layers) {
    layer.measured.emplace();
    layer.parameters = Bytes(layer.inputs.front() < 0 ? 0 : 4);
  }
  const Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(2), .links = {}};
  const Plan plan = plan_of({{{0}, {DeviceId(0)}}, {{1, 2, 3}, {DeviceId(1)}}});
  const auto input_gradient = [&] { return stage_costs(plan, graph, cluster)[1].input_gradient; };
  const Seconds both = graph.layers[1].weight_gradient + graph.layers[2].weight_gradient;  // both read layer 0
  const Seconds cut = input_gradient();
  graph.layers[0].parameters = Bytes(4);
  EXPECT_EQ(cut, input_gradient() + both);
  graph.layers[0].parameters = Bytes(0);
  for (LayerCost& layer : graph.layers) layer.measured.reset();  // computed costs have it already
  EXPECT_EQ(cut, input_gradient() + both);
}

}  // namespace
}  // namespace sluice
