// Plans that say more than which layers go where - replicated stages in an order of their own (SPP), groups of unequal
// devices (Asteroid), stages that recompute (Piper), replicas of an asynchronous pipeline (PipeDream-2BW) - on real
// ranks.
#include <functional>
#include <numeric>
#include <optional>

#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

TEST(ListOrders, OfReplicatedStagesTrainAsOneDeviceDoes) {
  for (const ModelGraph& model : {test_mlp(), test_transformer()}) {
    SCOPED_TRACE(model.name);
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    const Training exact{.double_precision = true};
    const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 8), feed, exact);
    for (const char* order : {"strict", "ready"})
      for (const char* merged : {"yes", "no"})
        for (const char* stages : {"1", "2", "3"}) {
          SCOPED_TRACE(testing::Message() << order << ", merge_last=" << merged << ", " << stages);
          const TestSetup setup("spp", {{"order", order}, {"merge_last", merged}, {"stages", stages}}, model, 5, kBatch,
                                8);
          const Prepared& p = setup.prepared;
          EXPECT_EQ(p.plan.stages.size(), static_cast<std::size_t>(std::stoi(stages)));
          EXPECT_EQ(p.ranks.devices.size(), 5u);  // so some stage is replicated
          EXPECT_EQ(p.order.empty(), order == std::string("strict"));
          expect_close(train(setup, feed, exact), reference, model, 1e-12);
        }
  }
}

TEST(ListOrders, RunOnRealRanksInTheOrderThatWasPlanned) {
  const ModelGraph model = test_transformer();
  const TestSetup setup("spp", {{"order", "ready"}, {"stages", "2"}}, model, 4, kBatch, 8);
  const Program program = make_program(setup.prepared, 8);
  SessionSpec spec = setup.spec({});
  spec.feed = random_feed(model, kBatch);
  RunRequest request;
  request.order = samples_from(0, kBatch);
  request.traced_iteration = 0;
  request.timeout = Seconds(60);
  const Trace trace = make_session(spec)->run(program, request).execution.trace;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    std::vector<std::string> planned, ran;
    for (const auto& ops : setup.prepared.order)
      for (const Op& op : ops)
        if (program.placement.rank_of(op.stage, op.micro) == Rank(r)) planned.push_back(to_text(op));
    for (const TraceEvent& e : trace.ranks[r])
      if (is_compute(e.instruction.opcode)) ran.push_back(to_text(e.instruction));
    EXPECT_EQ(ran, planned);
  }
}

// Asteroid's plan on 4 devices of unequal speed with links of `bandwidth` bytes/s.
TestSetup asteroid_setup(const ModelGraph& model, double bandwidth, const char* in_flight) {
  TestSetup setup("asteroid", {{"in_flight", in_flight}}, model, 4, kBatch, 8);
  Prepared& p = setup.prepared;
  p.cluster = load_cluster("flat:4,bandwidth=" + std::to_string(bandwidth) + "B/s", "");
  p.cluster.devices[2].speed = 0.5;
  p.cluster.devices[3].speed = 0.25;
  adopt_pipeline(p, make_plan(*p.system, {p.costs, p.cluster, 4, kBatch, 8, {}}, p.options));
  return setup;
}

TEST(UnequalDevices, OfAnAsteroidPlanTrainAsOneDeviceDoesInThePredictedMemory) {
  const ModelGraph model = test_transformer();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training exact{.double_precision = true}, training;
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, 8), feed, exact);
  for (const char* in_flight : {"steps", "stages"}) {
    SCOPED_TRACE(in_flight);
    // The fastest links with which it plans several stages, one of them replicated.
    const auto is_hybrid = [](const TestSetup& setup) {
      const auto& stages = setup.prepared.plan.stages;
      return stages.size() > 1 && setup.prepared.ranks.devices.size() > stages.size();
    };
    double bandwidth = 1e12;
    while (bandwidth > 1 && !is_hybrid(asteroid_setup(model, bandwidth, in_flight))) bandwidth /= 2;
    ASSERT_GT(bandwidth, 1);
    const TestSetup setup = asteroid_setup(model, bandwidth, in_flight);
    expect_close(train(setup, feed, exact), reference, model, 1e-12);
    const Program program = make_program(setup.prepared, 8);
    std::vector<MemoryByKind> measured;
    train_by(program, setup, feed, training, &measured);
    EXPECT_TRUE(
        as_predicted(measured, memory(program, stage_memory(setup.prepared, training.optimizer, program.rule))));
  }
}

