// Which kernels a layer is.
#include "harness/model/layer_kernels.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <map>

#include "harness/base/expect_error.h"
#include "harness/model/calibrated_costs.h"
#include "harness/model/kernel_times.h"

namespace sluice {
namespace {

const Calibration& calibration_of(const std::string& name) {
  static std::map<std::string, Calibration> read;
  if (!read.contains(name)) read[name] = load_calibration(name, SLUICE_SOURCE_DIR "/workloads/devices");
  return read[name];
}
const Calibration& measured_v100() { return calibration_of("v100_sxm2_fp32"); }

LayerKernels kernels_of(const LayerKind& kind, const std::vector<Shape>& inputs, std::int64_t samples) {
  return layer_kernels({"layer", kind, {}}, inputs, samples, measured_v100());
}
double seconds_of_product(double m, double n, double k, double batch = 1) {
  return product_seconds(measured_v100(), {batch, m, n, k}).value;
}
double seconds_of_stream(double numbers) { return stream_seconds(measured_v100(), 4 * numbers).value; }

ModelGraph two_layers(std::int64_t in, std::int64_t width) {
  ModelGraph model;
  model.name = "two layers";
  model.inputs = {{Shape{in}, false}};
  model.layers = {{"linear", Linear{in, width}, {-1}}, {"loss", MseLoss{}, {0}}};
  return model;
}

TEST(LayerKernelsTest, ALinearLayerIsAProductAPassAndASumForItsBias) {
  const LayerKernels plain = kernels_of(Linear{300, 200, false}, {Shape{7, 300}}, 5);
  EXPECT_DOUBLE_EQ(plain.forward.seconds.value, seconds_of_product(35, 200, 300));
  EXPECT_DOUBLE_EQ(plain.input_gradient.seconds.value, seconds_of_product(35, 300, 200));
  EXPECT_DOUBLE_EQ(plain.weight_gradient.seconds.value, seconds_of_product(200, 300, 35));
  const LayerKernels biased = kernels_of(Linear{300, 200, true}, {Shape{7, 300}}, 5);
  EXPECT_EQ(biased.forward.seconds, plain.forward.seconds);
  EXPECT_EQ(biased.weight_gradient.count, 2);
  EXPECT_DOUBLE_EQ(biased.weight_gradient.seconds.value,
                   plain.weight_gradient.seconds.value + seconds_of_stream(35 * 200));
}

TEST(LayerKernelsTest, AttentionIsItsProjectionsAndTheInnerProductsOfEveryHead) {
  // 2 samples of 10 steps, 4 heads of 8.
  const LayerKernels k = kernels_of(Attention{.width = 32, .heads = 4}, {Shape{10, 32}}, 2);
  const double scores = seconds_of_product(10, 10, 8, 8), pairs = 2 * 4 * 100;
  EXPECT_DOUBLE_EQ(k.forward.seconds.value, seconds_of_product(20, 96, 32) + scores + 2 * seconds_of_stream(2 * pairs) +
                                                seconds_of_product(10, 8, 10, 8) + seconds_of_product(20, 32, 32));
  EXPECT_EQ(k.forward.count, 6);
  EXPECT_EQ(k.input_gradient.count, 2 + 3 + 6);
  EXPECT_EQ(k.weight_gradient.count, 4);
  const LayerKernels causal = kernels_of(Attention{.width = 32, .heads = 4, .causal = true}, {Shape{10, 32}}, 2);
  EXPECT_EQ(causal.forward.seconds, k.forward.seconds);
  // A sequence of another length to attend to.
  const LayerKernels cross =
      kernels_of(CrossAttention{.width = 32, .memory = 48, .heads = 4}, {Shape{10, 32}, Shape{6, 48}}, 2);
  EXPECT_DOUBLE_EQ(cross.forward.seconds.value, seconds_of_product(20, 32, 32) + seconds_of_product(12, 64, 48) +
                                                    seconds_of_product(10, 6, 8, 8) +
                                                    2 * seconds_of_stream(2 * 2 * 4 * 60) +
                                                    seconds_of_product(10, 8, 6, 8) + seconds_of_product(20, 32, 32));
}

TEST(LayerKernelsTest, ExpertsAreBatchedProductsOfEqualRows) {
  // 2 samples of 10 tokens, two of 4 experts each: 40 rows, 10 an expert.
  const LayerKernels k = kernels_of(Experts{32, 48, 4}, {Shape{10, 32}}, 2);
  EXPECT_DOUBLE_EQ(k.weight_gradient.seconds.value, seconds_of_product(4, 32, 20) + 2 * seconds_of_stream(2 * 40 * 32) +
                                                        2 * seconds_of_product(48, 32, 10, 4) +
                                                        seconds_of_product(32, 48, 10, 4));
  EXPECT_EQ(k.forward.count, 2 + 1 + 3 + 2 + 1);  // router and softmax, gathered, products, f and gate, summed
  EXPECT_EQ(kernels_of(Experts{.features = 32, .hidden = 48, .experts = 4, .gated = false}, {Shape{10, 32}}, 2)
                .weight_gradient.count,
            1 + 2 + 2);
}

// In 16 bit and without gaps, 1e12 bytes/s of memory and norms at half of it; products take nothing.
Calibration streams_in_16_bit() {
  Calibration c;
  c.name = "streams";
  c.element = Bytes(2);
  c.peak = 1e30;
  c.memory_bandwidth = 1e12;
  c.multiprocessors = 1;
  c.products.bandwidth_share = 4;
  c.stream_share = c.activation_share = 1;
  c.norm_share = 0.5;
  c.stream_gap = Seconds(0);
  c.products.gap = Seconds(0);
  return c;
}

TEST(LayerKernelsTest, In16BitALossCastsItsLogitsAndWalksOverThemSixTimes) {
  const std::vector<Shape> logits{Shape{1000, 500}};  // 1e6 for 2 samples
  const LayerKernels k = layer_kernels({"loss", CrossEntropyLoss{}, {}}, logits, 2, streams_in_16_bit(),
                                       {Precision::mixed, AttentionScores::fused});
  EXPECT_EQ(k.forward.count, 6);
  EXPECT_NEAR(k.forward.seconds.value, 38e6 / 1e12, 1e-12);  // 6 + 4 + 8 + 8 + 4 + 8 bytes a logit
  EXPECT_EQ(k.input_gradient.count, 2);
  EXPECT_NEAR(k.input_gradient.seconds.value, 14e6 / 1e12, 1e-12);
}

TEST(LayerKernelsTest, In16BitGradientsOf16BitAreAddedByAKernelOfTheirOwn) {
  const auto gradient = [](Precision precision, const LayerKind& kind, const Shape& in) {
    return layer_kernels({"layer", kind, {}}, std::vector<Shape>{in}, 1, streams_in_16_bit(),
                         {precision, AttentionScores::fused})
        .weight_gradient;
  };
  const Linear linear{1000, 1000, false};
  const PassKernels added = gradient(Precision::mixed, linear, Shape{1000});
  const PassKernels fused = gradient(Precision::mixed_fp32_gradients, linear, Shape{1000});
  EXPECT_EQ(added.count, 2);
  EXPECT_EQ(fused.count, 1);
  EXPECT_NEAR((added.seconds - fused.seconds).value, 1e6 * (2 + 2 * 2) / 1e12, 1e-12);
  // A table of 1e6: three passes over 10 rows of 1000, zeros, and the sum in fp32.
  const PassKernels table = gradient(Precision::mixed_fp32_gradients, Embedding{1000, 1000}, Shape{10});
  EXPECT_NEAR(table.seconds.value, (3 * 2 * 1e4 + 1e6 * 2 + 1e6 * (2 + 2 * 4)) / 1e12, 1e-12);
}

TEST(LayerKernelsTest, NormsHaveAShareOfTheBandwidthOfTheirOwn) {
  const LayerKernels k = layer_kernels({"norm", RmsNorm{1000}, {}}, std::vector<Shape>{Shape{1000}}, 1000,
                                       streams_in_16_bit(), {Precision::mixed_fp32_gradients, AttentionScores::fused});
  EXPECT_NEAR(k.forward.seconds.value, 2 * 2e6 / 0.5e12, 1e-12);
  EXPECT_NEAR(k.input_gradient.seconds.value, 5 * 2e6 / 0.5e12, 1e-12);
}

TEST(LayerKernelsTest, FusedAttentionSkipsMaskedPairsInBlocksAndKeptScoresDoNot) {
  Calibration c = streams_in_16_bit();
  c.peak = 1e12;
  c.products.peak_share = 1e18;  // products and streams take next to nothing
  c.memory_bandwidth = 1e24;
  c.attention = FusedAttention{{.share = 0.5}, {.share = 0.5}};
  const std::vector<Shape> rows{Shape{1024, 64}};
  const auto forward = [&](bool causal, AttentionScores scores) {
    return layer_kernels({"a", Attention{.width = 64, .heads = 2, .causal = causal}, {}}, rows, 3, c,
                         {Precision::mixed_fp32_gradients, scores})
        .forward;
  };
  const double pairs = 3.0 * 2 * 1024 * 1024;
  EXPECT_NEAR(forward(false, AttentionScores::fused).seconds.value, 4 * pairs * 32 / 0.5e12, 1e-9);
  EXPECT_NEAR(forward(true, AttentionScores::fused).seconds.value, 4 * pairs * 32 / 0.5e12 * 1280 / 2048, 1e-9);
  EXPECT_EQ(forward(true, AttentionScores::fused).count, 2 + 2 + 1);  // projections, copies, the kernel
  EXPECT_EQ(forward(true, AttentionScores::kept).count, 2 + 2 + 3);   // scores, softmax, values
  EXPECT_EQ(forward(true, AttentionScores::kept_with_dropout).count, 2 + 2 + 4);
  EXPECT_LT(forward(true, AttentionScores::kept).seconds.value, 1e-9);
}

TEST(CalibratedCostsTest, PrecisionsOfCostsAndCalibrationMustAgree) {
  const Device v100{.name = "gpu"};
  const ModelGraph model = two_layers(300, 200);
  const Storage mixed(Precision::mixed, AttentionScores::fused);
  const std::string error = error_of([&] { calibrated_costs(model, 16, v100, measured_v100(), mixed); });
  EXPECT_NE(error.find("'v100_sxm2_fp32': is in fp32; name a calibration in 16 bit"), std::string::npos) << error;
  EXPECT_NE(error_of([&] { calibrated_costs(model, 16, v100, calibration_of("v100_sxm2_fp16")); }).find("in fp32"),
            std::string::npos);
  const CostGraph costs = calibrated_costs(model, 16, v100, calibration_of("v100_sxm2_fp16"), mixed);
  EXPECT_EQ(costs.storage.activation, Bytes(2));
}

TEST(LayerKernelsTest, AnLstmTakesEveryStepForItselfButItsInputsAtOnce) {
  const LayerKernels one = kernels_of(Lstm{16, 24}, {Shape{1, 16}}, 3),
                     ten = kernels_of(Lstm{16, 24}, {Shape{10, 16}}, 3);
  const double step = seconds_of_product(3, 96, 24) + seconds_of_stream(12 * 3 * 24);
  EXPECT_DOUBLE_EQ(one.forward.seconds.value, seconds_of_product(3, 96, 16) + step);
  EXPECT_NEAR(ten.forward.seconds.value, seconds_of_product(30, 96, 16) + 10 * step, 1e-12);
  EXPECT_EQ(ten.forward.count, 21);
  const LayerKernels cell = kernels_of(LstmCell{16, 24}, {Shape{16}, Shape{48}}, 3);
  EXPECT_EQ(cell.forward.seconds, one.forward.seconds);
}

TEST(LayerKernelsTest, ATransposedConvolutionRunsThePassesOfTheOneThatItTransposes) {
  const LayerKernels down =
      kernels_of(Conv2d{.in = 32, .out = 64, .kernel = 2, .stride = 2, .bias = false}, {Shape{32, 16, 16}}, 4);
  const LayerKernels up =
      kernels_of(ConvTranspose2d{.in = 64, .out = 32, .kernel = 2, .stride = 2, .bias = false}, {Shape{64, 8, 8}}, 4);
  EXPECT_EQ(up.forward.seconds, down.input_gradient.seconds);
  EXPECT_EQ(up.input_gradient.seconds, down.forward.seconds);
  EXPECT_EQ(up.weight_gradient.seconds, down.weight_gradient.seconds);
}

TEST(LayerKernelsTest, AConvolutionOfAnyDimensionsIsTheOneOfAnImageWithAsManyProducts) {
  const LayerKernels sounds = kernels_of(ConvNd{8, 16, {5}, {2}, {2}}, {Shape{8, 64}}, 4);
  const LayerKernels image = kernels_of(
      Conv2d{.in = 8, .out = 16, .kernel = 5, .stride = 2, .padding = 2, .kernel_w = 1}, {Shape{8, 64, 1}}, 4);
  EXPECT_EQ(sounds.forward.seconds, image.forward.seconds);
  EXPECT_EQ(sounds.weight_gradient.seconds, image.weight_gradient.seconds);
  EXPECT_EQ(sounds.weight_gradient.count, 2);
  const LayerKernels film = kernels_of(ConvNd{8, 16, {3, 3, 3}, {}, {1, 1, 1}}, {Shape{8, 4, 6, 5}}, 4);
  const LayerKernels flat = kernels_of(ConvNd{8, 16, {27}, {}, {13}}, {Shape{8, 120}}, 4);
  EXPECT_EQ(film.input_gradient.seconds, flat.input_gradient.seconds);
}

TEST(LayerKernelsTest, OtherLayersReadAndWriteTheirTensors) {
  const Shape image{8, 4, 4};
  const double x = 3 * 128;
  const LayerKernels relu = kernels_of(Activation{}, {image}, 3);
  EXPECT_DOUBLE_EQ(relu.forward.seconds.value, seconds_of_stream(2 * x));
  EXPECT_DOUBLE_EQ(relu.input_gradient.seconds.value, seconds_of_stream(3 * x));
  EXPECT_EQ(relu.weight_gradient.count, 0);
  const LayerKernels sum = kernels_of(Add{}, {image, image, image}, 3);
  EXPECT_DOUBLE_EQ(sum.forward.seconds.value, seconds_of_stream(4 * x));
  EXPECT_EQ(sum.input_gradient.count, 2);
  const LayerKernels norm = kernels_of(BatchNorm{8}, {image}, 3);
  EXPECT_DOUBLE_EQ(norm.input_gradient.seconds.value, seconds_of_stream(2 * x) + seconds_of_stream(3 * x));
  EXPECT_EQ(kernels_of(Flatten{}, {image}, 3).forward.count, 0);
  EXPECT_EQ(kernels_of(Embedding{1000, 16}, {Shape{5}}, 3).input_gradient.count, 0);
  EXPECT_DOUBLE_EQ(kernels_of(Embedding{1000, 16}, {Shape{5}}, 3).forward.seconds.value, seconds_of_stream(2 * 3 * 80));
}

TEST(LayerKernelsTest, TheHostLimitsPassesOfSmallKernels) {
  EXPECT_EQ(pass_seconds({Seconds(1e-3), 10}, Seconds(50e-6)), Seconds(1e-3));
  EXPECT_NEAR(pass_seconds({Seconds(1e-3), 10}, Seconds(200e-6)).value, 2e-3, 1e-12);
  EXPECT_NEAR(pass_seconds({Seconds(1e-3), 10}, Seconds(200e-6), true).value, 3e-3, 1e-12);
}

TEST(CalibratedCostsTest, BytesAreTheAnalyticOnesAndSecondsTheKernels) {
  const Device v100{.name = "gpu"};
  const ModelGraph model = two_layers(300, 200);
  const CostGraph graph = calibrated_costs(model, 16, v100, measured_v100());
  const CostGraph analytic = analytic_costs(model, 16, v100);
  EXPECT_EQ(graph.source, "calibrated v100_sxm2_fp32");
  EXPECT_EQ(graph.device, "gpu");
  EXPECT_EQ(graph.micro_batch, 16);
  for (std::size_t l = 0; l < 2; ++l) {
    EXPECT_EQ(graph.layers[l].parameters, analytic.layers[l].parameters);
    EXPECT_EQ(graph.layers[l].output, analytic.layers[l].output);
    EXPECT_EQ(graph.layers[l].update, analytic.layers[l].update);
    EXPECT_EQ(graph.layers[l].fused, analytic.layers[l].fused);
  }
  EXPECT_DOUBLE_EQ(graph.layers[0].forward.value, seconds_of_product(16, 200, 300));
}

TEST(CalibratedCostsTest, ADeviceOfAnotherPeakIsRejected) {
  check_same_device({.name = "gpu", .flops = 15e12}, measured_v100());
  const std::string error = error_of([] { check_same_device({.name = "gpu", .flops = 125e12}, measured_v100()); });
  EXPECT_NE(error.find("device 'gpu': has a peak of 1.25e+14 FLOP/s, its calibration 'v100_sxm2_fp32' one of 1.57e+13"),
            std::string::npos)
      << error;
}

RC_GTEST_PROP(CalibratedCostsTest, AWeightGradientTakesAtLeastItsBytes, ()) {
  const std::int64_t in = *rc::gen::inRange(1, 5000), out = *rc::gen::inRange(1, 5000);
  const std::int64_t samples = *rc::gen::inRange(1, 300);
  const LayerKernels k = kernels_of(Linear{in, out, false}, {Shape{in}}, samples);
  RC_ASSERT(k.weight_gradient.seconds.value >= 4.0 * double(in * out) / measured_v100().memory_bandwidth);
}

RC_GTEST_PROP(CalibratedCostsTest, ALargerMicroBatchTakesNoLessForwardAndBackward, ()) {
  const std::int64_t in = *rc::gen::inRange(1, 5000), out = *rc::gen::inRange(1, 5000);
  const std::int64_t samples = *rc::gen::inRange(1, 300);
  const LayerKernels few = kernels_of(Linear{in, out}, {Shape{in}}, samples);
  const LayerKernels more = kernels_of(Linear{in, out}, {Shape{in}}, 2 * samples);
  RC_ASSERT(more.forward.seconds >= few.forward.seconds);
  RC_ASSERT(more.input_gradient.seconds >= few.input_gradient.seconds);
}

RC_GTEST_PROP(CalibratedCostsTest, HalfOfALayerTakesNoMoreThanTheWhole, ()) {
  const std::int64_t in = *rc::gen::inRange(1, 3000), half = *rc::gen::inRange(1, 3000);
  const LayerKernels whole = kernels_of(Linear{in, 2 * half}, {Shape{in}}, 32);
  const LayerKernels part = kernels_of(Linear{in, half}, {Shape{in}}, 32);
  RC_ASSERT(part.forward.seconds <= whole.forward.seconds);
  RC_ASSERT(part.weight_gradient.seconds <= whole.weight_gradient.seconds);
}

}  // namespace
}  // namespace sluice
