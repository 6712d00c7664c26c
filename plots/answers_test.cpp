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
  for (std::size_t k = 0; k < seconds.size(); ++k) {
    records.push_back(synthetic::record(system, 4, seconds[k], clock, k + 1));
    records.back().step_seconds.assign(23, seconds[k]);
  }
}

// Points into comparisons that are kept until the next call.
std::vector<Answer> answers(const std::vector<Record>& records) {
  static std::vector<Comparison> kept;
  kept = compare(records);
  return answers_of(kept.at(0));
}

Answer only_answer(const std::vector<Record>& records) {
  const std::vector<Answer> all = answers(records);
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

// The target of synthetic::record is 0.85.
void miss_the_target(Record& record) {
  for (CurvePoint& point : record.curve) point.metric = 0.3;
}

TEST(Answers, FiveSeedsApartAreSure) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.051, 0.052, 0.053, 0.054});
  add_runs(records, "dapple", {0.06, 0.061, 0.062, 0.063, 0.064});
  const Win win = only_answer(records).fastest;
  EXPECT_EQ(win.row->label, "gpipe");
  EXPECT_EQ(win.name, "GPipe");
  EXPECT_EQ(win.lead, "19 % ahead of DAPPLE");  // 0.062 / 0.052 - 1
  EXPECT_EQ(win.confidence, Confidence::sure);
  EXPECT_EQ(win.why, "the ranges of five or more seeds do not touch");
}

TEST(Answers, OverlappingSeedsAreNotSure) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.051, 0.052, 0.053, 0.064});
  add_runs(records, "dapple", {0.06, 0.061, 0.062, 0.063, 0.065});
  const Win win = only_answer(records).fastest;
  EXPECT_EQ(win.confidence, Confidence::unsure);
  EXPECT_EQ(win.why, "cannot be told apart from DAPPLE");
  EXPECT_EQ(wins_text(compare(records), false), "not sure in 1 of 1");
}

TEST(Answers, OneSeedIsAtMostLikely) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05});
  add_runs(records, "dapple", {0.08});
  EXPECT_EQ(only_answer(records).fastest.confidence, Confidence::likely);
  for (Record& record : records) record.step_seconds.resize(5);  // two behind the warm-up: no interval
  EXPECT_EQ(only_answer(records).fastest.confidence, Confidence::unknown);
}

TEST(Answers, OnTheVirtualClockALeadInsideTheModelsErrorIsATie) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05}, "virtual");
  add_runs(records, "dapple", {0.0504}, "virtual");
  add_runs(records, "chimera", {0.06}, "virtual");
  const Win tie = only_answer(records).fastest;
  EXPECT_EQ(tie.lead, "tie with DAPPLE; 0.80 % ahead of it");
  EXPECT_EQ(tie.confidence, Confidence::tie);
  EXPECT_EQ(tie.why, "within the model's error of 8 %");
  EXPECT_EQ(wins_text(compare(records), false), "tied in 1 of 1");
  add_runs(records, "one_f_one_b", {0.04}, "virtual");
  const Win win = only_answer(records).fastest;
  EXPECT_EQ(win.lead, "25 % ahead of GPipe");
  EXPECT_EQ(win.confidence, Confidence::sure);
  EXPECT_EQ(win.why, "more than the model's error of 8 %");
  EXPECT_EQ(wins_text(compare(records), false), "1F1B in 1 of 1");
}

TEST(Answers, ALoneSystemWinsNothing) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05}, "virtual");
  EXPECT_EQ(wins_text(compare(records), false), "");
}

TEST(Answers, EqualSystemsTieWithoutALead) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05}, "virtual");
  add_runs(records, "dapple", {0.05}, "virtual");
  EXPECT_EQ(only_answer(records).fastest.lead, "tie with GPipe");
}

