#include "harness/case/profile_workload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "results/store.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

// A PipeDream profile of two layers, 3 s and 1 s, and what plans make of it.
class ProfileWorkloadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_) << "node1 -- Conv2d -- forward_compute_time=1000, backward_compute_time=2000, "
                            "activation_size=64, parameter_size=100\n"
                            "node2 -- ReLU -- forward_compute_time=500, backward_compute_time=500, "
                            "activation_size=32, parameter_size=0\n"
                            "\tnode1 -- node2\n";
  }
  void TearDown() override { std::filesystem::remove(path_); }
  RunCase plan_case(const std::string& system) const {
    RunCase c;
    c.system = system;
    c.workload = path_;
    c.cluster = "flat:2,bandwidth=1GB/s,memory=16GiB";
    c.clock = Clock::virtual_clock;
    c.costs = "analytic";
    c.ranks = 2;
    c.batch = 4;
    c.microbatches = 4;
    return c;
  }
  std::string path_ =
      testing::TempDir() + "/profile_workload_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ProfileWorkloadTest, ListedNamesAreNoFiles) {
  EXPECT_EQ(profile_workload("vgg16", "analytic"), nullptr);
  EXPECT_EQ(profile_workload("no/such/file", "analytic"), nullptr);
}

TEST_F(ProfileWorkloadTest, IsReadOnce) {
  const ProfileWorkload* profile = profile_workload(path_, "analytic");
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->workload.batch, 32);
  EXPECT_EQ(profile->costs.layers.size(), 2u);
  EXPECT_EQ(profile->warnings.size(), 2u);
  EXPECT_EQ(profile_workload(path_, "profile"), profile);
}

TEST_F(ProfileWorkloadTest, HasItsOwnCostsWhateverCostsAreAskedFor) {
  for (const char* cluster : {"flat:4", "dgx_h100"}) {  // of which one has no calibration in fp32
    const auto read = [&](const Json& more) {
      Json entry = {{"system", "gpipe"}, {"workload", path_}, {"clock", "virtual"}, {"cluster", cluster}, {"ranks", 2}};
      entry.update(more);
      return read_case({entry, in_file("s.json", "")});
    };
    const auto calibrated = read({{"costs", "calibrated"}});
    EXPECT_EQ(digest_of(calibrated.c), digest_of(read(Json::object()).c));
    EXPECT_EQ(calibrated.without_effect.at("/costs"), "a workload that is a file of costs has its own");
  }
}

TEST_F(ProfileWorkloadTest, IsPlannedLikeAnyOther) {
  const Prepared p = prepare(plan_case("one_f_one_b"), test_profiles());
  EXPECT_EQ(p.costs.source, "PipeDream profile");
  EXPECT_DOUBLE_EQ(p.plan.search.objective, 3);
  EXPECT_GT(p.plan.search.seconds, 0);
  const Program program = make_program(p, 4);
  EXPECT_EQ(program.rank_count(), 2u);
  const auto memory = stage_memory(p, {.momentum = 0.9}, program.rule);
  EXPECT_EQ(memory[0].weights, Bytes(100));
  EXPECT_EQ(memory[0].gradients, Bytes(100));
  EXPECT_EQ(memory[0].optimizer, Bytes(100));
  EXPECT_EQ(memory[0].stash, Bytes(64));
}

// 25 parameters, and what is kept of them with Adam.
TEST_F(ProfileWorkloadTest, HasItsWeightsInThePrecisionAskedFor) {
  struct Row {
    Precision precision;
    int weights, gradients, optimizer;
  };
  for (const Row& row :
       {Row{Precision::fp32, 100, 100, 200}, Row{Precision::mixed, 50, 50, 300},
        Row{Precision::mixed_fp32_gradients, 50, 100, 300}, Row{Precision::mixed_two_gradients, 50, 50, 400}}) {
    RunCase c = plan_case("one_f_one_b");
    c.precision = row.precision;
    const Prepared p = prepare(c, test_profiles());
    const StageMemory held = stage_memory(p, {.kind = OptimizerKind::adam}, make_program(p, 4).rule)[0];
    EXPECT_EQ(held.weights, Bytes(row.weights));
    EXPECT_EQ(held.gradients, Bytes(row.gradients));
    EXPECT_EQ(held.optimizer, Bytes(row.optimizer));
    EXPECT_EQ(held.stash, Bytes(64));  // as in the file, as the seconds
    EXPECT_DOUBLE_EQ(p.costs.layers[0].forward.value, 1);
    EXPECT_EQ(p.costs.gradients(p.costs.layers[0].reduced()), Bytes(row.gradients));
  }
  const auto read = [&](const char* costs) {
    const Json entry = {{"system", "gpipe"},          {"workload", path_}, {"clock", "virtual"},
                        {"cluster", "edge_mixed_16"},  // states no peak in 16 bit, which costs of a file do not need
                        {"precision", "mixed"},       {"costs", costs},    {"ranks", 2}};
    return resolve({entry, in_file("s.json", "")});
  };
  EXPECT_EQ(read("analytic").precision, Precision::mixed);
  EXPECT_EQ(error_of([&] { read("raw"); }),
            "s.json: /precision: raw costs are the file's numbers, whatever they are of; leave one of the two out");
}

TEST_F(ProfileWorkloadTest, HasOneSizeOfMicroBatches) {
  RunCase c = plan_case("one_f_one_b");
  c.batch = 8;
  EXPECT_EQ(
      error_of([&] { prepare(c, test_profiles()); }),
      path_ + ": has micro-batches of 1 samples, this plan 2; choose --batch and --microbatches so that they agree");
}

