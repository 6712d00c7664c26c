// Modules: TorchScript from workloads/import_pytorch.py (models_for_tests.py:gated) is trained by pipelines as on one
// device, also where I and W are apart, and holds the memory that its file declares.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/model/module_file.h"
#include "harness/tests/training_test_support.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

constexpr int kMicros = 4;

// An embedding, two gated blocks with dropout, a norm with running statistics; Linear layers and ReLU between them.
ModelGraph gated() { return read_workload(SLUICE_SOURCE_DIR "/harness/tests/data/modules/gated.json", "gated").model; }

int modules(const ModelGraph& model) {
  return static_cast<int>(
      std::ranges::count_if(model.layers, [](const LayerSpec& l) { return std::holds_alternative<Module>(l.kind); }));
}

Numbers on_one_device(const ModelGraph& model, const DataFeed& feed) {
  return train(TestSetup("single_device", {}, model, 1, kBatch, kMicros), feed, {.double_precision = true});
}

TEST(Modules, TrainInEverySynchronousSystemAsOnOneDevice) {
  const ModelGraph model = gated();
  ASSERT_EQ(modules(model), 6);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers reference = on_one_device(model, feed);
  for (const System* system : all_systems()) {
    if (system->inference_only || !system->synchronous) continue;
    SCOPED_TRACE(system->name);
    try {
      const TestSetup setup(system->name, {}, model, 2, kBatch, kMicros);
      expect_close(train(setup, feed, {.double_precision = true}), reference, model, 1e-11);
    } catch (const InputError&) {  // sequences in chunks, stashes that move
      EXPECT_NE(system->name, "1f1b");
      EXPECT_NE(system->name, "zero_bubble");
    }
    if (HasFailure()) return;
  }
}

TEST(Modules, OnBothSidesOfACutHaveTheGradientsOfOneDevice) {
  const ModelGraph model = gated();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers reference = on_one_device(model, feed);
  for (const char* system : {"1f1b", "zero_bubble"})
    for (const bool batched : {false, true}) {
      SCOPED_TRACE(testing::Message() << system << ", batched " << batched);
      const TestSetup setup(system, {}, model, 2, kBatch, kMicros);
      for (const PlanStage& stage : setup.prepared.plan.stages)
        EXPECT_TRUE(std::ranges::any_of(stage.layers,
                                        [&](int l) { return std::holds_alternative<Module>(model.layers[l].kind); }));
      const Numbers ours = train(setup, feed, {.double_precision = true, .batched = batched});
      for (std::size_t l = 0; l < model.layers.size(); ++l) {
        if (parameter_count(model.layers[l]) == 0) continue;
        EXPECT_TRUE(std::ranges::any_of(ours.gradients[l], [](double g) { return std::abs(g) > 1e-6; }));
      }
      expect_close(ours, reference, model, 1e-11);
    }
}

TEST(Modules, TrainReplicatedAndRecomputedAsOnOneDevice) {
  const ModelGraph model = gated();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers reference = on_one_device(model, feed);
  expect_close(
      train(TestSetup("gpipe", {{"recompute", "all"}}, model, 2, kBatch, kMicros), feed, {.double_precision = true}),
      reference, model, 1e-11);
}

TEST(Modules, StartFromTheWeightsInTheirFilesWhateverTheSeed) {
  const ModelGraph model = gated();
  const TestSetup setup("single_device", {}, model, 1, kBatch, kMicros);
  std::vector<std::vector<double>> embeddings;
  for (const std::uint64_t seed : {1, 2}) {
    SessionSpec spec = setup.spec({});
    spec.feed = random_feed(model, kBatch);
    spec.seed = seed;
    embeddings.push_back(make_session(spec)->weights(0));
  }
  ASSERT_EQ(embeddings[0].size(), 20u * 16u);
  EXPECT_EQ(embeddings[0], embeddings[1]);
  EXPECT_EQ(std::vector<double>(16),
            std::vector<double>(embeddings[0].begin(), embeddings[0].begin() + 16));  // padding
}

TEST(Modules, ThatAreFrozenKeepTheirWeights) {
  ModelGraph model = gated();
  model.layers[4].frozen = true;
  ASSERT_TRUE(std::holds_alternative<Module>(model.layers[4].kind));
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers all = on_one_device(gated(), feed), reference = on_one_device(model, feed);
  EXPECT_LE(relative_error(reference.gradients[2], all.gradients[2]), 1e-12);
  EXPECT_TRUE(reference.gradients[4].empty());
  for (const char* system : {"1f1b", "zero_bubble"})
    expect_close(train(TestSetup(system, {}, model, 2, kBatch, kMicros), feed, {.double_precision = true}), reference,
                 model, 1e-11);
}

TEST(Modules, HoldTheMemoryThatTheirFileDeclares) {
  const ModelGraph model = gated();
  const Training training;
  for (const char* system : {"1f1b", "zero_bubble"}) {
    SCOPED_TRACE(system);
    const TestSetup setup(system, {}, model, 2, kBatch, kMicros);
    const Program program = make_program(setup.prepared, kMicros);
    std::vector<MemoryByKind> peaks;
    train_by(program, setup, random_feed(model, kBatch * kUpdates), training, &peaks);
    const auto predicted = memory(program, stage_memory(setup.prepared, training.optimizer, program.rule));
    EXPECT_TRUE(as_predicted(peaks, predicted));
  }
}

}  // namespace
}  // namespace sluice
