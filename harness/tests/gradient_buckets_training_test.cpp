// Gradients that are reduced in buckets during the backward are, to the last bit, those that are reduced after it.
#include <gtest/gtest.h>

#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

// Its head uses the table of its embedding, which is complete with the first layer only.
ModelGraph model_of_the_test() {
  ModelGraph model{.name = "tied", .inputs = {{.shape = {6}, .is_token_ids = true}}, .layers = {}};
  model.layers = {{"words", Embedding{12, 8}, {-1}},
                  {"norm", LayerNorm{8}, {0}},
                  {"attention", Attention{8, 2, true}, {1}},
                  {"sum", Add{}, {0, 2}},
                  {.name = "head", .kind = Linear{8, 12}, .inputs = {3}, .tied_to = 0},
                  {"loss", CrossEntropyLoss{}, {4}}};
  return model;
}

TEST(GradientBucketsOfReplicas, TrainToTheSameBitsAsOneReductionAfterTheBackward) {
  const ModelGraph model = model_of_the_test();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const bool double_precision : {false, true})
    for (const int ranks : {2, 4}) {
      const TestSetup setup("data_parallel", {}, model, ranks, kBatch, 4);
      const auto trained = [&](std::int64_t bucket) {
        return train(setup, feed, {.double_precision = double_precision, .gradient_bucket = Bytes(bucket)});
      };
      const Numbers after = trained(0);
      for (const std::int64_t bucket : {1, 1000}) {
        const Numbers during = trained(bucket);
        EXPECT_EQ(during.losses, after.losses) << ranks << " ranks, buckets of " << bucket;
        EXPECT_EQ(during.gradients, after.gradients);
        EXPECT_EQ(during.weights, after.weights);
      }
    }
}

}  // namespace
}  // namespace sluice
