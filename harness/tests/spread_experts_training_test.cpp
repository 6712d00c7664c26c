// Experts that are spread over data-parallel replicas train as on one device, which has them all.
#include <gtest/gtest.h>

#include "harness/sim/communication.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

constexpr int kSpreadMicros = 8;
using Layout = PipelineReplicas::Layout;

struct SpreadCase {
  std::string system;
  std::map<std::string, std::string> options = {};
  int ranks = 4;
  PipelineReplicas replicas = {.count = 2};
  bool batched = false;
};
void PrintTo(const SpreadCase& c, std::ostream* out) {
  *out << c.system << ' ' << testing::PrintToString(c.options) << ", " << c.ranks << " ranks";
  if (c.batched) *out << ", batched";
}
const SpreadCase kTwoReplicas{"data_parallel", {}, 2, {}}, kFourReplicas{"data_parallel", {}, 4, {}};

TestSetup whole_setup_of(const SpreadCase& c, const ModelGraph& model) {
  return TestSetup(c.system, c.options, model, c.ranks, kBatch, kSpreadMicros, c.replicas);
}
TestSetup spread_setup_of(const SpreadCase& c, const ModelGraph& model) {
  return with_spread_experts(whole_setup_of(c, model));
}
TestSetup one_device_setup(const ModelGraph& model) {
  return TestSetup("single_device", {}, model, 1, kBatch, kSpreadMicros);
}

void expect_spread_as_one_device(const SpreadCase& c, const ModelGraph& model) {
  SCOPED_TRACE(testing::Message() << testing::PrintToString(c) << ", " << model.name);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers spread = train(spread_setup_of(c, model), feed, {.double_precision = true, .batched = c.batched});
  expect_close(spread, train(one_device_setup(model), feed, {.double_precision = true}), model, 1e-11);
}

// test_mixtral() with these experts in every block.
ModelGraph model_with(const std::function<void(Experts&)>& change) {
  ModelGraph model = test_mixtral();
  for (LayerSpec& layer : model.layers)
    if (auto* experts = std::get_if<Experts>(&layer.kind)) change(*experts);
  return model;
}
ModelGraph model_without_limit() {
  return model_with([](Experts& k) { k.capacity = 0; });
}
ModelGraph model_with_limit() {  // at most 2 of 6 tokens: 8 of 12 rows
  return model_with([](Experts& k) { k.capacity = 0.6; });
}

class SpreadExpertsTraining : public testing::TestWithParam<SpreadCase> {};

// In the first block all tokens are taken, in the second some are dropped.
TEST_P(SpreadExpertsTraining, IsThatOfOneDevice) { expect_spread_as_one_device(GetParam(), test_mixtral()); }

INSTANTIATE_TEST_SUITE_P(Systems, SpreadExpertsTraining,
                         testing::Values(kTwoReplicas, kFourReplicas, SpreadCase{"data_parallel", {}, 2, {}, true},
                                         SpreadCase{"gpipe"}, SpreadCase{"gpipe", {{"recompute", "all"}}},
                                         SpreadCase{"1f1b"}, SpreadCase{"1f1b", {}, 4, {2, Layout::pipelines}},
                                         SpreadCase{"1f1b", {}, 8, {4}}, SpreadCase{"interleaved_1f1b"},
                                         SpreadCase{"hanayo"}, SpreadCase{"zero_bubble", {{"variant", "h1"}}},
                                         SpreadCase{"zero_bubble", {{"variant", "v"}}},
                                         SpreadCase{"zero_bubble", {{"variant", "h1"}}, 4, {2}, true},
                                         SpreadCase{"pipe_offload"}));

TEST(SpreadExpertsOfEveryKind, TrainAsOnOneDevice) {
  for (const std::int64_t top_k : {1, 2, 4})
    for (const bool gated : {true, false})
      for (const double capacity : {0.0, 0.6, 1.25}) {
        SCOPED_TRACE(testing::Message() << "top_k " << top_k << ", gated " << gated << ", capacity " << capacity);
        const ModelGraph model = model_with([&](Experts& k) {
          k.top_k = top_k;
          k.gated = gated;
          k.capacity = capacity;
        });
        expect_spread_as_one_device({"1f1b"}, model);
        expect_spread_as_one_device(kFourReplicas, model);
      }
}

// The input of the first layer has no gradient; eight experts on four replicas.
TEST(SpreadExpertsOfEveryKind, TrainWhereNothingIsBeforeThem) {
  expect_spread_as_one_device(kFourReplicas,
                              {.name = "experts_first",
                               .inputs = {{.shape = {5, 8}}},
                               .layers = {{"experts", Experts{.features = 8, .hidden = 6, .experts = 8}, {-1}},
                                          {"norm", LayerNorm{8}, {0}},
                                          {"again", Experts{.features = 8, .hidden = 4, .experts = 4, .top_k = 1}, {1}},
                                          {"loss", MseLoss{}, {2}}}});
}

