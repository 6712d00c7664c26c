#include "harness/model/cost_graph.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"

namespace sluice {
namespace {

const Device kDevice{
    .name = "gpu", .flops = 1e12, .memory_bandwidth = 1e9, .memory = GiB(1), .speed = 1, .launch = Seconds(1e-6)};

ModelGraph perceptron(std::int64_t width) {
  ModelGraph model;
  model.name = "perceptron";
  model.inputs = {{Shape{width}, false}};
  model.layers = {{"linear", Linear{width, width}, {-1}},
                  {"relu", Activation{Activation::Kind::relu}, {0}},
                  {"head", Linear{width, 10}, {1}},
                  {"loss", CrossEntropyLoss{}, {2}}};
  return model;
}

TEST(AnalyticCostsTest, AMemoryBoundLinearTakesItsBytes) {
  const CostGraph graph = analytic_costs(perceptron(100), 2, kDevice);
  ASSERT_EQ(graph.layers.size(), 4u);
  EXPECT_EQ(graph.source, "analytic");
  EXPECT_EQ(graph.device, "gpu");
  EXPECT_EQ(graph.micro_batch, 2);
  const LayerCost& linear = graph.layers[0];
  EXPECT_EQ(linear.parameters, Bytes(4 * (100 * 100 + 100)));
  EXPECT_EQ(linear.output, Bytes(4 * 2 * 100));
  // Input, output and weights at 0.8 of 1 GB/s, and the launch; the FLOPs would take 53 ns.
  const double bytes = 4.0 * (200 + 200 + 10'100);
  EXPECT_NEAR(linear.forward.value, bytes / 0.8e9 + 1e-6, 1e-12);
  EXPECT_NEAR(linear.update.value, 3 * 4.0 * 10'100 / 0.8e9, 1e-12);
}

TEST(AnalyticCostsTest, AComputeBoundLinearTakesItsFlops) {
  Device device = kDevice;
  device.memory_bandwidth = 1e15;
  const CostGraph graph = analytic_costs(perceptron(1000), 64, device);
  // 2 x 1000 x 1000 multiply-adds a sample at 0.75 of the peak.
  EXPECT_NEAR(graph.layers[0].forward.value, 64 * 2e6 / 0.75e12 + 1e-6, 1e-9);
  EXPECT_NEAR(graph.layers[0].weight_gradient.value, 64 * 2e6 / 0.75e12 + 1e-6, 1e-9);
}

TEST(AnalyticCostsTest, LayersWithoutWeightsHaveNoWeightGradientAndNoUpdate) {
  const CostGraph graph = analytic_costs(perceptron(100), 2, kDevice);
  EXPECT_EQ(graph.layers[1].weight_gradient, Seconds(0));
  EXPECT_EQ(graph.layers[1].update, Seconds(0));
  EXPECT_EQ(graph.layers[1].parameters, Bytes(0));
  EXPECT_GT(graph.layers[1].forward, Seconds(0));
}

TEST(AnalyticCostsTest, AFrozenLayerHasNoWeightGradientNoUpdateAndNothingInFrontOfItAnInputGradient) {
  ModelGraph model = perceptron(100);
  model.layers.insert(model.layers.begin(), {"body", Linear{100, 100}, {-1}});
  for (std::size_t l = 1; l < model.layers.size(); ++l) model.layers[l].inputs = {static_cast<int>(l) - 1};
  const CostGraph whole = analytic_costs(model, 2, kDevice);
  const auto with_frozen = [&](const std::vector<std::size_t>& layers) {
    ModelGraph frozen = model;
    for (const std::size_t l : layers) frozen.layers[l].frozen = true;
    return analytic_costs(frozen, 2, kDevice).layers;
  };
  // body, linear, relu, head, loss. Behind a trained layer only W and the update go.
  std::vector<LayerCost> layers = with_frozen({1});
  EXPECT_EQ(layers[1].parameters, Bytes(4 * 10'100));
  EXPECT_EQ(layers[1].frozen, Bytes(4 * 10'100));
  EXPECT_EQ(layers[1].trained(), Bytes(0));
  EXPECT_EQ(layers[1].weight_gradient, Seconds(0));
  EXPECT_EQ(layers[1].update, Seconds(0));
  EXPECT_EQ(layers[1].forward, whole.layers[1].forward);
  EXPECT_EQ(layers[1].input_gradient, whole.layers[1].input_gradient);
  EXPECT_EQ(layers[0].weight_gradient, whole.layers[0].weight_gradient);
  // A frozen beginning, and the layer behind it, need no I.
  layers = with_frozen({0, 1});
  for (const std::size_t l : {0, 1, 2, 3}) EXPECT_EQ(layers[l].input_gradient, Seconds(0)) << l;
  EXPECT_EQ(layers[3].weight_gradient, whole.layers[3].weight_gradient);
  EXPECT_EQ(layers[4].input_gradient, whole.layers[4].input_gradient);
}

TEST(AnalyticCostsTest, LargerMicroBatchesTakeLongerButLessThanInProportion) {
  const auto one = analytic_costs(perceptron(100), 1, kDevice).layers[0].forward;
  const auto eight = analytic_costs(perceptron(100), 8, kDevice).layers[0].forward;
  EXPECT_GT(eight, one);
  EXPECT_LT(eight, 8 * one);
}

CostGraph two_layers() {
  return {.model = "m",
          .source = "profile",
          .device = "d",
          .micro_batch = 4,
          .layers = {{"a", {-1}, Seconds(1), Seconds(2), Seconds(3), Seconds(0.5), Bytes(10), Bytes(20)},
                     {"b", {0, -2}, Seconds(4), Seconds(5), Seconds(6), Seconds(0), Bytes(0), Bytes(7)}}};
}

TEST(CostGraphJsonTest, RoundTrips) {
  const Json json = to_json(two_layers());
  const CostGraph graph = cost_graph_from_json(json, "g.json");
  EXPECT_EQ(to_json(graph), json);
  EXPECT_EQ(graph.layers[1].inputs, (std::vector{0, -2}));
  EXPECT_EQ(graph.layers[0].weight_gradient, Seconds(3));
  EXPECT_EQ(graph.layers[0].output, Bytes(20));
}

TEST(CostGraphJsonTest, TheShareOfAPairComesBackAndHasBounds) {
  CostGraph graph = two_layers();
  graph.layers[0].pair_share = 0.75;
  const Json json = to_json(graph);
  const CostGraph back = cost_graph_from_json(json, "g.json");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.layers[0].pair_share, 0.75);
  EXPECT_FALSE(back.layers[1].pair_share);
  EXPECT_EQ(in_proportion(back, 8).layers[0].pair_share, 0.75);
  for (const double wrong : {0.4, 10.5}) {
    Json changed = json;
    changed["layers"][0]["pair_share"] = wrong;
    EXPECT_NE(error_of([&] { cost_graph_from_json(changed, "g.json"); }).find("g.json: /layers/0/pair_share"),
              std::string::npos);
  }
}

TEST(CostGraphJsonTest, WhatPublishedProfilesHaveMoreComesBackToo) {
  CostGraph graph = two_layers();
  graph.layers[0].variants = {{.tensor = 2,
                               .id = "shared",
                               .seconds = Seconds(3),
                               .parameters = Bytes(4),
                               .in_flight = Bytes(5),
                               .always = Bytes(6),
                               .input_sync = {Bytes(7)},
                               .output_sync = {{1, Bytes(8)}},
                               .recompute = true}};
  graph.layers[1].input_bytes = {Bytes(9), Bytes(10)};
  graph.layers[0].stash = Bytes(11);
  graph.layers[0].weight_stash = Bytes(0);
  graph.layers[1].on = {{"board", Seconds(1), Seconds(2), Seconds(3)}};
  const Json json = to_json(graph);
  const CostGraph back = cost_graph_from_json(json, "g.json");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.layers[0].variants.at(0).output_sync.at(1), Bytes(8));
  EXPECT_TRUE(back.layers[0].variants.at(0).recompute);
  EXPECT_EQ(back.layers[1].on.at(0).device, "board");
  EXPECT_EQ(back.layers[0].kept(), Bytes(11));
  EXPECT_EQ(back.layers[0].weight_stash, Bytes(0));
  EXPECT_EQ(back.layers[1].kept(), back.layers[1].output);
  EXPECT_FALSE(back.layers[1].weight_stash);
  EXPECT_EQ(grouped_costs(back, 3).layers[0].kept(), Bytes(33));
  const auto rejection = [&](const std::string& pointer, const Json& value) {
    Json changed = json;
    at_pointer(changed, pointer) = value;
    return error_of([&] { cost_graph_from_json(changed, "g.json"); });
  };
  EXPECT_EQ(rejection("/layers/1/input_bytes", {1}),
            "g.json: /layers/1/input_bytes: must be an array with one number of bytes per input");
  EXPECT_EQ(rejection("/layers/0/stash", -1), "g.json: /layers/0/stash: is -1; must be at least 0");
  EXPECT_EQ(rejection("/layers/0/variants/0/tensor", 0),
            "g.json: /layers/0/variants/0/tensor: is 0; must be at least 1");
  EXPECT_EQ(rejection("/layers/0/variants/0/output_sync", {{"x", 1}}),
            "g.json: /layers/0/variants/0/output_sync/x: is not the number of a layer");
  for (const char* none : {"0", "2", "999999"})
    EXPECT_EQ(rejection("/layers/0/variants/0/output_sync", {{none, 1}}),
              std::string("g.json: /layers/0/variants/0/output_sync/") + none + ": layer " + none +
                  " does not read layer 0's output; name a layer that has it among its inputs");
}

TEST(CostGraphJsonTest, WhatAMachineCostsComesBackTooAndAnEarlierVersionHasLess) {
  CostGraph graph = two_layers();
  graph.machine = MachineCosts{.machine = "m", .neighbours = 1, .send = Seconds(2), .copy = 3};
  graph.machine->apart = {.forward = 1.5, .input_gradient = 2, .weight_gradient = 4};
  graph.machine->processes = {.message = Seconds(5), .byte = 6, .reduce = 7, .gather = 8, .scatter = 9};
  Json json = to_json(graph);
  const CostGraph back = cost_graph_from_json(json, "g.json");
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.machine.value().apart.weight_gradient, 4);
  EXPECT_EQ(back.machine.value().processes.scatter, 9);
  json["machine"]["apart"]["forward"] = 0;
  EXPECT_EQ(error_of([&] { cost_graph_from_json(json, "g.json"); }),
            "g.json: /machine/apart/forward: must be greater than 0");
  json["machine"].erase("apart");
  EXPECT_EQ(cost_graph_from_json(json, "g.json").machine.value().apart.forward, 1);
  json["machine"]["processes"]["reduce"] = -1;
  EXPECT_EQ(error_of([&] { cost_graph_from_json(json, "g.json"); }),
            "g.json: /machine/processes/reduce: must not be negative");
  json["machine"].erase("processes");
  json["machine"]["process_message"] = json["machine"]["process_byte"] = 0;
  EXPECT_EQ(cost_graph_from_json(json, "g.json").machine.value().processes.reduce, 0);
}

TEST(CostGraphJsonTest, ErrorsNameThePlace) {
  const auto rejection = [](const std::string& pointer, const Json& value) {
    Json json = to_json(two_layers());
    at_pointer(json, pointer) = value;
    return error_of([&] { cost_graph_from_json(json, "g.json"); });
  };
  EXPECT_EQ(rejection("/schema", "other"),
            "g.json: /schema: is not 'sluice/cost_graph/1'; make the file with sluice profile");
  EXPECT_EQ(rejection("/micro_batch", 0), "g.json: /micro_batch: is 0; must be at least 1");
  EXPECT_EQ(rejection("/layers", Json::array()), "g.json: /layers: must not be empty");
  EXPECT_EQ(rejection("/layers/1/forward", -1), "g.json: /layers/1/forward: must not be negative");
  EXPECT_EQ(rejection("/layers/0/parameters", -1), "g.json: /layers/0/parameters: is -1; must be at least 0");
  EXPECT_EQ(rejection("/layers/0/inputs", {0}),
            "g.json: /layers/0/inputs: must name earlier layers (or -1, -2, ... for the model's "
            "inputs); the graph must not be cyclic");
  EXPECT_EQ(rejection("/layers/0/inputs", 3), "g.json: /layers/0/inputs: must be an array, is number");
  EXPECT_EQ(rejection("/layers/0/forwrd", 1),
            "g.json: /layers/0/forwrd: unknown key 'forwrd'; did you mean 'forward'?");
  EXPECT_EQ(rejection("/extra", 1).substr(0, 37), "g.json: /extra: unknown key 'extra'; ");
}

}  // namespace
}  // namespace sluice
