// A sweep around a training of its own making: order, resume, and what tuning and divergence do.
#include "harness/run/sweep_runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/optimizer_settings.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"
#include "results/metrics.h"
#include "results/store.h"

namespace sluice {
namespace {

class SweepRunner : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-sweep-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Best at a rate of 0.03; diverges from 0.1 on.
  SweepResult run(const std::vector<RunCase>& cases, bool resume = false) {
    ran_.clear();
    return run_sweep(
        cases, {.out = folder_ + "/r.jsonl", .resume = resume, .progress = ProgressStyle::none, .again = run_again_},
        [&](const RunCase& c, const RunHooks&) {
          Record r;
          r.digest = digest_of(c);
          r.system = c.system;
          r.workload = c.workload;
          r.clock = c.clock;
          r.seed = c.seed;
          r.purpose = c.purpose;
          r.optimizer = c.optimizer;
          const double rate = c.optimizer.learning_rate;
          if (rate >= 0.1) {
            r.outcome = RecordOutcome::diverged;
            r.reason = "the loss is not finite";
            r.diverged_at = 3;
          }
          r.curve = {{1, 1, 1.0, 1 - std::abs(rate - 0.03)}};
          ran_.push_back(describe(c));
          return r;
        });
  }
  std::vector<Record> stored() const { return read_records(folder_ + "/r.jsonl").records; }

  static std::vector<RunCase> cases(const Json& more = Json::object()) {
    Json entry = {{"system", "pipedream"},
                  {"workload", "fmnist_mlp"},
                  {"costs", "analytic"},
                  {"seed", {1, 2}},
                  {"optimizer", {{"learning_rate", "tuned"}}},
                  {"tune", {{"learning_rate", {0.01, 0.03, 0.1}}, {"epochs", 1}}}};
    entry.update(more);
    return expand_case({entry, in_file("s.json", "/grid/0")});
  }

  std::string folder_;
  std::vector<std::string> ran_;
  bool run_again_ = false;
};

// Simulated cases of two systems, each faster the more micro-batches it has; each record has a timeline.
std::vector<Record> records_of_a_sweep(const std::string& file, std::optional<KeptTimelines> timelines,
                                       const Json& ranks) {
  const Json entry = {{"system", {"gpipe", "one_f_one_b"}},
                      {"workload", "vgg16"},
                      {"clock", "virtual"},
                      {"cluster", "flat:8"},
                      {"ranks", ranks},
                      {"train", false},
                      {"steps", 4},
                      {"batch", 1024},
                      {"microbatches", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}}};
  run_sweep(expand_case({entry, in_file("s.json", "/grid/0")}),
            {.out = file, .progress = ProgressStyle::none, .timelines = timelines},
            [](const RunCase& c, const RunHooks&) {
              Record r;
              r.digest = digest_of(c);
              r.system = c.system;
              r.workload = c.workload;
              r.clock = c.clock;
              r.ranks = c.ranks;
              r.microbatches = c.microbatches;
              r.batch = r.samples_per_step = c.batch;
              r.step_seconds.assign(4, 1.0 / c.microbatches);
              r.timeline = {{0, "0F0", 0, 0.5}};
              return r;
            });
  return latest(read_records(file).records);
}

TEST_F(SweepRunner, KeepsTimelinesOfSmallSweepsAndOfLargeOnesWhatIsAskedFor) {
  const auto kept = [&](std::optional<KeptTimelines> timelines, const Json& ranks) {
    const std::string file = folder_ + "/kept.jsonl";
    std::vector<std::string> names;
    for (const Record& r : records_of_a_sweep(file, timelines, ranks))
      if (!r.timeline.empty()) names.push_back(r.system + " " + std::to_string(r.microbatches));
    EXPECT_TRUE(repeated_results(read_records(file).records).empty());  // two records, one result
    std::filesystem::remove(file);
    return names;
  };
  using Names = std::vector<std::string>;
  const Json small = {2}, large = {2, 4, 8};  // 20 and 60 cases
  EXPECT_EQ(kept(std::nullopt, small).size(), 20u);
  EXPECT_EQ(kept(std::nullopt, large), Names{});
  EXPECT_EQ(kept(KeptTimelines::none, small), Names{});
  EXPECT_EQ(kept(KeptTimelines::all, large).size(), 60u);
  EXPECT_EQ(kept(KeptTimelines::best, small), (Names{"gpipe 512", "one_f_one_b 512"}));
  EXPECT_EQ(kept(KeptTimelines::best, large).size(), 6u);  // of each number of ranks
}