// A replica whose experts nobody chooses takes part in every exchange.
TEST(SpreadExpertsOfEveryKind, MayBeWithoutRows) {
  ModelGraph model = model_with([](Experts& k) { k.top_k = 1; });
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const auto numbers = [&](const TestSetup& setup) {
    SessionSpec spec = setup.spec({.learning_rate = 0.05});
    spec.double_precision = true;
    spec.feed = feed;
    // A router of zeros chooses the first expert for every token.
    std::vector<std::vector<std::vector<double>>> initial;
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
      const auto parameters = sluice::parameters(model.layers[static_cast<std::size_t>(l)]);
      auto& of_layer = initial.emplace_back();
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const bool router = p == 0 && std::holds_alternative<Experts>(model.layers[static_cast<std::size_t>(l)].kind);
        auto& values = of_layer.emplace_back(elements(parameters[p].shape), 0.0);
        for (std::size_t i = 0; !router && i < values.size(); ++i) values[i] = 0.3 * std::sin(1.7 * double(i + p) + l);
      }
    }
    spec.initial = initial;
    const auto session = make_session(spec);
    RunRequest request;
    request.order = samples_from(0, kBatch);
    request.timeout = Seconds(60);
    Numbers result;
    result.losses = session->run(make_program(setup.prepared, kSpreadMicros), request).losses;
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
      result.gradients.push_back(session->gradients(l));
      result.weights.push_back(session->weights(l));
    }
    return result;
  };
  expect_close(numbers(spread_setup_of(kFourReplicas, model)), numbers(one_device_setup(model)), model, 1e-11);
}

TEST(SpreadExpertsOfEveryKind, ClipByTheNormOfAllOfThem) {
  const ModelGraph model = test_mixtral();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const auto clipped = [&](TestSetup setup) {
    setup.prepared.clip_norm = true;
    return train(setup, feed,
                 {.double_precision = true, .optimizer = {.learning_rate = 0.05, .momentum = 0.9, .clip_norm = 0.01}});
  };
  const Numbers reference = clipped(one_device_setup(model));
  EXPECT_NE(reference.weights, train(one_device_setup(model), feed, {.double_precision = true}).weights);
  for (const SpreadCase& c : {kFourReplicas, SpreadCase{"1f1b"}})
    expect_close(clipped(spread_setup_of(c, model)), reference, model, 1e-11);
}

TEST(SpreadExpertsOfEveryKind, TakeMicroBatchesOfDifferentSizes) {
  const ModelGraph model = test_mixtral();
  const MicrobatchSizes sizes({2, 4, 5, 1, 2, 4, 5, 1});  // of both pipelines
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const auto setup = [&](const std::string& system, int ranks, int replicas) {
    return TestSetup(system, {}, model, ranks, kBatch, kSpreadMicros, {replicas}, "system", 1, sizes);
  };
  expect_close(train(with_spread_experts(setup("1f1b", 4, 2)), feed, {.double_precision = true}),
               train(setup("single_device", 1, 1), feed, {.double_precision = true}), model, 1e-11);
}

RunResult run_of(Session& session, const TestSetup& setup, std::int64_t first, bool keep_weights = false) {
  RunRequest request;
  request.order = samples_from(first * kBatch, kBatch * 2);
  request.iterations = 2;
  request.timeout = Seconds(60);
  request.keep_weights = keep_weights;
  request.snapshots = {1};
  return session.run(make_program(setup.prepared, kSpreadMicros), request);
}
std::unique_ptr<Session> session_of(const TestSetup& setup, const DataFeed& feed) {
  SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
  spec.double_precision = true;
  spec.feed = feed;
  return make_session(spec);
}

TEST(SpreadExpertsBetweenRuns, AreEvaluatedAsOneModel) {
  const ModelGraph model = test_mixtral();
  const DataFeed feed = random_feed(model, kBatch * 4);
  const auto evaluate = [&](const TestSetup& setup) {
    const auto session = session_of(setup, feed);
    const RunResult result = run_of(*session, setup, 0, true);
    const Evaluation snapshot = session->evaluate_snapshot(0), end = session->evaluate();
    std::vector<double> numbers{snapshot.loss, snapshot.accuracy, end.loss, end.accuracy};
    for (const auto& stage : result.weights)  // of the last update, in the order of the layers
      numbers.insert(numbers.end(), stage.back().begin(), stage.back().end());
    return numbers;
  };
  const auto one = evaluate(one_device_setup(model));
  for (const SpreadCase& c : {kTwoReplicas, SpreadCase{"1f1b"}})
    EXPECT_LE(relative_error(evaluate(spread_setup_of(c, model)), one), 1e-11);
}

