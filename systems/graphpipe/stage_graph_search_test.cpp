#include "systems/graphpipe/stage_graph_search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/plan/search.h"

namespace sluice {
namespace {

StageSearchResult search_stage_graph(const SeriesParallelTree& tree, const StageSearchSpace& space,
                                     const StageSearchLimits& limits = {}) {
  return StageGraphSearch(tree, space).run(limits);
}

using Kind = SeriesParallelTree::Kind;

// Vertices of given seconds a micro-batch; each takes `fixed` an op besides. A stage holds as many
// bytes per micro-batch as its vertices take seconds, and as many always.
StageSearchSpace space_of(std::vector<double> weights, int devices, double fixed = 0, double all_reduce = 0) {
  StageSearchSpace space;
  space.devices = devices;
  space.microbatches = 1000;
  const auto sum = [weights](std::span<const int> vertices) {
    double total = 0;
    for (const int v : vertices) total += weights[v];
    return total;
  };
  space.work = [sum, fixed, all_reduce](std::span<const int> vertices) {
    StageWork work;
    for (const int g : {1, 2, 4, 8, 16}) {  // of which the space may use fewer
      work.compute.push_back(static_cast<double>(vertices.size()) * fixed + g * sum(vertices));
      work.communication.push_back(0);
    }
    for (const int d : {1, 2, 4}) work.all_reduce.push_back(all_reduce * (d - 1));
    return work;
  };
  space.footprint = [sum](std::span<const int> vertices) {
    return StageFootprint{0, 0, static_cast<std::int64_t>(sum(vertices))};
  };
  space.signature = [weights](std::span<const int> vertices) {
    std::vector<double> signature;
    for (const int v : vertices) signature.push_back(weights[v]);
    return signature;
  };
  space.memory = std::numeric_limits<std::int64_t>::max();
  return space;
}

const std::vector<double> kWeights{4, 2, 3, 3, 2};
SeriesParallelTree branches() {
  return series_parallel(5, std::vector<std::pair<int, int>>{{0, 1}, {2, 3}, {1, 4}, {3, 4}}, "");
}
SeriesParallelTree sequence() {
  return series_parallel(5, std::vector<std::pair<int, int>>{{0, 1}, {1, 2}, {2, 3}, {3, 4}}, "");
}

int in_flight_at_source(const StageSearchResult& result) {
  int most = 0;
  for (const FoundStage& stage : result.stages) most = std::max(most, stage.in_flight);
  return most;
}

TEST(StageGraphSearchTest, PublishedBottlenecks) {  // TV6
  static const Json all = parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/graphpipe.json");
  Json v;
  for (const auto& one : all["vectors"])
    if (one["id"] == "GP-TV6") v = one;
  EXPECT_EQ(to_text(branches()), "S(P(S(0,1),S(2,3)),4)");
  for (const auto& [devices, slowest] : v["gpp_tstar"].items())
    EXPECT_EQ(search_stage_graph(branches(), space_of(kWeights, std::stoi(devices))).slowest, slowest) << devices;
  for (const auto& [devices, slowest] : v["spp_tstar"].items())
    EXPECT_EQ(search_stage_graph(sequence(), space_of(kWeights, std::stoi(devices))).slowest, slowest) << devices;
  for (const auto& [devices, most] : v["gpp_isrc"].items())
    EXPECT_EQ(in_flight_at_source(search_stage_graph(branches(), space_of(kWeights, std::stoi(devices)))), most)
        << devices;
  for (const auto& [devices, most] : v["spp_isrc"].items())
    EXPECT_EQ(in_flight_at_source(search_stage_graph(sequence(), space_of(kWeights, std::stoi(devices)))), most)
        << devices;
  for (const auto& [devices, times] : v["mem12"].items()) {
    auto space = space_of(kWeights, std::stoi(devices));
    space.memory = 12;
    EXPECT_EQ(search_stage_graph(branches(), space).slowest, times["gpp"]);
    EXPECT_TRUE(times["spp"].is_null());
    EXPECT_TRUE(search_stage_graph(sequence(), space).stages.empty());
  }
}

TEST(StageGraphSearchTest, ThePublishedStagesOnFiveDevices) {  // TV6
  std::vector<std::pair<double, int>> stages;
  for (const FoundStage& s : search_stage_graph(branches(), space_of(kWeights, 5)).stages) {
    double weight = 0;
    for (const int v : s.vertices) weight += kWeights[v];
    stages.emplace_back(weight, s.in_flight);
  }
  std::ranges::sort(stages);
  EXPECT_EQ(stages, (std::vector<std::pair<double, int>>{{2, 1}, {2, 2}, {3, 2}, {3, 3}, {4, 3}}));
}

TEST(StageGraphSearchTest, AJoinCanGoToTheEndOfTheLightestBranch) {
  auto space = space_of(kWeights, 2);
  EXPECT_EQ(search_stage_graph(branches(), space).slowest, 12);  // both branches | join
  space.absorb_joins = true;
  const auto result = search_stage_graph(branches(), space);
  EXPECT_EQ(result.slowest, 8);  // one branch | the other and the join
  ASSERT_EQ(result.stages.size(), 2u);
  EXPECT_EQ(result.stages[0].in_flight, 2);
  EXPECT_EQ(result.stages[1].in_flight, 1);
  // Both branches weigh 6; the first takes the join. The other feeds its last stage.
  space.devices = 4;
  const auto four = search_stage_graph(branches(), space);
  EXPECT_EQ(four.slowest, 4);
  EXPECT_EQ(four.stages.back().vertices, (std::vector{1, 4}));
  for (const FoundStage& s : four.stages) {
    const int holds = s.vertices == std::vector{1, 4} ? 1 : s.vertices == std::vector{2} ? 3 : 2;
    EXPECT_EQ(s.in_flight, holds);
  }
}

TEST(StageGraphSearchTest, DataParallelStagesPayForTheirAllReduce) {
  // One vertex on two devices: half the time, and an all-reduce of 1000 over 1000 micro-batches.
  const auto tree = series_parallel(1, {}, "");
  auto space = space_of({4}, 2, 0, 1000);
  space.degrees = {1, 2};
  space.configs = {{2, 1}};
  EXPECT_EQ(space.microbatches_per_op(), (std::vector{1, 2}));
  const auto result = search_stage_graph(tree, space);
  EXPECT_EQ(result.slowest, 3);
  ASSERT_EQ(result.stages.size(), 1u);
  EXPECT_EQ(result.stages[0].degree, 2);
}

TEST(StageGraphSearchTest, LargerMicroBatchesAreTakenWhereTheyFit) {
  // F + B of an op: 1 + its micro-batches. The time of a micro-batch: (1 + b) / b.
  const auto tree = series_parallel(2, std::vector<std::pair<int, int>>{{0, 1}}, "");
  auto space = space_of({1, 1}, 2, 1);
  space.configs = {{1, 1}, {2, 1}, {4, 1}};
  EXPECT_EQ(search_stage_graph(tree, space).slowest, 1.25);
  // The first stage holds twice what it takes: 4 bytes allow it no more than 2 at once, and the
  // second no more than 2 either, or the first would hold 6.
  space.memory = 4;
  const auto small = search_stage_graph(tree, space);
  EXPECT_EQ(small.slowest, 1.5);
}

TEST(StageGraphSearchTest, BranchesOfEqualSignatureAreSolvedOnce) {
  const auto states_of = [](int branches, double step) {
    std::vector<std::pair<int, int>> edges;
    std::vector<double> weights;
    for (int b = 0; b < branches; ++b)
      for (int l = 0; l < 4; ++l) {
        if (l > 0) edges.push_back({4 * b + l - 1, 4 * b + l});
        weights.push_back(4 + l + b * step);
      }
    const auto tree = series_parallel(4 * branches, edges, "");
    const auto result = search_stage_graph(tree, space_of(weights, 8));
    EXPECT_EQ(result.stages.size(), 8u);
    return result.states;
  };
  EXPECT_LT(3 * states_of(4, 0), 2 * states_of(4, 1.0 / 64));
}

// The same part stands at different places of its branches: after one vertex, and after two.
TEST(StageGraphSearchTest, PartsOfEqualSignatureMayStandAnywhere) {
  const std::vector<std::pair<int, int>> edges{{0, 1}, {1, 2}, {3, 4}, {4, 5}, {5, 6}};
  const auto tree = series_parallel(7, edges, "");
  const std::vector<double> weights{5, 2, 3, 7, 1, 2, 3};
  std::vector<std::vector<int>> stages;
  const auto found = search_stage_graph(tree, space_of(weights, 4));
  for (const FoundStage& s : found.stages) stages.push_back(s.vertices);
  std::ranges::sort(stages);
  EXPECT_EQ(stages, (std::vector<std::vector<int>>{{0}, {1, 2}, {3}, {4, 5, 6}}));
}

TEST(StageGraphSearchTest, ACapEndsTheSearchWithTheBestSoFar) {
  std::vector<std::pair<int, int>> edges;
  std::vector<double> weights;
  for (int v = 0; v < 24; ++v) {
    if (v % 6 > 0) edges.push_back({v - 1, v});
    weights.push_back(1 + v * 5 % 7);
  }
  const auto tree = series_parallel(24, edges, "");
  const auto space = space_of(weights, 12);
  const auto all = search_stage_graph(tree, space);
  ASSERT_TRUE(all.complete);
  int cut_short = 0;
  StageSearchLimits limits;
  for (limits.states = 1; limits.states < all.states; ++limits.states) {
    const auto some = search_stage_graph(tree, space, limits);
    if (some.complete) {
      EXPECT_EQ(some.slowest, all.slowest);
      continue;
    }
    ++cut_short;
    if (!some.stages.empty()) {
      EXPECT_GE(some.slowest, all.slowest);
    }
  }
  EXPECT_GT(cut_short, 0);
}

// --- every stage graph of the space, one after the other ---

struct Piece {
  std::vector<int> vertices;
  bool head;  // nothing of its part comes before it
};
using Pieces = std::vector<Piece>;

class Enumeration {
 public:
  Enumeration(const SeriesParallelTree& tree, const StageSearchSpace& space)
      : tree_(tree), space_(space), order_(pairs()) {}

