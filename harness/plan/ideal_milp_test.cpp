// The placement problem of ideal_partition.h as the mixed-integer program of its authors
// (Tarnawski et al., NeurIPS 2020, section 5.2), solved by HiGHS, which is written by others:
//
//   minimise T                    T >= load of every device
//   x[g,d] in {0,1}               group g is on device d; each group on one
//   in[u,d]  >= x[v,d] - x[u,d]   for every edge u -> v: device d must receive u's output
//   out[u,d] >= x[u,d] - x[v,d]   ... and d sends it
//   contiguous: z[g,d] >= x[g,d], z[h,d] <= z[g,d], z[h,d] <= x[h,d] - x[g,d] + 1 for g -> h
//
// Their contiguity concerns one device at a time, so two devices may each come after a part of the
// other: {0, 3} and {1, 2} with 0 -> 1 and 2 -> 3. Down-sets, one after the other, have no such
// pair. `ordered` therefore says instead that the devices come in the order of their numbers:
// x[h, 0..d] <= x[g, 0..d] (sums) for every d.
//
// HiGHS is loaded while the test runs: from $SLUICE_HIGHS, from .venv (./check puts it there), or
// from the system. Without it these tests skip.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "harness/plan/operator_graph_support.h"

namespace sluice {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Rows low <= sum of coefficient * column <= high.
struct MixedIntegerProgram {
  std::vector<double> cost, low, high;
  std::vector<int> integral;
  struct Row {
    double low, high;
    std::vector<std::pair<int, double>> terms;
  };
  std::vector<Row> rows;

  int column(double least, double most, bool whole, double price = 0) {
    cost.push_back(price), low.push_back(least), high.push_back(most), integral.push_back(whole);
    return static_cast<int>(cost.size()) - 1;
  }
  void at_most(double limit, std::vector<std::pair<int, double>> terms) {
    rows.push_back({-kNever, limit, std::move(terms)});
  }
};

// HiGHS's C interface, as far as it is used: its integers have 4 bytes in every packaged build.
class Highs {
 public:
  Highs() {
    std::vector<std::string> places;
    if (const char* given = std::getenv("SLUICE_HIGHS")) places.emplace_back(given);
    const std::filesystem::path environment = SLUICE_SOURCE_DIR "/.venv/lib";
    std::error_code none;
    for (const auto& python : std::filesystem::directory_iterator(environment, none))
      places.push_back(python.path() / "site-packages/highspy/libhighs.so.1");
    places.emplace_back("libhighs.so.1");
    for (const std::string& place : places) {
      void* library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) continue;
      solve_ = reinterpret_cast<MipCall>(::dlsym(library, "Highs_mipCall"));
      if (solve_) return;
    }
  }
  bool there() const { return solve_ != nullptr; }

  // The least cost; infinity if nothing satisfies the rows. To one part in 10^4 (its default gap).
  double least(const MixedIntegerProgram& p) const {
    std::vector<int> starts, columns;
    std::vector<double> values, row_low, row_high;
    for (const auto& row : p.rows) {
      starts.push_back(static_cast<int>(columns.size()));
      row_low.push_back(row.low), row_high.push_back(row.high);
      for (const auto& [column, value] : row.terms) columns.push_back(column), values.push_back(value);
    }
    std::vector<double> solution(p.cost.size()), activity(p.rows.size());
    int status = 0;
    constexpr int kByRows = 2, kMinimise = 1, kOptimal = 7, kInfeasible = 8;
    const int error = solve_(static_cast<int>(p.cost.size()), static_cast<int>(p.rows.size()),
                             static_cast<int>(columns.size()), kByRows, kMinimise, 0, p.cost.data(), p.low.data(),
                             p.high.data(), row_low.data(), row_high.data(), starts.data(), columns.data(),
                             values.data(), p.integral.data(), solution.data(), activity.data(), &status);
    if (status == kInfeasible) return kNever;
    EXPECT_EQ(error, 0);
    EXPECT_EQ(status, kOptimal);
    double total = 0;
    for (std::size_t i = 0; i < p.cost.size(); ++i) total += p.cost[i] * solution[i];
    return total;
  }

 private:
  using MipCall = int (*)(int, int, int, int, int, double, const double*, const double*, const double*, const double*,
                          const double*, const int*, const int*, const double*, const int*, double*, double*, int*);
  MipCall solve_ = nullptr;
};

