// Head and embedding cut by words over all ranks, the softmax over all slices: the numbers of one device.
#include <gtest/gtest.h>

#include "harness/sim/communication.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

// 24 words, which 2, 3 and 4 ranks divide.
ModelGraph words_gpt() { return gpt("words_gpt", 3, 8, 2, 6, 24); }

constexpr int kWordMicros = 8;

TEST(WordSlicesForReal, TrainAsOneDeviceWithEveryVariantAndNumberOfRanks) {
  const ModelGraph model = words_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  for (const int microbatches : {1, 3, kWordMicros}) {
    const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, microbatches), feed, training);
    for (const char* variant : {"one_barrier", "two_barriers", "interlaced"})
      for (const int ranks : {2, 3, 4}) {
        SCOPED_TRACE(testing::Message() << variant << ", " << ranks << " ranks, " << microbatches << " micro-batches");
        const TestSetup setup("vocabulary_parallelism", {{"variant", variant}}, model, ranks, kBatch, microbatches);
        expect_close(train(setup, feed, training), reference, model, 1e-11);
      }
  }
}

TEST(WordSlicesForReal, ClipByTheNormOverAllSlices) {
  const ModelGraph model = words_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true,
                          .optimizer = {.learning_rate = 0.05, .momentum = 0.9, .clip_norm = 0.01}};
  const auto clipped = [&](TestSetup setup) {
    setup.prepared.clip_norm = true;
    return train(setup, feed, training);
  };
  const Numbers reference = clipped(TestSetup("single_device", {}, model, 1, kBatch, kWordMicros));
  expect_close(clipped(TestSetup("vocabulary_parallelism", {}, model, 3, kBatch, kWordMicros)), reference, model,
               1e-11);
}

// The sums and the memory.
TEST(WordSlicesForReal, AreWhatTheVirtualClockSays) {
  const ModelGraph model = words_gpt();
  const TestSetup setup("vocabulary_parallelism", {}, model, 3, kBatch, kWordMicros);
  const Program program = make_program(setup.prepared, kWordMicros);
  const OptimizerSpec sgd{.learning_rate = 0.05};
  SessionSpec spec = setup.spec(sgd);
  spec.feed = random_feed(model, kBatch);
  const auto session = make_session(spec);
  session->reset_peak_memory();
  RunRequest request;
  request.order = samples_from(0, kBatch);
  request.timeout = Seconds(120);
  const RunResult result = session->run(program, request);
  EXPECT_EQ(result.group_sums,
            tensor_sums(program, *setup.prepared.words, setup.prepared.plan, setup.prepared.micro_batch));
  // Per forward of a slice one sum: 3 samples of 6 positions, 3 slices and the target, 4 bytes.
  EXPECT_TRUE(as_predicted(session->peak_memory(), memory(program, stage_memory(setup.prepared, sgd, program.rule))));
  EXPECT_EQ(result.group_sums.front(), (TensorSums{kWordMicros, kWordMicros * 3 * 6 * 4 * 4}));
}

}  // namespace
}  // namespace sluice