  double best() {
    best_ = kNever;
    for (const Pieces& pieces : of_node(tree_.root)) assign(pieces, {}, space_.devices);
    return best_;
  }

 private:
  std::vector<std::vector<bool>> pairs() const {
    std::vector<std::vector<bool>> before(tree_.nodes.size(), std::vector<bool>(tree_.nodes.size(), false));
    for (const auto& node : tree_.nodes)
      for (std::size_t i = 0; node.kind == Kind::series && i < node.children.size(); ++i)
        for (std::size_t j = i + 1; j < node.children.size(); ++j)
          for (const int a : vertices_below(tree_, node.children[i]))
            for (const int b : vertices_below(tree_, node.children[j])) before[a][b] = true;
    return before;
  }

  std::vector<Pieces> of_node(int node) const {
    const auto& n = tree_.nodes[node];
    if (n.kind == Kind::leaf) return {{{{n.vertex}, true}}};
    std::vector<int> children = n.children;
    if (n.kind == Kind::parallel)
      std::ranges::stable_sort(children, std::greater<>(),
                               [&](int c) { return space_.work(vertices_below(tree_, c)).compute[0]; });
    return of_list(n.kind == Kind::series, children);
  }

  std::vector<Pieces> of_list(bool series, std::span<const int> children) const {
    if (children.empty()) return {{}};
    std::vector<Pieces> result;
    const auto combine = [&](const Pieces& first, std::size_t taken) {
      for (Pieces rest : of_list(series, children.subspan(taken))) {
        if (series)
          for (Piece& p : rest) p.head = false;
        Pieces all = first;
        all.insert(all.end(), rest.begin(), rest.end());
        result.push_back(std::move(all));
      }
    };
    Piece run{{}, true};
    for (std::size_t taken = 1; taken <= children.size(); ++taken) {
      const auto below = vertices_below(tree_, children[taken - 1]);
      run.vertices.insert(run.vertices.end(), below.begin(), below.end());
      combine({run}, taken);
    }
    const auto& first = tree_.nodes[children[0]];
    if (first.kind != Kind::leaf)
      for (const Pieces& inner : of_node(children[0]))
        if (inner.size() > 1) combine(inner, 1);
    return result;
  }

