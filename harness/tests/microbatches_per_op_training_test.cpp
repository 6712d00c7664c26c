// Stages that take different numbers of micro-batches at once (PlanStage::microbatches_per_op), on real ranks:
// whatever the stages, their numbers of micro-batches per op, replicas and order, plain training's gradients come out,
// and the memory that was predicted.
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>

#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/program/lowering.h"
#include "harness/run/run_case.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

ModelGraph two_branches() {
  return multi_modal_transformer(
      {.branches = 2, .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 12, .sequence = 3, .own_inputs = false});
}
ModelGraph four_branches() {
  return multi_modal_transformer(
      {.branches = 4, .layers = 1, .hidden = 8, .heads = 2, .feed_forward = 12, .sequence = 3, .own_inputs = false});
}
ModelGraph small_dlrm() {
  return recommendation(
      {.dense = 2, .dense_layers = 2, .sparse = 2, .top_layers = 1, .width = 12, .embedding = 4, .own_inputs = false});
}
ModelGraph small_uno() {
  return drug_response({.branches = 3, .layers = 2, .trunk_layers = 2, .width = 10, .own_inputs = false});
}
// With a dropout behind every second layer.
ModelGraph mlp_with_dropout() {
  ModelGraph model;
  model.name = "dropout";
  model.inputs = {{.shape = {20}}};
  const std::vector<LayerKind> kinds = {Linear{20, 16}, Dropout{0.3},  Linear{16, 12},
                                        Dropout{0.5},   Linear{12, 4}, CrossEntropyLoss{}};
  for (std::size_t l = 0; l < kinds.size(); ++l)
    model.layers.push_back({"layer" + std::to_string(l), kinds[l], {static_cast<int>(l) - 1}});
  return model;
}

const std::vector<ModelGraph (*)()> kModels{two_branches,     four_branches, small_dlrm, small_uno,
                                            mlp_with_dropout, test_mlp,      test_gnmt};

// The layers of a chain of stages that begin at `cuts`, stage s on device s.
Plan chain_plan(const ModelGraph& model, std::vector<int> cuts, std::vector<int> microbatches_per_op) {
  Plan plan;
  cuts.push_back(static_cast<int>(model.layers.size()));
  int l = 0;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    PlanStage& stage = plan.stages.emplace_back();
    for (; l < cuts[s]; ++l) stage.layers.push_back(l);
    stage.devices = {DeviceId(s)};
    stage.microbatches_per_op = microbatches_per_op[s];
  }
  return plan;
}

// All forwards, then all backwards.
Schedule gpipe_order(const Prepared& p, int microbatches) {
  Schedule schedule = empty_schedule(p.ranks.placement.rank_count(), microbatches);
  for (const OpKind kind : {OpKind::forward, OpKind::backward})
    for (std::size_t k = 0; k < p.graph.size(); ++k) {
      const StageId s(kind == OpKind::forward ? k : p.graph.size() - 1 - k);
      for (Micro m(0); m.value < microbatches / p.graph.microbatches_per_op_of(s); ++m.value)
        schedule.ranks[p.ranks.placement.rank_of(s, m).index()].push_back({kind, s, m});
    }
  return schedule;
}

PlannedSetup chain_setup(const ModelGraph& model, const std::vector<int>& cuts,
                         const std::vector<int>& microbatches_per_op, int microbatches) {
  PlannedSetup setup(model, microbatches, chain_plan(model, cuts, microbatches_per_op));
  setup.program = lower(gpipe_order(setup.prepared, microbatches), setup.prepared.graph, setup.prepared.ranks.placement,
                        WeightRule{});
  return setup;
}

TEST(GroupedStages, WithGroupingsThatDoNotDivideOneAnotherTrainAsOneDeviceDoes) {
  for (const ModelGraph& model : {mlp_with_dropout(), test_gnmt()}) {
    SCOPED_TRACE(model.name);
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    const Training exact{.double_precision = true};
    const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 12), feed, exact);
    for (const std::vector<int>& microbatches_per_op :
         {std::vector{1, 2, 4}, {4, 6, 3}, {6, 4, 12}, {12, 1, 12}, {3, 3, 3}}) {
      SCOPED_TRACE(testing::PrintToString(microbatches_per_op));
      for (const bool batched : {false, true})
        expect_close(train(chain_setup(model, {2, 4}, microbatches_per_op, 12), feed,
                           {.double_precision = true, .batched = batched}),
                     reference, model, 1e-11);
    }
  }
}

