// Tied layers: one weight, whose gradient is the sum of both layers'.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/sim/communication.h"
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

// Blocks enough for eight stages.
ModelGraph tied_gpt() {
  ModelGraph model = gpt("tied_gpt", 3, 8, 2, 6, 12);
  model.layers[model.layers.size() - 2].tied_to = 0;
  return model;
}
constexpr int kTiedMicros = 8;

struct TiedSubject {
  const char* system;
  std::map<std::string, std::string> options = {};
  int ranks = 2;
};

// Where the rank of a stage's head holds the embedding, too.
std::vector<TiedSubject> systems_with_both_ends_on_a_rank() {
  return {{"zero_bubble", {{"variant", "v"}}, 2},
          {"zero_bubble", {{"variant", "v"}}, 4},
          {"chimera", {}, 4},
          {"chimera", {{"variant", "bitpipe"}}, 4},
          {"dualpipe", {}, 4},
          {"hanayo", {}, 2}};
}

TEST(TiedWeights, TrainAcrossTheStagesOfEverySynchronousSystemAsOnOneDevice) {
  const ModelGraph model = tied_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, kTiedMicros), feed, training);
  for (const System* system : all_systems()) {
    if (system->inference_only || !system->synchronous || system->divides_words) continue;
    int ran = 0;
    for (const auto& options : option_sets(*system))
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(testing::Message() << system->name << ' ' << testing::PrintToString(options) << ", " << ranks);
        try {
          const TestSetup setup(system->name, options, model, ranks, kBatch, kTiedMicros);
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

TEST(TiedWeights, TrainInReplicatedPipelinesAndClippedAsOnOneDevice) {
  const ModelGraph model = tied_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const double clip_norm : {0.0, 0.01}) {
    const Training training{.double_precision = true,
                            .optimizer = {.learning_rate = 0.05, .momentum = 0.9, .clip_norm = clip_norm}};
    const auto with_clipping = [&](TestSetup setup) {
      setup.prepared.clip_norm = clip_norm > 0;
      return setup;
    };
    const Numbers reference =
        train(with_clipping(TestSetup("single_device", {}, model, 1, kBatch, kTiedMicros)), feed, training);
    for (const char* system : {"1f1b", "gpipe", "zero_bubble", "chimera", "interleaved_1f1b"})
      for (const int replicas : {1, 2}) {
        SCOPED_TRACE(testing::Message() << system << ", " << replicas << " replicas, clip_norm " << clip_norm);
        const TestSetup setup(system, {}, model, 4, kBatch, kTiedMicros, {.count = replicas});
        expect_close(train(with_clipping(setup), feed, training), reference, model, 1e-11);
      }
    for (const TiedSubject& s : systems_with_both_ends_on_a_rank())
      expect_close(
          train(with_clipping(TestSetup(s.system, s.options, model, s.ranks, kBatch, kTiedMicros)), feed, training),
          reference, model, 1e-11);
  }
}

// The first parameter of a layer, after every update of a run.
std::vector<std::vector<double>> weights_after_updates(const TestSetup& setup, const RunResult& result, int layer) {
  const ModelGraph& model = running_model(setup.prepared);
  for (std::size_t s = 0; s < setup.prepared.plan.stages.size(); ++s) {
    std::int64_t first = 0;
    for (const int l : setup.prepared.plan.stages[s].layers) {
      if (l == layer) {
        const std::int64_t count = elements(parameters(model.layers[l]).front().shape);
        std::vector<std::vector<double>> weights;
        for (const std::vector<double>& flat : result.weights[s])
          weights.emplace_back(flat.begin() + first, flat.begin() + first + count);
        return weights;
      }
      first += parameter_count(model.layers[l]);
    }
  }
  return {};
}

TEST(TiedWeights, TheirCopiesAreEqualToTheBitAfterEveryUpdate) {
  const ModelGraph model = tied_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const int head = static_cast<int>(model.layers.size()) - 2;
  const std::vector<OptimizerSpec> optimizers = {
      {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01},
      {.kind = OptimizerKind::adamw, .learning_rate = 0.01, .weight_decay = 0.1},
      {.kind = OptimizerKind::muon, .learning_rate = 0.01, .matrices = MatrixParameters::all}};
  for (const OptimizerSpec& optimizer : optimizers)
    for (const int ranks : {2, 3, 4})
      for (const char* system : {"1f1b", "gpipe", "zero_bubble"}) {
        SCOPED_TRACE(testing::Message() << system << ", " << ranks << " ranks, optimizer "
                                        << static_cast<int>(optimizer.kind));
        const TestSetup setup(system, {}, model, ranks, kBatch, kTiedMicros);
        SessionSpec spec = setup.spec(optimizer);
        spec.feed = feed;
        const auto session = make_session(spec);
        RunRequest request;
        request.order = samples_from(0, kBatch * kUpdates);
        request.iterations = kUpdates;
        request.keep_weights = true;
        request.timeout = Seconds(120);
        const RunResult result = session->run(make_program(setup.prepared, kTiedMicros), request);
        const auto table = weights_after_updates(setup, result, 0), copy = weights_after_updates(setup, result, head);
        ASSERT_EQ(table.size(), static_cast<std::size_t>(kUpdates));
        ASSERT_EQ(table[0].size(), 96u);
        EXPECT_NE(table[0], table[1]);
        EXPECT_EQ(copy, table);
      }
}

TEST(TiedWeights, AreHeldTwiceOnTwoRanksAndOnceOnOne) {
  const ModelGraph model = tied_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const auto weights_of = [&](const TiedSubject& s) {
    SCOPED_TRACE(s.system);
    const TestSetup setup(s.system, s.options, model, s.ranks, kBatch, kTiedMicros);
    const Training training;
    const Program program = make_program(setup.prepared, kTiedMicros);
    std::vector<MemoryByKind> peaks;
    train_by(program, setup, feed, training, &peaks);
    EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, training.optimizer, program.rule))));
    Bytes sum;
    for (const MemoryByKind& peak : peaks) sum += peak.weights;
    return sum;
  };
  const Bytes once(4 * parameter_count(model)), table(4 * 12 * 8);
  EXPECT_EQ(weights_of({"1f1b"}), once + table);
  EXPECT_EQ(weights_of({"gpipe", {}, 4}), once + table);
  EXPECT_EQ(weights_of({"zero_bubble", {{"variant", "v"}}, 4}), once);
  EXPECT_EQ(weights_of({"chimera", {}, 4}), once * 2);  // two pipelines, one in each direction
}