  void assign(const Pieces& pieces, std::vector<std::pair<int, std::size_t>> chosen, int devices) {
    if (chosen.size() == pieces.size()) {
      if (devices == 0) best_ = std::min(best_, slowest(pieces, chosen));
      return;
    }
    for (const int degree : space_.degrees)
      for (std::size_t r = 0; r < space_.configs.size() && degree <= devices; ++r) {
        const int b = space_.configs[r].micro_batch;
        if (space_.micro_batch_is_degree ? b != degree : b % degree != 0) continue;
        if (space_.microbatches % (b / degree) != 0 || degree > space_.microbatches * degree / b) continue;
        chosen.emplace_back(degree, r);
        assign(pieces, chosen, devices - degree);
        chosen.pop_back();
      }
  }

  bool comes_before(const Piece& a, const Piece& b) const { return order_[a.vertices[0]][b.vertices[0]]; }

  double slowest(const Pieces& pieces, const std::vector<std::pair<int, std::size_t>>& chosen) const {
    std::vector<std::pair<StageId, StageId>> edges;
    std::vector<StageConfig> configs;
    for (std::size_t a = 0; a < pieces.size(); ++a) {
      configs.push_back(space_.configs[chosen[a].second]);
      for (std::size_t b = 0; b < pieces.size(); ++b)
        if (a != b && comes_before(pieces[a], pieces[b])) {
          const bool direct = std::ranges::none_of(
              pieces, [&](const Piece& c) { return comes_before(pieces[a], c) && comes_before(c, pieces[b]); });
          if (direct) edges.push_back({StageId(a), StageId(b)});
        }
    }
    const StageGraph graph = stage_graph(static_cast<int>(pieces.size()), edges, "test");
    // The stages that one stage feeds share a config.
    for (const auto& next : graph.successors)
      for (const StageId t : next)
        if (chosen[t.index()].second != chosen[next[0].index()].second) return kNever;
    const auto in_flight = kfkb_in_flight(graph, configs, space_.microbatches);
    const std::vector<int> choices = space_.microbatches_per_op();
    double result = 0;
    for (std::size_t s = 0; s < pieces.size(); ++s) {
      const int degree = chosen[s].first, b = configs[s].micro_batch, microbatches_per_op = b / degree;
      const auto g = static_cast<std::size_t>(std::ranges::find(choices, microbatches_per_op) - choices.begin());
      const auto d = static_cast<std::size_t>(std::ranges::find(space_.degrees, degree) - space_.degrees.begin());
      const StageWork work = space_.work(pieces[s].vertices);
      const int rounds = (space_.microbatches / microbatches_per_op + degree - 1) / degree;
      result = std::max(result, (rounds * work.compute[g] + work.all_reduce[d]) / space_.microbatches);
      const StageFootprint f = space_.footprint(pieces[s].vertices);
      const std::int64_t op = f.per_op + microbatches_per_op * f.per_micro_batch;
      if (f.always + (in_flight[s] + b - 1) / b * op > space_.memory) return kNever;
    }
    return result;
  }

