#include "harness/sim/memory.h"

#include <gtest/gtest.h>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

const WeightRule kStash{.update = WeightRule::Update::every_backward};

std::vector<StageMemory> stages_of(int n) {
  return std::vector<StageMemory>(static_cast<std::size_t>(n),
                                  StageMemory{Bytes(100), Bytes(100), Bytes(200), Bytes(10), Bytes(7)});
}

std::vector<RankMemory> of(const Schedule& schedule, const WeightRule& rule, bool timeline = false) {
  const int p = static_cast<int>(schedule.ranks.size());
  return memory(lower(schedule, chain(p), one_stage_per_rank(p), rule), stages_of(p), timeline);
}

TEST(MemoryTest, WeightStashingKeepsPMinusKVersions) {
  for (int p = 1; p <= 6; ++p) {
    const auto ranks = of(example_1f1b(p, 4 * p), kStash);
    for (int k = 0; k < p; ++k) {
      const RankMemory& m = ranks[k];
      EXPECT_EQ(m.peak_versions, p - k);
      EXPECT_EQ(m.peak_in_flight, p - k);
      EXPECT_EQ(m.peak.weights, Bytes(100));
      EXPECT_EQ(m.peak.optimizer, Bytes(200));
    }
  }
}

TEST(MemoryTest, VerticalSyncKeepsPVersionsEverywhere) {
  WeightRule rule = kStash;
  rule.forward = WeightRule::Forward::vertical_sync;
  for (int p = 1; p <= 6; ++p)
    for (const RankMemory& m : of(example_1f1b(p, 4 * p), rule)) EXPECT_EQ(m.peak_versions, p);
}

TEST(MemoryTest, NaiveAndSynchronousRulesKeepOneVersion) {
  WeightRule naive = kStash;
  naive.backward = WeightRule::Backward::newest;
  for (const WeightRule& rule : {naive, WeightRule{}})
    for (const RankMemory& m : of(example_1f1b(4, 12), rule)) {
      EXPECT_EQ(m.peak_versions, 1);
      EXPECT_EQ(m.peak.versions, Bytes(0));
    }
}

TEST(MemoryTest, GPipeHoldsEveryMicroBatch) {
  for (const RankMemory& m : of(example_gpipe(3, 5), WeightRule{})) {
    EXPECT_EQ(m.peak_in_flight, 5);
    EXPECT_EQ(m.peak.activations, Bytes(50));
    EXPECT_EQ(m.peak.total(), Bytes(100 + 100 + 200 + 50));
  }
}

TEST(MemoryTest, ASplitBackwardHoldsTheWeightStashUntilW) {
  const auto ranks = of(parse_schedule("rank 0: 0F0 0F1 0I0 0I1 0W0 0W1\n"), WeightRule{}, true);
  std::vector<std::int64_t> activations;
  for (const MemoryPoint& p : ranks[0].timeline) activations.push_back(p.activations.value);
  // After F0, F1; during and after I0 (10 + 7), I1; during W0, W1; the step.
  EXPECT_EQ(activations, (std::vector<std::int64_t>{10, 20, 20, 17, 17, 14, 14, 7, 0}));
  EXPECT_EQ(ranks[0].peak.activations, Bytes(20));
  EXPECT_EQ(ranks[0].peak.instruction, 1u);
  EXPECT_EQ(ranks[0].peak_in_flight, 2);
}

TEST(MemoryTest, StashesOfBatchedWeightGradientsStayUntilTheirProduct) {
  std::vector<StageMemory> stages = stages_of(1);
  stages[0].batched_microbatches = 2;
  const auto activations = [&](const std::string& schedule) {
    const Program program = lower(parse_schedule(schedule), chain(1), one_stage_per_rank(1), {});
    std::vector<std::int64_t> of_ops;
    const RankMemory held = memory(program, stages, true)[0];
    for (const MemoryPoint& p : held.timeline) of_ops.push_back(p.activations.value);
    return of_ops;
  };
  // During F0, during and after B0, during F1 (with the weight stash that B0 left), during and after B1; the step
  // comes after the product of both.
  EXPECT_EQ(activations("rank 0: 0F0 0B0 0F1 0B1\n"), (std::vector<std::int64_t>{10, 10, 7, 17, 17, 14, 0}));
  // W0 and W1 are one product: as in ASplitBackwardHoldsTheWeightStashUntilW, but W0 frees nothing.
  EXPECT_EQ(activations("rank 0: 0F0 0F1 0I0 0I1 0W0 0W1\n"),
            (std::vector<std::int64_t>{10, 20, 20, 17, 17, 14, 14, 14, 0}));
}

