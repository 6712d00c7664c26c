// Divergence boundaries of records whose losses are plain.
#include "results/stability.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/json.h"
#include "results/compare.h"

namespace sluice {
namespace {

// 20 updates whose loss falls from 2 to `last`; last = infinity: diverged at update 7.
Record run(const std::string& system, double rate, std::uint64_t seed, double last, int ranks = 4) {
  Record r;
  r.system = system;
  r.workload = "mlp";
  r.workload_facts = {.title = "A small MLP", .steps = 20};
  r.cluster = "flat:4";
  r.clock = Clock::virtual_clock;
  r.ranks = ranks;
  r.batch = 128;
  r.seed = seed;
  r.purpose = Purpose::boundary;
  r.optimizer = {.learning_rate = rate, .momentum = 0.9};
  const bool diverges = last > 1e9;
  const int updates = diverges ? 6 : 20;
  for (int u = 1; u <= updates; ++u)
    r.curve.push_back({u, 0.1 * u, diverges ? 2.0 * u : 2 + (last - 2) * (u - 1) / 17, std::nullopt});
  if (!diverges) r.curve[18].loss = r.curve[19].loss = last;
  if (diverges) {
    r.outcome = RecordOutcome::diverged;
    r.diverged_at = 7;
    r.curve.push_back({7, 0.7, std::nan(""), std::nullopt});
  }
  r.digest = system + std::to_string(rate) + "/" + std::to_string(seed) + std::to_string(ranks);
  return r;
}
constexpr double kDiverges = 1e10;

TEST(Stability, NeedsATenthLessLossThanAtTheFirstUpdate) {
  EXPECT_EQ(stability_of(run("a", 0.1, 1, 1.80)), Stability::stable);
  EXPECT_EQ(stability_of(run("a", 0.1, 1, 1.81)), Stability::no_progress);
  EXPECT_EQ(stability_of(run("a", 0.1, 1, 2.5)), Stability::no_progress);
  EXPECT_EQ(stability_of(run("a", 0.1, 1, kDiverges)), Stability::diverged);
  // The last tenth of 20 updates is two of them: their mean counts, not the last one alone.
  Record r = run("a", 0.1, 1, 1.0);
  r.curve[19].loss = 2.5;
  EXPECT_EQ(stability_of(r), Stability::stable);
  r.curve[19].loss = 2.7;
  EXPECT_EQ(stability_of(r), Stability::no_progress);
  r.outcome = RecordOutcome::failed;
  EXPECT_EQ(stability_of(r), Stability::unknown);
  r.outcome = RecordOutcome::ok;
  r.curve.clear();
  EXPECT_EQ(stability_of(r), Stability::unknown);
}

TEST(Stability, TablesSayWhatTheyAreOfAndWhatEachRateGave) {
  const std::vector<Record> records = {run("a", 0.1, 1, 1.0), run("a", 0.2, 1, kDiverges)};
  const StableRates rates = stable_rates(records).at(0);
  EXPECT_EQ(title_of(rates).substr(0, title_of(rates).find(" clock")), "A small MLP on flat:4, virtual");
  EXPECT_EQ(cells_of(rates),
            (std::vector<std::vector<std::string>>{{"system", "largest stable", "0.1", "0.2", "first divergence"},
                                                   {"a", "0.1", "1/1", "diverged", "update 7"}}));
}

const StableRateRow& row(const StableRates& b, const std::string& label) {
  for (const StableRateRow& candidate : b.rows)
    if (candidate.label == label) return candidate;
  ADD_FAILURE() << "no row " << label;
  return b.rows.at(0);
}

TEST(StableRates, TheLargestIsStableForAllSeedsTogetherWithAllSmallerOnes) {
  std::vector<Record> records;
  for (const std::uint64_t seed : {1u, 2u}) {
    for (const double rate : {0.01, 0.1, 1.0}) {
      records.push_back(run("single_device", rate, seed, 0.5, 1));
      records.push_back(run("stale", rate, seed, rate > 0.05 ? kDiverges : 0.5));
      // Stable again at the largest rate: that does not count behind an unstable one.
      records.push_back(run("odd", rate, seed, rate == 0.1 ? 2.0 : 0.5));
      records.push_back(run("never", rate, seed, kDiverges));
      // One of two seeds stands a rate more.
      records.push_back(run("split", rate, seed, rate * static_cast<double>(seed) > 0.15 ? 2 : 1));
    }
  }
  const auto all = stable_rates(records);
  ASSERT_EQ(all.size(), 1u);
  const StableRates& b = all[0];
  EXPECT_EQ(b.rates, (std::vector<double>{0.01, 0.1, 1.0}));
  EXPECT_EQ(b.seeds, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(b.optimizer, "sgd, momentum 0.9");
  EXPECT_EQ(b.duration, "20 updates");
  EXPECT_EQ(b.rows[0].system, "single_device");
  EXPECT_TRUE(b.rows[0].at_edge);
  EXPECT_EQ(rate_text(b.rows[0], b), ">= 1");
  EXPECT_EQ(row(b, "stale").largest, 0.01);
  EXPECT_EQ(row(b, "stale").first_divergence, 7);
  EXPECT_EQ(row(b, "odd").largest, 0.01);
  EXPECT_EQ(row(b, "never").largest, std::nullopt);
  EXPECT_EQ(rate_text(row(b, "never"), b), "< 0.01");
  EXPECT_EQ(row(b, "split").largest, 0.01);
  EXPECT_EQ(row(b, "split").per_seed, (std::vector<std::optional<double>>{0.1, 0.01}));
  EXPECT_EQ(row(b, "split").runs[1], (std::vector<Stability>{Stability::stable, Stability::no_progress}));
}

TEST(StableRates, ASeedThatWasNotRunIsNotStable) {
  std::vector<Record> records = {run("a", 0.01, 1, 0.5), run("a", 0.01, 2, 0.5), run("a", 0.1, 1, 0.5)};
  StableRates b = stable_rates(records).at(0);
  EXPECT_EQ(b.rows[0].largest, 0.01);
  EXPECT_EQ(b.rows[0].runs[1][1], Stability::unknown);
  records[0].outcome = RecordOutcome::unsupported;
  records[0].reason = "too small";
  b = stable_rates(records).at(0);
  EXPECT_EQ(rate_text(b.rows[0], b), "unknown");
  EXPECT_EQ(b.rows[0].reason, "unsupported: too small");
}

TEST(StableRates, GroupsAreNotMixedAndTheReferenceIsInEach) {
  const std::vector<Record> records = {run("single_device", 0.1, 1, 0.5, 1), run("a", 0.1, 1, 0.5, 2),
                                       run("a", 0.1, 1, 0.5, 4)};
  const auto all = stable_rates(records);
  ASSERT_EQ(all.size(), 2u);
  for (const StableRates& b : all) {
    ASSERT_EQ(b.rows.size(), 2u);
    EXPECT_TRUE(b.rows[0].reference);
  }
  EXPECT_EQ(stable_rates(std::vector<Record>{records[0]}).size(), 1u);
  Record measured = records[1];
  measured.purpose = Purpose::measure;
  EXPECT_TRUE(stable_rates(std::vector<Record>{measured}).empty());
}

TEST(StableRates, TableAndJsonShowEveryRun) {
  std::vector<Record> records;
  for (const std::uint64_t seed : {1u, 2u})
    for (const double rate : {0.01, 0.1})
      records.push_back(run("stale", rate, seed, rate * static_cast<double>(seed) > 0.15 ? kDiverges : 1));
  const auto all = stable_rates(records);
  const std::string table = to_table(all);
  EXPECT_NE(table.find("1/2, 1 diverged"), std::string::npos) << table;
  EXPECT_NE(table.find("2/2"), std::string::npos) << table;
  EXPECT_NE(table.find("update 7"), std::string::npos) << table;
  const Json json = to_json(all);
  EXPECT_EQ(json[0]["metric"], kStableRateMetric);
  EXPECT_EQ(json[0]["rows"][0]["largest_stable_rate"], 0.01);
  EXPECT_EQ(json[0]["rows"][0]["runs"][1], (Json{"stable", "diverged"}));
  EXPECT_EQ(to_table(std::vector<StableRates>{}), "no records with purpose \"boundary\"\n");
}

}  // namespace
}  // namespace sluice
