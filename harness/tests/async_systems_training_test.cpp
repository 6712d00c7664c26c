// What the asynchronous systems promise, on the real executor with real layers: how far a forward lags, which weights a
// backward reads for every kind of layer, what recomputation and replicas change, and that a drained session can be
// saved and restored.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "harness/base/expect_error.h"
#include "harness/program/lowering.h"
#include "harness/tests/test_support.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

// Runs `updates` updates in drained segments and returns the losses.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<double>> weights;  // per layer, at the end
};

Trained train(const TestSetup& setup, SessionSpec spec, const std::vector<int>& segments,
              const std::function<void(Session&, std::size_t)>& after = {}) {
  const auto session = make_session(spec);
  const bool synchronous = setup.prepared.system->synchronous;
  const std::int64_t batch = spec.micro_batch * setup.prepared.microbatches_per_update;
  Trained run;
  std::int64_t done = 0;
  for (std::size_t k = 0; k < segments.size(); ++k) {
    const int updates = segments[k];
    const int m = setup.prepared.microbatches_per_update;
    const Program program = make_program(setup.prepared, synchronous ? m : m * updates);
    RunRequest request;
    request.order = samples_from(done * batch, updates * batch);
    request.iterations = synchronous ? updates : 1;
    request.timeout = Seconds(120);
    const RunResult result = session->run(program, request);
    run.losses.insert(run.losses.end(), result.losses.begin(), result.losses.end());
    done += updates;
    if (after) after(*session, k);
  }
  for (int l = 0; l < static_cast<int>(spec.model.layers.size()); ++l) run.weights.push_back(session->weights(l));
  return run;
}

// Layers that really train and whose weights count updates: K stages of y = x + b. LayerNorm over one feature makes b
// (its normalised input is 0, so nothing flows through it and its weight has no gradient), Add the sum. The loss
// (y + c)^2 / 2c with a large c is y plus a constant, to one part in c: every bias has gradient 1, so its value says
// how many updates a forward has seen.
constexpr double kLarge = 1e7;

ModelGraph bias_chain(int stages) {
  ModelGraph model{.name = "bias chain", .inputs = {{.shape = {1}}}, .layers = {}};
  for (int k = 0; k < stages; ++k) {
    const int before = static_cast<int>(model.layers.size()) - 1;
    model.layers.push_back({.name = "bias" + std::to_string(k), .kind = LayerNorm{1}, .inputs = {before}});
    model.layers.push_back({.name = "add" + std::to_string(k),
                            .kind = Add{},
                            .inputs = {before, static_cast<int>(model.layers.size()) - 1}});
  }
  model.layers.push_back({.name = "loss", .kind = MseLoss{}, .inputs = {static_cast<int>(model.layers.size()) - 1}});
  return model;
}

struct Lag {
  const char* name;
  const char* system;
  Given options;
  double lag;  // updates, summed over the stages
};
void PrintTo(const Lag& lag, std::ostream* out) { *out << lag.name; }

class ConstantGradient : public testing::TestWithParam<Lag> {};

// One stage a bias; every gradient is 1.
void set_up_bias_chain(TestSetup& setup, int stages, int ranks) {
  setup.prepared.plan.stages.clear();
  for (int k = 0; k < ranks; ++k) {
    PlanStage& stage = setup.prepared.plan.stages.emplace_back();
    stage.devices = {DeviceId(k)};
    for (int l = 2 * k; l < (k + 1 == ranks ? 2 * stages + 1 : 2 * k + 2); ++l) stage.layers.push_back(l);
  }
  setup.prepared.ranks = ranks_of(setup.prepared.plan);
  setup.prepared.graph = stage_graph(setup.prepared.plan, setup.prepared.costs);
}
SessionSpec bias_chain_spec(const TestSetup& setup, double rate, std::int64_t samples) {
  SessionSpec spec = setup.spec({.learning_rate = rate});
  spec.double_precision = true;
  spec.loss_scale = 1 / (2 * kLarge);
  DataFeed feed;
  feed.train_samples = samples;
  feed.features_double = [](bool, std::span<const std::int64_t> i, double* out) { std::fill_n(out, i.size(), 1.0); };
  feed.values = [](bool, std::span<const std::int64_t> i, double* out) { std::fill_n(out, i.size(), -kLarge); };
  spec.feed = feed;
  return spec;
}