TEST_F(ProfileWorkloadTest, TensorParallelVariantsAreOnlySimulated) {
  CostGraph costs = profile_workload(path_, "analytic")->costs;
  for (LayerCost& layer : costs.layers)
    layer.variants = {
        {.id = "vanilla", .seconds = Seconds(1), .parameters = Bytes(10), .in_flight = Bytes(7), .always = Bytes(25)}};
  const PlanStage stage{.layers = {0, 1}, .devices = {DeviceId(0)}, .variants = {0, 0}};
  const auto memory = stage_memory(costs, Plan{.stages = {stage}}, {});
  EXPECT_EQ(memory[0].weights, Bytes(20));
  EXPECT_EQ(memory[0].gradients, Bytes(30));
  EXPECT_EQ(memory[0].stash, Bytes(14));
  const std::string file = path_ + ".json";
  std::ofstream(file) << to_json(costs).dump();
  RunCase c = plan_case("piper");
  c.options = {{"data_parallel", "no"}};
  c.workload = file;
  EXPECT_EQ(prepare(c, test_profiles()).plan.stages.size(), 2u);
  c.clock = Clock::wall;
  EXPECT_FALSE(prepare(c, test_profiles()).plan.stages[0].recompute);
  const auto change = [&](int tensor, const std::string& id, bool recompute) {
    for (LayerCost& layer : costs.layers) {
      layer.variants[0].tensor = tensor;
      layer.variants[0].id = id;
      layer.variants[0].recompute = recompute;
    }
    c.workload = path_ + id + ".json";
    std::ofstream(c.workload) << to_json(costs).dump();
  };
  // A stage recomputes as a whole where a layer does, which real ranks can.
  change(1, "activation recomp", true);
  EXPECT_TRUE(prepare(c, test_profiles()).plan.stages[0].recompute);
  std::filesystem::remove(c.workload);
  change(2, "sharded", false);
  EXPECT_EQ(error_of([&] { prepare(c, test_profiles()); }),
            "piper: the plan uses tensor parallelism, and a published profile has no layers to run; use the "
            "virtual clock, or tensor_parallel=no");
  std::filesystem::remove(c.workload);
  std::filesystem::remove(file);
}

TEST_F(ProfileWorkloadTest, MemoryIsOfWhatLayersKeepWhereThatWasMeasured) {
  CostGraph costs = profile_workload(path_, "analytic")->costs;
  const Plan plan{.stages = {{.layers = {0, 1}, .devices = {DeviceId(0)}}}};
  EXPECT_EQ(stage_memory(costs, plan, {})[0].stash, Bytes(64 + 32));
  costs.layers[0].stash = Bytes(5);
  costs.layers[0].weight_stash = Bytes(3);
  EXPECT_EQ(stage_memory(costs, plan, {})[0].stash, Bytes(5 + 32));
  EXPECT_EQ(stage_memory(costs, plan, {})[0].weight_stash, Bytes(3));
}

TEST_F(ProfileWorkloadTest, AStageThatRecomputesKeepsWhatItReceives) {
  const CostGraph& costs = profile_workload(path_, "analytic")->costs;
  const Plan plan{.stages = {{.layers = {0}, .devices = {DeviceId(0)}},
                             {.layers = {1}, .devices = {DeviceId(1)}, .recompute = true}}};
  const auto memory = stage_memory(costs, plan, {});
  EXPECT_EQ(memory[0].input, Bytes(0));
  EXPECT_EQ(memory[1].input, costs.layers[0].output);
}

// A workload file is a workload with layers, and what it holds is part of the experiment.
TEST_F(ProfileWorkloadTest, AWorkloadFileIsNoProfile) {
  Json small = to_json(find_workload("tiny"));
  const std::string file = path_ + ".json";
  std::ofstream(file) << small.dump();
  EXPECT_EQ(profile_workload(file, "analytic"), nullptr);
  EXPECT_EQ(find_workload_or_profile(file, "analytic", "here").model.layers.size(),
            find_workload("tiny").model.layers.size());
  const Json entry = {{"system", "gpipe"}, {"workload", file}, {"ranks", 2}};
  const RunCase c = resolve({entry, in_file("s.json", "/grid/0")});
  EXPECT_EQ(c.batch, find_workload("tiny").batch);
  EXPECT_EQ(c.workload_digest, digest(small));
  EXPECT_EQ(digest_of(resolve({to_json(c), in_file("s.json")})), digest_of(c));
  EXPECT_EQ(resolve({{{"system", "gpipe"}, {"workload", "tiny"}}, in_file("s.json")}).workload_digest, "");

  small["optimizer"]["learning_rate"] = 0.5;
  std::ofstream(path_ + "2.json") << small.dump();
  Json other = to_json(c);
  other["workload"] = path_ + "2.json";
  EXPECT_EQ(error_of([&] {
              resolve({other, in_file("s.json", "/grid/0")});
            }),
            "s.json: /grid/0/workload_digest: '" + path_ + "2.json' holds another workload than that of digest " +
                c.workload_digest + "; leave workload_digest out to run it as it is now");

  RunCase planned = plan_case("one_f_one_b");
  planned.workload = file;
  planned.batch = 64;
  EXPECT_EQ(prepare(planned, test_profiles()).plan.stages.size(), 2u);
  for (const std::string& f : {file, path_ + "2.json"}) std::filesystem::remove(f);
}

}  // namespace
}  // namespace sluice
