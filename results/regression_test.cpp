#include "results/regression.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/expect_error.h"
#include "results/metrics.h"
#include "results/record_filter.h"

namespace sluice {
namespace {

// On the virtual clock: `seconds` for every step of 100 samples, `bytes` at the peak.
Record run(const std::string& system, double seconds, std::int64_t bytes = 1000, Clock clock = Clock::virtual_clock) {
  Record r;
  r.digest = system;
  r.system = system;
  r.options = {{"recompute", "no"}};
  r.workload = "mlp";
  r.cluster = "flat";
  r.clock = clock;
  r.ranks = 4;
  r.batch = 100;
  r.microbatches = 4;
  r.seed = 1;
  r.samples_per_step = 100;
  r.outcome = RecordOutcome::ok;
  for (int i = -5; i <= 5; ++i) r.step_seconds.push_back(clock == Clock::wall ? seconds * (1 + 0.01 * i) : seconds);
  r.peak_bytes = {{.total = bytes}};
  return r;
}

std::vector<RegressionRow> changed(const std::vector<Record>& before, const std::vector<Record>& after,
                                   double tolerance = 0.01) {
  std::vector<RegressionRow> rows = regressions(before, after, tolerance);
  std::erase_if(rows, [](const RegressionRow& row) { return row.change == Change::same; });
  return rows;
}

TEST(Regression, EqualRecordsHaveNone) {
  const std::vector<Record> records = {run("gpipe", 1), run("hanayo", 2)};
  EXPECT_TRUE(changed(records, records).empty());
  EXPECT_FALSE(has_regression(regressions(records, records, 0)));
}

TEST(Regression, ASlowerRunIsWorseAndAFasterOneBetter) {
  const auto slower = changed({run("gpipe", 1)}, {run("gpipe", 1.05)});
  ASSERT_EQ(slower.size(), 1u);
  EXPECT_EQ(slower[0].metric, "samples/s");
  EXPECT_EQ(slower[0].change, Change::worse);
  EXPECT_DOUBLE_EQ(*slower[0].before, 100);
  EXPECT_TRUE(has_regression(slower));
  EXPECT_EQ(changed({run("gpipe", 1)}, {run("gpipe", 0.5)}).at(0).change, Change::better);
  EXPECT_TRUE(changed({run("gpipe", 1)}, {run("gpipe", 1.05)}, 0.1).empty());
}

TEST(Regression, MemoryCountsToo) {
  const auto rows = changed({run("gpipe", 1)}, {run("gpipe", 1, 1100)});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].metric, "peak bytes");
  EXPECT_EQ(rows[0].change, Change::worse);
}

TEST(Regression, WhatChanceExplainsIsNone) {
  EXPECT_TRUE(changed({run("gpipe", 1, 1000, Clock::wall)}, {run("gpipe", 1.02, 1000, Clock::wall)}).empty());
  EXPECT_EQ(changed({run("gpipe", 1, 1000, Clock::wall)}, {run("gpipe", 1.5, 1000, Clock::wall)}).at(0).change,
            Change::worse);
}

TEST(Regression, MissingAndFailedRunsAreRegressionsNewOnesAreNot) {
  const auto missing = changed({run("gpipe", 1), run("hanayo", 1)}, {run("gpipe", 1)});
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].change, Change::missing);
  EXPECT_TRUE(has_regression(missing));
  EXPECT_FALSE(has_regression(changed({run("gpipe", 1)}, {run("gpipe", 1), run("hanayo", 1)})));
  Record failed = run("gpipe", 1);
  failed.outcome = RecordOutcome::out_of_memory;
  failed.reason = "rank 0";
  const auto rows = changed({run("gpipe", 1)}, {failed});
  EXPECT_EQ(rows.at(0).metric, "outcome");
  EXPECT_EQ(rows.at(0).change, Change::worse);
  EXPECT_EQ(rows.at(0).note, "ok, now out_of_memory: rank 0");
}

TEST(RecordFilter, KeepsWhatMeetsEveryFilter) {
  std::vector<Record> records = {run("gpipe", 1), run("hanayo", 1), run("hanayo", 1, 1000, Clock::wall)};
  records[0].environment.machine = {.commit = "abc123"};
  EXPECT_EQ(filtered(records, {"system=hanayo"}).size(), 2u);
  EXPECT_EQ(filtered(records, {"system=Hanayo"}).size(), 2u);
  EXPECT_EQ(filtered(records, {"system!=Hanayo"}).size(), filtered(records, {"system!=hanayo"}).size());
  EXPECT_EQ(filtered(records, {"system=gpipe,hanayo", "clock!=wall"}).size(), 2u);
  EXPECT_EQ(filtered(records, {"ranks=4", "recompute=no"}).size(), 3u);
  EXPECT_EQ(filtered(records, {"commit=abc"}).size(), 1u);
  EXPECT_EQ(error_of([&] { filtered(records, {"sytem=gpipe"}); }),
            "--filter: no record has 'sytem'; did you mean 'system'?");
  EXPECT_EQ(error_of([&] { filtered(records, {"system=dapple"}); }), "--filter: no record meets 'system=dapple'");
  EXPECT_EQ(error_of([&] { filtered(records, {"gpipe"}); }),
            "--filter: 'gpipe' is no filter; write system=gpipe,one_f_one_b or ranks!=2");
}

TEST(RecordFilter, AValueMayHoldCommas) {
  std::vector<Record> records(4, run("gpipe", 1));
  records[0].cluster = "flat:4";
  records[1].cluster = "flat:4,memory=16GiB";
  records[2].cluster = "flat:4,memory=16GiB,latency=1us";
  records[3].cluster = "flat:8";
  const auto clusters = [&](const std::string& filter) {
    std::vector<std::string> left;
    for (const Record& r : filtered(records, {filter})) left.push_back(r.cluster);
    return left;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(clusters("cluster=flat:4"), Names{"flat:4"});
  EXPECT_EQ(clusters("cluster=flat:4,memory=16GiB"), Names{"flat:4,memory=16GiB"});
  EXPECT_EQ(clusters("cluster=flat:4,memory=16GiB,latency=1us,flat:8"),
            (Names{"flat:4,memory=16GiB,latency=1us", "flat:8"}));
  EXPECT_EQ(clusters("cluster!=flat:4,memory=16GiB,flat:4"), (Names{"flat:4,memory=16GiB,latency=1us", "flat:8"}));
}

TEST(RecordFilter, EverythingThatTellsComparisonsApartCanBeChosen) {
  std::vector<Record> records(2, run("gpipe", 1));
  records[0].workload_facts = {.epochs = 3};
  records[1].workload_facts = {.steps = 30};
  records[0].optimizer = OptimizerSpec{.learning_rate = 0.01};
  records[1].optimizer = OptimizerSpec{.learning_rate = 0.01, .momentum = 0.9};
  for (const Record& r : records) {
    EXPECT_EQ(filtered(records, {"duration=" + duration_text(r)}).size(), 1u);
    EXPECT_EQ(filtered(records, {"optimizer=" + optimizer_text(r)}).size(), 1u) << optimizer_text(r);
  }
}

}  // namespace
}  // namespace sluice
