// Ranks on cores of their own: who gets which, and that a run's threads are there.
#include "harness/exec/pinning.h"

#include <sched.h>

#include "harness/base/expect_error.h"
#include "harness/exec/executor_test_support.h"

namespace sluice {
namespace {

TEST(Pinning, RanksOfOneMachineTakeItsCoresInOrder) {
  EXPECT_EQ(assign_cores({{"a", {0, 1, 2, 3}}, {"a", {0, 1, 2, 3}}, {"a", {0, 1, 2, 3}}}), (std::vector<int>{0, 1, 2}));
}

TEST(Pinning, EveryMachineHasItsOwn) {
  EXPECT_EQ(assign_cores({{"a", {0, 1}}, {"b", {0, 1}}, {"a", {0, 1}}, {"b", {0, 1}}}), (std::vector<int>{0, 0, 1, 1}));
}

TEST(Pinning, WhatTheLauncherGaveAProcessAloneIsKeptForIt) {
  // The second may use core 0 only, the third one of a half.
  EXPECT_EQ(assign_cores({{"a", {0, 1, 2, 3}}, {"a", {0}}, {"a", {0, 1}}}), (std::vector<int>{2, 0, 1}));
}

TEST(Pinning, FewerCoresThanRanksAreRejected) {
  EXPECT_EQ(error_of([] {
              assign_cores({{"a", {0, 1}}, {"a", {0, 1}}, {"b", {0, 1}}, {"a", {0, 1}}});
            }),
            "pin: 3 ranks on a machine, and rank 3 finds none of its 2 cores free; use fewer ranks, let "
            "the launcher give more cores, or use --pin none");
}

TEST(Pinning, WithoutHwlocItSaysSo) {
  if (hwloc_built()) GTEST_SKIP() << "this build has hwloc";
  EXPECT_EQ(hwloc_library(), "");
  EXPECT_THROW(pin_to_cores(1, nullptr), InputError);
}

// Notes where its thread may run.
class WhereItRuns : public FakeWorker {
 public:
  using FakeWorker::FakeWorker;
  cpu_set_t cpus{};
  void step(const Instruction& step) override {
    sched_getaffinity(0, sizeof cpus, &cpus);
    FakeWorker::step(step);
  }
};

TEST(Pinning, EveryRankOfARunIsOnACoreOfItsOwnAndTheCallerIsWhereItWas) {
  if (!hwloc_built()) GTEST_SKIP() << "this build has no hwloc";
  std::unique_ptr<Pinning> pinning;
  try {
    pinning = pin_to_cores(2, nullptr);
  } catch (const InputError& e) {
    GTEST_SKIP() << e.what();
  }
  cpu_set_t before, after;
  sched_getaffinity(0, sizeof before, &before);
  const Program program = one_f_one_b(2, 4);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 2; ++r) workers.push_back(std::make_unique<WhereItRuns>(Rank(r), FakeOptions{}));
  run(program, workers, {.pinning = pinning.get()});
  ASSERT_EQ(pinning->cpus().size(), 2u);
  cpu_set_t both;
  CPU_ZERO(&both);
  for (std::size_t r = 0; r < 2; ++r) {
    const cpu_set_t& own = static_cast<WhereItRuns&>(*workers[r]).cpus;
    EXPECT_TRUE(CPU_ISSET(std::stoi(pinning->cpus()[r]), &own));
    EXPECT_LT(CPU_COUNT(&own), CPU_COUNT(&before));
    cpu_set_t shared;
    CPU_AND(&shared, &both, &own);
    EXPECT_EQ(CPU_COUNT(&shared), 0);
    CPU_OR(&both, &both, &own);
  }
  sched_getaffinity(0, sizeof after, &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Pinning, MoreRanksThanTheMachineHasCoresAreRejected) {
  if (!hwloc_built()) GTEST_SKIP() << "this build has no hwloc";
  EXPECT_THROW(pin_to_cores(100000, nullptr), InputError);
}

}  // namespace
}  // namespace sluice
