// The five-seeds rule on hand-written numbers.
#include "results/tell_apart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "results/compare.h"

namespace sluice {
namespace {

using Labels = std::vector<std::string>;
using Sets = std::vector<Labels>;
constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(TellApart, RangesThatTouchAreNotToldApart) {
  const Verdict v = tell_apart("final accuracy", std::vector<SeedValues>{{"a", {0.90, 0.91, 0.92, 0.93, 0.94}},
                                                                         {"b", {0.94, 0.95, 0.95, 0.95, 0.96}},
                                                                         {"c", {0.80, 0.81, 0.82, 0.83, 0.84}}});
  EXPECT_EQ(v.alike, (Sets{{"a", "b"}}));
  EXPECT_EQ(v.apart, (Labels{"c"}));
  EXPECT_EQ(to_text(v), "final accuracy: cannot be told apart: a, b; apart from all others: c");
}

TEST(TellApart, OverlapIsNotHandedOn) {
  // a overlaps b and b overlaps c, but a and c are apart: two sets, b in both.
  const Verdict v =
      tell_apart("t", std::vector<SeedValues>{{"c", {5, 6, 7, 8, 9}}, {"a", {1, 2, 3, 3, 3}}, {"b", {3, 4, 4, 5, 5}}});
  EXPECT_EQ(v.alike, (Sets{{"a", "b"}, {"b", "c"}}));
  EXPECT_TRUE(v.apart.empty());
  EXPECT_EQ(to_text(v), "t: cannot be told apart: a, b; nor: b, c");
}

TEST(TellApart, FourSeedsSayNothing) {
  const Verdict v =
      tell_apart("t", std::vector<SeedValues>{{"a", {1, 1, 1, 1}}, {"b", {9, 9, 9, 9, 9}}, {"c", {7, 7, 7, 7, 7}}});
  EXPECT_EQ(v.too_few_seeds, (Labels{"a (4)"}));
  EXPECT_EQ(v.apart, (Labels{"c", "b"}));
  EXPECT_EQ(to_text(v), "t: all told apart: c, b; too few seeds to say (5 needed): a (4)");
  EXPECT_EQ(to_text(tell_apart("t", std::vector<SeedValues>{{"a", {1}}, {"b", {2}}})),
            "t: too few seeds to say which differ (5 needed)");
}

TEST(TellApart, NeverReachedIsWorseThanEveryTime) {
  const Verdict v = tell_apart("t", std::vector<SeedValues>{{"none", {kNever, kNever, kNever, kNever, kNever}},
                                                            {"some", {4, 5, 6, kNever, kNever}},
                                                            {"all", {1, 2, 2, 2, 3}}});
  EXPECT_EQ(v.alike, (Sets{{"some", "none"}}));
  EXPECT_EQ(v.apart, (Labels{"all"}));
}

TEST(TellApart, EverySetIsLargestAndEveryOverlappingPairIsInOne) {
  // Brute force over all intervals with ends in 0..3, four at a time.
  std::vector<std::pair<int, int>> intervals;
  for (int low = 0; low < 4; ++low)
    for (int high = low; high < 4; ++high) intervals.emplace_back(low, high);
  const auto n = intervals.size();
  for (std::size_t code = 0; code < n * n * n * n; ++code) {
    std::vector<SeedValues> systems;
    for (std::size_t k = 0, rest = code; k < 4; ++k, rest /= n) {
      const double low = intervals[rest % n].first, high = intervals[rest % n].second;
      systems.push_back({std::string(1, static_cast<char>('a' + k)), {low, low, low, low, high}});
    }
    const Verdict v = tell_apart("t", systems);
    for (const SeedValues& x : systems)
      for (const SeedValues& y : systems) {
        if (x.label >= y.label) continue;
        const bool overlap = x.values[0] <= y.values[4] && y.values[0] <= x.values[4];
        bool together = false;
        for (const Labels& set : v.alike)
          together |=
              std::count(set.begin(), set.end(), x.label) > 0 && std::count(set.begin(), set.end(), y.label) > 0;
        ASSERT_EQ(together, overlap) << code << " " << x.label << y.label;
      }
    for (const Labels& set : v.alike)
      for (const Labels& other : v.alike)
        ASSERT_TRUE(&set == &other || !std::includes(other.begin(), other.end(), set.begin(), set.end())) << code;
  }
}

Record run(const std::string& system, std::uint64_t seed, double accuracy) {
  Record r;
  r.system = system;
  r.workload = "mlp";
  r.workload_facts = {.metric = "accuracy", .target = 0.9};
  r.clock = Clock::virtual_clock;
  r.ranks = 4;
  r.batch = r.samples_per_step = 10;
  r.seed = seed;
  r.step_seconds = {1, 1};
  r.curve = {{2, 2, 0.5, accuracy}};
  r.digest = system + std::to_string(seed);
  return r;
}

TEST(TellApart, OfAComparisonCountsDivergedSeedsAsWorst) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const double step = 0.001 * static_cast<double>(seed);
    records.push_back(run("good", seed, 0.95 + step));
    records.push_back(run("shaky", seed, 0.97 + step));
    records.push_back(run("bad", seed, 0.5 + step));
  }
  records[1].outcome = RecordOutcome::diverged;  // shaky's first seed: its range now holds everything
  const Comparison c = compare(records).at(0);
  ASSERT_EQ(c.verdicts.size(), 2u);  // of throughput there are places instead
  EXPECT_EQ(c.verdicts[0].metric, "time to accuracy");
  EXPECT_EQ(c.verdicts[1].metric, "final accuracy");
  // Both reach the target after 2 s, but shaky once not at all; bad never does.
  EXPECT_EQ(c.verdicts[0].alike, (Sets{{"good", "shaky"}, {"shaky", "bad"}}));
  EXPECT_EQ(c.verdicts[1].alike, (Sets{{"shaky", "bad"}, {"shaky", "good"}}));
  EXPECT_NE(to_table(std::vector<Comparison>{c}).find("final accuracy: cannot be told apart: shaky"),
            std::string::npos);
}

