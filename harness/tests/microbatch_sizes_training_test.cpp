// Micro-batches of different sizes, for real: the loss is the mean over the samples of the batch, so that gradients and
// weights are those of one device that takes the batch as a whole; and memory is what is predicted by size.
#include <gtest/gtest.h>

#include "harness/base/index.h"
#include "harness/case/predict_memory.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

constexpr std::int64_t kSamples = 19;  // no number of micro-batches from 2 on divides it
const MicrobatchSizes kFew({7, 1, 6, 5}), kMany({3, 1, 4, 1, 5, 2, 1, 2});

TestSetup setup_of(const std::string& system, const ModelGraph& model, int ranks, const MicrobatchSizes& sizes,
                   const PipelineReplicas& replicas = {}) {
  return {system, {}, model, ranks, sizes.batch(), count_of(sizes.samples()), replicas, "system", 1, sizes};
}

TEST(MicrobatchSizesForReal, EverySynchronousSystemTrainsAsOneDeviceWithTheWholeBatch) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kSamples * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kSamples, 1), feed, training);
  int systems = 0;
  for (const System* system : all_systems()) {
    if (system->inference_only || !system->synchronous || !system->one_size_only.empty() || system->sequence) continue;
    int ran = 0;
    for (const int ranks : {1, 2, 3, 4})
      for (const MicrobatchSizes* sizes : {&kFew, &kMany}) {
        SCOPED_TRACE(testing::Message() << system->name << ", " << ranks << " ranks, " << sizes->samples().size());
        try {
          const TestSetup setup = setup_of(system->name, model, ranks, *sizes);
          expect_close(train(setup, feed, training), reference, model, 1e-12);
          ++ran;
        } catch (const InputError&) {
          // More stages than layers, or too few micro-batches.
        }
      }
    EXPECT_GE(ran, 2) << system->name << " ran hardly anything";
    ++systems;
  }
  EXPECT_GE(systems, 12);
}

TEST(MicrobatchSizesForReal, ReplicasOfAPipelineTrainAsOneDeviceWithTheWholeBatch) {
  const ModelGraph model = test_mlp();
  const MicrobatchSizes sizes({4, 1, 2, 4, 1, 2});
  const DataFeed feed = random_feed(model, sizes.batch() * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, sizes.batch(), 1), feed, training);
  for (const char* system : {"one_f_one_b", "gpipe", "zero_bubble", "dynapipe"}) {
    SCOPED_TRACE(system);
    expect_close(train(setup_of(system, model, 4, sizes, {.count = 2}), feed, training), reference, model, 1e-12);
  }
}

TEST(MicrobatchSizesForReal, SlicedMicroBatchesTrainAsOneDeviceWithTheWholeBatch) {
  const ModelGraph model = test_mlp();
  const MicrobatchSizes sizes(first_halved(4, 5, 2));
  const DataFeed feed = random_feed(model, sizes.batch() * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, sizes.batch(), 1), feed, training);
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    TestSetup setup{"autopipe", {{"sliced", "2"}}, model, ranks, sizes.batch(), count_of(sizes.samples()),
                    {},         "system",          1,     sizes};
    expect_close(train(setup, feed, training), reference, model, 1e-12);
  }
}

TEST(MicrobatchSizesForReal, TheLossIsTheMeanOverTheSamples) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kSamples * kUpdates);
  const Training training{.double_precision = true};
  const Numbers whole = train(TestSetup("single_device", {}, model, 1, kSamples, 1), feed, training);
  const Numbers cut = train(setup_of("single_device", model, 1, kFew), feed, training);
  EXPECT_LE(relative_error(cut.losses, whole.losses), 1e-12);
}

TEST(MicrobatchSizesForReal, MemoryIsThatOfTheSizesAlive) {
  const ModelGraph model = test_cnn();
  const DataFeed feed = random_feed(model, kSamples * kUpdates);
  const Training training;
  for (const char* system : {"one_f_one_b", "gpipe", "zero_bubble", "dynapipe"}) {
    SCOPED_TRACE(system);
    const TestSetup setup = setup_of(system, model, 2, kFew);
    const Program program = make_program(setup.prepared, setup.microbatches);
    std::vector<MemoryByKind> peaks;
    train_by(program, setup, feed, training, &peaks);
    EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, training.optimizer, program.rule))));
  }
}

}  // namespace
}  // namespace sluice
