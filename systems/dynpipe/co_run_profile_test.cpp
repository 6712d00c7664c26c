// The file of `sluice profile --co-run` from given measurements.
#include "systems/dynpipe/co_run_profile.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

// Layers of 1 and 2 s alone; load l makes the first one 2 + l times slower and leaves the other alone.
struct CoRunCase {
  CostGraph costs = chain_costs({1, 2}, {8, 8}, {4, 4});
  int measured = 0;
  CoRunFile file(int cores, const std::string& published = "") {
    return co_run_file({costs, cores, published, [&](const std::vector<CoRunLoad>& loads) {
                          ++measured;
                          CoRunSamples samples{.alone = {1, 2}, .contended = {}};
                          for (std::size_t l = 0; l < loads.size(); ++l)
                            samples.contended.push_back({2.0 + static_cast<double>(l), 2});
                          return samples;
                        }});
  }
};

// Three resources, each at four shares of a core.
TEST(CoRunProfileTest, LoadsAreOnTheCoreOfTheRankAndWithASecondCoreOnAnotherOne) {
  EXPECT_EQ(co_run_loads(1).size(), 12u);
  EXPECT_EQ(co_run_loads(2).size(), 24u);
  for (const CoRunLoad& load : co_run_loads(1)) EXPECT_TRUE(load.own_core);
}

TEST(CoRunProfileTest, TheFileHasEveryLoadWithItsRowsAndTheErrorOnThoseThatAreHeldOut) {
  CoRunCase c;
  const CoRunFile file = c.file(1);
  EXPECT_EQ(c.measured, 1);
  const Json& json = file.json;
  EXPECT_EQ(json["schema"], "sluice/co_run/1");
  EXPECT_EQ(json["rows"].size(), 12u * 24);
  ASSERT_EQ(json["loads"].size(), 12u);
  const Json& fourth = json["loads"][3];  // compute at the largest share: 5 and 2 s of 1 and 2
  EXPECT_EQ(fourth["resource"], "compute");
  EXPECT_EQ(fourth["core"], "own");
  EXPECT_EQ(fourth["share_for_slowdown"], 3.0);
  EXPECT_DOUBLE_EQ(fourth["slowdown"].get<double>(), 7.0 / 3);
  EXPECT_EQ(fourth["rows"], 24);
  EXPECT_EQ(json["held_out"]["loads_learned"], 8);
  EXPECT_EQ(json["held_out"]["loads_held_out"], 4);
  EXPECT_NE(file.told.find("compute on the rank's core, as much as 3x takes: 2.33 times slower\n"), std::string::npos);
  EXPECT_NE(file.told.find("288 rows of 12 loads\nthe forest of 8 loads on the other 4: "), std::string::npos);
}

TEST(CoRunProfileTest, PublishedRowsThatCannotBeReadEndItBeforeAnythingIsMeasured) {
  CoRunCase c;
  EXPECT_THROW(c.file(2, "/nowhere.csv"), InputError);
  EXPECT_EQ(c.measured, 0);
}

}  // namespace
}  // namespace sluice
