// Precision and attention: bytes a parameter, what stays of its own size in 16 bit, and what that makes of seconds.
#include "harness/model/precision.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/model/cost_graph.h"

namespace sluice {
namespace {

LayerSpec one_layer(LayerKind kind, std::vector<int> inputs = {-1}) {
  return {.name = "one", .kind = std::move(kind), .inputs = std::move(inputs)};
}

const Storage kMixed(Precision::mixed, AttentionScores::fused);

Storage with_scores(AttentionScores scores) { return {Precision::mixed, scores}; }

// Weight, gradient, fp32 copies and `states` tensors of state.
std::int64_t bytes_a_parameter(Precision precision, int state_tensors) {
  const Storage s(precision, AttentionScores::fused);
  return (s.weight + s.gradient + s.master + state_tensors * s.state).value;
}

TEST(PrecisionTest, BytesAParameterAreThePublishedOnes) {
  // ZeRO (SC 2020), section 3.1: 2 + 2 + 12 with Adam; Megatron Core's guide: 16, 18 and 20.
  EXPECT_EQ(bytes_a_parameter(Precision::fp32, 2), 16);
  EXPECT_EQ(bytes_a_parameter(Precision::mixed, 2), 16);
  EXPECT_EQ(bytes_a_parameter(Precision::mixed_fp32_gradients, 2), 18);
  EXPECT_EQ(bytes_a_parameter(Precision::mixed_two_gradients, 2), 20);
  // SGD: without and with momentum.
  EXPECT_EQ(bytes_a_parameter(Precision::fp32, 0), 8);
  EXPECT_EQ(bytes_a_parameter(Precision::mixed, 0), 8);
  EXPECT_EQ(bytes_a_parameter(Precision::mixed, 1), 12);
}

TEST(PrecisionTest, StatisticsMasksAndPositionsKeepTheirSize) {
  const std::vector<Shape> words{{5, 8}}, image{{8, 6, 6}}, classes{{5, 11}};
  EXPECT_EQ(stash(one_layer(LayerNorm{8}), words, kMixed).extra, Bytes(2 * 5 * 4));
  EXPECT_EQ(stash(one_layer(RmsNorm{8}), words, kMixed).extra, Bytes(5 * 4));
  EXPECT_EQ(stash(one_layer(BatchNorm{8}), image, kMixed).extra_per_microbatch, Bytes(2 * 8 * 4));
  EXPECT_EQ(stash(one_layer(Dropout{}), words, kMixed).extra, Bytes(40));
  EXPECT_EQ(stash(one_layer(Pool2d{}), image, kMixed).extra, Bytes(8 * 8 * 3 * 3));
  EXPECT_EQ(stash(one_layer(CrossEntropyLoss{}), classes, kMixed).extra, Bytes(5 * 11 * 4));
  EXPECT_EQ(stash(one_layer(MseLoss{}), words, kMixed).extra, Bytes(2 * 40));
  EXPECT_EQ(stash(one_layer(Lstm{8, 3}), words, kMixed).extra, Bytes(5 * 5 * 3 * 2));
}

TEST(PrecisionTest, ValuesTakeTwoBytesAndTokensEight) {
  ModelGraph model{.name = "words", .inputs = {{.shape = {5}, .is_token_ids = true}}, .layers = {}};
  model.layers.push_back(one_layer(Embedding{20, 3}));
  const std::vector<Shape> shapes{{5, 3}};
  EXPECT_EQ(output_bytes(model, shapes, -1, 2, kMixed), Bytes(2 * 5 * 8));
  EXPECT_EQ(output_bytes(model, shapes, 0, 2, kMixed), Bytes(2 * 15 * 2));
}

TEST(AttentionScoresTest, AreKeptAsTheFormIs) {
  // Two heads, width 8, five positions: q, k, v and the heads' output are 4 x 40 elements of two bytes.
  const std::vector<Shape> words{{5, 8}};
  const LayerSpec layer = one_layer(Attention{.width = 8, .heads = 2, .causal = true});
  const auto extra = [&](AttentionScores scores) { return stash(layer, words, with_scores(scores)).extra; };
  EXPECT_EQ(extra(AttentionScores::fused), Bytes(2 * 4 * 40 + 2 * 5 * 4));
  EXPECT_EQ(extra(AttentionScores::kept), Bytes(2 * 4 * 40 + 2 * 25 * 2));
  EXPECT_EQ(extra(AttentionScores::kept_with_dropout), Bytes(2 * 4 * 40 + 2 * 25 * (2 + 1 + 2)));
  // From five positions to three others: q and the output are 2 x 40, k and v 2 x 24.
  const std::vector<Shape> two{{5, 8}, {3, 4}};
  const LayerSpec cross = one_layer(CrossAttention{.width = 8, .memory = 4, .heads = 2}, {-1, -2});
  EXPECT_EQ(stash(cross, two, with_scores(AttentionScores::kept)).extra, Bytes(2 * (80 + 48) + 2 * 15 * 2));
  EXPECT_EQ(kept_scores(cross, two, with_scores(AttentionScores::kept)), Bytes(2 * 15 * 2));
  EXPECT_EQ(kept_scores(one_layer(Linear{8, 8}), words, with_scores(AttentionScores::kept)), Bytes(0));
}

TEST(AttentionScoresTest, KeptOnesAreAllComputedAndNotAgain) {
  const std::vector<Shape> words{{5, 8}};
  const LayerSpec layer = one_layer(Attention{.width = 8, .heads = 2, .causal = true});
  const double projections = 2 * 4 * 5 * 8 * 8;
  // Fused and causal: 15 of the 25 pairs, two products forward and five back.
  EXPECT_EQ(flops(layer, words).forward, Flops(projections + 2 * 2 * 15 * 8));
  EXPECT_EQ(flops(layer, words).input_gradient, Flops(projections + 5 * 2 * 15 * 8));
  EXPECT_EQ(flops(layer, words, AttentionScores::kept).forward, Flops(projections + 2 * 2 * 25 * 8));
  EXPECT_EQ(flops(layer, words, AttentionScores::kept).input_gradient, Flops(projections + 4 * 2 * 25 * 8));
}

ModelGraph linear_model(std::int64_t in, std::int64_t out) {
  ModelGraph model{.name = "linear", .inputs = {{.shape = {in}}}, .layers = {}};
  model.layers.push_back(one_layer(Linear{in, out, false}));
  return model;
}

// Peaks of 1 and 4 TFLOP/s; a product reaches 0.75 of them, streaming 0.8 of 1 TB/s.
const Device kDevice{.name = "made", .flops = 1e12, .flops_16 = 4e12, .memory_bandwidth = 1e12, .launch = Seconds(0)};

TEST(PrecisionCosts, ProductsTakeThePeakIn16BitAndStreamsHalfTheBytes) {
  // 2 FLOP of every weight and sample. With many samples the peak decides, with one the weights' bytes.
  const ModelGraph model = linear_model(1000, 1000);
  const auto forward = [&](std::int64_t samples, const Storage& storage) {
    return analytic_costs(model, samples, kDevice, storage).layers[0].forward.value;
  };
  EXPECT_DOUBLE_EQ(forward(1'000'000, {}), 2e12 / (0.75 * 1e12));
  EXPECT_DOUBLE_EQ(forward(1'000'000, kMixed), 2e12 / (0.75 * 4e12));
  EXPECT_DOUBLE_EQ(forward(1, {}), 4 * 1.002e6 / 0.8e12);
  EXPECT_DOUBLE_EQ(forward(1, kMixed), 2 * 1.002e6 / 0.8e12);
}

TEST(PrecisionCosts, WeightsGradientsAndTheStepHaveTheirBytes) {
  const ModelGraph model = linear_model(10, 10);  // 100 parameters
  const auto costs = [&](Precision precision) {
    return analytic_costs(model, 1, kDevice, {precision, AttentionScores::fused});
  };
  // Of every parameter: weights, their gradients, all three of weights, gradients and fp32 copies; and what a step
  // reads and writes: gradient, the weight or its copies, twice, and the weight where it is one of its own.
  const auto expect = [&](Precision precision, int weights, int gradients, int resident, int step) {
    const CostGraph graph = costs(precision);
    const Bytes own = graph.layers[0].parameters;
    EXPECT_EQ(own, Bytes(100 * weights));
    EXPECT_EQ(graph.gradients(own), Bytes(100 * gradients));
    EXPECT_EQ(graph.resident(own), Bytes(100 * resident));
    EXPECT_DOUBLE_EQ(graph.layers[0].update.value, 100 * step / 0.8e12);
  };
  expect(Precision::fp32, 4, 4, 8, 4 + 2 * 4);
  expect(Precision::mixed, 2, 2, 8, 2 + 2 * 4 + 2);
  expect(Precision::mixed_fp32_gradients, 2, 4, 10, 4 + 2 * 4 + 2);
  expect(Precision::mixed_two_gradients, 2, 2, 12, 2 + 2 * 8 + 2);
  EXPECT_EQ(costs(Precision::mixed).layers[0].output, Bytes(20));
}

TEST(PrecisionCosts, KeptScoresGoThroughMemory) {
  ModelGraph model{.name = "attention", .inputs = {{.shape = {100, 8}}}, .layers = {}};
  model.layers.push_back(one_layer(Attention{.width = 8, .heads = 2}));
  Device slow = kDevice;
  slow.memory_bandwidth = 1e9;
  const auto seconds = [&](AttentionScores scores) {
    return analytic_costs(model, 1, slow, with_scores(scores)).layers[0].forward.value;
  };
  // 100 x 100 scores of two heads, two bytes each, and a mask and another matrix.
  EXPECT_NEAR(seconds(AttentionScores::kept) - seconds(AttentionScores::fused), 2 * 1e4 * 2 / 0.8e9, 1e-12);
  EXPECT_NEAR(seconds(AttentionScores::kept_with_dropout) - seconds(AttentionScores::kept), 2 * 1e4 * 3 / 0.8e9, 1e-12);
}

TEST(PrecisionCosts, ADeviceThatStatesNoPeakIn16BitIsRejected) {
  Device device = kDevice;
  device.flops_16 = 0;
  EXPECT_EQ(error_of([&] { analytic_costs(linear_model(2, 2), 1, device, kMixed); }),
            "device 'made': states no peak in 16 bit; give its flops_16 in the cluster's file, or use fp32");
  EXPECT_NO_THROW(analytic_costs(linear_model(2, 2), 1, device));
}

}  // namespace
}  // namespace sluice
