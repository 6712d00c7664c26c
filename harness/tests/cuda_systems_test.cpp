// On a GPU: every system trains as it does on the CPU. Skips by name where there is none.
#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "harness/exec/session.h"
#include "harness/tests/test_support.h"

namespace sluice {
namespace {

#define NEEDS_GPU() \
  if (!cuda_rejection().empty()) GTEST_SKIP() << "needs a CUDA device: " << cuda_rejection()

constexpr std::int64_t kBatch = 24;
constexpr int kUpdates = 3, kMicrobatches = 4;

struct Numbers {
  std::vector<std::vector<double>> gradients, weights;  // per layer
  std::vector<double> losses;
  std::vector<MemoryByKind> peaks;
};

Numbers train(const TestSetup& setup, const DataFeed& feed, const std::string& device, bool double_precision,
              const std::string& transport = "threads") {
  SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
  spec.device = device;
  spec.transport = transport;
  spec.double_precision = double_precision;
  spec.feed = feed;
  const bool synchronous = setup.prepared.system->synchronous;
  const Program program = make_program(setup.prepared, synchronous ? setup.microbatches : kUpdates);
  spec.rule = program.rule;
  spec.sharding = program.sharding;
  const auto session = make_session(spec);
  RunRequest request;
  request.order = samples_from(0, kUpdates * spec.micro_batch * setup.microbatches);
  request.iterations = synchronous ? kUpdates : 1;
  request.timeout = Seconds(120);
  Numbers numbers;
  numbers.losses = session->run(program, request).losses;
  for (int l = 0; l < static_cast<int>(spec.model.layers.size()); ++l) {
    numbers.gradients.push_back(session->gradients(l));
    numbers.weights.push_back(session->weights(l));
  }
  numbers.peaks = session->peak_memory();
  return numbers;
}

void expect_close(const Numbers& gpu, const Numbers& cpu, const ModelGraph& model, double tolerance) {
  EXPECT_LE(relative_error(gpu.losses, cpu.losses), tolerance);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    EXPECT_LE(relative_error(gpu.gradients[l], cpu.gradients[l]), tolerance) << "gradient of " << model.layers[l].name;
    EXPECT_LE(relative_error(gpu.weights[l], cpu.weights[l]), tolerance) << "weights of " << model.layers[l].name;
  }
}

struct Subject {
  const char* name;
  ModelGraph (*model)();
};
void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

class CudaSystems : public testing::TestWithParam<Subject> {
 protected:
  // Every system on three ranks, sharing a GPU where there are not three. What rejects the model on
  // the CPU is left out.
  void compare(bool double_precision, double tolerance) {
    const ModelGraph model = GetParam().model();
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    int ran = 0;
    for (const System* system : all_systems()) {
      if (system->inference_only) continue;
      SCOPED_TRACE(system->name);
      const int m = system->synchronous || system->accumulates ? kMicrobatches : 1;
      std::optional<TestSetup> setup;
      try {
        setup.emplace(system->name, std::map<std::string, std::string>{}, model, system->one_process ? 1 : 3, kBatch,
                      m);
        make_program(setup->prepared, system->synchronous ? m : kUpdates);
      } catch (const InputError&) {
        continue;
      }
      expect_close(train(*setup, feed, "cuda", double_precision), train(*setup, feed, "cpu", double_precision), model,
                   tolerance);
      ++ran;
    }
    EXPECT_GE(ran, 12);
  }
};

TEST_P(CudaSystems, TrainAsOnTheCpuInDoublePrecision) {
  NEEDS_GPU();
  compare(true, 1e-9);
}

TEST_P(CudaSystems, TrainAsOnTheCpuInSinglePrecision) {
  NEEDS_GPU();
  compare(false, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaSystems,
                         testing::Values(Subject{"cnn", test_cnn}, Subject{"mlp", test_mlp},
                                         Subject{"text_transformer", test_text_transformer},
                                         Subject{"residual_lstm", test_residual_lstm},
                                         Subject{"translator", test_translator}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(Cuda, TheSameRunTwiceGivesTheSameBits) {
  NEEDS_GPU();
  const ModelGraph model = test_mlp();  // no embedding: its gradient is added atomically
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup setup("one_f_one_b", {}, model, 3, kBatch, kMicrobatches);
  const Numbers first = train(setup, feed, "cuda", false), second = train(setup, feed, "cuda", false);
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.losses, second.losses);
}

TEST(Cuda, CountsTheMemoryOfEveryRankAsTheCpuDoes) {
  NEEDS_GPU();
  const ModelGraph model = test_cnn();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const char* system : {"one_f_one_b", "gpipe", "pipedream"}) {
    const TestSetup setup(system, {}, model, 3, kBatch, system == std::string("pipedream") ? 1 : kMicrobatches);
    const Numbers gpu = train(setup, feed, "cuda", false), cpu = train(setup, feed, "cpu", false);
    ASSERT_EQ(gpu.peaks.size(), cpu.peaks.size());
    for (std::size_t r = 0; r < gpu.peaks.size(); ++r) {
      // What the schedule decides is the same; kernels' scratch memory and messages are not.
      EXPECT_EQ(gpu.peaks[r].weights, cpu.peaks[r].weights);
      EXPECT_EQ(gpu.peaks[r].versions, cpu.peaks[r].versions);
      EXPECT_EQ(gpu.peaks[r].gradients, cpu.peaks[r].gradients);
      EXPECT_EQ(gpu.peaks[r].optimizer, cpu.peaks[r].optimizer);
      EXPECT_NEAR(static_cast<double>(gpu.peaks[r].activations.value),
                  static_cast<double>(cpu.peaks[r].activations.value),
                  0.05 * static_cast<double>(cpu.peaks[r].activations.value));
    }
  }
}

TEST(Cuda, ProfilesEveryLayer) {
  NEEDS_GPU();
  const ModelGraph model = test_cnn();
  const CostGraph costs = measure_costs(model, 8, 3, "cuda");
  ASSERT_EQ(costs.layers.size(), model.layers.size());
  EXPECT_EQ(costs.device, "cuda");
  for (const LayerCost& layer : costs.layers) EXPECT_GT(layer.forward.value, 0) << layer.name;
}

TEST(Cuda, NcclRanksTrainAsThreadsDo) {
  NEEDS_GPU();
  if (describe_cuda()["devices"].size() < 2) GTEST_SKIP() << "needs two CUDA devices";
  const ModelGraph model = test_cnn();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const char* system : {"one_f_one_b", "gpipe", "data_parallel", "zero_bubble", "pipedream"}) {
    SCOPED_TRACE(system);
    const TestSetup setup(system, {}, model, 2, kBatch, system == std::string("pipedream") ? 1 : kMicrobatches);
    expect_close(train(setup, feed, "cuda", true, "nccl"), train(setup, feed, "cpu", true), model, 1e-9);
  }
}

TEST(Cuda, NcclRejectsRanksThatShareAGpu) {
  NEEDS_GPU();
  const auto gpus = static_cast<int>(describe_cuda()["devices"].size());
  const ModelGraph model = test_mlp();
  if (gpus > 2) GTEST_SKIP() << "every rank of the small model would have a GPU";
  const TestSetup setup("one_f_one_b", {}, model, 3, kBatch, kMicrobatches);
  EXPECT_THROW(train(setup, random_feed(model, kBatch * kUpdates), "cuda", false, "nccl"), InputError);
}

TEST(Cuda, DescribesItself) {
  const Json json = describe_cuda();
  ASSERT_FALSE(json.is_null());
  EXPECT_EQ(json["nccl"]["header"], json["nccl"]["library"]);
  EXPECT_TRUE(json["runtime"].get<std::string>().starts_with("13.") ||
              json["runtime"].get<std::string>().starts_with("12."));
}

TEST(Cuda, RejectsInOneClearSentenceWhereThereIsNoGpu) {
  if (cuda_rejection().empty()) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_TRUE(cuda_rejection().starts_with("no CUDA device is usable here")) << cuda_rejection();
  const TestSetup setup("gpipe", {}, test_mlp(), 2, kBatch, kMicrobatches);
  EXPECT_THROW(train(setup, random_feed(test_mlp(), kBatch * kUpdates), "cuda", false), InputError);
}

}  // namespace
}  // namespace sluice
