// Times of kernels: by hand on a device of round numbers, and properties.
#include "harness/model/kernel_times.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

// 4 multiprocessors, 1 TFLOP/s and memory that costs nothing; every tile reaches the peak. A tile of 32 x 32 with 32
// steps of the reduction then takes 2 * 32^3 * 4 / 1e12 = 0.262144 us.
Calibration round_device() {
  Calibration c;
  c.name = "round";
  c.device = "a round device";
  c.peak = 1e12;
  c.memory_bandwidth = 1e18;
  c.multiprocessors = 4;
  c.convolutions = ConvolutionFits{};
  return c;
}
constexpr double kTile = 0.262144e-6;

double product_of(const Calibration& c, double m, double n, double k, double batch = 1) {
  return product_seconds(c, {batch, m, n, k}).value;
}

TEST(KernelTimesTest, AProductTakesWavesOfTilesAndTheGap) {
  Calibration c = round_device();
  EXPECT_NEAR(product_of(c, 32, 32, 32), kTile, 1e-12);
  EXPECT_NEAR(product_of(c, 1, 1, 32), kTile, 1e-12);           // a tile is whole, whatever is in it
  EXPECT_NEAR(product_of(c, 128, 32, 32), kTile, 1e-12);        // four tiles on four multiprocessors
  EXPECT_NEAR(product_of(c, 160, 32, 32), 2 * kTile, 1e-12);    // a fifth begins a second wave
  EXPECT_NEAR(product_of(c, 32, 32, 32, 5), 2 * kTile, 1e-12);  // and so does a fifth product
  c.products.quantisation = 0;
  EXPECT_NEAR(product_of(c, 160, 32, 32), 1.25 * kTile, 1e-12);
  c.products.quantisation = 0.5;
  EXPECT_NEAR(product_of(c, 160, 32, 32), 1.625 * kTile, 1e-12);
  c.products.gap = Seconds(1e-6);
  EXPECT_NEAR(product_of(c, 32, 32, 32), kTile + 1e-6, 1e-12);
}

TEST(KernelTimesTest, EveryTileTakesThePrologueAndSmallTilesReachLess) {
  Calibration c = round_device();
  c.products.prologue = 8;
  EXPECT_NEAR(product_of(c, 32, 32, 32), kTile * 40 / 32, 1e-12);
  c.products.short_below = 40;
  c.products.short_prologue = 2;
  EXPECT_NEAR(product_of(c, 32, 32, 32), kTile * 34 / 32, 1e-12);
  EXPECT_NEAR(product_of(c, 32, 32, 40), kTile * 48 / 32, 1e-12);
  c = round_device();
  c.products.half_intensity = 64;  // the tile of intensity 16 reaches 16 / 80 * 128 / 64 of what 128 x 128 does
  EXPECT_NEAR(product_of(c, 32, 32, 32), kTile / 0.4, 1e-12);
}

TEST(KernelTimesTest, ALongReductionIsSplitUnlessThatCostsMoreBytes) {
  Calibration c = round_device();
  EXPECT_NEAR(product_of(c, 32, 32, 95), kTile * 95 / 32, 1e-12);  // a part has at least 48 steps
  EXPECT_NEAR(product_of(c, 32, 32, 96), kTile * 48 / 32, 1e-12);
  EXPECT_NEAR(product_of(c, 32, 32, 192), kTile * 48 / 32, 1e-12);  // four parts, a wave
  c.memory_bandwidth = 1e9;
  const double bytes = 4.0 * (2 * 32 * 96 + 32 * 32);
  EXPECT_NEAR(product_of(c, 32, 32, 96), bytes / 1e9, 1e-12);
  c.products.bandwidth_share = 0.5;
  EXPECT_NEAR(product_of(c, 32, 32, 96), bytes / 0.5e9, 1e-12);
  c.element = Bytes(2);
  EXPECT_NEAR(product_of(c, 32, 32, 96), bytes / 1e9, 1e-12);
}

TEST(KernelTimesTest, AConvolutionIsTheProductThatItImplies) {
  Calibration c = round_device();
  const Convolution v{.images = 2,
                      .in = 8,
                      .height = 8,
                      .width = 4,
                      .out = 32,
                      .out_height = 4,
                      .out_width = 4,
                      .kernel_height = 2,
                      .kernel_width = 2,
                      .stride = 2,
                      .stride_across = 1};
  const auto seconds = [&](ConvolutionPass pass) { return convolution_seconds(c, pass, v).value; };
  EXPECT_NEAR(seconds(ConvolutionPass::forward), kTile, 1e-12);             // 2 x 4 x 4, 32 and 8 x 2 x 2
  EXPECT_NEAR(seconds(ConvolutionPass::input_gradient), kTile * 2, 1e-12);  // 2 x 8 x 4, 8 and 32 x 2 x 2 / 2
  EXPECT_NEAR(seconds(ConvolutionPass::weight_gradient), kTile, 1e-12);     // 32, 8 x 2 x 2 and 2 x 4 x 4
  c.memory_bandwidth = 1e9;
  const double numbers = 2 * 8 * 8 * 4 + 8 * 32 * 4 + 2 * 32 * 4 * 4;
  EXPECT_NEAR(seconds(ConvolutionPass::forward), 4 * numbers / 1e9, 1e-12);
}

