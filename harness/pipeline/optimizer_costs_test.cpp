// Seconds of an optimizer's step with its state: bytes by hand, and products one by one.
#include "harness/pipeline/optimizer_costs.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/model/calibrated_costs.h"
#include "harness/model/kernel_times.h"

namespace sluice {
namespace {

const Storage kMixed(Precision::mixed, AttentionScores::fused);

Calibration calibration_of(const std::string& name) {
  return load_calibration(name, SLUICE_SOURCE_DIR "/workloads/devices");
}

// Linear layers without biases, the middle one hidden: 64 x 256, 256 x 128, 128 x 32.
ModelGraph three_layers() {
  ModelGraph model{.name = "three", .inputs = {{Shape{64}, false}}};
  model.layers = {{"in", Linear{64, 256, false}, {-1}},
                  {"hidden", Linear{256, 128, false}, {0}},
                  {"out", Linear{128, 32, false}, {1}},
                  {"loss", MseLoss{}, {2}}};
  return model;
}

CostGraph costs_of(const ModelGraph& model, const OptimizerSpec& optimizer, const Calibration& c,
                   const Storage& storage) {
  const Device device{.name = c.device, .flops = c.peak, .flops_16 = c.peak};
  CostGraph graph = calibrated_costs(model, 8, device, c, storage);
  add_optimizer_state(graph, model, optimizer, c);
  return graph;
}

double bytes_a_parameter(const OptimizerSpec& optimizer, const std::string& calibration, const Storage& storage = {}) {
  const Calibration c = calibration_of(calibration);
  const double rate = c.memory_bandwidth * c.stream_share;
  return costs_of(three_layers(), optimizer, c, storage).layers[1].update.value * rate / (256 * 128);
}

TEST(OptimizerCosts, AStepReadsAndWritesTheState) {
  const OptimizerSpec sgd, momentum{.momentum = 0.9}, adam{.kind = OptimizerKind::adam},
      adamw{.kind = OptimizerKind::adamw}, rmsprop{.kind = OptimizerKind::rmsprop};
  EXPECT_NEAR(bytes_a_parameter(sgd, "v100_sxm2_fp32"), 12, 1e-9);  // reads gradient and weight, writes the weight
  EXPECT_NEAR(bytes_a_parameter(momentum, "v100_sxm2_fp32"), 20, 1e-9);
  EXPECT_NEAR(bytes_a_parameter(rmsprop, "v100_sxm2_fp32"), 20, 1e-9);
  EXPECT_NEAR(bytes_a_parameter(adam, "v100_sxm2_fp32"), 28, 1e-9);
  EXPECT_NEAR(bytes_a_parameter(adamw, "v100_sxm2_fp32"), 28, 1e-9);
  // 16 bit: a gradient of 2, an fp32 copy of 4 read and written, a weight of 2; moments are in fp32.
  EXPECT_NEAR(bytes_a_parameter(sgd, "a100_sxm_bf16", kMixed), 12, 1e-9);
  EXPECT_NEAR(bytes_a_parameter(adamw, "a100_sxm_bf16", kMixed), 28, 1e-9);
  EXPECT_NEAR(bytes_a_parameter(adamw, "a100_sxm_bf16", {Precision::mixed_fp32_gradients, AttentionScores::fused}), 30,
              1e-9);
}

TEST(OptimizerCosts, FrozenAndTiedWeightsAreNotSteppedAgain) {
  const Calibration c = calibration_of("v100_sxm2_fp32");
  const double rate = c.memory_bandwidth * c.stream_share;
  ModelGraph model = three_layers();
  model.layers[0].frozen = true;
  const OptimizerSpec adamw{.kind = OptimizerKind::adamw};
  EXPECT_EQ(costs_of(model, adamw, c, {}).layers[0].update.value, 0);
  model = {.name = "tied", .inputs = {{Shape{8}, true}}};
  model.layers = {
      {"words", Embedding{100, 16}, {-1}}, {"head", Linear{16, 100, false}, {0}}, {"loss", CrossEntropyLoss{}, {1}}};
  model.layers[1].tied_to = 0;
  const CostGraph tied = costs_of(model, adamw, c, {});
  EXPECT_NEAR(tied.layers[0].update.value, 28 * 1600 / rate, 1e-15);
  EXPECT_EQ(tied.layers[1].update.value, 0);
}

TEST(OptimizerCosts, MuonStepsHiddenMatricesByFiveTimesThreeProducts) {
  const Calibration c = calibration_of("a100_sxm_bf16");
  const double rate = c.memory_bandwidth * c.stream_share;
  const CostGraph graph = costs_of(three_layers(), {.kind = OptimizerKind::muon, .momentum = 0.95}, c, kMixed);
  const double products = 5 * (product_seconds(c, {1, 128, 128, 256}) + product_seconds(c, {1, 128, 128, 128}) +
                               product_seconds(c, {1, 128, 256, 128}))
                                  .value;
  EXPECT_NEAR(graph.layers[1].update.value, products + 20.0 * 256 * 128 / rate, 1e-12);  // one moment
  EXPECT_NEAR(graph.layers[0].update.value, 28.0 * 64 * 256 / rate, 1e-15);              // the first layer gets AdamW
}

TEST(OptimizerCosts, RotatedAdamRotatesThreeMatricesAndAveragesOne) {
  const Calibration c = calibration_of("a100_sxm_bf16");
  const double rate = c.memory_bandwidth * c.stream_share;
  // The matrix is 128 x 256, out x in; the smaller side is the left one.
  const auto extra = [&](RotationSides sides, RotationSource source, double bases) {
    const OptimizerSpec rotated{.kind = OptimizerKind::rotated_adam, .sides = sides, .source = source};
    const double state = 2 * 128 * 256 + bases;
    return costs_of(three_layers(), rotated, c, kMixed).layers[1].update.value -
           (12.0 * 128 * 256 + 2 * 4 * state) / rate;
  };
  const double left = 3 * product_seconds(c, {1, 128, 256, 128}).value,
               right = 3 * product_seconds(c, {1, 256, 128, 256}).value;
  const double squares = (product_seconds(c, {1, 128, 128, 256}) + product_seconds(c, {1, 256, 256, 128})).value;
  EXPECT_NEAR(extra(RotationSides::smaller, RotationSource::first, 128 * 128), left, 1e-12);
  EXPECT_NEAR(extra(RotationSides::both, RotationSource::second, 2 * (128 * 128 + 256 * 256)), left + right + squares,
              1e-12);
}

}  // namespace
}  // namespace sluice