TEST(TiedWeights, TheGradientsOfTheirCopiesAreAnAllReduceOfTheWeightsBytes) {
  const ModelGraph model = tied_gpt();
  const TestSetup setup("1f1b", {}, model, 3, kBatch, kTiedMicros);
  const Prepared& p = setup.prepared;
  EXPECT_EQ(p.graph.copies, (std::vector<std::vector<StageId>>{{StageId(0), StageId(2)}}));
  const Program program = make_program(p, kTiedMicros);
  const Costs costs = costs_of(p.plan, p.costs, p.cluster);
  const std::vector<SentBytes> sent = sent_bytes(program, costs);
  EXPECT_EQ(sent[0].reductions, 4 * 12 * 8);  // two steps of half of it
  EXPECT_EQ(sent[1].reductions, 0);
  EXPECT_EQ(sent[2].reductions, 4 * 12 * 8);
  EXPECT_EQ(p.costs.layers[model.layers.size() - 2].parameters, Bytes(4 * 12 * 8));
}

TEST(TiedWeights, PlannersCountThemInEveryStageThatUsesThem) {
  const ModelGraph model = tied_language_model(true);
  const TestSetup setup("single_device", {}, model, 1, kBatch, 4);
  const auto footprint = planned_footprint(setup.prepared, {.learning_rate = 0.1, .momentum = 0.9});
  const auto always = [&](const std::vector<int>& layers) { return footprint(layers).always; };
  constexpr std::int64_t kPerParameter = 4 * 3;  // weight, gradient, momentum
  EXPECT_EQ(always({0}), Bytes(kPerParameter * 96));
  EXPECT_EQ(always({4}), Bytes(kPerParameter * (12 + 96)));
  EXPECT_EQ(always({0, 4}), Bytes(kPerParameter * (12 + 96)));
}

// What the tests above would find if copies were not summed.
TEST(TiedWeights, ACopyWithItsOwnGradientOnlyIsAnotherTraining) {
  const ModelGraph model = tied_gpt();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup setup("1f1b", {}, model, 2, kBatch, kTiedMicros);
  Program program = make_program(setup.prepared, kTiedMicros);
  const Numbers right = train_by(program, setup, feed, {});
  program.step_groups.front().resize(1);
  EXPECT_GT(relative_error(train_by(program, setup, feed, {}).gradients[0], right.gradients[0]), 0.1);
}

TEST(TiedWeights, AreRejectedWhereNoSumOfBothGradientsExists) {
  const ModelGraph model = tied_language_model(true);
  EXPECT_EQ(error_of([&] { TestSetup("pipedream", {}, model, 2, kBatch, 1); }),
            "model 'tied', layer 'head': uses the weight of 'words', and the plan puts them into stages 0 and 1, which "
            "pipedream updates at different times, so that the sum of both gradients never exists; use a system with a "
            "flush, or leave tied_to out, which gives both layers weights of their own");
  EXPECT_EQ(error_of([&] {
              const TestSetup setup("1f1b", {}, model, 4, kBatch, 4, {.count = 2}, "optimizer");
              make_program(setup.prepared, 4);
            }),
            "sharding: stages 0 and 1 use one weight, and ranks of a sharded stage hold slices of it; leave sharding "
            "out, or leave tied_to out of the model");
  EXPECT_EQ(error_of([&] { TestSetup("single_device", {}, model, 2, kBatch, 4, {}, "system", 2); }),
            "model 'tied': 'head' uses the weight of 'words', and tensor parallelism divides layers with weights of "
            "their own; leave "
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