TEST(Answers, MeasuredCostsHaveASmallerErrorThanModelledOnes) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05}, "virtual");
  add_runs(records, "dapple", {0.053}, "virtual");  // 6 % behind
  EXPECT_EQ(only_answer(records).fastest.confidence, Confidence::tie);
  for (Record& record : records) record.cost_source = "profile";
  EXPECT_EQ(only_answer(records).fastest.why, "more than the model's error of 5 %");
}

// As in the quick sweep: the fastest pipeline reaches the target with none of its five seeds.
TEST(Answers, AFastSystemThatMissesTheTargetInAllSeedsIsNotFirst) {
  std::vector<Record> records;
  add_runs(records, "single_device", {0.05, 0.05, 0.05, 0.05, 0.05}, "virtual");
  add_runs(records, "gpipe", {0.04, 0.04, 0.04, 0.04, 0.04}, "virtual");
  add_runs(records, "dapple", {0.02, 0.02, 0.02, 0.02, 0.02}, "virtual");
  for (std::size_t k = 10; k < 15; ++k) {
    miss_the_target(records[k]);
    records[k].peak_bytes = {{.total = 1}};
  }
  const Answer answer = only_answer(records);
  EXPECT_EQ(answer.fastest.name, "GPipe");
  EXPECT_EQ(answer.fastest.lead, "25 % ahead of Single device");
  EXPECT_EQ(answer.over_one_device, "1.25× the single device");
  EXPECT_EQ(answer.faster_but_missed,
            std::vector<std::string>{"DAPPLE, 6,400 samples/s: faster, but misses the target in 5 of 5 seeds"});
  EXPECT_NE(answer.min_memory.row->system, "dapple");
  EXPECT_EQ(wins_text(compare(records), false), "GPipe in 1 of 1");
  // One seed that reaches it is enough to be ranked; the quality is shown with the win.
  records[10].curve.back().metric = 0.9;
  const Answer now = only_answer(records);
  EXPECT_EQ(now.fastest.name, "DAPPLE");
  EXPECT_EQ(now.quality, "final accuracy 0.3000");
  EXPECT_EQ(now.reached, "0.85 reached in 1 of 5 seeds");
  EXPECT_TRUE(now.faster_but_missed.empty());
}

TEST(Answers, WhereNoSystemReachesTheTargetNoneIsFirst) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.04}, "virtual");
  add_runs(records, "dapple", {0.02}, "virtual");
  for (Record& record : records) miss_the_target(record);
  const Answer answer = only_answer(records);
  EXPECT_EQ(answer.fastest.row, nullptr);
  EXPECT_EQ(answer.faster_but_missed,
            std::vector<std::string>{"DAPPLE, 6,400 samples/s: misses the target in 1 of 1 seed"});
  EXPECT_EQ(wins_text(compare(records), false), "none reaches the target in 1 of 1");
}

TEST(Answers, TheWinnersQualityAndMemoryAreSaid) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.04, 0.04});
  miss_the_target(records[1]);
  records[0].curve.back().metric = 0.9;
  records[0].peak_bytes[2].total = 3LL << 30;
  const Answer answer = only_answer(records);
  EXPECT_EQ(answer.quality, "final accuracy 0.6000");
  EXPECT_EQ(answer.reached, "0.85 reached in 1 of 2 seeds");
  EXPECT_TRUE(answer.peak_memory.ends_with(" on its fullest rank")) << answer.peak_memory;
  for (Record& record : records) record.curve.clear(), record.workload_facts->target.reset();
  EXPECT_EQ(only_answer(records).quality, "");  // not measured
}

TEST(Answers, ASystemIsComparedWithOtherSystemsNotWithItself) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.0505, 0.06}, "virtual");
  for (std::size_t k = 0; k < 3; ++k) records[k].microbatches = 128 >> k, records[k].seed = 1;
  add_runs(records, "one_f_one_b", {0.1}, "virtual");
  const Win win = only_answer(records).fastest;
  EXPECT_EQ(win.name, "GPipe microbatches=128");
  EXPECT_EQ(win.lead, "100 % ahead of 1F1B");
  EXPECT_EQ(win.confidence, Confidence::sure);
}

