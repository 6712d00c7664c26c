// The forest against small cases by hand and against scikit-learn's predictions on the same data.
#include "systems/dynpipe/forest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"
#include "harness/base/splitmix64.h"

namespace sluice {
namespace {

ForestRows two_steps() { return {{"x"}, {{1}, {2}, {3}, {4}}, {1, 1, 2, 2}}; }

TEST(ForestTest, OneSplitHalvesTwoSteps) {
  const Forest forest(two_steps(), {.trees = 1, .max_depth = 1, .bootstrap = false});
  // The threshold is half way, and belongs to the left.
  EXPECT_DOUBLE_EQ(forest.predict(std::vector<double>{2.5}), 1);
  EXPECT_DOUBLE_EQ(forest.predict(std::vector<double>{std::nextafter(2.5, 3)}), 2);
}

TEST(ForestTest, ASeedMakesTheSameForest) {
  const auto predictions = [](std::uint64_t seed) {
    const Forest forest(two_steps(), {.trees = 20, .seed = seed});
    std::vector<double> y;
    for (const double x : {0.5, 1.7, 2.2, 2.7, 3.3}) y.push_back(forest.predict({{"x", x}}));
    return y;
  };
  EXPECT_EQ(predictions(42), predictions(42));
  EXPECT_NE(predictions(42), predictions(1));
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

// 70 % of the rows in a seeded order to train on, the others held out.
ForestSplit split_rows(const ForestRows& rows, std::uint64_t seed) {
  std::vector<std::size_t> order(rows.x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[next_splitmix64(seed) % k]);
  ForestSplit split{{rows.features, {}, {}}, {rows.features, {}, {}}};
  for (std::size_t k = 0; k < order.size(); ++k) {
    ForestRows& into = k < order.size() * 7 / 10 ? split.train : split.held_out;
    into.x.push_back(rows.x[order[k]]);
    into.y.push_back(rows.y[order[k]]);
  }
  return split;
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
