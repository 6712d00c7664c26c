// Reports of windows, and a run that they end early, between threads.
#include "harness/exec/window_reports.h"

#include <gtest/gtest.h>

#include <atomic>

#include "harness/exec/disturbance.h"
#include "harness/exec/executor_test_support.h"
#include "harness/program/example_schedules.h"

namespace sluice {
namespace {

// 1F1B without a flush, an update a micro-batch.
Program asynchronous(int stages, int microbatches) {
  return lower(example_1f1b(stages, microbatches), chain(stages), one_stage_per_rank(stages),
               WeightRule{.update = WeightRule::Update::every_backward});
}

struct Outcome {
  Execution execution;
  std::vector<std::vector<Instruction>> logs;
};

Outcome run(const Program& program, const WindowOptions& windows) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t r = 0; r < program.rank_count(); ++r)
    workers.push_back(std::make_unique<FakeWorker>(Rank(r), FakeOptions{}));
  const auto transport = make_thread_transport(program);
  Outcome result{execute(program, *transport, workers, {.windows = &windows}), {}};
  for (const auto& worker : workers) {
    EXPECT_TRUE(static_cast<FakeWorker&>(*worker).errors.empty());
    result.logs.push_back(static_cast<FakeWorker&>(*worker).log);
  }
  return result;
}

std::vector<std::string> computed(const std::vector<Instruction>& log) {
  std::vector<std::string> ops;
  for (const Instruction& i : log)
    if (is_compute(i.opcode)) ops.push_back(to_text(i));
  return ops;
}

TEST(WindowReportsTest, TheFirstRankLearnsEveryRanksSecondsAfterEveryWindow) {
  std::vector<std::vector<double>> seen;
  const WindowOptions windows{.updates = 4, .decide = [&](const std::vector<double>& compute, std::int64_t) {
                                seen.push_back(compute);
                                return std::optional<std::int64_t>();
                              }};
  const Outcome all = run(asynchronous(3, 20), windows);
  EXPECT_FALSE(all.execution.ended);
  EXPECT_GE(seen.size(), 4u);  // nobody is asked when all has begun
  for (const auto& compute : seen) {
    ASSERT_EQ(compute.size(), 3u);
    for (const double seconds : compute) EXPECT_GT(seconds, 0);
  }
}

TEST(WindowReportsTest, ARunThatEndsEarlyIsTheProgramOfSoManyUpdates) {
  for (const int stages : {2, 3, 4})
    for (const int later : {0, 3}) {
      std::int64_t asked = 0;
      const WindowOptions windows{.updates = 5, .decide = [&](const std::vector<double>&, std::int64_t begun) {
                                    asked = begun;
                                    return std::optional(begun + later);
                                  }};
      const Outcome ended = run(asynchronous(stages, 40), windows);
      ASSERT_TRUE(ended.execution.ended) << stages;
      EXPECT_EQ(*ended.execution.ended, asked + std::max(1, later));
      const int updates = static_cast<int>(*ended.execution.ended);
      EXPECT_EQ(ended.execution.update_end.size(), static_cast<std::size_t>(updates));
      const Outcome whole = run(asynchronous(stages, updates), WindowOptions{});
      for (std::size_t r = 0; r < whole.logs.size(); ++r) EXPECT_EQ(computed(ended.logs[r]), computed(whole.logs[r]));
    }
}

TEST(WindowReportsTest, ADecisionThatComesTooLateChangesNothing) {
  const WindowOptions windows{.updates = 5, .decide = [&](const std::vector<double>&, std::int64_t) {
                                return std::optional<std::int64_t>(1000);
                              }};
  EXPECT_FALSE(run(asynchronous(3, 20), windows).execution.ended);
}

TEST(WindowReportsTest, ProgramsWithAFlushReportNothing) {
  EXPECT_FALSE(can_report(lower(example_1f1b(3, 6), chain(3), one_stage_per_rank(3), WeightRule{})));
  EXPECT_FALSE(can_report(asynchronous(1, 4)));
  EXPECT_TRUE(can_report(asynchronous(2, 4)));
}

}  // namespace
}  // namespace sluice
