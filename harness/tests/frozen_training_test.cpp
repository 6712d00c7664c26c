// Frozen layers: their weights stay as they are in every system, what is trained is trained as on one device, and they
// have no gradient, no optimizer state and one copy of their weights.
#include <gtest/gtest.h>

#include "harness/sim/communication.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

constexpr int kFrozenMicros = 8;

ModelGraph freeze(ModelGraph model, const std::function<bool(const std::string&)>& frozen) {
  for (LayerSpec& layer : model.layers) layer.frozen = parameter_count(layer) > 0 && frozen(layer.name);
  return model;
}

// The model of test_fine_tuned(), all of it trained.
ModelGraph whole_gpt() {
  return freeze(test_fine_tuned(), [](const std::string&) { return false; });
}

std::vector<std::vector<double>> initial_of(const TestSetup& setup, const DataFeed& feed, bool double_precision) {
  SessionSpec spec = setup.spec({});
  spec.feed = feed;
  spec.double_precision = double_precision;
  const auto session = make_session(spec);
  std::vector<std::vector<double>> weights;
  for (std::size_t l = 0; l < setup.workload->model.layers.size(); ++l)
    weights.push_back(session->weights(static_cast<int>(l)));
  return weights;
}

TEST(FrozenLayers, LeaveTheGradientsOfTheOthersAsTheyAre) {
  const ModelGraph whole = whole_gpt(), model = test_fine_tuned();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  const TestSetup setup("single_device", {}, model, 1, kBatch, kFrozenMicros);
  const Numbers all = train(TestSetup("single_device", {}, whole, 1, kBatch, kFrozenMicros), feed, training);
  const Numbers ours = train(setup, feed, training);
  const auto initial = initial_of(setup, feed, true);
  int frozen = 0;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    SCOPED_TRACE(model.layers[l].name);
    if (model.layers[l].frozen) {
      ++frozen;
      EXPECT_TRUE(ours.gradients[l].empty());
      EXPECT_EQ(ours.weights[l], initial[l]);
      EXPECT_NE(all.weights[l], initial[l]);
    } else {
      EXPECT_EQ(ours.gradients[l], all.gradients[l]);
      if (parameter_count(model.layers[l]) > 0) {
        EXPECT_NE(ours.weights[l], initial[l]);
      }
    }
  }
  EXPECT_EQ(frozen, 2 + 5 + 2 + 2);
}

TEST(FrozenLayers, TrainInEverySynchronousSystemAsOnOneDevice) {
  const ModelGraph model = test_fine_tuned();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, kFrozenMicros), feed, training);
  for (const System* system : all_systems()) {
    if (system->inference_only || !system->synchronous) continue;
    int ran = 0;
    for (const auto& options : option_sets(*system))
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(testing::Message() << system->name << ' ' << testing::PrintToString(options) << ", " << ranks);
        try {
          const TestSetup setup(system->name, options, model, ranks, kBatch, kFrozenMicros);
          expect_close(train(setup, feed, training), reference, model, 1e-11);
          ++ran;
        } catch (const InputError&) {
          // A combination that the system does not support.
        }
        if (HasFailure()) return;
      }
    EXPECT_GT(ran, 0) << system->name;
  }
}

TEST(FrozenLayers, TrainReplicatedShardedSharedAndClippedAsOnOneDevice) {
  const ModelGraph model = test_fine_tuned();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const double clip_norm : {0.0, 0.01}) {
    const Training training{
        .double_precision = true,
        .optimizer = {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01, .clip_norm = clip_norm}};
    const auto with_clipping = [&](TestSetup setup) {
      setup.prepared.clip_norm = clip_norm > 0;
      return setup;
    };
    const Numbers reference =
        train(with_clipping(TestSetup("single_device", {}, model, 1, kBatch, kFrozenMicros)), feed, training);
    for (const char* system : {"1f1b", "zero_bubble"}) {
      SCOPED_TRACE(system);
      expect_close(
          train(with_clipping(TestSetup(system, {}, model, 4, kBatch, kFrozenMicros, {.count = 2})), feed, training),
          reference, model, 1e-11);
    }
    for (const char* sharding : {"optimizer", "visit", "use"}) {
      SCOPED_TRACE(sharding);
      expect_close(train(with_clipping(TestSetup("gpipe", {}, model, 4, kBatch, kFrozenMicros, {.count = 2}, sharding)),
                         feed, training),
                   reference, model, 1e-11);
    }
    expect_close(
        train(with_clipping(TestSetup("1f1b", {}, model, 4, kBatch, kFrozenMicros, {}, "system", 2)), feed, training),
        reference, model, 1e-11);
  }
}