  const SeriesParallelTree& tree_;
  const StageSearchSpace& space_;
  std::vector<std::vector<bool>> order_;
  double best_ = kNever;
};

// A random tree over vertices 0 .. n - 1, in order, as the edges of its order.
void random_edges(int first, int last, bool series, std::mt19937& random, std::vector<std::pair<int, int>>& edges) {
  if (last - first < 2) return;
  const int cut = std::uniform_int_distribution<int>(first + 1, last - 1)(random);
  random_edges(first, cut, random() % 2 == 0, random, edges);
  random_edges(cut, last, random() % 2 == 0, random, edges);
  for (int a = first; series && a < cut; ++a)
    for (int b = cut; b < last; ++b) edges.push_back({a, b});
}

void compare_with_enumeration(bool micro_batch_is_degree, std::vector<StageConfig> configs, int max_vertices) {
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  const auto upto = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const int n = upto(1, max_vertices), devices = upto(1, n);
  std::vector<std::pair<int, int>> edges;
  random_edges(0, n, true, random, edges);
  std::vector<double> weights;
  for (int v = 0; v < n; ++v) weights.push_back(upto(1, 4));
  StageSearchSpace space = space_of(weights, devices, upto(0, 2), upto(0, 1) * upto(0, 20));
  space.microbatches = 8;
  space.degrees = {1, 2};
  space.configs = std::move(configs);
  space.micro_batch_is_degree = micro_batch_is_degree;
  if (upto(0, 2) > 0) space.memory = upto(3, 40);
  // The costs of space_of() are in the order of these numbers of micro-batches per op.
  const auto microbatches_per_op = space.microbatches_per_op();
  const auto all = space.work;
  space.work = [all, microbatches_per_op](std::span<const int> vertices) {
    StageWork work = all(vertices), used = work;
    used.compute.clear();
    for (const int g : microbatches_per_op)
      used.compute.push_back(work.compute[std::countr_zero(static_cast<unsigned>(g))]);
    used.communication.assign(microbatches_per_op.size(), 0);
    return used;
  };
  const SeriesParallelTree tree = series_parallel(n, edges, "test");
  const double best = Enumeration(tree, space).best();
  const StageSearchResult found = search_stage_graph(tree, space);
  if (best == kNever) {
    RC_ASSERT(found.stages.empty());
    return;
  }
  RC_ASSERT(!found.stages.empty());
  RC_ASSERT(found.slowest == best);
  int used = 0;
  std::set<int> vertices;
  for (const FoundStage& stage : found.stages) {
    used += stage.degree;
    for (const int v : stage.vertices) RC_ASSERT(vertices.insert(v).second);
  }
  RC_ASSERT(used == devices);
  RC_ASSERT(vertices.size() == static_cast<std::size_t>(n));
}

RC_GTEST_PROP(StageGraphSearchTest, OneMicroBatchIsAsGoodAsEveryStageGraph, ()) {
  compare_with_enumeration(false, {{2, 1}}, 7);
}
RC_GTEST_PROP(StageGraphSearchTest, ReplicasInTurnAreAsGoodAsEveryStageGraph, ()) {
  compare_with_enumeration(true, {{1, 1}, {2, 1}}, 7);
}
RC_GTEST_PROP(StageGraphSearchTest, MicroBatchesPerStageAreAsGoodAsEveryStageGraph, ()) {
  compare_with_enumeration(false, {{1, 1}, {2, 1}, {2, 2}}, 5);
}

}  // namespace
}  // namespace sluice
