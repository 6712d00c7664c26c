// Stages sharded over the ranks that share them train as one device does: FSDP, ZeroPP,
// breadth-first and 1F1B with ZeRO, on real ranks. And what one sees of it besides: how often
// weights are gathered, checkpoints, evaluations in between.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/tests/test_support.h"

namespace sluice {
namespace {

constexpr std::int64_t kShardedBatch = 24;
constexpr int kShardedUpdates = 4;

// A system on `ranks` ranks that form `replicas` data-parallel replicas of one pipeline, so that every stage is on that
// many ranks. FSDP has no pipeline: its ranks are one group anyway.
struct Layout {
  std::string system;
  std::map<std::string, std::string> options;
  int ranks = 4, replicas = 2, microbatches = 8;  // of an update
  std::string sharding = "system";                // as RunCase
};

void PrintTo(const Layout& l, std::ostream* out) {
  *out << l.system << ' ' << testing::PrintToString(l.options) << ", " << l.ranks << " ranks, " << l.replicas
       << " replicas, sharding " << l.sharding;
}

struct Sharded {
  TestSetup setup;
  Program program;

  Sharded(const Layout& l, const ModelGraph& model)
      : setup(l.system, l.options, model, l.ranks, kShardedBatch, l.microbatches, {l.replicas}, l.sharding),
        program(make_program(setup.prepared, l.microbatches)) {}

  SessionSpec spec(const OptimizerSpec& optimizer, const DataFeed& feed) const {
    SessionSpec s = setup.spec(optimizer);
    s.feed = feed;
    return s;
  }
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const char* mode : {"reshard", "keep", "no_sync"})
    for (const int ranks : {2, 4}) all.push_back({"fsdp", {{"accumulation", mode}}, ranks, 1});
  for (const char* reduce : {"unit", "microbatch"})
    for (const char* unit : {"0", "3"}) all.push_back({"zeropp", {{"reduce", reduce}, {"unit", unit}}});
  all.push_back({"breadth_first", {}});
  for (const char* zero : {"0", "1", "3"}) {
    all.push_back({"one_f_one_b", {{"zero", zero}}});
    all.push_back({"one_f_one_b", {{"zero", zero}}, 6, 3, 6});
  }
  // Sharding that the case asks for, of systems that shard nothing themselves.
  all.push_back({"zero_bubble", {}, 4, 2, 8, "visit"});
  all.push_back({"gpipe", {}, 4, 2, 8, "update"});
  return all;
}

std::string name_of_layout(const testing::TestParamInfo<Layout>& info) {
  const Layout& l = info.param;
  std::string name = l.system;
  for (const auto& [key, value] : l.options) name += "_" + key + "_" + value;
  if (l.sharding != "system") name += "_" + l.sharding;
  return name + "_" + std::to_string(l.ranks) + "x" + std::to_string(l.replicas);
}

RunRequest updates(std::int64_t first, int count) {
  RunRequest request;
  request.order = samples_from(first * kShardedBatch, count * kShardedBatch);
  request.iterations = count;
  request.timeout = Seconds(120);
  return request;
}

struct ShardedNumbers {
  std::vector<std::vector<double>> gradients;  // per layer, of the last update
  std::vector<std::vector<double>> weights;    // per layer, after it
  std::vector<double> losses;
};

void add_layers(const Session& session, const ModelGraph& model, ShardedNumbers& numbers) {
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    numbers.gradients.push_back(session.gradients(l));
    numbers.weights.push_back(session.weights(l));
  }
}

ShardedNumbers train(const SessionSpec& spec, const Program& program) {
  const auto session = make_session(spec);
  ShardedNumbers numbers;
  numbers.losses = session->run(program, updates(0, kShardedUpdates)).losses;
  add_layers(*session, spec.model, numbers);
  return numbers;
}