TEST(Leftover, APartialUpdateIsDividedByItsOwnNumberOfMicroBatches) {
  constexpr int kStages = 3, kPerUpdate = 4;
  constexpr double kRate = 0.1;
  TestSetup setup("pipedream_2bw", {}, bias_chain(kStages), kStages, kPerUpdate, kPerUpdate);
  set_up_bias_chain(setup, kStages, kStages);
  for (const auto leftover : {RunPolicy::Leftover::drop, RunPolicy::Leftover::partial}) {
    setup.prepared.leftover = leftover;
    const bool partial = leftover == RunPolicy::Leftover::partial;
    const Program program = make_program(setup.prepared, 2 * kPerUpdate + 1);
    EXPECT_EQ(program.updates, partial ? 3 : 2);
    const auto session = make_session(bias_chain_spec(setup, kRate, 2 * kPerUpdate + 1));
    RunRequest request;
    request.order = samples_from(0, 2 * kPerUpdate + 1);
    request.timeout = Seconds(120);
    const RunResult result = session->run(program, request);
    EXPECT_EQ(result.losses.size(), partial ? 3u : 2u);
    for (int k = 0; k < kStages; ++k)
      EXPECT_NEAR(session->weights(2 * k).back(), -kRate * (partial ? 3 : 2), 1e-6) << k;
  }
}

TEST_P(ConstantGradient, LossLagsBySumOfTheUpdatesThatForwardsHaveNotSeen) {
  constexpr int kStages = 4, kUpdates = 12;
  constexpr double kRate = 0.1;
  const ModelGraph model = bias_chain(kStages);
  const auto losses = [&](const char* system, const Given& options, int ranks) {
    TestSetup setup(system, options, model, ranks, 1, 1);
    set_up_bias_chain(setup, kStages, ranks);
    return train(setup, bias_chain_spec(setup, kRate, kUpdates), {kUpdates}).losses;
  };
  const std::vector<double> sequential = losses("single_device", {}, 1);
  const std::vector<double> ours = losses(GetParam().system, GetParam().options, kStages);
  EXPECT_NEAR(sequential[5] - sequential[6], kRate * kStages, 1e-4);  // every update: all biases
  for (std::size_t j = kStages + 1; j < ours.size(); ++j)
    EXPECT_NEAR(ours[j] - sequential[j], kRate * GetParam().lag, 1e-4) << "batch " << j;
}

// A frozen bias of stage 1, which is 2 updates late: its part of the lag and of every update is gone.
TEST(FrozenStage, TakesPartInNoUpdateAndNoLag) {
  constexpr int kStages = 4, kUpdates = 12;
  constexpr double kRate = 0.1;
  ModelGraph model = bias_chain(kStages);
  model.layers[2].frozen = true;
  TestSetup setup("pipedream", {}, model, kStages, 1, 1);
  set_up_bias_chain(setup, kStages, kStages);
  const Trained ours = train(setup, bias_chain_spec(setup, kRate, kUpdates), {kUpdates});
  for (int k = 0; k < kStages; ++k)
    EXPECT_NEAR(ours.weights[2 * k].back(), k == 1 ? 0 : -kRate * kUpdates, 1e-5) << "stage " << k;
  // The loss of update j is j updates of three biases further down, less what stages 0, 1 and 2 have not seen.
  EXPECT_NEAR(ours.losses[5] - ours.losses[6], 3 * kRate, 1e-4);
  TestSetup whole("single_device", {}, model, 1, 1, 1);
  set_up_bias_chain(whole, kStages, 1);
  const Trained sequential = train(whole, bias_chain_spec(whole, kRate, kUpdates), {kUpdates});
  for (std::size_t j = kStages + 1; j < ours.losses.size(); ++j)
    EXPECT_NEAR(ours.losses[j] - sequential.losses[j], kRate * (3 + 1 + 0), 1e-4) << "update " << j;
}

