// Who wins, by how much and how sure: by hand on small comparisons.
#include "plots/answers.h"

#include <gtest/gtest.h>

#include "plots/synthetic_test.h"
#include "results/compare.h"

namespace sluice {
namespace {

// Runs of a system on 4 ranks with these seconds a step, a seed each.
void add_runs(std::vector<Record>& records, const std::string& system, const std::vector<double>& seconds,
              const std::string& clock = "wall") {
  for (std::size_t k = 0; k < seconds.size(); ++k)
    records.push_back(synthetic::record(system, 4, seconds[k], clock, k + 1));
}

Answer only_answer(const std::vector<Record>& records) {
  static std::vector<Comparison> kept;  // an answer points into its comparison
  kept = compare(records);
  return answer_of(kept.at(0));
}

TEST(Answers, FiveSeedsApartAreSure) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.051, 0.052, 0.053, 0.054});
  add_runs(records, "dapple", {0.06, 0.061, 0.062, 0.063, 0.064});
  const Win win = only_answer(records).fastest;
  EXPECT_EQ(win.row->label, "gpipe");
  EXPECT_EQ(win.lead, "19 % ahead of dapple");  // 0.062 / 0.052 - 1
  EXPECT_EQ(win.sure, "sure: the ranges of five or more seeds do not touch");
}

TEST(Answers, OverlappingSeedsAreNotSure) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.051, 0.052, 0.053, 0.064});
  add_runs(records, "dapple", {0.06, 0.061, 0.062, 0.063, 0.065});
  EXPECT_EQ(only_answer(records).fastest.sure, "not sure: cannot be told apart from dapple");
  EXPECT_EQ(wins_text(compare(records)), "not sure in 1 of 1");
}

TEST(Answers, OneSeedIsAtMostLikely) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05});
  add_runs(records, "dapple", {0.08});
  EXPECT_TRUE(only_answer(records).fastest.sure.starts_with("likely: "));
  for (Record& record : records) record.step_seconds.resize(5);  // two behind the warm-up: no interval
  EXPECT_TRUE(only_answer(records).fastest.sure.starts_with("not known: "));
}

TEST(Answers, TheVirtualClockIsExactAndTiesAreShared) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05}, "virtual");
  add_runs(records, "dapple", {0.05}, "virtual");
  const Answer answer = only_answer(records);
  EXPECT_EQ(answer.fastest.lead.substr(0, 9), "as fast: ");
  EXPECT_EQ(answer.fastest.sure, "exact: the simulation has no noise");
  EXPECT_EQ(wins_text(compare(records)), "several systems, as fast as one another, in 1 of 1");
  add_runs(records, "chimera", {0.04}, "virtual");
  EXPECT_EQ(wins_text(compare(records)), "chimera in 1 of 1");
}

TEST(Answers, WhatMissesTheTargetWithMostSeedsIsNoWinner) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.05, 0.05, 0.05, 0.05});
  add_runs(records, "pipedream", {0.01, 0.01, 0.01, 0.01, 0.01});
  for (std::size_t k = 6; k < 10; ++k)
    for (CurvePoint& point : records[k].curve) point.metric = 0.3;
  const Win win = only_answer(records).soonest;
  EXPECT_EQ(win.row->label, "gpipe");
}

TEST(Answers, WhatDidNotFinishIsNamedWithItsReason) {
  const std::vector<Record> all = synthetic::records();
  bool found = false;
  for (const Comparison& c : compare(all))
    for (const Unfinished& group : answer_of(c).unfinished)
      if (group.outcome == "out of memory") {
        found = true;
        EXPECT_EQ(group.labels, (std::vector<std::string>{"chimera"}));
        EXPECT_NE(group.reason.find("needs 3.2 GiB"), std::string::npos) << group.reason;
      }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace sluice
