// Tied layers: one weight, whose gradient is the sum of both layers'.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

// A language model whose head uses the table of its embedding; with `bias`, of which the head has one of its own.
ModelGraph tied_language_model(bool bias) {
  ModelGraph model{.name = "tied", .inputs = {{.shape = {6}, .is_token_ids = true}}, .layers = {}};
  model.layers = {{"words", Embedding{12, 8}, {-1}},
                  {"norm", LayerNorm{8}, {0}},
                  {"attention", Attention{8, 2, true}, {1}},
                  {"sum", Add{}, {0, 2}},
                  {.name = "head", .kind = Linear{8, 12, bias}, .inputs = {3}, .tied_to = 0},
                  {"loss", CrossEntropyLoss{}, {4}}};
  return model;
}

TEST(TiedWeights, AreTrainedAlikeByAllSystemsWithWholeModelsOnTheirRanks) {
  for (const bool bias : {true, false}) {
    const ModelGraph model = tied_language_model(bias);
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    const Training training{.double_precision = true};
    const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 4), feed, training);
    EXPECT_EQ(reference.weights[0].size(), 96u);
    EXPECT_EQ(reference.weights[4].size(), bias ? 12u : 0u);
    expect_close(train(TestSetup("data_parallel", {}, model, 2, kBatch, 4), feed, training), reference, model, 1e-12);
    for (const int ranks : {2, 3})  // of 3 one has padding in its shard
      expect_close(train(TestSetup("fsdp", {}, model, ranks, kBatch, 6), feed, training),
                   train(TestSetup("single_device", {}, model, 1, kBatch, 6), feed, training), model, 1e-12);
    expect_close(train(TestSetup("gpipe", {}, model, 1, kBatch, 4), feed, training), reference, model, 1e-12);
    // One stage, whose weight gradients run on the second rank.
    expect_close(train(TestSetup("layerpipe_style", {}, model, 2, kBatch, 4), feed, training), reference, model, 1e-12);
  }
}

// Both weights start as the table, so that the gradients of the untied model, added up, are the tied one's.
TEST(TiedWeights, HaveTheSumOfBothLayersGradients) {
  const ModelGraph tied = tied_language_model(true), apart = untied(tied);
  const DataFeed feed = random_feed(tied, kBatch);
  const auto gradients = [&](const ModelGraph& model, const std::vector<std::vector<double>>& table_and_head) {
    const TestSetup setup("single_device", {}, model, 1, kBatch, 2);
    SessionSpec spec = setup.spec({.learning_rate = 0.1});
    spec.double_precision = true;
    spec.feed = feed;
    if (!table_and_head.empty()) {
      std::vector<std::vector<std::vector<double>>> initial(model.layers.size());
      const auto from = make_session(spec);
      for (std::size_t l = 0; l < model.layers.size(); ++l) {
        std::size_t at = 0;
        const std::vector<double> all = from->weights(static_cast<int>(l));
        for (const ParameterSpec& p : parameters(model.layers[l])) {
          const auto n = static_cast<std::size_t>(elements(p.shape));
          initial[l].emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                                  all.begin() + static_cast<std::ptrdiff_t>(at + n));
          at += n;
        }
      }
      initial[0][0] = initial[4][0] = table_and_head[0];
      initial[4][1] = table_and_head[1];
      spec.initial = initial;
    }
    const auto session = make_session(spec);
    RunRequest request;
    request.order = samples_from(0, kBatch);
    request.timeout = Seconds(120);
    session->run(make_program(setup.prepared, 2), request);
    return std::pair{session->gradients(0), session->gradients(4)};
  };
  const TestSetup setup("single_device", {}, tied, 1, kBatch, 2);
  SessionSpec spec = setup.spec({.learning_rate = 0.1});
  spec.double_precision = true;
  spec.feed = feed;
  const auto start = make_session(spec);
  const auto [sum, bias] = gradients(tied, {});
  const auto [table, head] = gradients(apart, {start->weights(0), start->weights(4)});
  ASSERT_EQ(head.size(), table.size() + bias.size());
  double largest = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_NEAR(sum[i], table[i] + head[i], 1e-12);
    largest = std::max(largest, std::min(std::abs(table[i]), std::abs(head[i])));
  }
  EXPECT_GT(largest, 1e-3);  // both have a part
  for (std::size_t i = 0; i < bias.size(); ++i) EXPECT_NEAR(bias[i], head[table.size() + i], 1e-12);
}

TEST(TiedWeights, InTwoStagesAreRefused) {
  const ModelGraph model = tied_language_model(true);
  EXPECT_EQ(error_of([&] { TestSetup("1f1b", {}, model, 2, kBatch, 4); }),
            "model 'tied', layer 'head': uses the weight of 'words', and the plan puts them into stages 0 and 1; use a "
            "system with whole models on its ranks (single_device, data_parallel, fsdp), or leave tied_to out, which "
            "gives both layers weights of their own");
  EXPECT_EQ(
      error_of([&] { TestSetup("single_device", {}, model, 2, kBatch, 4, {}, "system", 2); }),
      "model 'tied': 'head' uses the weight of 'words', and devices share layers with weights of their own; leave "
      "tensor out, or leave tied_to out");
}

TEST(TiedWeights, CountOnceInMemoryAndCosts) {
  const ModelGraph model = tied_language_model(true);
  const TestSetup setup("single_device", {}, model, 1, kBatch, 4);
  const CostGraph& costs = setup.prepared.costs;
  EXPECT_EQ(costs.layers[0].parameters, Bytes(4 * 12 * 8));
  EXPECT_EQ(costs.layers[4].parameters, Bytes(4 * 12));
  const CostGraph apart = analytic_costs(untied(model), kBatch / 4, setup.prepared.cluster.devices.front());
  EXPECT_EQ(costs.layers[4].forward, apart.layers[4].forward);
  EXPECT_EQ(costs.layers[4].weight_gradient, apart.layers[4].weight_gradient);
  EXPECT_NEAR(costs.layers[4].update.value, apart.layers[4].update.value * 12 / (12 + 12 * 8), 1e-15);
  std::vector<MemoryByKind> peaks;
  const Training training;
  train_by(make_program(setup.prepared, 4), setup, random_feed(model, kBatch * kUpdates), training, &peaks);
  const Program program = make_program(setup.prepared, 4);
  EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, training.optimizer, program.rule))));
  EXPECT_EQ(peaks[0].weights, Bytes(4 * parameter_count(model)));
}

}  // namespace
}  // namespace sluice
