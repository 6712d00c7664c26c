// Seq1F1B and SlimPipe for real: a small GPT trains as on one device, and keeps what was predicted.
#include <gtest/gtest.h>

#include "harness/sim/simulate.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

ModelGraph small_gpt() { return gpt("gpt_test", 3, 16, 2, 24, 20); }

const std::vector<std::pair<std::string, Given>>& systems() {
  static const std::vector<std::pair<std::string, Given>> list = {
      {"seq1f1b", {{"sequence_chunks", "2"}}},
      {"seq1f1b", {{"sequence_chunks", "3"}, {"cut", "even"}}},
      {"seq1f1b", {{"sequence_chunks", "5"}, {"variant", "split"}}},
      {"seq1f1b", {{"sequence_chunks", "4"}, {"variant", "interleaved"}, {"chunks", "2"}}},
      {"slimpipe", {{"sequence_chunks", "4"}}},
      {"slimpipe", {{"sequence_chunks", "4"}, {"chunks", "2"}}}};
  return list;
}

TEST(SequenceChunksTrainingTest, ASmallGptTrainsAsOnOneDevice) {
  const ModelGraph model = small_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const bool exact : {true, false}) {
    const Training training{.double_precision = exact};
    const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 4), feed, training);
    for (const auto& [system, options] : systems())
      for (const int ranks : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << system << ' ' << testing::PrintToString(options) << ", " << ranks
                                        << " ranks, " << (exact ? "double" : "float"));
        try {
          const TestSetup setup(system, options, model, ranks, kBatch, 4);
          expect_close(train(setup, feed, training), reference, model, exact ? 1e-12 : 2e-5);
        } catch (const InputError&) {
          ASSERT_TRUE(ranks == 3 && options.contains("chunks"));  // groups that four micro-batches do not make
        }
        if (HasFailure()) return;
      }
  }
}

TEST(SequenceChunksTrainingTest, AMeanSquaredErrorIsThatOfWholeSequences) {
  const ModelGraph model = test_transformer();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 4), feed, training);
  expect_close(train(TestSetup("seq1f1b", {}, model, 2, kBatch, 4), feed, training), reference, model, 1e-12);
}

TEST(SequenceChunksTrainingTest, ReplicasAndBatchedWeightGradientsAreTheSameSums) {
  const ModelGraph model = small_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers reference =
      train(TestSetup("single_device", {}, model, 1, kBatch, 4), feed, {.double_precision = true});
  for (const auto layout : {PipelineReplicas::Layout::groups, PipelineReplicas::Layout::pipelines})
    for (const char* sharding : {"none", "optimizer", "use"}) {
      SCOPED_TRACE(sharding);
      const TestSetup setup("seq1f1b", {}, model, 4, kBatch, 4, {2, layout}, sharding);
      expect_close(train(setup, feed, {.double_precision = true}), reference, model, 1e-12);
    }
  const TestSetup setup("seq1f1b", {}, model, 2, kBatch, 4);
  expect_close(train(setup, feed, {.double_precision = true, .batched = true}), reference, model, 1e-12);
}

TEST(SequenceChunksTrainingTest, MemoryIsAsPredicted) {
  const ModelGraph model = gpt("gpt_test", 3, 32, 2, 48, 20);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const auto& [system, options] : systems()) {
    SCOPED_TRACE(testing::Message() << system << ' ' << testing::PrintToString(options));
    const TestSetup setup(system, options, model, 2, kBatch, 4);
    const Training training;
    const Program program = make_program(setup.prepared, 4);
    std::vector<MemoryByKind> measured;
    train_by(program, setup, feed, training, &measured);
    const std::vector<RankMemory> predicted =
        memory(program, stage_memory(setup.prepared, training.optimizer, program.rule));
    EXPECT_TRUE(as_predicted(measured, predicted));
    // Except for the number of real positions of every sample, which the loss keeps for each chunk in flight.
    for (std::size_t r = 0; r < measured.size(); ++r)
      EXPECT_LE(std::abs((measured[r].activations - predicted[r].peak.activations).value), 24 * 8) << "rank " << r;
  }
}

// As chunks get more, the first rank holds less.
TEST(SequenceChunksTrainingTest, MoreChunksHoldLess) {
  const ModelGraph model = gpt("gpt_test", 4, 32, 2, 48, 20);
  const auto activations = [&](const std::string& system, const Given& options) {
    const TestSetup setup(system, options, model, 4, kBatch, 8);
    const Program program = make_program(setup.prepared, 8);
    return memory(program, stage_memory(setup.prepared, {}, program.rule))[0].peak.activations;
  };
  const Bytes whole = activations("1f1b", {}), two = activations("seq1f1b", {{"sequence_chunks", "2"}}),
              eight = activations("seq1f1b", {{"sequence_chunks", "8"}});
  EXPECT_LT(two, whole);
  EXPECT_LT(eight, two);
}

}  // namespace
}  // namespace sluice
