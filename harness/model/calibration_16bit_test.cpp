// The 16-bit calibrations against measured products, most of all those that no fit has seen.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/model/calibration.h"
#include "harness/model/kernel_times.h"

namespace sluice {
namespace {

struct Measured {
  std::string device;
  Product product;
  bool held_out = false;
  double seconds = 0;
};

std::vector<Measured> measured_products(const std::string& name) {
  std::ifstream file(SLUICE_SOURCE_DIR "/harness/model/testdata/" + name);
  std::vector<Measured> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#") || line.starts_with("device,")) continue;
    std::ranges::replace(line, ',', ' ');
    std::istringstream fields(line);
    Measured row;
    Product& p = row.product;
    double rate = 0;
    fields >> row.device >> p.batch >> p.m >> p.n >> p.k >> row.held_out >> rate;
    row.seconds = 2 * p.batch * p.m * p.n * p.k / rate;
    rows.push_back(row);
  }
  return rows;
}

struct OurProduct {
  std::string types;
  Product product;
  double seconds = 0;
};

// Of results/reference/gpu_kernels.csv: device, torch, kernel, types, batch, m, n, k, detail, timed, seconds, ...
std::vector<OurProduct> our_products() {
  std::ifstream file(SLUICE_SOURCE_DIR "/results/reference/gpu_kernels.csv");
  std::vector<OurProduct> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields;
    std::istringstream text(line);
    for (std::string field; std::getline(text, field, ',');) fields.push_back(field);
    if (fields.size() < 11 || fields[2] != "product") continue;
    const auto number = [&](std::size_t i) { return std::stod(fields[i]); };
    rows.push_back({fields[3], {number(4), number(5), number(6), number(7)}, number(10)});
  }
  return rows;
}

Calibration calibration_named(const std::string& name) {
  return load_calibration(name, SLUICE_SOURCE_DIR "/workloads/devices");
}

struct Errors {
  std::size_t rows = 0;
  double median = 0, ninetieth = 0;
};

Errors errors_by_shape(const Calibration& c, const std::vector<Measured>& rows, const std::string& device,
                       bool held_out) {
  std::vector<double> errors;
  for (const Measured& row : rows)
    if (row.device == device && row.held_out == held_out)
      errors.push_back(std::abs(product_seconds(c, row.product).value / row.seconds - 1));
  std::ranges::sort(errors);
  const std::size_t n = errors.size();
  return {n, (errors[(n - 1) / 2] + errors[n / 2]) / 2, errors[(n - 1) * 9 / 10]};
}

// The goal is 6 % in the median and 15 % at the 90th percentile. AMD's products do not reach it: theirs are irregular,
// as each calibration's cautions say with figures.
TEST(Calibration16BitTest, ProductsThatNoFitHasSeenAreAsFarAsStated) {
  const std::vector<Measured> grid = measured_products("gemm_16bit.csv");
  ASSERT_EQ(grid.size(), 1500u);
  struct {
    std::string calibration, device;
    double median, ninetieth;
  } const bounds[] = {{"h100_sxm_bf16", "h100_sxm", 0.06, 0.15},
                      {"b200_bf16", "b200", 0.06, 0.15},
                      {"mi300x_bf16", "mi300x", 0.061, 0.20},
                      {"mi355x_bf16", "mi355x", 0.075, 0.23}};
  for (const auto& b : bounds) {
    const Calibration c = calibration_named(b.calibration);
    const Errors found = errors_by_shape(c, grid, b.device, true);
    EXPECT_EQ(found.rows, 119u);
    EXPECT_EQ(static_cast<std::size_t>(c.products.points), 375 - found.rows);
    EXPECT_LT(found.median, b.median) << b.calibration;
    EXPECT_LT(found.ninetieth, b.ninetieth) << b.calibration;
    EXPECT_NEAR(found.median, c.products.held_out.median, 0.002) << b.calibration;
    EXPECT_NEAR(found.ninetieth, c.products.held_out.ninetieth, 0.004) << b.calibration;
  }
}