TEST(TellApart, SimulatedSystemsWithinTheModelsErrorShareAPlace) {
  std::vector<Record> records = {run("a", 1, 0.95), run("b", 1, 0.95), run("c", 1, 0.95), run("b", 1, 0.95)};
  for (Record& r : records) r.cost_source = "analytic";
  records[1].step_seconds = {1.05, 1.05};
  records[2].step_seconds = {1.3, 1.3};
  records[3].step_seconds = {1.4, 1.4};  // another row of b, which its best one stands for
  records[3].microbatches = 2;
  records[3].digest += "m2";
  const Comparison c = compare(records, {}).at(0);
  EXPECT_EQ(simulated_places(c, false), (Sets{{"a", "b microbatches=0"}, {"c"}}));
  const std::string text = "throughput, places shared within the model's error of 8 %: 1. a, b microbatches=0; 3. c";
  EXPECT_EQ(places_text(c), text);
  EXPECT_NE(to_table(std::vector<Comparison>{c}).find(text), std::string::npos);
  records[2].theory = Theory{.staleness = {1}};  // the numerics of a stale system differ: no common place
  EXPECT_NE(places_text(compare(records).at(0)).find(": 1. a, b microbatches=0; asynchronous: 1. c"),
            std::string::npos);
  for (Record& r : records) r.clock = Clock::wall;
  EXPECT_EQ(places_text(compare(records).at(0)), "");
}

TEST(TellApart, AFailedRunIsNoValue) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    records.push_back(run("a", seed, 0.95));
    records.push_back(run("b", seed, 0.5));
  }
  records[0].outcome = RecordOutcome::failed;
  const Comparison c = compare(records).at(0);
  EXPECT_EQ(c.verdicts.at(1).too_few_seeds, (Labels{"a (4)"}));
}

}  // namespace
}  // namespace sluice
