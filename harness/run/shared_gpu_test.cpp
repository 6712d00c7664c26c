// The cluster of this machine's GPUs: ranks that share one share its memory and take turns on it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/case/this_machine.h"
#include "harness/exec/training_library.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

int gpus = 1;

class SharedGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = register_training_library({.describe_cuda = [] {
      Json devices = Json::array();
      for (int d = 0; d < gpus; ++d)
        devices.push_back({{"name", "fake"}, {"memory_bytes", 80'000'000'000}, {"compute_capability", "9.0"}});
      return Json{{"devices", devices},
                  {"driver", nullptr},
                  {"runtime", "13.0"},
                  {"nccl", {{"header", "2.28.9"}, {"library", "2.28.9"}}}};
    }});
  }
  void TearDown() override { register_training_library(before_); }

  static RunCase with_ranks(int ranks, const char* system = "gpipe") {
    const Json entry = {{"system", system},   {"workload", "tiny"}, {"clock", "virtual"}, {"cluster", kThisMachineGpus},
                        {"costs", "profile"}, {"ranks", ranks},     {"microbatches", 4},  {"steps", 6},
                        {"train", false}};
    return resolve({entry, in_file("s.json")});
  }

  // Every pass of a layer takes a millisecond on the GPU.
  static double update_seconds_of(const RunCase& c) {
    const auto measure = [](const ProfileKey& key, const Workload& workload, int) {
      EXPECT_EQ(key.device, DeviceKind::cuda);
      const Seconds ms(1e-3);
      CostGraph graph{.model = workload.name, .source = "profile", .device = "cuda", .micro_batch = key.micro_batch};
      for (const LayerSpec& layer : workload.model.layers)
        graph.layers.push_back(
            {.name = layer.name, .inputs = layer.inputs, .forward = ms, .input_gradient = ms, .weight_gradient = ms});
      graph.machine = MachineCosts{};
      return graph;
    };
    const std::string folder = ::testing::TempDir() + "sluice-shared-gpu-" + std::to_string(::getpid());
    ProfileStore profiles(folder, 1, {.speeds = steady_speeds, .profile = measure});
    const Record record = run_case(c, profiles, {});
    std::filesystem::remove_all(folder);
    EXPECT_EQ(record.device, "GPU of this machine");
    return update_seconds(record).value();
  }

  TrainingLibrary before_;
};

TEST_F(SharedGpu, RanksShareItsMemory) {
  gpus = 1;
  const Cluster shared = this_machine(with_ranks(4));
  EXPECT_EQ(shared.devices.at(0).memory, Bytes(20'000'000'000));
  EXPECT_EQ(shared.one_machine.value().cores, 1);
  gpus = 4;
  const Cluster own = this_machine(with_ranks(4));
  EXPECT_EQ(own.devices.at(0).memory, Bytes(80'000'000'000));
  EXPECT_FALSE(own.one_machine);
}

TEST_F(SharedGpu, AnUpdateOfRanksThatShareOneTakesTheSumOfTheirOps) {
  gpus = 1;
  const double layers = static_cast<double>(find_workload("tiny").model.layers.size());
  const double work = 4 * layers * 3e-3;  // micro-batches, layers, passes
  EXPECT_NEAR(update_seconds_of(with_ranks(2)), work, 1e-9);
  EXPECT_NEAR(update_seconds_of(with_ranks(2, "one_f_one_b")), work, 1e-9);
  EXPECT_NEAR(update_seconds_of(with_ranks(1, "single_device")), work, 1e-9);
  // On two GPUs of their own GPipe's two ranks take (4 + 1) / 4 of half the work, except for where the layers are cut.
  gpus = 2;
  EXPECT_LT(update_seconds_of(with_ranks(2)), 0.75 * work);
}

}  // namespace
}  // namespace sluice