// One device goes on with what two replicas have saved, and they with what it has saved.
TEST(SpreadExpertsBetweenRuns, AreWholeInACheckpoint) {
  const ModelGraph model = test_mixtral();
  const DataFeed feed = random_feed(model, kBatch * 4);
  const TestSetup one = one_device_setup(model), two = spread_setup_of(kTwoReplicas, model);
  const auto reference = session_of(one, feed);
  run_of(*reference, one, 0), run_of(*reference, one, 2);
  const std::string file = testing::TempDir() + "spread_experts.checkpoint";
  for (const auto& [before, after] : {std::pair{&one, &two}, std::pair{&two, &one}, std::pair{&two, &two}}) {
    const auto first = session_of(*before, feed), second = session_of(*after, feed);
    run_of(*first, *before, 0);
    first->save(file);
    second->load(file);
    run_of(*second, *after, 2);
    EXPECT_EQ(second->updates_done(), 4);
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l)
      EXPECT_LE(relative_error(second->weights(l), reference->weights(l)), 1e-11) << model.layers[std::size_t(l)].name;
  }
}

TEST(SpreadExpertsMemory, IsWhatIsPredicted) {
  const ModelGraph model = model_with_limit();  // then kept rows do not depend on the routing
  for (const SpreadCase& c :
       {kTwoReplicas, kFourReplicas, SpreadCase{"1f1b"}, SpreadCase{"zero_bubble", {{"variant", "h1"}}},
        SpreadCase{"gpipe", {{"recompute", "all"}}}}) {
    SCOPED_TRACE(testing::PrintToString(c));
    const TestSetup setup = spread_setup_of(c, model);
    const OptimizerSpec optimizer{.learning_rate = 0.05, .momentum = 0.9};
    const Program program = make_program(setup.prepared, kSpreadMicros);
    std::vector<MemoryByKind> peaks;
    train_by(program, setup, random_feed(model, kBatch * kUpdates), {.optimizer = optimizer}, &peaks);
    EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, optimizer, program.rule))));
  }
}

// 4 experts of 3 matrices of 12 x 16 in two layers: half of them are 4608 bytes a layer.
TEST(SpreadExpertsMemory, HasAPartOfTheExperts) {
  const ModelGraph model = model_with_limit();
  const auto peaks_of = [&](const TestSetup& setup) {
    std::vector<MemoryByKind> peaks;
    train_by(make_program(setup.prepared, kSpreadMicros), setup, random_feed(model, kBatch * kUpdates), {}, &peaks);
    return peaks;
  };
  const auto whole = peaks_of(whole_setup_of(kTwoReplicas, model)),
             spread = peaks_of(spread_setup_of(kTwoReplicas, model));
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(whole[r].weights - spread[r].weights, Bytes(2 * 4608));
    EXPECT_EQ(whole[r].gradients - spread[r].gradients, Bytes(2 * 4608));
    EXPECT_EQ(whole[r].optimizer - spread[r].optimizer, Bytes(2 * 4608));
  }
}

// Which replica gets how many rows depends on the routing; all of them together get those of all tokens.
TEST(SpreadExpertsExchange, AsOftenAndAllTogetherAsMuchAsBothClocksAreTold) {
  const ModelGraph model = model_without_limit();
  for (const SpreadCase& c : {kTwoReplicas, SpreadCase{"1f1b"}, SpreadCase{"gpipe", {{"recompute", "all"}}}}) {
    SCOPED_TRACE(testing::PrintToString(c));
    const TestSetup setup = spread_setup_of(c, model);
    const Program program = make_program(setup.prepared, kSpreadMicros);
    SessionSpec spec = setup.spec({.learning_rate = 0.05});
    spec.feed = random_feed(model, kBatch);
    RunRequest request;
    request.order = samples_from(0, kBatch);
    request.timeout = Seconds(60);
    const std::vector<TensorSums> counted = make_session(spec)->run(program, request).group_sums;
    const std::vector<TensorSums> told =
        expert_exchanges(program, running_model(setup.prepared), setup.prepared.plan, setup.prepared.micro_batch);
    ASSERT_EQ(counted.size(), told.size());
    TensorSums all, all_told;
    for (std::size_t r = 0; r < counted.size(); ++r) {
      EXPECT_EQ(counted[r].count, told[r].count);
      all += counted[r], all_told += told[r];
    }
    EXPECT_EQ(all, all_told);
    EXPECT_GT(all.bytes, 0);
  }
}

}  // namespace
}  // namespace sluice
