// Clipping by the global norm trains as one device does, whatever holds the gradients: stages, replicas, shards or
// tensor-parallel groups.
#include <gtest/gtest.h>

#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

constexpr int kClippedMicros = 8;

TestSetup clipping(TestSetup setup) {
  setup.prepared.clip_norm = true;
  return setup;
}

Training training_with(double clip_norm, bool double_precision = true) {
  return {.double_precision = double_precision,
          .optimizer = {.learning_rate = 0.05, .momentum = 0.9, .clip_norm = clip_norm}};
}

double norm_of(const std::vector<std::vector<double>>& gradients) {
  double sum = 0;
  for (const std::vector<double>& layer : gradients)
    for (const double g : layer) sum += g * g;
  return std::sqrt(sum);
}

// A limit that the gradients of every update exceed.
double limit_of(const ModelGraph& model, const DataFeed& feed) {
  return norm_of(train(TestSetup("single_device", {}, model, 1, kBatch, kClippedMicros), feed, training_with(0))
                     .gradients) /
         8;
}

TEST(Clipping, ScalesTheMeanGradientAsPyTorchDoes) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup setup("single_device", {}, model, 1, kBatch, kClippedMicros);
  const Numbers free = train(setup, feed, training_with(0));
  const double norm = norm_of(free.gradients), limit = norm / 3;
  Numbers expected = free;
  for (std::vector<double>& layer : expected.gradients)
    for (double& g : layer) g *= limit / (norm + 1e-6);
  const Numbers clipped = train(clipping(setup), feed, training_with(limit));
  for (std::size_t l = 0; l < model.layers.size(); ++l)
    EXPECT_LE(relative_error(clipped.gradients[l], expected.gradients[l]), 1e-13);
  EXPECT_NE(clipped.weights, free.weights);
  // Below the limit nothing changes.
  expect_same_bits(train(clipping(setup), feed, training_with(1e3 * norm)), free, model);
}

TEST(Clipping, EverySynchronousSystemTrainsAsOneDeviceDoes) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training = training_with(limit_of(model, feed));
  const Numbers reference =
      train(clipping(TestSetup("single_device", {}, model, 1, kBatch, kClippedMicros)), feed, training);
  for (const System* system : all_systems()) {
    if (system->inference_only || !system->synchronous || system->sequence) continue;
    int ran = 0;
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(testing::Message() << system->name << ", " << ranks << " ranks");
      try {
        const TestSetup setup = clipping(TestSetup(system->name, {}, model, ranks, kBatch, kClippedMicros));
        expect_close(train(setup, feed, training), reference, model, 1e-12);
        ++ran;
      } catch (const InputError&) {
        // The system cannot run on this number of ranks.
      }
    }
    EXPECT_GT(ran, 0) << system->name;
  }
}

TEST(Clipping, TheNormIsTheSameToTheBitForEveryNumberOfStages) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training = training_with(limit_of(model, feed), false);
  const Numbers reference =
      train(clipping(TestSetup("single_device", {}, model, 1, kBatch, kClippedMicros)), feed, training);
  for (const int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(ranks);
    expect_same_bits(train(clipping(TestSetup("1f1b", {}, model, ranks, kBatch, kClippedMicros)), feed, training),
                     reference, model);
    expect_same_bits(train(clipping(TestSetup("gpipe", {{"backward", "fifo"}}, model, ranks, kBatch, kClippedMicros)),
                           feed, training),
                     reference, model);
  }
}

TEST(Clipping, ReplicasAndShardsCountEveryGradientOnce) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training = training_with(limit_of(model, feed));
  const Numbers reference =
      train(clipping(TestSetup("single_device", {}, model, 1, kBatch, kClippedMicros)), feed, training);
  for (const char* sharding : {"none", "optimizer", "use", "visit", "update"})
    for (const char* system : {"1f1b", "zero_bubble"}) {
      SCOPED_TRACE(testing::Message() << system << ", sharding " << sharding);
      expect_close(train(clipping(TestSetup(system, {}, model, 4, kBatch, kClippedMicros, {.count = 2}, sharding)),
                         feed, training),
                   reference, model, 1e-12);
    }
  for (const char* accumulation : {"reshard", "keep", "no_sync"})
    expect_close(train(clipping(TestSetup("fsdp", {{"accumulation", accumulation}}, model, 4, kBatch, kClippedMicros)),
                       feed, training),
                 reference, model, 1e-12);
}

TEST(Clipping, GroupsThatShareLayersCountWholeParametersOnce) {
  const ModelGraph model = gpt("gpt", 2, 16, 4, 6, 24);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training = training_with(limit_of(model, feed));
  const Numbers reference =
      train(clipping(TestSetup("single_device", {}, model, 1, kBatch, kClippedMicros)), feed, training);
  expect_close(
      train(clipping(TestSetup("1f1b", {}, model, 4, kBatch, kClippedMicros, {}, "system", 2)), feed, training),
      reference, model, 1e-11);
}

// The wrong norms that others have shipped: the test above would not pass with them.
TEST(Clipping, AStagesOwnNormInPlaceOfAllIsAnotherTraining) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training = training_with(limit_of(model, feed));
  const TestSetup setup = clipping(TestSetup("1f1b", {}, model, 2, kBatch, kClippedMicros));
  const Numbers reference = train(setup, feed, training);
  Program program = make_program(setup.prepared, kClippedMicros);
  program.step_groups.back().resize(1);  // no all-reduce: each rank clips by what it has
  EXPECT_GT(relative_error(train_by(program, setup, feed, training).gradients[1], reference.gradients[1]), 0.01);
}

}  // namespace
}  // namespace sluice