TEST(GroupedStages, ThatAllTakeTheSameAreLargerMicroBatches) {
  // Which is what a batch normalisation sees: its statistics are of what one op takes.
  ModelGraph model = deep_cnn({1, 12, 12}, 4);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers four = train(TestSetup("single_device", {}, model, 1, kBatch, 4), feed);
  expect_same_bits(train(chain_setup(model, {5, 12}, {2, 2, 2}, 8), feed, {}), four, model);
  const Numbers eight = train(TestSetup("single_device", {}, model, 1, kBatch, 8), feed);
  EXPECT_NE(eight.losses, four.losses);
}

// A random cut of a model into stages that a random topological order of its layers allows, each
// with its own number of micro-batches per op and replicas, some recomputing, in a random order of ops that the
// dependencies allow.
struct RandomRun {
  std::mt19937 random;
  int microbatches = 12;
  bool share_ranks = false;  // several stages on one rank

  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(random); }

  std::vector<int> topological_order(const ModelGraph& model) {
    std::vector<int> order, left(model.layers.size());
    std::iota(left.begin(), left.end(), 0);
    std::set<int> done;
    while (!left.empty()) {
      std::vector<int> ready;
      for (const int l : left)
        if (std::ranges::all_of(model.layers[l].inputs, [&](int i) { return i < 0 || done.contains(i); }))
          ready.push_back(l);
      // Mostly on along a branch.
      const int l = upto(2) > 0 ? ready.back() : ready[upto(static_cast<int>(ready.size()) - 1)];
      order.push_back(l);
      done.insert(l);
      std::erase(left, l);
    }
    return order;
  }

  Plan plan(const ModelGraph& model) {
    const std::vector<int> order = topological_order(model);
    const int stages = 1 + upto(std::min<int>(5, static_cast<int>(order.size()) - 2));
    std::set<std::size_t> ends{order.size()};
    while (static_cast<int>(ends.size()) < stages)
      ends.insert(static_cast<std::size_t>(1 + upto(static_cast<int>(order.size()) - 2)));
    const std::vector<int> microbatches_per_op{1, 2, 3, 4, 6};
    Plan plan;
    std::size_t first = 0;
    int device = 0;
    for (const std::size_t end : ends) {
      PlanStage& stage = plan.stages.emplace_back();
      stage.layers.assign(order.begin() + static_cast<std::ptrdiff_t>(first),
                          order.begin() + static_cast<std::ptrdiff_t>(end));
      std::ranges::sort(stage.layers);
      first = end;
      stage.microbatches_per_op = microbatches_per_op[upto(4)];
      stage.recompute = upto(2) == 0;
      if (share_ranks) device = upto(2);
      for (int replicas = 1 + upto(1); replicas > 0; --replicas) {
        stage.devices.emplace_back(device);
        device = share_ranks ? (device + 1) % 3 : device + 1;
      }
    }
    for (std::size_t s = 1; s < plan.stages.size(); ++s)
      if (upto(2) == 0) plan.imposed_edges.push_back({StageId(s - 1), StageId(s)});
    return plan;
  }

  Schedule order(const StageGraph& graph, const Placement& placement) {
    Schedule schedule = empty_schedule(placement.rank_count(), microbatches);
    std::set<std::tuple<OpKind, StageId, Micro>> done;
    std::vector<Op> left;
    for (std::size_t s = 0; s < graph.size(); ++s)
      for (int m = 0; m < microbatches / graph.microbatches_per_op_of(StageId(s)); ++m) {
        left.push_back(forward_op(static_cast<int>(s), m));
        left.push_back(backward_op(static_cast<int>(s), m));
      }
    const auto ready = [&](const Op& op) {
      const bool forward = op.kind == OpKind::forward;
      if (!forward && !done.contains({OpKind::forward, op.stage, op.micro})) return false;
      const auto& sources = forward ? graph.predecessors[op.stage.index()] : graph.successors[op.stage.index()];
      return std::ranges::all_of(sources, [&](StageId s) {
        const auto [first, last] = neighbour_ops(graph, op.stage, op.micro, s);
        for (Micro m(first); m.value < last; ++m.value)
          if (!done.contains({op.kind, s, m})) return false;
        return true;
      });
    };
    while (!left.empty()) {
      std::ranges::shuffle(left, random);
      const auto next = std::ranges::find_if(left, ready);
      schedule.ranks[placement.rank_of(next->stage, next->micro).index()].push_back(*next);
      done.insert({next->kind, next->stage, next->micro});
      left.erase(next);
    }
    return schedule;
  }

  PlannedSetup setup(const ModelGraph& model) {
    PlannedSetup setup(model, microbatches, plan(model));
    const Prepared& p = setup.prepared;
    WeightRule rule{.recompute = WeightRule::Recompute::forward_weights};
    for (const PlanStage& stage : p.plan.stages) rule.recomputing.push_back(stage.recompute);
    setup.program = lower(order(p.graph, p.ranks.placement), p.graph, p.ranks.placement, rule);
    return setup;
  }
};

