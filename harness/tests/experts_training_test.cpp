// A mixture of experts trains in pipelines as on one device: the router chooses the same experts, and the same tokens
// are dropped, however samples are cut into micro-batches and divided among replicas.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

constexpr int kExpertMicros = 4;
const Training kInDouble{.double_precision = true};

Numbers one_device(const ModelGraph& model, const DataFeed& feed, int microbatches = kExpertMicros) {
  return train(TestSetup("single_device", {}, model, 1, kBatch, microbatches), feed, kInDouble);
}

TEST(ExpertsTraining, IsInPipelinesThatOfOneDevice) {
  const ModelGraph model = test_mixtral();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers reference = one_device(model, feed);
  using Options = std::map<std::string, std::string>;
  const std::vector<std::pair<std::string, Options>> systems = {
      {"gpipe", {}},
      {"gpipe", {{"recompute", "all"}}},
      {"1f1b", {}},
      {"interleaved_1f1b", {}},
      {"zero_bubble", {{"variant", "h1"}}},
      {"zero_bubble", {{"variant", "v"}}},
      {"chimera", {}},
      {"pipe_offload", {}},
  };
  for (const auto& [system, options] : systems) {
    SCOPED_TRACE(testing::Message() << system << ' ' << testing::PrintToString(options));
    expect_close(train(TestSetup(system, options, model, 2, kBatch, kExpertMicros), feed, kInDouble), reference, model,
                 1e-11);
  }
  for (const char* sharding : {"system", "use"}) {
    SCOPED_TRACE(sharding);
    expect_close(
        train(TestSetup("gpipe", {}, model, 4, kBatch, kExpertMicros, {.count = 2}, sharding), feed, kInDouble),
        reference, model, 1e-11);
  }
}

TEST(ExpertsTraining, DropsTheSameTokensWhateverTheMicroBatch) {
  const ModelGraph model = test_mixtral();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers reference = one_device(model, feed);
  for (const int microbatches : {1, 2, 12}) {
    SCOPED_TRACE(microbatches);
    expect_close(one_device(model, feed, microbatches), reference, model, 1e-11);
  }
  ModelGraph without_limit = model;
  for (LayerSpec& layer : without_limit.layers)
    if (auto* experts = std::get_if<Experts>(&layer.kind)) experts->capacity = 0;
  EXPECT_NE(one_device(without_limit, feed).losses, reference.losses);  // some are dropped
}

TEST(ExpertsTraining, CutsSequencesIntoChunksWhereNothingIsDropped) {
  ModelGraph model = test_mixtral();
  EXPECT_NE(error_of([&] {
              TestSetup("seq1f1b", {}, model, 2, kBatch, kExpertMicros);
            }).find("'model.layers.1.block_sparse_moe' (Experts) drops tokens by how many of the whole sequence came"),
            std::string::npos);
  for (LayerSpec& layer : model.layers)
    if (auto* experts = std::get_if<Experts>(&layer.kind)) experts->capacity = 0;
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  expect_close(train(TestSetup("seq1f1b", {}, model, 2, kBatch, kExpertMicros), feed, kInDouble),
               one_device(model, feed), model, 1e-11);
}

TEST(ExpertsTraining, LeavesFrozenExpertsAsTheyAre) {
  ModelGraph model = test_mixtral();
  for (LayerSpec& layer : model.layers) layer.frozen = std::holds_alternative<Experts>(layer.kind);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup setup("zero_bubble", {}, model, 2, kBatch, kExpertMicros);
  std::vector<MemoryByKind> peaks;
  const Program program = make_program(setup.prepared, kExpertMicros);
  expect_close(train(setup, feed, kInDouble), one_device(model, feed), model, 1e-11);
  train_by(program, setup, feed, {}, &peaks);
  EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, Training().optimizer, program.rule))));
}

}  // namespace
}  // namespace sluice