TEST(ImposedEdges, OfASequenceOfBranchesTrainAsOneDeviceDoes) {
  // Stages of different branches wait for one another and exchange nothing.
  const ModelGraph model =
      drug_response({.branches = 3, .layers = 2, .trunk_layers = 2, .width = 10, .own_inputs = false});
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training exact{.double_precision = true};
  const TestSetup setup("graphpipe", {{"partition", "sequential"}, {"max_degree", "1"}}, model, 4, kBatch, 8);
  EXPECT_FALSE(setup.prepared.plan.imposed_edges.empty());
  expect_close(train(setup, feed, exact), train(TestSetup("single_device", {}, model, 1, kBatch, 8), feed, exact),
               model, 1e-12);
}

// Piper's plan on 3 devices of `kib` KiB; none: nothing fits.
std::optional<TestSetup> piper_setup(const ModelGraph& model, int kib, const char* recompute) {
  TestSetup setup("piper", {{"recompute", recompute}}, model, 3, kBatch, 8);
  Prepared& p = setup.prepared;
  p.cluster = load_cluster("flat:3,memory=" + std::to_string(kib) + "KiB", "");
  try {
    p.plan = make_plan(*p.system, {p.costs, p.cluster, 3, kBatch, 8, {}}, p.options).plan;
  } catch (const InputError&) {
    return {};
  }
  p.ranks = ranks_of(p.plan);
  p.graph = stage_graph(p.plan, p.costs);
  return setup;
}

TEST(RecomputingStages, OfAPiperPlanTrainAsOneDeviceDoesInThePredictedMemory) {
  const ModelGraph model = test_transformer();
  // The most memory with which stages of every kind are planned.
  std::optional<TestSetup> found;
  int kib = 200;
  const auto is_mixed = [](const TestSetup& setup) {
    const auto& stages = setup.prepared.plan.stages;
    const auto n = std::ranges::count_if(stages, &PlanStage::recompute);
    return n > 0 && n < std::ssize(stages);
  };
  for (; kib > 0; --kib) {
    found = piper_setup(model, kib, "yes");
    if (found && is_mixed(*found)) break;
  }
  ASSERT_GT(kib, 0);
  const auto kept = piper_setup(model, kib, "no");
  EXPECT_TRUE(!kept || kept->prepared.plan.search.objective > found->prepared.plan.search.objective);

  const Program program = make_program(found->prepared, 8);
  const auto& stages = found->prepared.plan.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::ptrdiff_t again = 0;
    for (const Rank r : program.placement.stages[s])
      again += std::ranges::count(program.ranks[r.index()], Opcode::recompute, &Instruction::opcode);
    EXPECT_EQ(again, stages[s].recompute ? 8 : 0);
  }
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training exact{.double_precision = true};
  const TestSetup one("single_device", {}, model, 1, kBatch, 8);
  expect_close(train(*found, feed, exact), train(one, feed, exact), model, 1e-12);
  std::vector<MemoryByKind> measured;
  const Training training;
  train_by(program, *found, feed, training, &measured);
  EXPECT_TRUE(as_predicted(measured, memory(program, stage_memory(found->prepared, training.optimizer, program.rule))));
}