TEST_F(SweepRunner, WhatHasResultsRunsAgainOnlyWhereThatIsAskedFor) {
  const auto seeds = [](const Json& seed) {
    return expand_case({{{"system", "gpipe"}, {"workload", "tiny"}, {"clock", "virtual"}, {"seed", seed}},
                        in_file("s.json", "/grid/0")});
  };
  run(seeds({1, 2}));
  run(seeds({3}));  // other cases join the file
  EXPECT_EQ(error_of([&] {
              run(seeds({2, 3, 4}));
            }),
            folder_ +
                "/r.jsonl: holds results of 2 of these 3 cases already; give --resume to skip them, --again to "
                "run them once more, or another --out");
  EXPECT_EQ(stored().size(), 3u);
  EXPECT_EQ(run(seeds({2, 3, 4}), true).skipped, 2u);
  run_again_ = true;
  run(seeds({1, 2}));
  EXPECT_EQ(stored().size(), 6u);
}

TEST_F(SweepRunner, TunesOnceForAllSeedsAndRunsThemAtTheChosenRate) {
  const SweepResult result = run(cases());
  EXPECT_EQ(ran_, (std::vector<std::string>{
                      "pipedream fmnist_mlp wall clock, 2 ranks, seed 101, tuning: rate 0.01 for 1 epoch",
                      "pipedream fmnist_mlp wall clock, 2 ranks, seed 101, tuning: rate 0.03 for 1 epoch",
                      "pipedream fmnist_mlp wall clock, 2 ranks, seed 101, tuning: rate 0.1 for 1 epoch",
                      "pipedream fmnist_mlp wall clock, 2 ranks, seed 1, tuned rate 0.03",
                      "pipedream fmnist_mlp wall clock, 2 ranks, seed 2, tuned rate 0.03"}));
  EXPECT_EQ(result.failed, 0u);  // the candidate that diverged is a result
  const std::vector<Record> records = stored();
  ASSERT_EQ(records.size(), 5u);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(records[k].purpose, Purpose::tune);
    EXPECT_FALSE(records[k].tuning.has_value());
  }
  for (std::size_t k = 3; k < 5; ++k) {
    EXPECT_EQ(records[k].purpose, Purpose::measure);
    EXPECT_EQ(records[k].tuning.value().chosen, 0.03);
    EXPECT_EQ(records[k].tuning->results.at(2).outcome, RecordOutcome::diverged);
    EXPECT_EQ(records[k].tuning->results.at(1).digest, records[1].digest);
    EXPECT_EQ(records[k].optimizer.value().learning_rate, 0.03);
  }
}

TEST_F(SweepRunner, ResumeSkipsFinishedCandidatesAndDivergedCases) {
  const auto all = cases({{"seed", {1, 2, 3}}});
  run({all[0]});
  EXPECT_EQ(ran_.size(), 4u);
  const SweepResult rest = run(all, true);
  EXPECT_EQ(ran_.size(), 2u);  // seeds 2 and 3, at the rate that was chosen before
  EXPECT_EQ(rest.skipped, 4u);
  EXPECT_EQ(rest.records.size(), 6u);
  EXPECT_EQ(stored().back().tuning.value().chosen, 0.03);
  const SweepResult again = run(all, true);
  EXPECT_TRUE(ran_.empty());
  EXPECT_EQ(again.skipped, 6u);
}

TEST_F(SweepRunner, TheSearchIsRunAgainToo) {
  run(cases());
  run_again_ = true;
  run(cases());
  EXPECT_EQ(ran_.size(), 5u);
  EXPECT_EQ(stored().size(), 10u);
}

TEST_F(SweepRunner, ADivergedCaseIsNoFailure) {
  const SweepResult result = run(cases({{"optimizer", {{"learning_rate", 0.5}}}}));
  EXPECT_EQ(result.failed, 0u);
  EXPECT_EQ(stored().at(0).outcome, RecordOutcome::diverged);
}

// Three rates for 100 updates with two seeds, the best for an epoch: the mean over the seeds chooses.
TEST_F(SweepRunner, AFailureIsToldInFullWithoutProgressToo) {
  auto c = cases({{"seed", 1}});
  c.front().tune.reset();
  c.front().optimizer.learning_rate = 0.01;
  const std::string reason(200, 'x');
  ::testing::internal::CaptureStderr();
  const SweepResult result =
      run_sweep(c, {folder_ + "/r.jsonl", false, ProgressStyle::none}, [&](const RunCase& one, const RunHooks&) {
        Record r;
        r.digest = digest_of(one);
        r.outcome = RecordOutcome::failed;
        r.reason = reason;
        return r;
      });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "pipedream fmnist_mlp wall clock, 2 ranks, seed 1: failed: " + reason + "\n");
  EXPECT_EQ(result.failed, 1u);
}

