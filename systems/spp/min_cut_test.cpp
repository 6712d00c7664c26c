#include "systems/spp/min_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

namespace sluice {
namespace {

SquareMatrix graph_of(std::size_t n, const std::vector<std::tuple<int, int, double>>& edges) {
  SquareMatrix weights(n);
  for (const auto& [a, b, weight] : edges)
    weights.at(a, static_cast<std::size_t>(b)) = weights.at(b, static_cast<std::size_t>(a)) = weight;
  return weights;
}

double weight_of(const SquareMatrix& weights, unsigned far_side) {
  double total = 0;
  for (std::size_t a = 0; a < weights.size(); ++a)
    for (std::size_t b = 0; b < weights.size(); ++b)
      if (!(far_side >> a & 1u) && (far_side >> b & 1u)) total += weights.at(a, b);
  return total;
}

// The eight vertices of figure 1 of Stoer and Wagner's paper; its minimum cut weighs 4.
TEST(MinCutTest, TheExampleOfItsPaper) {
  const Cut cut = min_cut(graph_of(8, {{0, 1, 2},
                                       {0, 4, 3},
                                       {1, 2, 3},
                                       {1, 4, 2},
                                       {1, 5, 2},
                                       {2, 3, 4},
                                       {2, 6, 2},
                                       {3, 6, 2},
                                       {3, 7, 2},
                                       {4, 5, 3},
                                       {5, 6, 1},
                                       {6, 7, 3}}));
  EXPECT_EQ(cut.weight, 4);
  EXPECT_EQ(cut.near_side, (std::vector{0, 1, 4, 5}));
  EXPECT_EQ(cut.far_side, (std::vector{2, 3, 6, 7}));
}

TEST(MinCutTest, OfEqualCutsTheFirstPhaseStays) {
  SquareMatrix flat(4, 1);
  const Cut cut = min_cut(flat);
  EXPECT_EQ(cut.weight, 3);
  EXPECT_EQ(cut.near_side, (std::vector{0, 1, 2}));
  EXPECT_EQ(cut.far_side, (std::vector{3}));
}

TEST(MinCutTest, TheSideOfTheFirstVertexComesFirst) {
  const Cut cut = min_cut(graph_of(3, {{0, 1, 1}, {0, 2, 1}, {1, 2, 5}}));
  EXPECT_EQ(cut.weight, 2);
  EXPECT_EQ(cut.near_side, (std::vector{0}));
  EXPECT_EQ(cut.far_side, (std::vector{1, 2}));
}

TEST(MinCutTest, UnconnectedAndUnlimitedGraphsHaveCutsToo) {
  EXPECT_EQ(min_cut(graph_of(4, {{0, 2, 1}, {1, 3, 1}})).far_side, (std::vector{1, 3}));
  EXPECT_EQ(min_cut(graph_of(4, {{0, 2, 1}, {1, 3, 1}})).weight, 0);
  const double unlimited = std::numeric_limits<double>::infinity();
  EXPECT_EQ(min_cut(SquareMatrix(3, unlimited)).weight, unlimited);
  EXPECT_EQ(min_cut(SquareMatrix(3, unlimited)).near_side, (std::vector{0, 1}));
}

TEST(MinCutTest, OneVertexCannotBeCut) { EXPECT_ANY_THROW(min_cut(SquareMatrix(1))); }

RC_GTEST_PROP(MinCutTest, IsTheLeastOfAllCuts, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(2, 8);
  SquareMatrix weights(n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b) weights.at(a, b) = weights.at(b, a) = *rc::gen::inRange(0, 6);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned far_side = 1; far_side < (1u << n) - 1; ++far_side)
    least = std::min(least, weight_of(weights, far_side));
  const Cut cut = min_cut(weights);
  unsigned far_side = 0;
  for (const int v : cut.far_side) far_side |= 1u << v;
  RC_ASSERT(cut.weight == least);
  RC_ASSERT(weight_of(weights, far_side) == least);
  RC_ASSERT(cut.near_side.size() + cut.far_side.size() == n);
  RC_ASSERT(cut.near_side.front() == 0);
}

}  // namespace
}  // namespace sluice