// Single-device numbers, by model.
const Numbers& reference_of(std::size_t which, const ModelGraph& model, const DataFeed& feed) {
  static std::map<std::size_t, Numbers> known;
  if (!known.contains(which))
    known[which] = train(TestSetup("single_device", {}, model, 1, kBatch, 12), feed, {.double_precision = true});
  return known[which];
}

RC_GTEST_PROP(GroupedStages, TrainAsOneDeviceDoesWhateverTheStages, ()) {
  const auto which = *rc::gen::inRange<std::size_t>(0, kModels.size());
  RandomRun run{.random = std::mt19937(*rc::gen::arbitrary<unsigned>()), .share_ranks = *rc::gen::arbitrary<bool>()};
  const ModelGraph model = kModels[which]();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers& reference = reference_of(which, model, feed);
  const Numbers ours = train(run.setup(model), feed, {.double_precision = true});
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    RC_ASSERT(relative_error(ours.gradients[l], reference.gradients[l]) <= 1e-11);
    RC_ASSERT(relative_error(ours.weights[l], reference.weights[l]) <= 1e-11);
  }
  RC_ASSERT(relative_error(ours.losses, reference.losses) <= 1e-11);
}

RC_GTEST_PROP(GroupedStages, TakeTheMemoryThatIsPredicted, ()) {
  const auto which = *rc::gen::inRange<std::size_t>(0, kModels.size());
  RandomRun run{.random = std::mt19937(*rc::gen::arbitrary<unsigned>())};
  const ModelGraph model = kModels[which]();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const PlannedSetup setup = run.setup(model);
  const Training training;
  const std::vector<RankMemory> predicted = memory(setup.program, stage_memory(setup.prepared, training.optimizer, {}));
  std::vector<MemoryByKind> measured;
  train(setup, feed, training, &measured);
  RC_ASSERT(as_predicted(measured, predicted));
}

// GraphPipe's own plans with a micro-batch for every stage, of the small models of its paper.
class GraphPipePerStage : public testing::TestWithParam<Json> {
 protected:
  static RunCase of(const Json& more) {
    Json entry = {{"system", "graphpipe"},
                  {"options", {{"micro_batch", "per_stage"}, {"rank", "simulated"}}},
                  {"clock", "virtual"},
                  {"costs", "analytic"},
                  {"ranks", 8},
                  {"steps", kUpdates}};
    Json options = entry["options"];
    entry.update(more);
    options.update(entry["options"]);
    entry["options"] = options;
    return expand_case({entry, in_file("test")}).at(0);
  }
};

TEST_P(GraphPipePerStage, TrainsAsOneDeviceDoesInThePredictedMemory) {
  const RunCase c = of(GetParam());
  const Prepared p = prepare(c, test_profiles());
  std::set<int> microbatches_per_op;
  for (const PlanStage& stage : p.plan.stages) microbatches_per_op.insert(stage.microbatches_per_op);
  EXPECT_GE(microbatches_per_op.size(), 2u) << "all stages take the same";
  const ModelGraph& model = p.workload->model;
  const PlannedSetup setup(p, model, c.batch);
  const DataFeed feed = random_feed(model, c.batch * kUpdates);
  const Training exact{.double_precision = true};
  const TestSetup one("single_device", {}, model, 1, c.batch, c.microbatches);
  expect_close(train(setup, feed, exact), train(one, feed, exact), model, 1e-11);
  std::vector<MemoryByKind> measured;
  train(setup, feed, {}, &measured);
  EXPECT_TRUE(as_predicted(measured, memory(setup.program, stage_memory(p, Training().optimizer, WeightRule{}))));
}

TEST_P(GraphPipePerStage, RunsOnBothClocks) {
  for (const char* clock : {"virtual", "wall"}) {
    Json more = GetParam();
    more["clock"] = clock;
    if (clock == std::string("wall")) more.erase("cluster");
    const Record record = run_case(of(more), test_profiles(), {});
    EXPECT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
    EXPECT_EQ(record.curve.size(), static_cast<std::size_t>(kUpdates));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GraphPipePerStage,
    testing::Values(
        Json{{"workload", "mmt_small"}, {"cluster", "flat:8"}},
        Json{{"workload", "mmt_small"}, {"cluster", "flat:8,memory=0.8MiB"}, {"options", {{"rank", "objective"}}}},
        Json{{"workload", "uno_small"}, {"cluster", "flat:8"}},
        Json{{"workload", "dlrm_small"}, {"cluster", "flat:6,memory=0.13MiB"}, {"ranks", 6}}));

}  // namespace
}  // namespace sluice
