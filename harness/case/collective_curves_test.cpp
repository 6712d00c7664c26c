// All-reduces by size: the links of clusters against what others measured on such machines.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <cmath>

#include "harness/case/tensor_costs.h"

namespace sluice {
namespace {

struct Measured {
  std::int64_t bytes;
  double microseconds;  // median of three
};

// microsoft/vidur (MIT) at e26eb8f, data/profiling/network/{a100,h100}_dgx/all_reduce.csv: eight GPUs of one machine.
constexpr Measured kA100[] = {{2'097'152, 70}, {3'145'728, 81}, {4'194'304, 99}, {5'242'880, 112}};
constexpr Measured kH100[] = {{1'048'576, 34},   {2'097'152, 39},   {2'621'440, 45},  {27'262'976, 169},
                              {33'554'432, 196}, {41'943'040, 234}, {48'234'496, 265}};

void expect_ratios(const std::string& cluster, std::span<const Measured> measured, std::vector<double> ratios) {
  const Cluster c = load_cluster(cluster, SLUICE_SOURCE_DIR "/workloads/clusters");
  ASSERT_EQ(measured.size(), ratios.size());
  for (std::size_t i = 0; i < measured.size(); ++i)
    EXPECT_NEAR(sum_seconds(c, 8, Bytes(measured[i].bytes)).value * 1e6 / measured[i].microseconds, ratios[i], 0.01)
        << cluster << ", " << measured[i].bytes;
}

// Ours over measured, as workloads/README.md has it: links have the rates that NCCL plans with, so that sums of a few
// megabytes are too fast.
TEST(CollectiveCurves, RingsOnTheLinksOfTheirClustersAreAsFarAsThePageSays) {
  expect_ratios("dgx_a100_x2", kA100, {0.62, 0.63, 0.59, 0.59});
  expect_ratios("dgx_h100", kH100, {0.52, 0.57, 0.55, 0.78, 0.82, 0.84, 0.85});
}

}  // namespace
}  // namespace sluice