TEST(Calibration16BitTest, TheA100FollowsFromTheH100ByItsOwnMultiprocessors) {
  const Calibration a100 = calibration_named("a100_sxm_bf16"), h100 = calibration_named("h100_sxm_bf16");
  EXPECT_EQ(a100.multiprocessors, 108);
  EXPECT_EQ(a100.products.half_intensity, h100.products.half_intensity);
  EXPECT_EQ(a100.products.prologue, h100.products.prologue);
  EXPECT_EQ(a100.products.gap, h100.products.gap);
  const Errors found = errors_by_shape(a100, measured_products("gemm_a100.csv"), "a100_sxm", true);
  EXPECT_GT(found.rows, 25u);
  EXPECT_LT(found.median, 0.06);
  EXPECT_LT(found.ninetieth, 0.15);
  EXPECT_NEAR(found.median, a100.products.held_out.median, 0.002);
}

// 4096 x 57344 with a reduction of 8192 and other products of Llama-2-70b, in long runs.
TEST(Calibration16BitTest, TheH100ReachesLessInLongRunsThanTheTableSays) {
  const Calibration h100 = calibration_named("h100_sxm_bf16");
  std::vector<double> ratios;
  for (const Measured& row : measured_products("gemm_a100.csv"))
    if (row.device == "h100_sxm") ratios.push_back(product_seconds(h100, row.product).value / row.seconds);
  ASSERT_EQ(ratios.size(), 32u);
  std::ranges::sort(ratios);
  EXPECT_NEAR(1 - ratios[16], h100.products.out_of_range->median, 0.01);  // too fast
}

// The products of another H100, which no fit of ours has seen.
TEST(Calibration16BitTest, ProductsThatWeMeasuredPredictThoseOfOthers) {
  const Calibration ours = calibration_named("h100_hbm3_bf16");
  std::vector<double> errors;
  for (const Measured& row : measured_products("gemm_a100.csv"))
    if (row.device == "h100_sxm")
      errors.push_back(std::abs(product_seconds(ours, row.product).value / row.seconds - 1));
  ASSERT_EQ(errors.size(), 32u);
  std::ranges::sort(errors);
  EXPECT_LT(errors[16], 0.055);
  EXPECT_LT(errors[28], 0.085);
}

// The goal is 6 % in the median and 15 % at the 90th percentile. Which rows are held out a hash of the shape decides
// (fit_products.py).
TEST(Calibration16BitTest, OurProductsThatNoFitHasSeenAreWithinTheGoal) {
  for (const std::string name : {"h100_hbm3_bf16", "h100_hbm3_fp16", "h100_hbm3_fp32"}) {
    const Calibration c = calibration_named(name);
    EXPECT_LT(c.products.held_out.median, 0.06) << name;
    EXPECT_LT(c.products.held_out.ninetieth, 0.15) << name;
    std::vector<double> errors;
    for (const auto& [types, product, seconds] : our_products())
      if (name.ends_with(types)) errors.push_back(std::abs(product_seconds(c, product).value / seconds - 1));
    ASSERT_GE(errors.size(), 125u) << name;
    std::ranges::sort(errors);
    EXPECT_LT(errors[errors.size() / 2], 0.06) << name;
    EXPECT_LT(errors[errors.size() * 9 / 10], 0.15) << name;
  }
}

TEST(Calibration16BitTest, NarrowProductsReachLess) {
  const Calibration a100 = calibration_named("a100_sxm_bf16");
  const auto rate = [&](double rows, double columns) {
    return 2 * rows * columns * 12288 / product_seconds(a100, {1, rows, columns, 12288}).value / 312e12;
  };
  EXPECT_GT(rate(2048, 12288), 0.68);                      // one device
  EXPECT_LT(rate(2048, 12288 / 16.0), rate(2048, 12288));  // a sixteenth of the columns
  EXPECT_LT(rate(256, 12288 / 16.0), 0.7 * rate(256, 12288));
}

