#include "systems/graphpipe/series_parallel.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <random>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

using Edges = std::vector<std::pair<int, int>>;

std::string tree_of(int vertices, const Edges& edges) { return to_text(series_parallel(vertices, edges, "test")); }

TEST(SeriesParallelTest, ChainsBranchesAndLoneVertices) {
  EXPECT_EQ(tree_of(1, {}), "0");
  EXPECT_EQ(tree_of(3, {{0, 1}, {1, 2}}), "S(0,1,2)");
  EXPECT_EQ(tree_of(2, {}), "P(0,1)");
  EXPECT_EQ(tree_of(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}), "S(0,P(1,2),3)");
  EXPECT_EQ(tree_of(5, {{0, 1}, {2, 3}, {1, 4}, {3, 4}}), "S(P(S(0,1),S(2,3)),4)");
}

TEST(SeriesParallelTest, SkipConnectionsAreAbsorbed) {
  EXPECT_EQ(tree_of(4, {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {1, 3}}), "S(0,1,2,3)");
}

// 0 -> 2, 0 -> 3, 1 -> 3: the smallest graph that is not series-parallel. Either cut orders one
// more pair.
TEST(SeriesParallelTest, WhatHasNoTreeGetsTheFewestOrderings) {
  const auto tree = series_parallel(4, Edges{{0, 2}, {0, 3}, {1, 3}}, "test");
  EXPECT_EQ(to_text(tree), "S(P(0,1),P(2,3))");
  EXPECT_EQ(tree.added, 1);
}

TEST(SeriesParallelTest, TheCutIsPutWhereItOrdersLeast) {
  // An N at the end of two long branches: 0 1 2 | 3 4 5, then 2 -> 6, 2 -> 7, 5 -> 7.
  const auto tree = series_parallel(8, Edges{{0, 1}, {1, 2}, {3, 4}, {4, 5}, {2, 6}, {2, 7}, {5, 7}}, "test");
  EXPECT_EQ(to_text(tree), "S(P(S(0,1,2),S(3,4,5)),P(6,7))");
  EXPECT_EQ(tree.added, 3);  // 3, 4, 5 before 6
}

// The same N behind branches of sixty, numbered against the order of the paths: sets of vertices
// take more than one machine word.
TEST(SeriesParallelTest, LongBranches) {
  constexpr int kLength = 60;
  Edges edges;
  std::string branches[2];
  for (int branch = 0; branch < 2; ++branch)
    for (int i = kLength - 1; i >= 0; --i) {
      const int v = branch * kLength + i;
      branches[branch] += (i < kLength - 1 ? "," : "") + std::to_string(v);
      if (i > 0) edges.push_back({v, v - 1});
    }
  const int first = 0, second = kLength, low = 2 * kLength, high = low + 1;  // the branches' ends
  EXPECT_EQ(tree_of(2 * kLength, edges), "P(S(" + branches[0] + "),S(" + branches[1] + "))");
  edges.insert(edges.end(), {{first, low}, {first, high}, {second, high}});
  const auto tree = series_parallel(2 * kLength + 2, edges, "test");
  EXPECT_EQ(to_text(tree), "S(P(S(" + branches[0] + "),S(" + branches[1] + ")),P(120,121))");
  EXPECT_EQ(tree.added, kLength);  // the second branch before 120
}

TEST(SeriesParallelTest, CyclesAndUnknownVerticesAreRejected) {
  EXPECT_EQ(error_of([] { tree_of(2, {{0, 1}, {1, 0}}); }), "test: the graph has a cycle");
  EXPECT_EQ(error_of([] { tree_of(2, {{0, 2}}); }), "test: edge 0 -> 2 names a vertex that does not exist");
}

std::vector<std::vector<bool>> closure(int n, const Edges& edges) {
  const auto count = static_cast<std::size_t>(n);
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (const auto& [a, b] : edges) before[a][b] = true;
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b)
        if (before[a][k] && before[k][b]) before[a][b] = true;
  return before;
}

// The order that a tree stands for.
Edges pairs_of(const SeriesParallelTree& tree) {
  Edges pairs;
  for (const auto& node : tree.nodes) {
    if (node.kind != SeriesParallelTree::Kind::series) continue;
    for (std::size_t i = 0; i < node.children.size(); ++i)
      for (std::size_t j = i + 1; j < node.children.size(); ++j)
        for (const int a : vertices_below(tree, node.children[i]))
          for (const int b : vertices_below(tree, node.children[j])) pairs.push_back({a, b});
  }
  return pairs;
}

std::size_t true_count(const std::vector<std::vector<bool>>& rows) {
  std::size_t n = 0;
  for (const auto& row : rows) n += static_cast<std::size_t>(std::ranges::count(row, true));
  return n;
}

// Some four vertices a < c, a < d, b < d and nothing else between them: then, and only then, there
// is no tree (Valdes, Tarjan, Lawler 1982).
bool contains_n(const std::vector<std::vector<bool>>& before) {
  const std::size_t n = before.size();
  const auto unrelated = [&](std::size_t x, std::size_t y) { return x != y && !before[x][y] && !before[y][x]; };
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      for (std::size_t c = 0; c < n; ++c)
        for (std::size_t d = 0; d < n; ++d)
          if (before[a][c] && before[a][d] && before[b][d] && unrelated(a, b) && unrelated(c, d) && unrelated(b, c))
            return true;
  return false;
}

RC_GTEST_PROP(SeriesParallelTest, TheTreeOrdersWhatTheEdgesOrderAndAddsOnlyWhereItMust, ()) {
  const int n = *rc::gen::inRange(1, 9);
  Edges edges;
  for (int a = 0; a < n; ++a)
    for (int b = a + 1; b < n; ++b)
      if (*rc::gen::inRange(0, 3) == 0) edges.push_back({a, b});
  const SeriesParallelTree tree = series_parallel(n, edges, "test");
  const auto given = closure(n, edges), made = closure(n, pairs_of(tree));
  for (std::size_t a = 0; a < given.size(); ++a)
    for (std::size_t b = 0; b < given.size(); ++b) RC_ASSERT(!given[a][b] || made[a][b]);
  RC_ASSERT(true_count(made) - true_count(given) == static_cast<std::size_t>(tree.added));
  RC_ASSERT((tree.added > 0) == contains_n(given));
  std::vector<int> all = vertices_below(tree, tree.root);
  std::ranges::sort(all);
  for (int v = 0; v < n; ++v) RC_ASSERT(all.at(v) == v);
  // Neither kind of node stands below its own kind, and inner nodes have something to join.
  for (const auto& node : tree.nodes) {
    RC_ASSERT(node.kind == SeriesParallelTree::Kind::leaf || node.children.size() > 1);
    for (const int child : node.children) RC_ASSERT(tree.nodes[child].kind != node.kind);
  }
}

}  // namespace
}  // namespace sluice
