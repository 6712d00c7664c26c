// Which precision and costs advice is given in, and what it says of them.
#include "harness/cli/advise_costs.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/cli/case_flags.h"
#include "results/model_error.h"

namespace sluice {
namespace {

AdviceCosts chosen(const std::map<std::string, std::string>& flags) {
  return with_default_costs(entry_of({flags, {}}, timed_only()));
}

// "mixed calibrated"; -: left out, so that the setting has its own default.
std::string settings_of(const std::map<std::string, std::string>& flags) {
  const Json values = chosen(flags).entry.values;
  return values.value("precision", "-") + " " + values.value("costs", "-");
}

std::vector<std::string> lines(const std::map<std::string, std::string>& flags) {
  AdviceCosts costs = chosen(flags);
  Entry entry = costs.entry;
  entry.values["system"] = "one_f_one_b";
  return cost_lines(costs, evaluate_plan(resolve(entry), test_profiles()));
}

TEST(AdviceCosts, FullSizeModelsTakeCalibratedCostsIn16BitWhereAllDevicesHaveThem) {
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "dgx_h100"}}), "mixed calibrated");
  EXPECT_EQ(settings_of({{"workload", "resnet50"}, {"cluster", "dgx_h100"}}), "mixed calibrated");
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "p100_x8"}}), "mixed -");             // a peak only
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "gtx1080ti_4x4"}}), "- calibrated");  // fp32 only
}

TEST(AdviceCosts, ModelsThatTrainHereKeepFp32AndTakeCalibratedCostsWhereAllDevicesHaveThem) {
  EXPECT_EQ(settings_of({{"workload", "gpt_tiny"}, {"cluster", "flat:4"}}), "- calibrated");
  EXPECT_EQ(settings_of({{"workload", "vgg16_batch64"}, {"cluster", "h100_x1"}}), "- calibrated");
  EXPECT_EQ(settings_of({{"workload", "gpt_tiny"}, {"cluster", "dgx_h100"}}), "- -");
  EXPECT_EQ(settings_of({{"workload", "gpt_tiny"}, {"cluster", "dgx_h100"}, {"precision", "mixed"}}),
            "mixed calibrated");
}

TEST(AdviceCosts, WhatIsGivenIsTaken) {
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "dgx_h100"}, {"costs", "analytic"}}), "mixed analytic");
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "dgx_h100"}, {"precision", "fp32"}}), "fp32 -");
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "dgx1_v100"}, {"precision", "fp32"}}),
            "fp32 calibrated");
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "p100_x8"}, {"costs", "calibrated"}}), "- calibrated");
  EXPECT_EQ(settings_of({{"workload", "gpt_1.3b"}, {"cluster", "dgx_h100"}, {"costs", "profile"}}), "- profile");
  EXPECT_NE(error_of([] {
              chosen({{"workload", "gpt_1.3b"}, {"cluster", "dgx_h1000"}});
            }).find("dgx_h100"),
            std::string::npos);
}

TEST(AdviceCosts, TheFirstLinesSayWhomTheMeasurementsAreFromAndHowFarTheyWereOff) {
  const std::vector<std::string> h100 = lines({{"workload", "resnet50"}, {"cluster", "dgx_h100"}});
  ASSERT_EQ(h100.size(), 3u);
  EXPECT_EQ(h100[0],
            "costs: calibrated h100_hbm3_bf16, convolutions derived from products; precision: mixed (the default for "
            "full-size models)");
  EXPECT_EQ(h100[1], "  h100_hbm3_bf16: measured by us: PyTorch 2.11.0+cu130 on one NVIDIA H100 80GB HBM3");
  EXPECT_EQ(h100[2], "  error: " + published_error_text());
  const std::vector<std::string> a100 = lines({{"workload", "gpt_1.3b"}, {"cluster", "dgx_a100_x2"}});
  EXPECT_TRUE(a100[1].starts_with("  a100_sxm_bf16: derived: the H100's curve")) << a100[1];
}

TEST(AdviceCosts, WhereADeviceHasNoCalibrationTheFirstLineSaysThatCostsAreAnalytic) {
  const std::vector<std::string> p100 = lines({{"workload", "gpt_1.3b"}, {"cluster", "p100_x8"}});
  EXPECT_EQ(p100[0],
            "costs: analytic, since not every device of 'p100_x8' has a calibration in 16 bit; precision: mixed (the "
            "default for full-size models)");
  const std::vector<std::string> asked =
      lines({{"workload", "gpt_1.3b"}, {"cluster", "dgx_h100"}, {"costs", "analytic"}, {"precision", "mixed"}});
  EXPECT_EQ(asked[0], "costs: analytic; precision: mixed");
  EXPECT_EQ(asked[1], "  analytic: fixed shares of the devices' peaks, not measured");
}

}  // namespace
}  // namespace sluice
