// What the setting gradient_buckets does to predictions: which system is the fastest depends on it.
#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"

namespace sluice {
namespace {

// Samples a second of GPT-1.3B with a batch of 512 on two DGX A100, in mixed precision.
double samples_per_second(Json entry, const std::string& buckets) {
  entry.update(Json{{"workload", "gpt_1.3b"},
                    {"clock", "virtual"},
                    {"cluster", "dgx_a100_x2"},
                    {"precision", "mixed"},
                    {"ranks", 16},
                    {"batch", 512},
                    {"steps", 1},
                    {"gradient_buckets", buckets}});
  const Prepared p = prepare(resolve({entry, in_file("test", "")}), test_profiles());
  return 512 / simulated_update(p, program_of_updates(p)).value;
}

TEST(GradientBucketsOfACaseTest, DataParallelismWinsWhereItsReductionOverlapsAndLosesWhereItDoesNot) {
  const Json data_parallel = {{"system", "data_parallel"}, {"microbatches", 16}};
  const Json zero_bubble = {
      {"system", "zero_bubble"}, {"options", {{"variant", "v"}}}, {"data_parallel", 8}, {"microbatches", 128}};
  EXPECT_LT(samples_per_second(data_parallel, "end"), 0.92 * samples_per_second(zero_bubble, "end"));
  EXPECT_GT(samples_per_second(data_parallel, "25MB"), samples_per_second(zero_bubble, "25MB"));
}

TEST(GradientBucketsOfACaseTest, OneBucketOfAllGradientsIsTheReductionAfterTheBackward) {
  const Json data_parallel = {{"system", "data_parallel"}, {"microbatches", 16}};
  EXPECT_DOUBLE_EQ(samples_per_second(data_parallel, "1TB"), samples_per_second(data_parallel, "end"));
}

// A planner that simulates its candidates does so as the case will run: one replicated stage is the best plan of
// ResNet-50 where the reduction overlaps.
TEST(GradientBucketsOfACaseTest, PlannersSimulateWithTheCasesBuckets) {
  const auto planned = [](const std::string& buckets) {
    const RunCase c = resolve({{{"system", "spp"},
                                {"options", {{"rank", "simulated"}}},
                                {"workload", "resnet50"},
                                {"clock", "virtual"},
                                {"cluster", "flat:4,bandwidth=2GB/s,latency=30us"},
                                {"ranks", 4},
                                {"batch", 256},
                                {"microbatches", 16},
                                {"steps", 1},
                                {"gradient_buckets", buckets}},
                               in_file("test", "")});
    return prepare(c, test_profiles()).plan.stages.size();
  };
  EXPECT_EQ(planned("25MB"), 1u);
  EXPECT_GT(planned("end"), 1u);
}

}  // namespace
}  // namespace sluice