TEST(MemoryTest, AProductOfFewerMicroBatchesThanMeasuredTakesTheirPartOfItsTemporaries) {
  std::vector<StageMemory> stages = stages_of(1);
  stages[0].batched_microbatches = 4;
  stages[0].temporaries = {.forward = Bytes(1), .weight_gradient = Bytes(80)};
  const Program program =
      lower(parse_schedule("rank 0: 0F0 0B0 0F1 0B1\n"), chain(1), one_stage_per_rank(1), WeightRule{});
  const MemoryPoint peak = memory(program, stages)[0].peak;
  EXPECT_EQ(peak.activations, Bytes(17));
  EXPECT_EQ(peak.buffers, Bytes(14 + 80 * 2 / 4 - 17));  // the product: two stashes and half of what four take
}

TEST(MemoryTest, PipeDreamsFirstRankByHand) {
  // p = 2, n = 3 on rank 0: F0 F1 B0 step F2 B1 step B2 step. Batch 1 still reads version 0 when
  // version 1 is made: 100 bytes of an old version and one activation. Its buffer stays.
  const auto ranks = of(example_1f1b(2, 3), kStash, true);
  std::vector<std::int64_t> versions, activations;
  for (const MemoryPoint& p : ranks[0].timeline) {
    versions.push_back(p.versions.value);
    activations.push_back(p.activations.value);
  }
  EXPECT_EQ(versions, (std::vector<std::int64_t>{0, 0, 0, 100, 100, 100, 100, 100, 100}));
  EXPECT_EQ(activations, (std::vector<std::int64_t>{10, 20, 20, 10, 20, 20, 10, 10, 0}));
  EXPECT_EQ(ranks[0].peak.total(), Bytes(400 + 100 + 20));
}

TEST(MemoryTest, RecomputationKeepsInputsAndOneFullStash) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  std::vector<StageMemory> stages = stages_of(3);
  for (StageMemory& s : stages) s.input = Bytes(2);
  const auto ranks = memory(lower(example_1f1b(3, 6), chain(3), one_stage_per_rank(3), rule), stages);
  for (std::size_t k = 0; k < 3; ++k)  // p - k inputs, one of which is a full stash meanwhile
    EXPECT_EQ(ranks[k].peak.activations.value, (3 - static_cast<int>(k) - 1) * 2 + 10);
}

TEST(MemoryTest, APredictionIsOneMoreTensorAndAKeptOneStaysUntilItsBackward) {
  WeightRule rule = kStash;
  rule.backward = WeightRule::Backward::newest;
  rule.forward_horizon = {2, 1, 0};
  const auto dropped = of(example_1f1b(3, 9), rule);
  EXPECT_EQ(dropped[0].peak_versions, 2);
  EXPECT_EQ(dropped[1].peak_versions, 2);
  EXPECT_EQ(dropped[2].peak_versions, 1);
  EXPECT_EQ(dropped[0].peak.versions, Bytes(100));
  rule.backward = WeightRule::Backward::same_as_forward;
  const auto kept = of(example_1f1b(3, 9), rule);
  EXPECT_EQ(kept[0].peak_versions, 4);
  EXPECT_EQ(kept[1].peak_versions, 3);
}

TEST(MemoryTest, StagesOfOneRankAddUp) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 1F0 1B0 0B0\n");
  const Placement both{{{Rank(0)}, {Rank(0)}}};
  const auto ranks = memory(lower(schedule, chain(2), both, WeightRule{}), stages_of(2));
  EXPECT_EQ(ranks[0].peak.weights, Bytes(200));
  EXPECT_EQ(ranks[0].peak_in_flight, 2);
  EXPECT_EQ(ranks[0].peak.total(), Bytes(2 * 400 + 20));
  EXPECT_TRUE(ranks[0].timeline.empty());
}

}  // namespace
}  // namespace sluice