TEST_F(SweepRunner, ALaterRoundOfASearchTrainsOnlyWhatTheEarlierOneKept) {
  const auto all = cases({{"tune",
                           {{"learning_rate", {0.01, 0.03, 0.1, 0.02}},
                            {"seed", {101, 102}},
                            {"rounds", {{{"steps", 100}, {"keep", 2}}}},
                            {"epochs", 1}}}});
  EXPECT_EQ(with_tuning(all).size(), 4u * 2 * 2 + 2);
  EXPECT_EQ(expected_with_tuning(all).size(), 4u * 2 + 2 * 2 + 2);
  run(all);
  ASSERT_EQ(ran_.size(), 4u * 2 + 2 * 2 + 2);
  const std::string name = "pipedream fmnist_mlp wall clock, 2 ranks, seed ";
  EXPECT_EQ(ran_[0], name + "101, tuning: rate 0.01 for 100 updates");
  EXPECT_EQ(ran_[1], name + "102, tuning: rate 0.01 for 100 updates");
  EXPECT_EQ(ran_[8], name + "101, tuning: rate 0.02 for 1 epoch");
  EXPECT_EQ(ran_[9], name + "102, tuning: rate 0.02 for 1 epoch");
  EXPECT_EQ(ran_[10], name + "101, tuning: rate 0.03 for 1 epoch");
  EXPECT_EQ(ran_[12], name + "1, tuned rate 0.03");
  const Tuning tuning = stored().back().tuning.value();
  EXPECT_EQ(tuning.seeds, (std::vector<std::uint64_t>{101, 102}));
  EXPECT_EQ(tuning.rounds.at(0).steps, 100);
  EXPECT_EQ(tuning.results.size(), 6u);
  run(all, true);
  EXPECT_TRUE(ran_.empty());
}

TEST_F(SweepRunner, TwoSearchesShareTheTrainingsOfALaterRoundThatBothNeed) {
  const auto search = [](const Json& rates) {
    return cases({{"seed", 1},
                  {"tune", {{"learning_rate", rates}, {"rounds", {{{"steps", 100}, {"keep", 1}}}}, {"epochs", 1}}}});
  };
  auto both = search({0.01, 0.03});
  for (const RunCase& c : search({0.02, 0.03, 0.04})) both.push_back(c);
  run(both);
  // 0.01, 0.03; 0.03 for an epoch; the case; 0.02 and 0.04; the case.
  EXPECT_EQ(ran_.size(), 2u + 1 + 1 + 2 + 1);
  EXPECT_EQ(stored().size(), ran_.size());
  EXPECT_EQ(stored().back().tuning.value().chosen, 0.03);
}

TEST_F(SweepRunner, CasesThatAreNamedAlikeAreToldApartByTheirSettings) {
  const auto all = cases({{"system", {"gpipe", "one_f_one_b"}},
                          {"microbatches", {2, 4}},
                          {"seed", 1},
                          {"optimizer", {{"learning_rate", 0.02}}}});
  ASSERT_EQ(all.size(), 4u);
  const std::vector<std::string> texts = differences(all);
  EXPECT_EQ(texts[0], ", microbatches 2");
  EXPECT_EQ(texts[2], ", microbatches 4");
  EXPECT_EQ(differences({all[0], all[1]}), (std::vector<std::string>{"", ""}));  // their systems tell
  const auto precisions = expand_case({{{"system", "gpipe"},
                                        {"workload", "vgg16"},
                                        {"clock", "virtual"},
                                        {"train", false},
                                        {"precision", {"fp32", "mixed"}}},
                                       in_file("s.json", "/grid/0")});
  EXPECT_EQ(differences(precisions), (std::vector<std::string>{"", ", precision mixed"}));  // fp32: the default
}

TEST_F(SweepRunner, TheListOfJobsHasEachCandidateOnceBeforeItsCases) {
  auto two = cases();
  const auto given = cases({{"optimizer", {{"learning_rate", 0.02}}}});
  two.insert(two.begin(), given.begin(), given.end());
  const auto jobs = with_tuning(two);
  ASSERT_EQ(jobs.size(), 7u);
  using enum Purpose;
  const Purpose purposes[] = {measure, measure, tune, tune, tune, measure, measure};
  for (std::size_t k = 0; k < 7; ++k) EXPECT_EQ(jobs[k].purpose, purposes[k]) << k;
}

}  // namespace
}  // namespace sluice
