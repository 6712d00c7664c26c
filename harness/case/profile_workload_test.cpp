#include "harness/case/profile_workload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/case/prepare.h"

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

TEST_F(ProfileWorkloadTest, IsPlannedLikeAnyOther) {
  const Prepared p = prepare(plan_case("one_f_one_b"));
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

TEST_F(ProfileWorkloadTest, HasOneSizeOfMicroBatches) {
  RunCase c = plan_case("one_f_one_b");
  c.batch = 8;
  EXPECT_EQ(error_of([&] { prepare(c); }),
            path_ + ": has micro-batches of 1 samples, this plan 2; leave --micro-batch out");
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
  EXPECT_EQ(prepare(c).plan.stages.size(), 2u);
  c.clock = Clock::wall;
  EXPECT_FALSE(prepare(c).plan.stages[0].recompute);
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
  EXPECT_TRUE(prepare(c).plan.stages[0].recompute);
  std::filesystem::remove(c.workload);
  change(2, "sharded", false);
  EXPECT_EQ(error_of([&] { prepare(c); }),
            "piper: the plan shares layers between devices (tensor parallelism); that is simulated "
            "only: use the virtual clock, or tensor_parallel=no");
  std::filesystem::remove(c.workload);
  std::filesystem::remove(file);
}

TEST_F(ProfileWorkloadTest, AStageThatRecomputesKeepsWhatItReceives) {
  const CostGraph& costs = profile_workload(path_, "analytic")->costs;
  const Plan plan{.stages = {{.layers = {0}, .devices = {DeviceId(0)}},
                             {.layers = {1}, .devices = {DeviceId(1)}, .recompute = true}}};
  const auto memory = stage_memory(costs, plan, {});
  EXPECT_EQ(memory[0].input, Bytes(0));
  EXPECT_EQ(memory[1].input, costs.layers[0].output);
}

}  // namespace
}  // namespace sluice
