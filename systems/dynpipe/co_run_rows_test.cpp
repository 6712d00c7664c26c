// Rows of co-runs by hand, and the forest's error on loads that it has not seen.
#include "systems/dynpipe/co_run_rows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "harness/base/error.h"

namespace sluice {
namespace {

// A chain of groups of a layer each, of these bytes of weights.
LayerGroupGraph groups_of(const std::vector<double>& parameters) {
  LayerGroupGraph graph;
  for (std::size_t l = 0; l < parameters.size(); ++l)
    graph.groups.push_back({.layers = {static_cast<int>(l)}, .parameters = parameters[l]});
  return graph;
}

double value_of(const ForestRows& rows, std::size_t row, const std::string& feature) {
  for (std::size_t f = 0; f < rows.features.size(); ++f)
    if (rows.features[f] == feature) return rows.x[row][f];
  ADD_FAILURE() << "no feature " << feature;
  return 0;
}

std::string own_file(const std::string& name) {
  return testing::TempDir() + "/co_runs." + std::to_string(::getpid()) + "." + name;
}

TEST(CoRunRowsTest, ARowHasTheStageThatIsAskedForTheOneThatWasSeenAndItsSlowdown) {
  // Layer 0 is 2 times slower under the load, layer 1 is 4 times: both together (3 s alone, 10 s under it) 10 / 3
  // times.
  const ForestRows rows = co_run_rows(groups_of({100, 20}), {.alone = {1, 2}, .contended = {2, 8}}, 60, 1);
  ASSERT_EQ(rows.y.size(), 60u);
  std::set<double> asked, seen;
  for (std::size_t r = 0; r < rows.y.size(); ++r) {
    const auto expect_slowdown = [](double seconds, double slowdown) {
      EXPECT_DOUBLE_EQ(slowdown, seconds == 1 ? 2 : seconds == 2 ? 4 : 10.0 / 3) << seconds;
    };
    expect_slowdown(value_of(rows, r, "seconds"), rows.y[r]);
    expect_slowdown(value_of(rows, r, "seen_seconds"), value_of(rows, r, "seen_slowdown"));
    const double seconds = value_of(rows, r, "seconds");
    EXPECT_EQ(value_of(rows, r, "parameters"), seconds == 1 ? 100 : seconds == 2 ? 20 : 120);
    EXPECT_EQ(value_of(rows, r, "layers"), seconds == 3 ? 2 : 1);
    asked.insert(seconds);
    seen.insert(value_of(rows, r, "seen_seconds"));
  }
  EXPECT_EQ(asked, (std::set<double>{1, 2, 3}));
  EXPECT_EQ(seen, asked);
}

TEST(CoRunRowsTest, StagesThatTakeNoTimeAreInNoRow) {
  const ForestRows rows = co_run_rows(groups_of({1, 1}), {.alone = {0, 2}, .contended = {0, 3}}, 60, 2);
  EXPECT_LT(rows.y.size(), 60u);
  EXPECT_GT(rows.y.size(), 0u);
  for (const double slowdown : rows.y) EXPECT_DOUBLE_EQ(slowdown, 1.5);
  EXPECT_TRUE(co_run_rows(groups_of({1}), {.alone = {0}, .contended = {0}}, 10, 3).y.empty());
}

TEST(CoRunRowsTest, AFileGivesBackTheRows) {
  const ForestRows rows = co_run_rows(groups_of({8, 2, 5}), {.alone = {1, 2, 0.5}, .contended = {2, 3, 0.75}}, 20, 4);
  const std::string file = own_file("rows.json");
  std::ofstream(file) << co_run_json(rows).dump();
  const ForestRows read = read_forest_rows(file);
  EXPECT_EQ(read.features, rows.features);
  EXPECT_EQ(read.x, rows.x);
  EXPECT_EQ(read.y, rows.y);
}

TEST(CoRunRowsTest, JoinedRowsHaveTheFeaturesOfBothAndZeroWhereThereIsNone) {
  const ForestRows joined = joined_rows({{"a", "b"}, {{1, 2}}, {3}}, {{"c", "a"}, {{4, 5}}, {6}});
  EXPECT_EQ(joined.features, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(joined.x, (std::vector<std::vector<double>>{{1, 2, 0}, {5, 0, 4}}));
  EXPECT_EQ(joined.y, (std::vector<double>{3, 6}));
  EXPECT_EQ(joined_rows({}, joined).x, joined.x);
}

// Job b with x: seen is the next one of the same device and co-located job, in the file's order; the last one sees
// the first.
TEST(CoRunRowsTest, PublishedRowsAreOfTwoJobsBesideTheSameOne) {
  const std::string file = own_file("published.csv");
  std::ofstream(file) << "gpu,victim,beside,steps,n,slowdown\n"
                         "k80,a,x,2,1,1.5\nk80,b,x,4,1,3\nk80,c,x,5,1,8.5\nk80,d,x,10,1,2\nv100,a,x,2,1,7\n";
  const ForestRows rows = read_forest_rows(file);
  EXPECT_EQ(rows.features, (std::vector<std::string>{"seconds", "seen_seconds", "seen_slowdown"}));
  // c is starved, a on the v100 is the only one with x.
  EXPECT_EQ(rows.x, (std::vector<std::vector<double>>{{0.5, 0.25, 3}, {0.25, 0.1, 2}, {0.1, 0.5, 1.5}}));
  EXPECT_EQ(rows.y, (std::vector<double>{1.5, 3, 2}));
  std::ofstream(file) << "gpu,victim,beside,steps,n,slowdown\nk80,a,x,2,1,1.5\n";
  EXPECT_THROW(read_forest_rows(file), InputError);
  std::ofstream(file) << "gpu,victim,beside,steps,n,slowdown\nk80,a,x,0,1,1.5\nk80,b,x,1,1,1.5\n";
  EXPECT_THROW(read_forest_rows(file), InputError);
}

// A load makes every stage slower by the same factor, so that what was seen says it all: the forest does better than
// the mean of the rows, and taking what was seen is exact.
TEST(CoRunRowsTest, LoadsThatAreHeldOutMeasureTheForest) {
  const LayerGroupGraph graph = groups_of({1, 2, 3, 4});
  std::vector<ForestRows> loads;
  for (int l = 0; l < 20; ++l) {
    const double slowdown = 1 + 0.1 * l;
    loads.push_back(co_run_rows(
        graph, {.alone = {1, 2, 3, 4}, .contended = {slowdown, 2 * slowdown, 3 * slowdown, 4 * slowdown}}, 10, l));
  }
  const std::optional<HeldOutLoads> error = hold_out_loads(loads, {}, slowdown_forest_options());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->learned, 14u);
  EXPECT_EQ(error->held_out, 6u);
  EXPECT_NEAR(error->mean_squared_of_seen, 0, 1e-20);
  EXPECT_GT(error->error.mean_squared, 0);
  EXPECT_LT(error->error.mean_squared, 0.2 * error->error.mean_squared_of_mean);
  // Published rows, whose features are fewer and in another order, are learned from as well.
  const ForestRows published{{"seen_slowdown", "seconds"}, {{5, 1}, {6, 1}}, {5, 6}};
  const std::optional<HeldOutLoads> joined = hold_out_loads(loads, published, slowdown_forest_options());
  ASSERT_TRUE(joined);
  EXPECT_NEAR(joined->mean_squared_of_seen, 0, 1e-20);
  EXPECT_NE(joined->error.mean_squared, error->error.mean_squared);
  EXPECT_LT(joined->error.mean_squared, 0.2 * error->error.mean_squared_of_mean);
  EXPECT_FALSE(hold_out_loads(std::span(loads).first(1), {}, slowdown_forest_options()));
}

}  // namespace
}  // namespace sluice