INSTANTIATE_TEST_SUITE_P(Systems, ConstantGradient,
                         testing::Values(Lag{"pipedream", "pipedream", {}, 3 + 2 + 1 + 0},
                                         Lag{"naive", "pipedream", {{"weights", "naive"}}, 3 + 2 + 1 + 0},
                                         Lag{"vertical_sync", "pipedream", {{"weights", "vertical_sync"}}, 4 * 3},
                                         Lag{"pipeoptim", "pipeoptim", {}, 0},
                                         Lag{"pipeoptim_code", "pipeoptim", {{"s", "code"}}, -4},
                                         Lag{"spectrain", "spectrain", {}, -(0 + 0 + 1 + 1)},
                                         Lag{"spectrain_reuse", "spectrain", {{"variant", "reuse"}}, 0}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

// Recomputation gives the same numbers wherever it reads the weights the forward read.
TEST(Recomputation, OnTheForwardsWeightsChangesNoBit) {
  const ModelGraph model = test_cnn();
  const DataFeed feed = random_feed(model, 24 * 6);
  const auto weights = [&](const char* system, const Given& options, int m) {
    const TestSetup setup(system, options, model, 3, 24, m);
    SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
    spec.feed = feed;
    return train(setup, spec, {4, 2}).weights;
  };
  EXPECT_EQ(weights("pipedream_2bw", {{"recompute", "yes"}}, 4), weights("pipedream_2bw", {}, 4));
  EXPECT_EQ(weights("pipeoptim", {{"recompute", "predicted"}}, 1), weights("pipeoptim", {}, 1));
  // On the newest weights the activations are others: a system of its own.
  EXPECT_NE(weights("pipeoptim", {{"recompute", "newest"}}, 1), weights("pipeoptim", {}, 1));
}

TEST(Recomputation, RunningStatisticsSeeEveryMicroBatchOnce) {
  const ModelGraph model = deep_cnn({1, 28, 28}, 10);
  const DataFeed feed = random_feed(model, 16);
  const auto loss = [&](bool recompute) {
    const TestSetup setup("one_f_one_b", {}, model, 2, 8, 2);
    Program program = make_program(setup.prepared, 2);
    if (recompute)
      program = lower(setup.prepared.system->schedule({setup.prepared.graph, setup.prepared.ranks.placement, 2, 2},
                                                      setup.prepared.options),
                      setup.prepared.graph, setup.prepared.ranks.placement,
                      {.recompute = WeightRule::Recompute::forward_weights});
    SessionSpec spec = setup.spec({.learning_rate = 0.01});
    spec.feed = feed;
    const auto session = make_session(spec);
    RunRequest request;
    request.order = samples_from(0, 16);
    request.iterations = 2;
    session->run(program, request);
    return session->evaluate().loss;  // reads the running statistics
  };
  EXPECT_EQ(loss(true), loss(false));
}

// The plan of a one-layer-a-stage chain with `replicas` of each stage.
void place(TestSetup& setup, const std::vector<std::vector<int>>& layers, const std::vector<int>& replicas) {
  Plan& plan = setup.prepared.plan;
  plan.stages.clear();
  int device = 0, most = 1;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    PlanStage& stage = plan.stages.emplace_back();
    stage.layers = layers[s];
    for (int r = 0; r < replicas[s]; ++r) stage.devices.push_back(DeviceId(device++));
    most = std::max(most, replicas[s]);
  }
  setup.prepared.cluster = load_cluster("flat:" + std::to_string(device), "");
  setup.prepared.ranks = ranks_of(plan);
  setup.prepared.graph = stage_graph(plan, setup.prepared.costs);
  setup.prepared.microbatches_per_update *= most;
  setup.prepared.micro_batch /= most;
  plan.micro_batch = setup.prepared.micro_batch;
}

TEST(ReplicatedStages, OneStageOfSeveralReplicasIsDataParallelTraining) {
  // Nothing is in flight behind an update, so there is nothing stale.
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, 24 * 5);
  const TestSetup reference("single_device", {}, model, 1, 24, 2);
  SessionSpec plain = reference.spec({.learning_rate = 0.05, .momentum = 0.9});
  plain.feed = feed;
  plain.double_precision = true;
  const Trained one = train(reference, plain, {5});
  TestSetup setup("pipedream", {}, model, 2, 24, 1);
  std::vector<int> all(model.layers.size());
  std::iota(all.begin(), all.end(), 0);
  place(setup, {all}, {2});
  SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
  spec.feed = feed;
  spec.double_precision = true;
  const Trained two = train(setup, spec, {3, 2});
  for (std::size_t u = 0; u < 5; ++u) EXPECT_NEAR(two.losses[u], one.losses[u], 1e-12);
  for (std::size_t l = 0; l < one.weights.size(); ++l)
    for (std::size_t i = 0; i < one.weights[l].size(); ++i) ASSERT_NEAR(two.weights[l][i], one.weights[l][i], 1e-12);
}

