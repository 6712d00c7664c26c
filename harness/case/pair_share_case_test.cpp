// What overlapped pairs take, from a file of costs and from the cluster, to the seconds of an update.
#include <gtest/gtest.h>

#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/model/cost_graph.h"

namespace sluice {
namespace {

RunCase dualpipe(const Json& more) {
  Json entry = {{"system", "dualpipe"}, {"options", {{"variant", "v"}}},
                {"workload", "tiny"},   {"clock", "virtual"},
                {"train", false},       {"ranks", 2},
                {"batch", 16},          {"microbatches", 8},
                {"costs", "analytic"},  {"cluster", "flat:2"}};
  entry.update(more);
  return resolve({entry, in_file("s.json", "")});
}

double seconds(const Json& more) {
  const Prepared p = prepare(dualpipe(more), test_profiles());
  return simulated_update(p, program_of_updates(p)).value;
}

// The case's analytic costs as a file, each layer with a pair_share.
std::string cost_file(double pair_share) {
  CostGraph graph = prepare(dualpipe({}), test_profiles()).costs;
  for (LayerCost& layer : graph.layers) layer.pair_share = pair_share;
  const std::string file = testing::TempDir() + "/pairs_" + std::to_string(pair_share) + ".json";
  std::ofstream(file) << to_json(graph).dump();
  return file;
}

TEST(PairShareOfACase, ALowerShareMakesDualPipeFaster) {
  const double alone = seconds({});
  EXPECT_DOUBLE_EQ(seconds({{"cluster", "flat:2,pair_share=1"}}), alone);
  EXPECT_LT(seconds({{"cluster", "flat:2,pair_share=0.75"}}), 0.9 * alone);
  EXPECT_GT(seconds({{"cluster", "flat:2,pair_share=1.5"}}), 1.1 * alone);
}

TEST(PairShareOfACase, AFileOfCostsSaysTheSameAsTheCluster) {
  EXPECT_NEAR(seconds({{"costs", cost_file(0.75)}}), seconds({{"cluster", "flat:2,pair_share=0.75"}}), 1e-12);
}

TEST(PairShareOfACase, IsGivenOnceAndNotOnThisMachine) {
  const std::string file = cost_file(0.75);
  const auto error = [&](const Json& more) { return error_of([&] { prepare(dualpipe(more), test_profiles()); }); };
  const std::string both = error({{"costs", file}, {"cluster", "flat:2,pair_share=0.9"}});
  EXPECT_TRUE(both.starts_with(file + ": layer '")) << both;
  EXPECT_NE(both.find("has a pair_share, and so has cluster 'flat:2,pair_share=0.9'; leave one of them out"),
            std::string::npos)
      << both;
  const std::string here = error({{"costs", file}, {"cluster", "this machine"}});
  EXPECT_NE(here.find("has a pair_share, and this machine runs the ops of a pair one after the other"),
            std::string::npos)
      << here;
}

}  // namespace
}  // namespace sluice
