// Layers that move between ranks in mid-training: the training afterwards is, bit for bit, that of a session that began
// with the new plan from the same state.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/exec/run_stopped.h"
#include "harness/plan/plan_test_support.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

// The same layers, the first `moved` of the second stage now in the first.
Plan shifted(const Plan& plan, std::size_t moved) {
  Plan result = plan;
  std::vector<int>& first = result.stages[0].layers;
  std::vector<int>& second = result.stages[1].layers;
  for (std::size_t k = 0; k < moved; ++k) first.push_back(second[k]);
  second.erase(second.begin(), second.begin() + static_cast<std::ptrdiff_t>(moved));
  return result;
}

struct Two {
  TestSetup setup;
  DataFeed feed;
  Prepared moved;

  explicit Two(const ModelGraph& model)
      : setup("pipedream", {}, model, 2, kBatch, 1), feed(random_feed(model, 400)), moved(setup.prepared) {
    adopt_pipeline(moved, shifted(setup.prepared.plan, 1));
  }
  SessionSpec spec(const OptimizerSpec& optimizer, const Prepared& p) {
    SessionSpec spec = setup.spec(optimizer);
    spec.plan = p.plan;
    spec.feed = feed;
    return spec;
  }
  static RunResult run(Session& session, const Prepared& p, std::int64_t first, int updates) {
    RunRequest request;
    request.order = samples_from(first * kBatch, updates * kBatch);
    request.timeout = Seconds(120);
    return session.run(make_program(p, updates), request);
  }
};

const OptimizerSpec kOptimizers[] = {
    {.learning_rate = 0.05, .momentum = 0.9},
    {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.01},
};

TEST(RepartitionTest, GoesOnAsASessionThatBeganWithTheNewPlanFromTheSameState) {
  const ModelGraph model = test_mlp();
  for (const OptimizerSpec& optimizer : kOptimizers) {
    Two two(model);
    const std::string file = testing::TempDir() + "/before-the-move.state";
    const auto session = make_session(two.spec(optimizer, two.setup.prepared));
    Two::run(*session, two.setup.prepared, 0, 6);
    session->save(file);
    const std::vector<std::uint64_t> layers = session->layer_digests();
    session->repartition(two.moved.plan);
    EXPECT_EQ(session->layer_digests(), layers);
    const auto fresh = make_session(two.spec(optimizer, two.moved));
    EXPECT_THROW(fresh->load(file), InputError);  // another plan has to be asked for
    fresh->load(file, true);
    EXPECT_EQ(fresh->layer_digests(), layers);
    EXPECT_EQ(session->updates_done(), fresh->updates_done());
    const RunResult a = Two::run(*session, two.moved, 6, 5), b = Two::run(*fresh, two.moved, 6, 5);
    EXPECT_EQ(a.losses, b.losses);
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) EXPECT_EQ(session->weights(l), fresh->weights(l));
    EXPECT_EQ(session->layer_digests(), fresh->layer_digests());
    EXPECT_NE(session->layer_digests(), layers);
  }
}

TEST(RepartitionTest, ARankThatDiesWhileLayersMoveLeavesTheCheckpointAsItWas) {
  Two two(test_mlp());
  const std::string file = testing::TempDir() + "/before-the-death.state";
  SessionSpec spec = two.spec(kOptimizers[0], two.setup.prepared);
  spec.fail_rank = 1;
  spec.fail_update = 6;
  const auto session = make_session(spec);
  Two::run(*session, two.setup.prepared, 0, 6);
  session->save(file);
  EXPECT_THROW(session->repartition(two.moved.plan), RunStopped);
  const auto fresh = make_session(two.spec(kOptimizers[0], two.setup.prepared));
  fresh->load(file);
  EXPECT_EQ(fresh->updates_done(), 6);
}

}  // namespace
}  // namespace sluice