// y = a1 (a0 x + b0) + b1 with loss (y - t)^2, trained by PipeDream with two replicas of the first
// stage, written out: the second stage steps after every batch at half the rate, the first after
// two batches with their mean gradient. Two batches are in flight on the first stage (one on each
// replica) and its version is the number of pairs of backwards before the forward.
TEST(ReplicatedStages, AStageWithFewerReplicasStepsOftenerAtALowerRate) {
  constexpr int kBatches = 12;
  constexpr double kRate = 0.1;
  ModelGraph model{.name = "two", .inputs = {{.shape = {1}}}, .layers = {}};
  model.layers.push_back({.name = "a", .kind = Linear{1, 1}, .inputs = {-1}});
  model.layers.push_back({.name = "b", .kind = Linear{1, 1}, .inputs = {0}});
  model.layers.push_back({.name = "loss", .kind = MseLoss{}, .inputs = {1}});
  const auto x = [](std::int64_t j) { return std::cos(static_cast<double>(j)); };
  const auto t = [](std::int64_t j) { return std::sin(2.0 * static_cast<double>(j)); };
  TestSetup setup("pipedream", {}, model, 2, 2, 1);
  place(setup, {{0}, {1, 2}}, {2, 1});
  SessionSpec spec = setup.spec({.learning_rate = kRate});
  spec.double_precision = true;
  spec.initial = {{{{0.8}, {0.1}}, {{-0.7}, {0.2}}, {}}};
  DataFeed feed;
  feed.train_samples = kBatches;
  feed.features_double = [&](bool, std::span<const std::int64_t> i, double* out) {
    for (const std::int64_t j : i) *out++ = x(j);
  };
  feed.values = [&](bool, std::span<const std::int64_t> i, double* out) {
    for (const std::int64_t j : i) *out++ = t(j);
  };
  spec.feed = feed;
  const Trained run = train(setup, spec, {kBatches / 2});
  // Versions of stage 0: replicas run F F B F B ...: with N = 3 workers each has 2 in flight.
  std::vector<std::pair<double, double>> first{{0.8, 0.1}};
  double a1 = -0.7, b1 = 0.2, ga = 0, gb = 0;
  for (int j = 0; j < kBatches; ++j) {
    const int own = j / 2;  // the replica's own batches before this one
    const auto [a0, b0] = first[std::max(0, own - 1)];
    const double h = a0 * x(j) + b0, dy = 2 * (a1 * h + b1 - t(j)), dh = dy * a1;
    ga += dh * x(j) / 2;
    gb += dh / 2;
    a1 -= kRate / 2 * dy * h;
    b1 -= kRate / 2 * dy;
    if (j % 2 == 1) {
      first.push_back({first.back().first - kRate * ga, first.back().second - kRate * gb});
      ga = gb = 0;
    }
  }
  EXPECT_NEAR(run.weights[0][0], first.back().first, 1e-12);
  EXPECT_NEAR(run.weights[0][1], first.back().second, 1e-12);
  EXPECT_NEAR(run.weights[1][0], a1, 1e-12);
  EXPECT_NEAR(run.weights[1][1], b1, 1e-12);
}

struct Resumed {
  const char* system;
  Given options;
  int microbatches;
};
void PrintTo(const Resumed& r, std::ostream* out) { *out << r.system; }

class Checkpoint : public testing::TestWithParam<Resumed> {
 protected:
  const std::string file_ = testing::TempDir() + "/sluice_checkpoint_" + std::string(GetParam().system) +
                            std::to_string(GetParam().options.size());
  void TearDown() override { std::filesystem::remove_all(file_); }
};

