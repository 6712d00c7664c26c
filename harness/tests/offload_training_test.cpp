// Stashes that move to the host for real: the same bits as without, and the memory that was predicted.
#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

struct OffloadCase {
  const char* system;
  int ranks;
  bool batched = false;  // weight gradients
};

// The system's own order, and these moves.
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
  for (const ModelGraph& model : {test_cnn(), gpt("gpt_test", 4, 16, 2, 24, 20)})
    for (const OffloadCase& c :
         {OffloadCase{"one_f_one_b", 3}, OffloadCase{"gpipe", 2}, OffloadCase{"interleaved_1f1b", 2},
          OffloadCase{"zero_bubble", 3, true}, OffloadCase{"controllable_memory", 2}, OffloadCase{"hanayo", 2}}) {
      SCOPED_TRACE(testing::Message() << model.name << ", " << c.system);
      TestSetup setup(c.system, {}, model, c.ranks, kBatch, 6);
      setup.prepared.batched_weight_gradients = c.batched;
      const DataFeed feed = random_feed(model, kBatch * kUpdates);
      const Training training{.batched = c.batched};
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
        EXPECT_EQ(before[r].activations - after[r].activations, without[r].peak.activations - with[r].peak.activations);
        EXPECT_EQ(after[r].host, with[r].peak.host);
      }
      EXPECT_GT(after[0].host, Bytes(0));
      if (HasFailure()) return;
    }
}

TEST(OffloadTrainingTest, PipeOffloadHoldsLessAndReplicasOfItTrainAsOneDevice) {
  const ModelGraph model = gpt("gpt_test", 4, 16, 2, 24, 20);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 12), feed, training);
  const std::map<std::string, std::string> quick = {{"copy_percent", "10"}};
  for (const auto layout : {PipelineReplicas::Layout::groups, PipelineReplicas::Layout::pipelines})
    for (const int replicas : {1, 2}) {
      const TestSetup setup("pipe_offload", quick, model, 2, kBatch, 12, {replicas, layout});
      const Program program = make_program(setup.prepared, setup.microbatches);
      EXPECT_TRUE(program.offloads);
      std::vector<MemoryByKind> peaks;
      expect_close(train_by(program, setup, feed, training, &peaks), reference, model, 1e-12);
      EXPECT_GT(peaks[0].host, Bytes(0));
    }
  const TestSetup setup("pipe_offload", quick, model, 2, kBatch, 12);
  std::vector<MemoryByKind> moved, stays;
  train_by(make_program(setup.prepared, setup.microbatches), setup, feed, training, &moved);
  train_by(with_moves(setup, {}), setup, feed, training, &stays);
  EXPECT_LT(moved[0].activations, stays[0].activations);
}

}  // namespace
}  // namespace sluice