TEST(FrozenLayers, DoNotMoveUnderAnyOptimizer) {
  const ModelGraph model = test_fine_tuned();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const OptimizerSpec& optimizer :
       {OptimizerSpec{.kind = OptimizerKind::adamw, .learning_rate = 0.01, .weight_decay = 0.1},
        OptimizerSpec{.kind = OptimizerKind::muon, .learning_rate = 0.01, .matrices = MatrixParameters::all}}) {
    const Training training{.optimizer = optimizer};
    const TestSetup setup("1f1b", {}, model, 3, kBatch, kFrozenMicros);
    const auto initial = initial_of(setup, feed, false);
    const Numbers ours = train(setup, feed, training);
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      if (!model.layers[l].frozen) continue;
      EXPECT_EQ(ours.weights[l], initial[l]) << model.layers[l].name;
    }
  }
}

TEST(FrozenLayers, DoNotMoveInAsynchronousSystems) {
  const ModelGraph model = test_fine_tuned();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  int systems = 0;
  for (const System* system : all_systems()) {
    if (system->inference_only || system->synchronous) continue;
    SCOPED_TRACE(system->name);
    const TestSetup setup(system->name, {}, model, 3, kBatch, system->accumulates ? 4 : 1);
    const auto initial = initial_of(setup, feed, false);
    const int micros = setup.prepared.microbatches_per_update * kUpdates;
    const Numbers ours = train_by(make_program(setup.prepared, micros), setup, feed, {});
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      if (parameter_count(model.layers[l]) == 0) continue;
      EXPECT_EQ(ours.weights[l] == initial[l], model.layers[l].frozen) << model.layers[l].name;
    }
    ++systems;
  }
  EXPECT_GE(systems, 5);
}

// A tied head of a frozen table: two stages, a copy in each, and no message of its gradient.
TEST(FrozenLayers, TiedOnesAreCopiedIntoTheirStagesWithoutAnAllReduce) {
  ModelGraph model = freeze(whole_gpt(), [](const std::string& name) { return name == "embedding" || name == "head"; });
  model.layers[model.layers.size() - 2].tied_to = 0;
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, kFrozenMicros), feed, training);
  for (const char* system : {"1f1b", "zero_bubble", "chimera"}) {
    SCOPED_TRACE(system);
    const TestSetup setup(system, {}, model, 2, kBatch, kFrozenMicros);
    EXPECT_TRUE(setup.prepared.graph.copies.empty());
    expect_close(train(setup, feed, training), reference, model, 1e-11);
  }
  const TestSetup pipedream("pipedream", {}, model, 2, kBatch, 1);  // which rejects a trained one
  EXPECT_EQ(train(pipedream, feed).weights[0], initial_of(pipedream, feed, false)[0]);
}

