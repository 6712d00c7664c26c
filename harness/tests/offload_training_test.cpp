// Stashes that move to the host for real: the same bits as without, and the memory that was predicted.
#include <gtest/gtest.h>

#include "harness/program/lowering.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

struct OffloadCase {
  const char* system;
  std::map<std::string, std::string> options;
  int ranks;
};

// The system's order on both sides; `offload` moves its stashes.
Program with_moves(const TestSetup& setup, const Offload& offload) {
  const Prepared& p = setup.prepared;
  const ScheduleProblem problem = schedule_problem(p, setup.microbatches);
  Program program = lower(p.system->schedule(problem, p.options), p.graph, p.ranks.placement,
                          rule_of(p, setup.microbatches), {}, {}, offload);
  return checked(std::move(program));
}

Offload all_moves(const TestSetup& setup) {
  const Prepared& p = setup.prepared;
  return offload_all(p.system->schedule(schedule_problem(p, setup.microbatches), p.options));
}

TEST(OffloadTrainingTest, TrainsToTheSameBitsInTheMemoryThatIsPredicted) {
  const std::vector<OffloadCase> cases = {{"one_f_one_b", {}, 3},         {"gpipe", {}, 2},
                                          {"interleaved_1f1b", {}, 2},    {"zero_bubble", {}, 3},
                                          {"controllable_memory", {}, 2}, {"hanayo", {}, 2}};
  for (const ModelGraph& model : {test_cnn(), test_mlp(), gpt("gpt_test", 4, 16, 2, 24, 20)})
    for (const OffloadCase& c : cases)
      for (const bool batched : {false, true}) {
        SCOPED_TRACE(testing::Message() << model.name << ", " << c.system << (batched ? ", batched" : ""));
        TestSetup setup(c.system, c.options, model, c.ranks, kBatch, 6);
        setup.prepared.batched_weight_gradients = batched;
        const DataFeed feed = random_feed(model, kBatch * kUpdates);
        const Training training{.batched = batched};
        const Program plain = with_moves(setup, {}), moved = with_moves(setup, all_moves(setup));
        ASSERT_FALSE(plain.offloads);
        ASSERT_TRUE(moved.offloads);
        std::vector<MemoryByKind> before, after;
        const Numbers reference = train_by(plain, setup, feed, training, &before);
        expect_same_bits(train_by(moved, setup, feed, training, &after), reference, model);
        const auto stages = stage_memory(setup.prepared, training.optimizer, moved.rule);
        const std::vector<RankMemory> with = memory(moved, stages), without = memory(plain, stages);
        EXPECT_TRUE(as_predicted(after, with));
        for (std::size_t r = 0; r < after.size(); ++r) {
          SCOPED_TRACE(testing::Message() << "rank " << r);
          EXPECT_EQ(before[r].host, Bytes(0));
          EXPECT_EQ(before[r].activations - after[r].activations,
                    without[r].peak.activations - with[r].peak.activations);
          EXPECT_EQ(after[r].host, with[r].peak.host);
        }
        EXPECT_LT(after[0].activations, before[0].activations);
        EXPECT_GT(after[0].host, Bytes(0));
        if (HasFailure()) return;
      }
}

}  // namespace
}  // namespace sluice
