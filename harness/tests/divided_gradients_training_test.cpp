// A product whose input gradient two ranks divide trains to the same weights as one that a rank computes whole.
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/program/numerics.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

// Two stages, cut before a product.
Plan two_stages(const TestSetup& setup, int first) {
  Plan plan = setup.prepared.plan;
  const int layers = static_cast<int>(setup.workload->model.layers.size());
  for (PlanStage& stage : plan.stages) stage.layers.clear();
  for (int l = 0; l < layers; ++l) plan.stages[l < first ? 0 : 1].layers.push_back(l);
  return plan;
}

Numbers train_divided(const ModelGraph& model, int first, int passed, bool apart) {
  TestSetup setup("pipedream", {}, model, 2, kBatch, 1);
  Plan plan = two_stages(setup, first);
  plan.stages[1].passed_channels = passed;
  if (apart) plan.stages[1].weight_gradient_device = DeviceId(2);
  setup.prepared.cluster = load_cluster("flat:3", "");
  adopt_pipeline(setup.prepared, plan);
  const Prepared& p = setup.prepared;
  const ScheduleProblem problem{p.graph, p.ranks.placement, static_cast<int>(p.ranks.devices.size()), kUpdates};
  const System& system = find_system("layerpipe", "test");
  const Options options = resolve_options(system.options, {}, "test");
  const Program program = checked(
      lower(system.schedule(problem, options), problem.graph, problem.placement, system.weights(problem, options)));
  return train_by(program, setup, random_feed(model, kBatch * kUpdates), {.double_precision = true});
}

TEST(DividedGradients, TrainAsWholeOnesDo) {
  const ModelGraph mlp = test_mlp();
  ModelGraph cnn{.name = "cnn",
                 .inputs = {{.shape = {2, 8, 8}}},
                 .layers = {{"conv1", Conv2d{2, 6, 3, 1, 1}, {-1}},
                            {"relu1", Activation{}, {0}},
                            {"conv2", Conv2d{6, 4, 3, 2, 1}, {1}},
                            {"relu2", Activation{}, {2}},
                            {"flat", Flatten{}, {3}},
                            {"fc", Linear{64, 5}, {4}},
                            {"loss", CrossEntropyLoss{}, {5}}}};
  for (const ModelGraph& model : {mlp, cnn}) {
    const int first = static_cast<int>(std::ranges::find_if(model.layers.begin() + 1, model.layers.end(),
                                                            [](const LayerSpec& l) { return input_channels(l) > 0; }) -
                                       model.layers.begin());
    for (const bool apart : {false, true}) {
      SCOPED_TRACE(testing::Message() << model.name << ", W " << (apart ? "on a third rank" : "where I is"));
      const Numbers whole = train_divided(model, first, 0, apart);
      for (const int passed : {1, input_channels(model.layers[first]) - 1})
        expect_close(train_divided(model, first, passed, apart), whole, model, 1e-11);
    }
  }
}

TEST(DividedGradients, AProgramThatDividesHasAnotherNumber) {
  const ModelGraph model = test_mlp();
  TestSetup setup("pipedream", {}, model, 2, kBatch, 1);
  const Program program = make_program(setup.prepared, kUpdates);
  Plan divided = setup.prepared.plan;
  divided.stages[1].passed_channels = 3;
  EXPECT_NE(numerics(program, model, divided), numerics(program, model, setup.prepared.plan));
}

}  // namespace
}  // namespace sluice
