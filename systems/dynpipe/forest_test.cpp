// The forest against small cases by hand and against scikit-learn's predictions on the same data.
#include "systems/dynpipe/forest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"

namespace sluice {
namespace {

ForestRows two_steps() { return {{"x"}, {{1}, {2}, {3}, {4}}, {1, 1, 2, 2}}; }

TEST(ForestTest, OneSplitHalvesTwoSteps) {
  const Forest forest(two_steps(), {.trees = 1, .max_depth = 1, .bootstrap = false});
  EXPECT_DOUBLE_EQ(forest.predict(std::vector<double>{2.4}), 1);
  EXPECT_DOUBLE_EQ(forest.predict(std::vector<double>{2.6}), 2);
  const Json made = forest.json();
  EXPECT_DOUBLE_EQ(std::as_const(made).at("trees").at(0).at(0).at(1).get<double>(), 2.5);
}

TEST(ForestTest, ASeedMakesTheSameForestAndJsonKeepsIt) {
  const Forest a(two_steps(), {.trees = 20}), b(two_steps(), {.trees = 20}), c(two_steps(), {.trees = 20, .seed = 1});
  EXPECT_TRUE(a.json() == b.json());
  EXPECT_FALSE(a.json() == c.json());
  const Forest again = Forest::from_json(a.json(), "test");
  for (const double x : {0.5, 1.7, 2.5, 3.3}) EXPECT_DOUBLE_EQ(again.predict({{"x", x}}), a.predict({{"x", x}}));
}

TEST(ForestTest, ADamagedForestIsRejected) {
  Json json = Forest(two_steps(), {.trees = 1}).json();
  json["trees"][0][0][3] = 0;
  if (std::as_const(json).at("trees").at(0).at(0).at(0).get<int>() >= 0) {
    EXPECT_THROW(Forest::from_json(json, "test"), InputError);
  }
  json["trees"] = Json::array();
  EXPECT_THROW(Forest::from_json(json, "test"), InputError);
}

// systems/dynpipe/testdata/forest.json: rows with noise, a tree with at least 5 rows in a leaf, and a forest of 500
// trees.
TEST(ForestTest, PredictsAsScikitLearnDoes) {
  const Json json = parse_json_file(source_folder() + "/systems/dynpipe/testdata/forest.json");
  ForestRows rows{{"a", "b", "c", "d"},
                  json.at("x").get<std::vector<std::vector<double>>>(),
                  json.at("y").get<std::vector<double>>()};
  const auto held_out = json.at("held_out_x").get<std::vector<std::vector<double>>>();
  const auto truth = json.at("held_out_y").get<std::vector<double>>();
  const auto tree = json.at("tree").get<std::vector<double>>(), forest = json.at("forest").get<std::vector<double>>();
  const Forest own_tree(rows, {.trees = 1, .min_leaf = 5, .bootstrap = false});
  const Forest own_forest(rows, {});
  double off = 0, own_error = 0, error = 0;
  for (std::size_t k = 0; k < held_out.size(); ++k) {
    EXPECT_NEAR(own_tree.predict(held_out[k]), tree[k], 1e-6) << k;
    const double predicted = own_forest.predict(held_out[k]);
    off += std::abs(predicted - forest[k]) / static_cast<double>(held_out.size());
    own_error += std::pow(predicted - truth[k], 2);
    error += std::pow(forest[k] - truth[k], 2);
  }
  EXPECT_LT(off, 0.01);
  EXPECT_LT(own_error, 1.15 * error);
  EXPECT_GT(own_error, 0.85 * error);
}

// The published co-location slowdowns: what the forest explains of those that it has not seen.
TEST(ForestTest, ExplainsPublishedSlowdownsThatItHasNotSeen) {
  const std::string file = source_folder() + "/workloads/profiles/published/pipeedge/gavel_colocation_slowdowns.csv";
  const ForestSplit split = split_rows(read_forest_rows(file), 42);
  const ForestError error = error_on(Forest(split.train, {.trees = 20, .min_leaf = 2}), split);
  RecordProperty("held_out_mean_squared_error", std::to_string(error.mean_squared));
  RecordProperty("held_out_mean_absolute_error", std::to_string(error.mean_absolute));
  RecordProperty("of_the_mean", std::to_string(error.mean_squared_of_mean));
  EXPECT_LT(error.mean_squared, 0.6 * error.mean_squared_of_mean);
}

TEST(ForestTest, FilesThatHoldNoRowsAreRejected) {
  EXPECT_THROW(read_forest_rows("/nowhere.json"), InputError);
  const std::string file = testing::TempDir() + "/rows.json";
  std::ofstream(file) << R"({"schema": "sluice/co_run/1", "rows": []})";
  EXPECT_THROW(read_forest_rows(file), InputError);
  std::ofstream(file) << R"({"schema": "sluice/co_run/1", "rows": [{"features": {"a": 1}, "slowdown": 1.5},
                                                                  {"features": {"a": 2}, "slowdown": 2}]})";
  const ForestRows rows = read_forest_rows(file);
  EXPECT_EQ(rows.features, (std::vector<std::string>{"a"}));
  EXPECT_EQ(rows.y, (std::vector<double>{1.5, 2}));
}

}  // namespace
}  // namespace sluice
