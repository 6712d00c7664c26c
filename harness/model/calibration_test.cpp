// The calibrations that Sluice ships, against the measurements that they were fitted to, and others.
#include "harness/model/calibration.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"
#include "harness/model/kernel_times.h"

namespace sluice {
namespace {

const std::string kDevices = SLUICE_SOURCE_DIR "/workloads/devices";

Json measured_file(const std::string& name) {
  return parse_json_file(SLUICE_SOURCE_DIR "/harness/model/testdata/" + name + ".json");
}

FitError errors_of(std::vector<double> errors) {
  std::ranges::sort(errors);
  const std::size_t count = errors.size();
  return {(errors[(count - 1) / 2] + errors[count / 2]) / 2, errors[(count - 1) * 9 / 10]};
}

double error_of_fit(Seconds seconds, double microseconds) { return std::abs(seconds.value * 1e6 / microseconds - 1); }

// Over all measurements, so somewhat less than held out; small sets of shapes leave room by chance.
void expect_as_stated(const FitError& found, const FitError& stated, const std::string& what) {
  EXPECT_LT(found.median, 1.05 * stated.median) << what;
  EXPECT_GT(found.median, 0.6 * stated.median) << what;
  EXPECT_LT(found.ninetieth, 1.2 * stated.ninetieth) << what;
}

TEST(CalibrationTest, ProductsOfDeepBenchAreAsFarAsStated) {
  const Json data = measured_file("deepbench");
  for (const auto& [name, microseconds] : data["microseconds"].items()) {
    const Calibration c = load_calibration(name, kDevices);
    const std::string own = "products of " + name;
    const Json& shapes = data.contains(own) ? data[own] : data["products"];
    ASSERT_EQ(shapes.size(), microseconds.size());
    ASSERT_EQ(static_cast<int>(shapes.size()), c.products.points);
    std::vector<double> errors;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto shape = shapes[i].get<std::vector<double>>();
      errors.push_back(
          error_of_fit(product_seconds(c, {1, shape[0], shape[1], shape[2]}), microseconds[i].get<double>()));
    }
    expect_as_stated(errors_of(errors), c.products.held_out, name);
  }
}

Convolution convolution_of(const std::vector<double>& s) {
  const auto made = [](double size, double window, double padding, double stride) {
    return std::floor((size + 2 * padding - window) / stride) + 1;
  };
  return {.images = s[3],
          .in = s[2],
          .height = s[1],
          .width = s[0],
          .out = s[4],
          .out_height = made(s[1], s[6], s[8], s[10]),
          .out_width = made(s[0], s[5], s[7], s[9]),
          .kernel_height = s[6],
          .kernel_width = s[5],
          .stride = s[10],
          .stride_across = s[9]};
}

TEST(CalibrationTest, ConvolutionsOfDeepBenchAreAsFarAsStatedInEveryPass) {
  const Json data = measured_file("deepbench");
  const auto check = [&](const char* key, ConvolutionPass pass, KernelFit ConvolutionFits::*fit) {
    for (const auto& [name, microseconds] : data[key].items()) {
      const Calibration c = load_calibration(name, kDevices);
      std::vector<double> errors;
      for (std::size_t i = 0; i < microseconds.size(); ++i) {
        if (microseconds[i].is_null()) continue;
        const Convolution v = convolution_of(data["convolutions"][i].get<std::vector<double>>());
        errors.push_back(error_of_fit(convolution_seconds(c, pass, v), microseconds[i].get<double>()));
      }
      EXPECT_EQ(static_cast<int>(errors.size()), ((*c.convolutions).*fit).points) << name;
      expect_as_stated(errors_of(errors), ((*c.convolutions).*fit).held_out, name + " " + key);
    }
  };
  check("forward", ConvolutionPass::forward, &ConvolutionFits::forward);
  check("input_gradient", ConvolutionPass::input_gradient, &ConvolutionFits::input_gradient);
  check("weight_gradient", ConvolutionPass::weight_gradient, &ConvolutionFits::weight_gradient);
}

// What a calibration of products alone says of convolutions, on devices where both were measured.
TEST(CalibrationTest, ConvolutionsDerivedFromProductsAreAsFarAsThePageSays) {
  const Json data = measured_file("deepbench");
  const auto derived = [&](const std::string& name) {
    Calibration c = load_calibration(name, kDevices);
    c.convolutions.reset();
    std::vector<double> errors;
    const auto add = [&](const char* key, ConvolutionPass pass) {
      for (std::size_t i = 0; i < data[key][name].size(); ++i) {
        const Json& microseconds = data[key][name][i];
        if (microseconds.is_null()) continue;
        const Convolution v = convolution_of(data["convolutions"][i].get<std::vector<double>>());
        errors.push_back(error_of_fit(convolution_seconds(c, pass, v), microseconds.get<double>()));
      }
    };
    add("forward", ConvolutionPass::forward);
    add("input_gradient", ConvolutionPass::input_gradient);
    add("weight_gradient", ConvolutionPass::weight_gradient);
    return errors_of(errors);
  };
  for (const auto& [name, median, ninetieth] :
       {std::tuple("v100_sxm2_fp16", 0.32, 0.78), std::tuple("t4_fp16", 0.29, 0.79)}) {
    EXPECT_NEAR(derived(name).median, median, 0.005) << name;
    EXPECT_NEAR(derived(name).ninetieth, ninetieth, 0.005) << name;
  }
}

// Products of transformers, most of them larger than all that the fits saw; NeuSight's part of H100 was fitted itself.
TEST(CalibrationTest, ProductsOfTransformersAreAsFarAsStated) {
  const Json data = measured_file("neusight");
  for (const std::string name : {"v100_pcie_fp32", "a100_pcie_fp32", "h100_sxm_fp32"}) {
    const Calibration c = load_calibration(name, kDevices);
    std::vector<double> errors;
    for (const Json& row : data[name]) {
      auto r = row.get<std::vector<double>>();
      if (r.size() == 4) r.insert(r.begin(), 1);
      errors.push_back(error_of_fit(product_seconds(c, {r[0], r[1], r[2], r[3]}), r[4]));
    }
    const FitError found = errors_of(errors);
    if (c.products.out_of_range) {
      EXPECT_NEAR(found.median, c.products.out_of_range->median, 0.001) << name;
      EXPECT_NEAR(found.ninetieth, c.products.out_of_range->ninetieth, 0.005) << name;
    } else {
      expect_as_stated(found, c.products.held_out, name);
    }
  }
}

TEST(CalibrationTest, EveryShippedOneIsReadAndStatesItsSource) {
  const std::vector<std::string> names = names_of_json_files(kDevices);
  EXPECT_EQ(names.size(), 20u);
  for (const std::string& name : names) {
    const Calibration c = load_calibration(name, kDevices);
    EXPECT_FALSE(c.source.empty()) << name;
    EXPECT_FALSE(c.cautions.empty()) << name;
    EXPECT_TRUE(name.ends_with(c.precision)) << name;
    EXPECT_EQ(c.element.value, c.precision == "fp32" ? 4 : 2) << name;
  }
}

Json small_calibration() {
  const Json fit = {{"peak_share", 0.9},      {"half_intensity", 6},
                    {"prologue", 8},          {"quantisation", 0.5},
                    {"bandwidth_share", 0.7}, {"gap", "9us"},
                    {"points", 160},          {"held_out", {{"median", 0.05}, {"ninetieth", 0.2}}}};
  return {{"schema", "sluice/calibration/1"},
          {"device", "one"},
          {"precision", "fp16"},
          {"source", "somebody (MIT), a table"},
          {"peak", 1e12},
          {"memory_bandwidth", "900GB/s"},
          {"multiprocessors", 80},
          {"products", fit},
          {"streams", {{"bandwidth_share", 0.8}, {"gap", "5us"}}}};
}

TEST(CalibrationTest, AFileIsReadAsItSays) {
  Json json = small_calibration();
  json["products"]["short_reductions"] = {{"below", 512}, {"prologue", 4}};
  json["host_gap"] = "39us";
  const Calibration c = calibration_from_json(json, "c.json");
  EXPECT_DOUBLE_EQ(c.memory_bandwidth, 900e9);
  EXPECT_EQ(c.element, Bytes(2));
  EXPECT_DOUBLE_EQ(c.products.gap.value, 9e-6);
  EXPECT_EQ(c.products.short_below, 512);
  EXPECT_DOUBLE_EQ(c.products.short_prologue, 4);
  EXPECT_DOUBLE_EQ(c.host_gap.value, 39e-6);
  EXPECT_DOUBLE_EQ(c.products.held_out.ninetieth, 0.2);
  EXPECT_FALSE(c.convolutions);
  EXPECT_EQ(c.evidence, "measured by others: somebody (MIT)");
  json["evidence"] = "derived: by hand";
  EXPECT_EQ(calibration_from_json(json, "c.json").evidence, "derived: by hand");
}

TEST(CalibrationTest, AMistakeIsNamedWithItsPlace) {
  const auto rejects = [](auto change, const std::string& because) {
    Json json = small_calibration();
    change(json);
    const std::string error = error_of([&] { calibration_from_json(json, "c.json"); });
    EXPECT_NE(error.find(because), std::string::npos) << error;
  };
  rejects([](Json& j) { j.erase("peak"); }, "/peak");
  rejects([](Json& j) { j["evidence"] = "measured: nobody"; }, "/evidence: must begin with 'measured by us: '");
  rejects([](Json& j) { j["precision"] = "int8"; }, "must be fp32, fp16 or bf16");
  rejects([](Json& j) { j["products"]["quantisation"] = 1.5; }, "/products/quantisation");
  rejects([](Json& j) { j["products"]["held_out"]["ninetieth"] = 0.01; }, "less than the median");
  rejects([](Json& j) { j["products"]["gap"] = "2s"; }, "from 0 to 1 second");
  rejects([](Json& j) { j["products"]["gain_3x3"] = 2; }, "gain_3x3");
  rejects([](Json& j) { j["convolutions"] = {{"forward", j["products"]}}; }, "gain_3x3");
  rejects([](Json& j) { j["memory_bandwidth"] = "1B/s"; }, "at least 1MB/s");
  EXPECT_NE(error_of([] { load_calibration("v100_sxm2_fp3", kDevices); }).find("did you mean 'v100_sxm2_fp32'?"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
