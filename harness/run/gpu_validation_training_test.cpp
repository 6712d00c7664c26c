// `sluice validate --device cuda` on a GPU that the CPU stands in for: which clock, cluster and costs its cases have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/exec/training_library.h"
#include "harness/run/validate.h"
#include "results/validation.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

TrainingLibrary real;

std::unique_ptr<Session> session_on_cpu(const SessionSpec& spec) {
  SessionSpec on_cpu = spec;
  EXPECT_EQ(on_cpu.device, "cuda");
  on_cpu.device = "cpu";
  return real.make_session(on_cpu);
}

CostGraph costs_on_cpu(const ModelGraph& model, std::int64_t micro_batch, int repeats, const std::string& device) {
  EXPECT_EQ(device, "cuda");
  return real.measure_costs(model, micro_batch, repeats, "cpu");
}

Json one_gpu() {
  return {{"devices", {{{"name", "fake"}, {"memory_bytes", 80'000'000'000}, {"compute_capability", "9.0"}}}},
          {"driver", nullptr},
          {"runtime", "13.0"},
          {"nccl", {{"header", "2.28.9"}, {"library", "2.28.9"}}}};
}

class GpuValidation : public ::testing::Test {
 protected:
  void SetUp() override {
    real = register_training_library({.make_session = session_on_cpu,
                                      .measure_costs = costs_on_cpu,
                                      .cuda_rejection = [] { return std::string(); },
                                      .describe_cuda = one_gpu});
    folder_ = fs::temp_directory_path() / ("sluice-gpu-validation-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    register_training_library(real);
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(GpuValidation, ComparesBothClocksOnTheGpuWithTimeMemoryAndOrder) {
  std::vector<ValidationCase> cases;
  for (const char* system : {"single_device", "one_f_one_b"}) {
    const Json entry = {
        {"system", system}, {"workload", "tiny"}, {"device", "cuda"}, {"ranks", 2}, {"microbatches", 4}};
    cases.push_back({.label = system, .entry = entry, .wall = resolve({entry, in_file("validation")})});
  }
  const ValidateResult result =
      run_validation(cases, {.out = (folder_ / "v.jsonl").string(), .rounds = 2, .seconds = 0.01});
  EXPECT_TRUE(result.left_out.empty()) << result.left_out.front();
  ASSERT_EQ(result.records.size(), 8u);  // two cases, clocks and rounds
  for (const Record& record : result.records) {
    EXPECT_EQ(record.device, record.clock == Clock::wall ? "cuda" : "GPU of this machine");
    EXPECT_EQ(record.cost_source, "profile");
  }
  const Validation validation = validate(validated_cases(result.records));
  ASSERT_EQ(validation.cases.size(), 2u);
  EXPECT_EQ(validation.time.cases, 2u);
  EXPECT_EQ(validation.memory.cases, 3u);  // ranks
}

TEST_F(GpuValidation, RunsEverySystemOnLargeWorkloadsInOneProcess) {
  const std::vector<ValidationCase> cases =
      validation_cases({.ranks = 2, .processes = true, .few = true, .device = DeviceKind::cuda});
  EXPECT_GE(cases.size(), 20u);
  for (const ValidationCase& c : cases) {
    EXPECT_EQ(c.wall.device, DeviceKind::cuda) << c.label;
    EXPECT_EQ(c.wall.transport, TransportKind::threads) << c.label;
    EXPECT_EQ(c.wall.workload, "vgg16_batch64");
    EXPECT_EQ(on_virtual_clock(c, 6).cluster, kThisMachineGpus);
  }
}

}  // namespace
}  // namespace sluice