TEST(Calibration16BitTest, CorrectionsMultiplyNearTheirShapesOnly) {
  Calibration c;
  c.peak = 1e12;
  c.memory_bandwidth = 1e18;
  c.multiprocessors = 4;
  const double plain = product_seconds(c, {1, 256, 256, 256}).value;
  c.products.corrections =
      ShapeCorrections{.batch_length = 1, .side_length = 0.5, .reduction_length = 2, .shapes = {{0, 8, 8, 8, 0.1}}};
  EXPECT_DOUBLE_EQ(product_seconds(c, {1, 256, 256, 256}).value, plain * std::exp(0.1));
  const double twice = product_seconds(c, {1, 256, 256, 512}).value;  // log2 of k one more: half a length
  c.products.corrections->shapes.front().weight = 0;
  EXPECT_DOUBLE_EQ(twice, product_seconds(c, {1, 256, 256, 512}).value * std::exp(0.1 * std::exp(-0.125)));
  c.products.corrections->shapes.front().weight = 0.1;
  const double far = product_seconds(c, {1, 16384, 16384, 256}).value;
  c.products.corrections.reset();
  EXPECT_NEAR(far, product_seconds(c, {1, 16384, 16384, 256}).value, 1e-12);
}

TEST(Calibration16BitTest, FusedAttentionIsTwoProductsForwardAndFiveBackward) {
  Calibration c;
  c.peak = 1e12;
  c.memory_bandwidth = 1e12;
  c.stream_share = 1;
  c.stream_gap = Seconds(0);
  c.multiprocessors = 10;
  c.attention = FusedAttention{{.share = 0.5}, {.share = 0.25}};
  EXPECT_DOUBLE_EQ(fused_attention_seconds(c, false, {.pairs = 1e6, .width = 100}).value, 4e8 / 0.5e12);
  EXPECT_DOUBLE_EQ(fused_attention_seconds(c, true, {.pairs = 1e6, .width = 100}).value, 10e8 / 0.25e12);
  EXPECT_DOUBLE_EQ(fused_attention_seconds(c, false, {.pairs = 1e6, .width = 100, .bytes = 2e9}).value,
                   2e-3);  // memory
  // The exponentials take as long as 128 more numbers, and half a block of 128 queries is waited for.
  c.attention->forward = {.share = 0.5, .extra_width = 128, .tail = 0.5};
  EXPECT_DOUBLE_EQ(fused_attention_seconds(c, false, {.pairs = 1e6, .width = 64, .keys = 1000}).value,
                   4 * (1e6 + 64 * 1000 * 10) * (64 + 128) / 2 / 0.5e12);
  c.attention.reset();
  EXPECT_NE(error_of([&] { fused_attention_seconds(c, false, {}); }).find("has no fused attention"), std::string::npos);
}

TEST(Calibration16BitTest, AMistakeInCorrectionsIsNamedWithItsPlace) {
  const auto error = [](const Json& corrections) {
    Json json = parse_json_file(SLUICE_SOURCE_DIR "/workloads/devices/v100_sxm2_fp16.json");
    json["products"]["corrections"] = corrections;
    return error_of([&] { calibration_from_json(json, "c.json"); });
  };
  EXPECT_NE(error({{"lengths", {1, 1}}, {"weights", Json::array()}}).find("/products/corrections/lengths"),
            std::string::npos);
  EXPECT_NE(error({{"lengths", {1, 1, 1}}, {"weights", {{1, 2, 3, 4}}}}).find("/products/corrections/weights/0"),
            std::string::npos);
  EXPECT_NE(error({{"lengths", {1, 1, 1}}, {"weights", {{1, 0, 3, 4, 0.1}}}}).find("1 or more"), std::string::npos);
}

}  // namespace
}  // namespace sluice