// 2BW's plan on 4 devices of `kib` KiB; none: nothing fits.
std::optional<TestSetup> two_bw_setup(const ModelGraph& model, int kib) {
  TestSetup setup("pipedream_2bw", {{"planner", "paper"}}, model, 4, kBatch, 8);
  Prepared& p = setup.prepared;
  p.cluster = load_cluster("flat:4,memory=" + std::to_string(kib) + "KiB", "");
  try {
    adopt_pipeline(p, make_plan(*p.system, {p.costs, p.cluster, 4, kBatch, 8, {}}, p.options));
  } catch (const InputError&) {
    return {};
  }
  return setup;
}

// The paper's rule, W(t+1) = W(t) - step along the gradient of batch t at W(t-1), with gradients of
// one device that is given the weights: no pipeline, no versions.
TEST(ReplicasOfAPipeline, OfATwoBwPlanTrainByTheRuleOfTwoBuffers) {
  const ModelGraph model = test_mlp();
  std::optional<TestSetup> found;  // the most memory with which a replica has several stages
  for (int kib = 1000; kib > 0; --kib) {
    found = two_bw_setup(model, kib);
    if (found && found->prepared.plan.stages.size() > 1) break;
  }
  ASSERT_TRUE(found);
  const Prepared& p = found->prepared;
  ASSERT_EQ(p.plan.stages.size(), 2u);
  for (const PlanStage& stage : p.plan.stages) ASSERT_EQ(stage.devices.size(), 2u);

  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training exact{.double_precision = true};
  const Numbers ours = train_by(make_program(p, kUpdates * p.microbatches_per_update), *found, feed, exact);

  const TestSetup one("single_device", {}, model, 1, kBatch, 8);
  const auto gradient = [&](const std::optional<std::vector<std::vector<double>>>& at, int batch, double& loss,
                            std::vector<std::vector<double>>& weights) {
    SessionSpec spec = one.spec(exact.optimizer);
    spec.double_precision = true;
    spec.feed = feed;
    if (at) {
      spec.initial.emplace();
      for (std::size_t l = 0; l < model.layers.size(); ++l) {
        auto& layer = spec.initial->emplace_back();
        auto from = (*at)[l].begin();
        for (const ParameterSpec& parameter : parameters(model.layers[l])) {
          const std::int64_t n =
              std::accumulate(parameter.shape.begin(), parameter.shape.end(), std::int64_t{1}, std::multiplies<>());
          layer.emplace_back(from, from + n);
          from += n;
        }
      }
    }
    const auto session = make_session(spec);
    const auto layers = static_cast<int>(model.layers.size());
    weights.clear();
    for (int l = 0; l < layers; ++l) weights.push_back(session->weights(l));
    RunRequest request;
    request.order = samples_from(batch * kBatch, kBatch);
    loss = session->run(make_program(one.prepared, 8), request).losses.front();
    std::vector<std::vector<double>> result;
    for (int l = 0; l < layers; ++l) result.push_back(session->gradients(l));
    return result;
  };
  std::vector<std::vector<double>> before, now, momentum;
  std::vector<double> losses(kUpdates);
  for (int t = 0; t < kUpdates; ++t) {
    std::vector<std::vector<double>> at;
    const auto g = t == 0 ? gradient({}, t, losses[0], at) : gradient(before, t, losses[t], at);
    if (t == 0) now = at, momentum = g;
    before = now;
    for (std::size_t l = 0; l < g.size(); ++l)
      for (std::size_t i = 0; i < g[l].size(); ++i) {
        double& v = momentum[l][i];
        if (t > 0) v = exact.optimizer.momentum * v + g[l][i];
        now[l][i] -= exact.optimizer.learning_rate * v;
      }
  }
  for (std::size_t l = 0; l < model.layers.size(); ++l)
    EXPECT_LE(relative_error(ours.weights[l], now[l]), 1e-12) << model.layers[l].name;
  EXPECT_LE(relative_error(ours.losses, losses), 1e-12);
}

}  // namespace
}  // namespace sluice