TEST(Answers, SynchronousAndAsynchronousSystemsRaceApart) {
  std::vector<Record> records;
  add_runs(records, "single_device", {0.06}, "virtual");
  add_runs(records, "gpipe", {0.05}, "virtual");
  add_runs(records, "pipedream", {0.02}, "virtual");
  add_runs(records, "pipemare", {0.04}, "virtual");
  for (std::size_t k = 2; k < 4; ++k) records[k].theory->staleness = {3, 0};
  const std::vector<Answer> both = answers(records);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_FALSE(both[0].asynchronous);
  EXPECT_EQ(both[0].fastest.lead, "20 % ahead of Single device");
  EXPECT_TRUE(both[1].asynchronous);
  EXPECT_EQ(both[1].fastest.lead, "100 % ahead of PipeMare");
  EXPECT_EQ(both[1].over_one_device, "3.00× the single device");  // shown in both
  EXPECT_EQ(wins_text(compare(records), true), "PipeDream in 1 of 1");
  EXPECT_EQ(wins_text(compare(records), false), "GPipe in 1 of 1");
}

TEST(Answers, AsynchronousSystemsAloneRaceWithTheSingleDevice) {
  std::vector<Record> records;
  add_runs(records, "single_device", {0.02}, "virtual");
  add_runs(records, "pipedream", {0.05}, "virtual");
  records[1].theory->staleness = {3, 0};
  const Answer answer = only_answer(records);
  EXPECT_TRUE(answer.asynchronous);
  EXPECT_EQ(answer.fastest.lead, "150 % ahead of PipeDream");
  records[0].outcome = RecordOutcome::out_of_memory;
  const Answer alone = only_answer(records);
  EXPECT_EQ(alone.fastest.name, "PipeDream");
  EXPECT_EQ(alone.over_one_device, "the single device: out of memory");
}

TEST(Answers, AnOptionThatAWinnerNeededIsPartOfItsName) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05}, "virtual");
  add_runs(records, "one_f_one_b", {0.1}, "virtual");
  records[0].options = {{"recompute", "all"}};
  EXPECT_EQ(only_answer(records).fastest.name, "GPipe recompute=all");
  EXPECT_EQ(only_answer(records).min_memory.name, "GPipe recompute=all");
}

TEST(Answers, WhatMissesTheTargetWithMostSeedsIsNotSoonest) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.05, 0.05, 0.05, 0.05});
  add_runs(records, "dapple", {0.01, 0.01, 0.01, 0.01, 0.01});
  for (std::size_t k = 6; k < 10; ++k) miss_the_target(records[k]);
  EXPECT_EQ(only_answer(records).soonest.row->label, "gpipe");
}

TEST(Answers, SimulatedTimesToATargetTieWithinTheModelsError) {
  std::vector<Record> records;
  add_runs(records, "gpipe", {0.05, 0.05, 0.05, 0.05, 0.05}, "virtual");
  add_runs(records, "dapple", {0.051, 0.051, 0.051, 0.051, 0.051}, "virtual");
  for (Record& record : records) record.curve = {{40, 40 * record.step_seconds.back(), 1, 0.9}};
  for (std::size_t k = 0; k < 10; ++k) records[k].curve[0].seconds = k < 5 ? 2 : 2.04;
  const Win win = only_answer(records).soonest;
  EXPECT_EQ(win.lead, "DAPPLE takes 1.02× as long");
  EXPECT_EQ(win.confidence, Confidence::tie);
}

TEST(Answers, WhatDidNotFinishIsNamedWithItsReason) {
  const std::vector<Record> all = synthetic::records();
  bool found = false;
  for (const Comparison& c : compare(all))
    for (const Answer& answer : answers_of(c))
      for (const Unfinished& group : answer.unfinished)
        if (group.outcome == "out of memory") {
          found = true;
          EXPECT_EQ(group.names, (std::vector<std::string>{"Chimera"}));
          EXPECT_NE(group.reason.find("needs 3.2 GiB"), std::string::npos) << group.reason;
        }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace sluice