const Highs& highs() {
  static const Highs library;
  return library;
}

#define SLUICE_NEEDS_HIGHS() \
  if (!highs().there()) GTEST_SKIP() << "HiGHS is not there: run ./check, or set SLUICE_HIGHS"

// Devices in the order of `accelerator`: which of them are.
double milp_of(const OperatorGraph& graph, Split split, const std::vector<bool>& accelerator) {
  const OperatorGroups groups = group_operators(graph);
  const std::size_t n = groups.members.size(), m = accelerator.size();
  std::vector<std::size_t> group_of(graph.operators.size());
  for (std::size_t g = 0; g < n; ++g)
    for (const int op : groups.members[g]) group_of[op] = g;

  MixedIntegerProgram p;
  const int largest = p.column(0, kNever, false, 1);
  std::vector<std::vector<int>> x(n);
  for (auto& row : x)
    for (std::size_t d = 0; d < m; ++d) row.push_back(p.column(0, 1, true));
  for (std::size_t g = 0; g < n; ++g) {
    MixedIntegerProgram::Row once{1, 1, {}};
    for (const int column : x[g]) once.terms.emplace_back(column, 1);
    p.rows.push_back(once);
  }
  for (std::size_t d = 0; d < m; ++d) {
    std::vector<std::pair<int, double>> load = {{largest, -1}}, bytes;
    for (std::size_t g = 0; g < n; ++g) {
      double seconds = 0, held = 0;
      for (const int member : groups.members[g]) {
        const Operator& op = graph.operators[member];
        seconds += accelerator[d] ? op.accelerator : op.cpu;
        held += op.bytes;
        if (accelerator[d] && !op.on_accelerator) p.high[x[g][d]] = 0;
      }
      load.emplace_back(x[g][d], seconds);
      bytes.emplace_back(x[g][d], held);
    }
    if (accelerator[d]) {
      p.at_most(graph.memory, bytes);
      std::vector<int> in(graph.operators.size(), -1), out = in;
      for (const auto& [u, v] : graph.edges) {
        const auto from = static_cast<std::size_t>(u);
        const int at_u = x[group_of[from]][d], at_v = x[group_of[v]][d];
        if (at_u == at_v) continue;
        if (in[from] < 0) {
          in[from] = p.column(0, 1, false);
          out[from] = p.column(0, 1, false);
          load.emplace_back(in[from], graph.operators[from].send);
          load.emplace_back(out[from], graph.operators[from].send);
        }
        p.at_most(0, {{at_v, 1}, {at_u, -1}, {in[from], -1}});
        p.at_most(0, {{at_u, 1}, {at_v, -1}, {out[from], -1}});
      }
    }
    p.at_most(0, load);
    if (split != Split::contiguous) continue;
    std::vector<int> z;
    for (std::size_t g = 0; g < n; ++g) {
      z.push_back(p.column(0, 1, false));
      p.at_most(0, {{x[g][d], 1}, {z[g], -1}});
    }
    for (std::size_t g = 0; g < n; ++g)
      for (const int h : groups.predecessors[g]) {
        const auto before = static_cast<std::size_t>(h);
        p.at_most(0, {{z[g], 1}, {z[before], -1}});
        p.at_most(1, {{z[g], 1}, {x[g][d], -1}, {x[before][d], 1}});
      }
  }
  for (std::size_t g = 0; split == Split::ordered && g < n; ++g)
    for (const int h : groups.predecessors[g])
      for (std::size_t last = 0; last + 1 < m; ++last) {
        std::vector<std::pair<int, double>> terms;
        for (std::size_t d = 0; d <= last; ++d) {
          terms.emplace_back(x[g][d], 1);
          terms.emplace_back(x[h][d], -1);
        }
        p.at_most(0, terms);
      }
  return highs().least(p);
}

double milp(const OperatorGraph& graph, Split split) {
  std::vector<bool> accelerator(static_cast<std::size_t>(graph.cpus), false);
  accelerator.resize(graph.cpus + graph.accelerators, true);
  if (split != Split::ordered) return milp_of(graph, split, accelerator);
  double best = kNever;  // over the places that the CPUs may take in the order
  do best = std::min(best, milp_of(graph, split, accelerator));
  while (std::next_permutation(accelerator.begin(), accelerator.end()));
  return best;
}

