// `sluice check` on systems that loop for ever, crash or break the contract; and on what `sluice new` writes, which is
// compiled into this program.
#include "harness/cli/check.h"

#include <gtest/gtest.h>

#include <csignal>

#include "harness/pipeline/orders.h"

namespace sluice {

extern const System scaffold_flush, scaffold_split, scaffold_chunked, scaffold_asynchronous;

namespace {

System plain() {
  return {.name = "plain",
          .title = "Plain",
          .citation = "nobody",
          .written_from = WrittenFrom::ours,
          .schedule = [](const ScheduleProblem& problem, const Options&) {
            return orders::fill_drain(problem, BackwardOrder::lifo);
          }};
}

TEST(Check, SaysThatASystemHolds) {
  const CheckOutcome outcome = check_system(plain(), 30);
  EXPECT_TRUE(outcome.holds) << outcome.text;
  EXPECT_NE(outcome.text.find("note: theory is left out"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("plain: 0 faults, 78 problems accepted, 0 rejected\n"), std::string::npos)
      << outcome.text;
}

TEST(Check, AnEndlessLoopEndsWithTheProblemThatItIsIn) {
  System system = plain();
  system.schedule = [](const ScheduleProblem& problem, const Options&) {
    volatile bool forever = problem.ranks == 2;
    while (forever) {
    }
    return orders::fill_drain(problem, BackwardOrder::lifo);
  };
  const CheckOutcome outcome = check_system(system, 4);
  EXPECT_FALSE(outcome.holds);
  EXPECT_EQ(outcome.text,
            "fault at ranks=2 microbatches=1: no answer within 4 seconds: a loop of its plan, schedule or theory does "
            "not end\n");
}

TEST(Check, ACrashIsAFaultOfTheSystem) {
  System system = plain();
  system.schedule = [](const ScheduleProblem&, const Options&) -> Schedule {
    std::raise(SIGKILL);
    return {};
  };
  const CheckOutcome outcome = check_system(system, 30);
  EXPECT_FALSE(outcome.holds);
  EXPECT_EQ(outcome.text, "fault at ranks=1 microbatches=1: it ends the program (Killed)\n");
}

TEST(Check, FaultsAreShownWithTheirDrawing) {
  System system = plain();
  system.schedule = [](const ScheduleProblem& problem, const Options&) {
    Schedule schedule = orders::fill_drain(problem, BackwardOrder::lifo);
    if (problem.ranks == 2 && problem.microbatches == 2) std::swap(schedule.ranks[1][0], schedule.ranks[1][2]);
    return schedule;
  };
  const CheckOutcome outcome = check_system(system, 30);
  EXPECT_FALSE(outcome.holds);
  EXPECT_NE(
      outcome.text.find("fault at ranks=2 microbatches=2: rank 0: 0B1 is blocked: it waits for 1B1 of rank 1, which "
                        "is blocked at 1B1\n  rank 0  F0F1\n"),
      std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("rank 1: 1B1 comes before 1F1, which it needs\n"), std::string::npos) << outcome.text;
}

class Scaffold : public testing::TestWithParam<const System*> {};

TEST_P(Scaffold, HoldsToTheContractAsItIsWritten) {
  const CheckOutcome outcome = check_system(*GetParam(), 60);
  EXPECT_TRUE(outcome.holds) << outcome.text;
  EXPECT_EQ(outcome.text.find("note:"), std::string::npos) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, Scaffold,
                         testing::Values(&scaffold_flush, &scaffold_split, &scaffold_chunked, &scaffold_asynchronous),
                         [](const auto& test) { return test.param->name; });

}  // namespace
}  // namespace sluice