// Old versions, momentum, Delta, moving averages, running statistics, dropout's counters: whatever a system keeps from
// one epoch to the next must be in the checkpoint.
TEST_P(Checkpoint, RestoreAndContinueEqualsTheUninterruptedRunBitForBit) {
  const Resumed& c = GetParam();
  const ModelGraph model = deep_cnn({1, 28, 28}, 10);
  const DataFeed feed = random_feed(model, 8 * 8);
  for (const auto kind : {OptimizerSpec::Kind::sgd, OptimizerSpec::Kind::adamw}) {
    const TestSetup setup(c.system, c.options, model, 3, 8, c.microbatches);
    SessionSpec spec = setup.spec({.kind = kind,
                                   .learning_rate = 0.01,
                                   .momentum = kind == OptimizerSpec::Kind::sgd ? 0.9 : 0,
                                   .weight_decay = 0.01});
    spec.feed = feed;
    spec.rule = rule_of(setup.prepared, c.microbatches);
    const Trained whole = train(setup, spec, {5, 3}, [&](Session& session, std::size_t k) {
      if (k == 0) session.save(file_);
    });
    const auto session = make_session(spec);
    session->load(file_);
    EXPECT_EQ(session->updates_done(), 5);
    RunRequest request;
    request.order = samples_from(5 * 8, 3 * 8);
    const bool synchronous = setup.prepared.system->synchronous;
    request.iterations = synchronous ? 3 : 1;
    session->run(make_program(setup.prepared, c.microbatches * (synchronous ? 1 : 3)), request);
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l)
      ASSERT_EQ(session->weights(l), whole.weights[l]) << model.layers[l].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, Checkpoint,
                         testing::Values(Resumed{"one_f_one_b", {}, 4}, Resumed{"pipedream", {}, 1},
                                         Resumed{"pipedream", {{"weights", "ring"}}, 1},
                                         Resumed{"pipedream_2bw", {}, 4}, Resumed{"spectrain", {{"delta", "code"}}, 1},
                                         Resumed{"pipeoptim", {}, 1}, Resumed{"pipemare", {}, 1},
                                         Resumed{"xpipe", {}, 2}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.system;
                           for (const auto& [key, value] : parameter.param.options) name += "_" + value;
                           return name;
                         });

class CheckpointFile : public testing::Test {
 protected:
  const std::string file_ = testing::TempDir() + "/sluice_checkpoint_file";
  void TearDown() override { std::filesystem::remove_all(file_); }
};

TEST_F(CheckpointFile, OfSomethingElseOrCutOffIsRejected) {
  const ModelGraph model = test_mlp();
  const TestSetup setup("pipedream", {}, model, 2, 8, 1);
  SessionSpec spec = setup.spec({.learning_rate = 0.01, .momentum = 0.9});
  spec.feed = random_feed(model, 16);
  make_session(spec)->save(file_);
  SessionSpec other = spec;
  other.optimizer.kind = OptimizerSpec::Kind::adam;
  const auto error = [&](const SessionSpec& s) { return error_of([&] { make_session(s)->load(file_); }); };
  EXPECT_EQ(error(other), file_ + ": is a checkpoint of another optimizer; continue the run it was made by");
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 5);
  EXPECT_EQ(error(spec), file_ + ": is cut off");
  std::filesystem::remove(file_);
  EXPECT_EQ(error(spec), file_ + ": cannot be read: no such file");
}

// A snapshot of the newest weights, taken while batches are in flight, is what a drained pipeline of the same updates
// would be evaluated with, where draining changes nothing before them.
TEST(Snapshots, EvaluateTheWeightsOfTheirUpdateWithoutDraining) {
  const ModelGraph model = deep_cnn({1, 28, 28}, 10);
  const DataFeed feed = random_feed(model, 8 * 8);
  const TestSetup setup("pipedream", {}, model, 3, 8, 1);
  SessionSpec spec = setup.spec({.learning_rate = 0.01, .momentum = 0.9});
  spec.feed = feed;
  const auto session = make_session(spec);
  RunRequest request;
  request.order = samples_from(0, 8 * 8);
  request.snapshots = {8};
  session->run(make_program(setup.prepared, 8), request);
  const Evaluation end = session->evaluate(), copy = session->evaluate_snapshot(0);
  EXPECT_EQ(end.loss, copy.loss);
  EXPECT_EQ(session->evaluate().loss, end.loss);  // and nothing was disturbed
  // After the first update every stage has seen one batch, forwarded on initial weights: as a
  // drained run of one batch, except for the running statistics, which later forwards have moved.
  const auto early = make_session(spec);
  request.snapshots = {1, 4};
  early->run(make_program(setup.prepared, 8), request);
  EXPECT_NE(early->evaluate_snapshot(0).loss, early->evaluate_snapshot(1).loss);
  EXPECT_EQ(early->evaluate().loss, end.loss);
}

}  // namespace
}  // namespace sluice