const OptimizerSpec kMomentum{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
// Gradients that are zero except for rounding (an attention's key bias) must not become whole steps.
const OptimizerSpec kAdam{.kind = OptimizerSpec::Kind::adam, .learning_rate = 1e-3, .epsilon = 1e-5};

class ShardedSystem : public testing::TestWithParam<Layout> {};

TEST_P(ShardedSystem, TrainsAsOneDeviceDoes) {
  const Layout& layout = GetParam();
  for (const ModelGraph& model : {test_mlp(), test_cnn(), test_transformer()}) {
    const DataFeed feed = random_feed(model, kShardedBatch * kShardedUpdates);
    for (const OptimizerSpec& optimizer : {kMomentum, kAdam})
      for (const bool exact : {false, true}) {
        SCOPED_TRACE(testing::Message() << model.name << ", " << optimizer.state_tensors()
                                        << " optimizer tensors, double " << exact);
        const TestSetup one("single_device", {}, model, 1, kShardedBatch, layout.microbatches);
        SessionSpec reference_spec = one.spec(optimizer);
        reference_spec.double_precision = exact;
        reference_spec.feed = feed;
        const ShardedNumbers reference = train(reference_spec, make_program(one.prepared, one.microbatches));
        const Sharded sharded(layout, model);
        SessionSpec spec = sharded.spec(optimizer, feed);
        spec.double_precision = exact;
        const ShardedNumbers ours = train(spec, sharded.program);
        const double tolerance = exact ? 1e-12 : 1e-5;
        for (std::size_t l = 0; l < model.layers.size(); ++l) {
          EXPECT_LE(relative_error(ours.gradients[l], reference.gradients[l]), tolerance)
              << "gradient of " << model.layers[l].name;
          EXPECT_LE(relative_error(ours.weights[l], reference.weights[l]), tolerance)
              << "weights of " << model.layers[l].name;
        }
        EXPECT_LE(relative_error(ours.losses, reference.losses), tolerance);
      }
  }
}

TEST_P(ShardedSystem, ContinuesFromACheckpointAsIfItHadNotStopped) {
  const Sharded sharded(GetParam(), test_cnn());
  const DataFeed feed = random_feed(test_cnn(), kShardedBatch * kShardedUpdates);
  const SessionSpec spec = sharded.spec(kAdam, feed);
  const ShardedNumbers straight = train(spec, sharded.program);
  const std::string path = testing::TempDir() + "sharded_" + name_of_layout({GetParam(), 0}) + ".checkpoint";
  Evaluation before;
  {
    const auto first = make_session(spec);
    first->run(sharded.program, updates(0, 2));
    first->save(path);
    before = first->evaluate();
  }
  const auto second = make_session(spec);
  second->load(path);
  EXPECT_EQ(second->updates_done(), 2);
  EXPECT_EQ(second->evaluate().loss, before.loss);
  second->run(sharded.program, updates(2, 2));
  ShardedNumbers continued;
  add_layers(*second, spec.model, continued);
  EXPECT_EQ(continued.weights, straight.weights);
  EXPECT_EQ(continued.gradients, straight.gradients);
  // A checkpoint has whole parameters: ranks that hold their stages whole read it as well.
  SessionSpec whole = spec;
  whole.sharding = {};
  const auto third = make_session(whole);
  third->load(path);
  EXPECT_EQ(third->evaluate().loss, before.loss);
  std::filesystem::remove(path);
}

TEST_P(ShardedSystem, IsEvaluatedWithWholeWeights) {
  const ModelGraph model = test_cnn();
  const Sharded sharded(GetParam(), model);
  const DataFeed feed = random_feed(model, kShardedBatch * kShardedUpdates);
  const TestSetup one("single_device", {}, model, 1, kShardedBatch, 8);
  SessionSpec reference_spec = one.spec(kMomentum);
  reference_spec.feed = feed;
  const auto reference = make_session(reference_spec);
  const auto ours = make_session(sharded.spec(kMomentum, feed));
  const Program program = make_program(one.prepared, 8);
  EXPECT_EQ(ours->evaluate().loss, reference->evaluate().loss);
  std::vector<double> losses;
  for (int u = 0; u < 3; ++u) {
    reference->run(program, updates(u, 1));
    losses.push_back(reference->evaluate().loss);
  }
  RunRequest request = updates(0, 3);
  request.snapshots = {1, 2};
  request.keep_weights = true;
  const RunResult result = ours->run(sharded.program, request);
  EXPECT_NEAR(ours->evaluate().loss, losses[2], 1e-5);
  EXPECT_NEAR(ours->evaluate_snapshot(0).loss, losses[0], 1e-5);
  EXPECT_NEAR(ours->evaluate_snapshot(1).loss, losses[1], 1e-5);
  // A stage's kept weights are those of its layers, in order, without the padding.
  for (std::size_t s = 0; s < sharded.setup.prepared.plan.stages.size(); ++s) {
    std::vector<double> newest;
    for (const int l : sharded.setup.prepared.plan.stages[s].layers) {
      const std::vector<double> of_layer = ours->weights(l);
      newest.insert(newest.end(), of_layer.begin(), of_layer.end());
    }
    ASSERT_EQ(result.weights[s].size(), 3u);
    EXPECT_EQ(result.weights[s].back(), newest);
  }
}

TEST_P(ShardedSystem, HoldsTheBytesThatItsProgramPredicts) {
  for (const ModelGraph& model : {test_mlp(), test_cnn(), test_transformer()})
    for (const OptimizerSpec& optimizer : {kMomentum, kAdam}) {
      const Sharded sharded(GetParam(), model);
      const std::vector<RankMemory> predicted =
          memory(sharded.program, stage_memory(sharded.setup.prepared, optimizer, WeightRule{}));
      const auto session = make_session(sharded.spec(optimizer, random_feed(model, kShardedBatch * kShardedUpdates)));
      session->reset_peak_memory();
      session->run(sharded.program, updates(0, kShardedUpdates));
      const std::vector<MemoryByKind> measured = session->peak_memory();
      ASSERT_EQ(measured.size(), predicted.size());
      for (std::size_t r = 0; r < measured.size(); ++r) {
        SCOPED_TRACE(testing::Message() << model.name << ", " << optimizer.state_tensors()
                                        << " optimizer tensors, rank " << r);
        const MemoryPoint& p = predicted[r].peak;
        EXPECT_EQ(measured[r].weights, p.weights);
        EXPECT_EQ(measured[r].gradients, p.gradients);
        EXPECT_EQ(measured[r].optimizer, p.optimizer);
        EXPECT_NEAR(static_cast<double>(measured[r].activations.value), static_cast<double>(p.activations.value),
                    0.01 * static_cast<double>(p.activations.value));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ShardedSystem, testing::ValuesIn(layouts()), name_of_layout);

// Per rank: gathers and reduce-scatters of a traced update.
std::vector<std::pair<int, int>> collectives_run(const Layout& layout) {
  const Sharded sharded(layout, test_mlp());
  const auto session = make_session(sharded.spec(kMomentum, random_feed(test_mlp(), kShardedBatch * kShardedUpdates)));
  RunRequest request = updates(0, 2);
  request.traced_iteration = 1;
  const RunResult result = session->run(sharded.program, request);
  std::vector<std::pair<int, int>> counts;
  for (const auto& events : result.execution.trace.ranks) {
    auto& [gathers, scatters] = counts.emplace_back();
    for (const TraceEvent& e : events) {
      gathers += e.instruction.opcode == Opcode::gather_weights;
      scatters += e.instruction.opcode == Opcode::reduce_scatter;
    }
  }
  return counts;
}

TEST(Collectives, OfAnUpdateAreAsManyAsThePapersCount) {
  using Counts = std::vector<std::pair<int, int>>;
  // FSDP, 4 micro-batches a rank: 2 m gathers and m reductions, or one of each.
  EXPECT_EQ(collectives_run({"fsdp", {{"accumulation", "reshard"}}, 2, 1}), Counts(2, {8, 4}));
  EXPECT_EQ(collectives_run({"fsdp", {{"accumulation", "keep"}}, 2, 1}), Counts(2, {1, 1}));
  EXPECT_EQ(collectives_run({"fsdp", {{"accumulation", "no_sync"}}, 2, 1}), Counts(2, {8, 1}));
  // ZeroPP, v = 2: (m / U)(2 v - 2) + 1 gathers, a reduction per unit and stage.
  EXPECT_EQ(collectives_run({"zeropp", {{"unit", "2"}}}), Counts(4, {5, 4}));
  EXPECT_EQ(collectives_run({"zeropp", {{"unit", "4"}}}), Counts(4, {3, 2}));
  EXPECT_EQ(collectives_run({"zeropp", {{"unit", "2"}, {"reduce", "microbatch"}}}), Counts(4, {5, 8}));
  // Breadth-first: 2 v - 1 gathers and v reductions, whatever m is.
  EXPECT_EQ(collectives_run({"breadth_first", {}}), Counts(4, {3, 2}));
  EXPECT_EQ(collectives_run({"breadth_first", {}, 4, 2, 4}), Counts(4, {3, 2}));
  // 1F1B: ZeRO-1 one of each a stage; ZeRO-3 for every F and B, and after every B.
  EXPECT_EQ(collectives_run({"one_f_one_b", {{"zero", "0"}}}), Counts(4, {0, 0}));
  EXPECT_EQ(collectives_run({"one_f_one_b", {{"zero", "1"}}}), Counts(4, {1, 1}));
  EXPECT_EQ(collectives_run({"one_f_one_b", {{"zero", "3"}}}), Counts(4, {8, 4}));
}

TEST(ShardedSession, RejectsASystemThatUpdatesWithoutAFlush) {
  const Sharded sharded({"one_f_one_b", {{"zero", "3"}}}, test_mlp());
  SessionSpec spec = sharded.spec(kMomentum, random_feed(test_mlp(), kShardedBatch));
  spec.rule.update = WeightRule::Update::every_backward;
  EXPECT_THROW(make_session(spec), InputError);
}

}  // namespace
}  // namespace sluice