bool equal(double a, double b) {  // the loads of whole numbers are whole numbers
  return std::isinf(a) ? std::isinf(b) : std::abs(a - b) <= 2e-4 * std::max(1.0, a);
}

TEST(IdealMilpTest, TabulatedCases) {
  SLUICE_NEEDS_HIGHS();
  const OperatorGraph diamond = graph_of({2, 3, 3, 2}, {1, 1, 1, 0}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}, 2);
  EXPECT_NEAR(milp(diamond, Split::ordered), 7, 1e-3);  // EX-1
  EXPECT_NEAR(milp(diamond, Split::any), 7, 1e-3);
  const OperatorGraph chain =
      graph_of({5, 1, 6, 1, 5}, std::vector<double>(5, 0.1), {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, 2);
  EXPECT_NEAR(milp(chain, Split::ordered), 12.1, 1e-3);  // EX-2
  EXPECT_NEAR(milp(chain, Split::contiguous), 12.1, 1e-3);
  EXPECT_NEAR(milp(chain, Split::any), 10.2, 1e-3);
  OperatorGraph tight = graph_of({1, 1, 1, 9}, {0, 0, 0, 0}, {{0, 1}, {1, 2}, {2, 3}}, 2);
  tight.memory = 2;
  EXPECT_NEAR(milp(tight, Split::ordered), 10, 1e-3);  // EX-3
  tight.memory = 1;
  EXPECT_TRUE(std::isinf(milp(tight, Split::ordered)));
}

TEST(IdealMilpTest, ContiguousDevicesMayEachComeAfterAPartOfTheOther) {
  SLUICE_NEEDS_HIGHS();
  // {0, 3} | {1, 2} is contiguous and balanced; in an order the best is {0, 1} | {2, 3}.
  const OperatorGraph graph = graph_of({6, 3, 7, 4}, {0, 0, 0, 0}, {{0, 1}, {2, 3}}, 2);
  EXPECT_NEAR(milp(graph, Split::contiguous), 10, 1e-3);
  EXPECT_DOUBLE_EQ(brute_force(graph, Split::contiguous), 10);
  EXPECT_NEAR(milp(graph, Split::ordered), 11, 1e-3);
  EXPECT_DOUBLE_EQ(ideal_partition(graph).load, 11);
}

TEST(IdealMilpTest, DownSetsFindTheSameOptimumAndSoDoesTryingEverything) {
  SLUICE_NEEDS_HIGHS();
  EXPECT_TRUE(rc::check([&] {
    const OperatorGraph graph = random_operator_graph(6);
    const double optimum = milp(graph, Split::ordered);
    RC_ASSERT(equal(optimum, ideal_partition(graph).load));
    RC_ASSERT(equal(optimum, brute_force(graph, Split::ordered)));
  }));
}

TEST(IdealMilpTest, OtherSplitsAreAsGoodAsTryingEverything) {
  SLUICE_NEEDS_HIGHS();
  EXPECT_TRUE(rc::check([&] {
    const OperatorGraph graph = random_operator_graph(6);
    for (const Split split : {Split::any, Split::contiguous})
      RC_ASSERT(equal(milp(graph, split), brute_force(graph, split)));
  }));
}

// Too large to try everything: 10 to 14 operators on up to 3 accelerators.
TEST(IdealMilpTest, DownSetsFindTheSameOptimumOnLargerGraphs) {
  SLUICE_NEEDS_HIGHS();
  EXPECT_TRUE(rc::check([&] {
    const int n = *rc::gen::inRange(10, 15);
    std::vector<double> latency, send;
    std::vector<std::pair<int, int>> edges;
    for (int v = 0; v < n; ++v) {
      latency.push_back(*rc::gen::inRange(1, 30));
      send.push_back(*rc::gen::inRange(0, 5));
      for (int u = std::max(0, v - 4); u < v; ++u)
        if (*rc::gen::inRange(0, 3) == 0) edges.emplace_back(u, v);
    }
    OperatorGraph graph = graph_of(latency, send, edges, *rc::gen::inRange(2, 4));
    graph.memory = *rc::gen::inRange(n / 3, n + 1);
    const double optimum = milp(graph, Split::ordered);
    RC_ASSERT(equal(optimum, ideal_partition(graph).load));
  }));
}

}  // namespace
}  // namespace sluice