// 1F1B of 3 stages with a frozen first one: 4 ranks' worth of bytes by hand.
TEST(FrozenLayers, HoldTheirWeightsAndNothingElse) {
  ModelGraph model = mlp_classifier({8, 8, 8, 8, 4}, {8});
  model = freeze(model, [&](const std::string& name) { return name == model.layers.front().name; });
  Plan plan;
  for (int s = 0; s < 2; ++s) plan.stages.push_back({.layers = {}, .devices = {DeviceId(s)}});
  int first = -1;
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    if (first < 0 && parameter_count(model.layers[l]) > 0) first = l;
    plan.stages[first >= 0 && l > first ? 1 : 0].layers.push_back(l);
  }
  model.layers[first].frozen = true;
  const PlannedSetup setup(model, 4, plan);
  const Program program = make_program(setup.prepared, 4);
  const Training training;
  std::vector<MemoryByKind> peaks;
  train_by(program, setup, random_feed(model, kBatch * kUpdates), training, &peaks);
  EXPECT_EQ(peaks[0].weights, Bytes(4 * (8 * 8 + 8)));
  EXPECT_EQ(peaks[0].gradients, Bytes(0));
  EXPECT_EQ(peaks[0].optimizer, Bytes(0));
  EXPECT_EQ(peaks[0].activations, Bytes(0));  // nobody asks for its gradient
  const auto predicted = memory(program, stage_memory(setup.prepared, training.optimizer, program.rule));
  EXPECT_EQ(predicted[0].peak.weights, Bytes(4 * (8 * 8 + 8)));
  EXPECT_EQ(predicted[0].peak.activations, Bytes(0));
  EXPECT_TRUE(as_predicted(peaks, predicted));
  // The gradient that comes back to it is empty.
  const Costs costs = costs_of(setup.prepared.plan, setup.prepared.costs, setup.prepared.cluster);
  EXPECT_EQ(costs.stages[0].input_gradient, Seconds(0));
  EXPECT_EQ(costs.stages[0].weight_gradient, Seconds(0));
  EXPECT_EQ(costs.stages[0].update, Seconds(0));
  EXPECT_EQ(costs.stages[0].gradients(), Bytes(0));
  const std::vector<SentBytes> sent = sent_bytes(program, costs);
  EXPECT_EQ(sent[0].messages, 4 * kBatch * 8);
  EXPECT_EQ(sent[1].messages, 0);
}

// Chunks of a sequence read the keys and values of frozen attention that no backward asks for.
TEST(FrozenLayers, KeepKeysAndValuesForLaterChunksOfASequence) {
  const ModelGraph model = test_fine_tuned();
  const TestSetup setup("seq1f1b", {}, model, 2, kBatch, kFrozenMicros);
  ASSERT_GT(setup.prepared.plan.sequence.count, 1);
  const Program program = make_program(setup.prepared, kFrozenMicros);
  const Training training;
  std::vector<MemoryByKind> peaks;
  train_by(program, setup, random_feed(model, kBatch * kUpdates), training, &peaks);
  EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, training.optimizer, program.rule))));
}

TEST(FrozenLayers, AreInACheckpointsSessionAgain) {
  const ModelGraph model = test_fine_tuned();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup setup("1f1b", {}, model, 3, kBatch, kFrozenMicros);
  SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
  spec.feed = feed;
  const Program program = make_program(setup.prepared, kFrozenMicros);
  const auto update = [&](Session& session, int k) {
    RunRequest request;
    request.order = samples_from(k * kBatch, kBatch);
    request.timeout = Seconds(120);
    return session.run(program, request).losses;
  };
  const std::string file = testing::TempDir() + "/frozen_checkpoint";
  const auto through = make_session(spec), first = make_session(spec), second = make_session(spec);
  update(*through, 0);
  update(*first, 0);
  first->save(file);
  second->load(file);
  EXPECT_EQ(update(*through, 1), update(*second, 1));
  EXPECT_EQ(through->evaluate().loss, second->evaluate().loss);
  // Layers that move to another rank take their weights with them.
  Plan plan = setup.prepared.plan;
  plan.stages[1].layers.insert(plan.stages[1].layers.begin(), plan.stages[0].layers.back());
  plan.stages[0].layers.pop_back();
  second->repartition(plan);
  EXPECT_NEAR(through->evaluate().loss, second->evaluate().loss, 1e-6);
}

}  // namespace
}  // namespace sluice