TEST(KernelTimesTest, AWindowOfThreeByThreeMayRunAsATransform) {
  Calibration c = round_device();
  Convolution v{.images = 1,
                .in = 16,
                .height = 4,
                .width = 8,
                .out = 32,
                .out_height = 4,
                .out_width = 8,
                .kernel_height = 3,
                .kernel_width = 3};
  const auto steps = [&] { return convolution_seconds(c, ConvolutionPass::forward, v).value / (kTile / 32); };
  EXPECT_NEAR(steps(), 48, 1e-6);  // of 144, in three parts that cost no bytes
  c.convolutions->forward.gain_3x3 = 4;
  EXPECT_NEAR(steps(), 36, 1e-6);
  v.in = 15;  // too few channels: 135 steps, in two parts
  EXPECT_NEAR(steps(), 68, 1e-6);
  v.in = 16;
  v.stride = v.stride_across = 2;
  EXPECT_NEAR(steps(), 48, 1e-6);
}

TEST(KernelTimesTest, WithoutMeasuredConvolutionsTheProductsImplyThem) {
  Calibration c = round_device();
  const Convolution v{.images = 4,
                      .in = 64,
                      .height = 16,
                      .width = 16,
                      .out = 64,
                      .out_height = 16,
                      .out_width = 16,
                      .kernel_height = 3,
                      .kernel_width = 3};
  c.convolutions.reset();
  // 1024 x 64 with reduction 576; 576 products of gradients; all 1024 positions are summed into weights of 64 x 576.
  EXPECT_DOUBLE_EQ(convolution_seconds(c, ConvolutionPass::forward, v).value,
                   product_seconds(c, {1, 1024, 64, 576}).value);
  EXPECT_DOUBLE_EQ(convolution_seconds(c, ConvolutionPass::input_gradient, v).value,
                   product_seconds(c, {1, 1024, 64, 576}).value);
  EXPECT_DOUBLE_EQ(convolution_seconds(c, ConvolutionPass::weight_gradient, v).value,
                   product_seconds(c, {1, 64, 576, 1024}).value);
  c.products.corrections = {{1, 1, 1, {{0, 10, 6, std::log2(576), std::log(2.0)}}}};
  const Calibration plain = [&] {
    Calibration without = c;
    without.products.corrections.reset();
    return without;
  }();
  EXPECT_DOUBLE_EQ(convolution_seconds(c, ConvolutionPass::forward, v).value,
                   2 * convolution_seconds(plain, ConvolutionPass::forward, v).value);
}

TEST(KernelTimesTest, AStreamTakesItsShareOfTheBandwidthAndAGap) {
  Calibration c = round_device();
  c.memory_bandwidth = 1e9;
  c.stream_share = 0.5;
  c.stream_gap = Seconds(2e-6);
  EXPECT_NEAR(stream_seconds(c, 1000).value, 2e-6 + 2e-6, 1e-15);
}

const Calibration& v100() {
  static const Calibration c = load_calibration("v100_sxm2_fp32", SLUICE_SOURCE_DIR "/workloads/devices");
  return c;
}

RC_GTEST_PROP(KernelTimesTest, MoreRowsColumnsOrProductsNeverTakeLess, ()) {
  const auto size = [] { return double(*rc::gen::inRange(1, 3000)); };
  const Product p{double(*rc::gen::inRange(1, 40)), size(), size(), size()};
  const double seconds = product_seconds(v100(), p).value;
  const double more = double(*rc::gen::inRange(1, 500));
  RC_ASSERT(product_seconds(v100(), {p.batch, p.m + more, p.n, p.k}).value >= seconds);
  RC_ASSERT(product_seconds(v100(), {p.batch, p.m, p.n + more, p.k}).value >= seconds);
  RC_ASSERT(product_seconds(v100(), {p.batch + more, p.m, p.n, p.k}).value >= seconds);
}

RC_GTEST_PROP(KernelTimesTest, ALongerReductionInAsManyPartsNeverTakesLess, ()) {
  const double k = *rc::gen::inRange(1, 48), longer = *rc::gen::inRange(48, 96);  // one part
  const double m = *rc::gen::inRange(1, 3000), n = *rc::gen::inRange(1, 3000);
  RC_ASSERT(product_of(v100(), m, n, longer) >= product_of(v100(), m, n, k));
}

RC_GTEST_PROP(KernelTimesTest, NoProductBeatsThePeakOrTheMemory, ()) {
  const double m = *rc::gen::inRange(1, 8000), n = *rc::gen::inRange(1, 8000), k = *rc::gen::inRange(1, 8000);
  const double seconds = product_of(v100(), m, n, k);
  RC_ASSERT(seconds >= 2 * m * n * k / v100().peak);
  RC_ASSERT(seconds >= 4 * (m * k + k * n + m * n) / v100().memory_bandwidth);
}

}  // namespace
}  // namespace sluice
