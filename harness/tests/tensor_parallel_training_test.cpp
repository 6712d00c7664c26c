// Layers that groups of ranks share train to one device's losses, gradients and weights, in pipelines of every kind;
// the sums inside the ops are those that both clocks are told of.
#include <fstream>

#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/program/check_program.h"
#include "harness/sim/communication.h"
#include "harness/tests/training_test_support.h"
#include "workloads/models/hugging_face.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

constexpr int kTensorMicros = 4;

ModelGraph test_gpt() { return gpt("gpt", 3, 16, 4, 6, 24); }
ModelGraph test_vit() {
  return vision_transformer(
      "vit",
      {.channels = 2, .image = 8, .patch = 4, .blocks = 2, .width = 16, .heads = 4, .feed_forward = 24, .classes = 8});
}
// Everything else that a rule or none is for: dropout on a divided width, a pair without biases, a linear layer
// without a partner, rotary positions, running statistics.
ModelGraph mixed_model() {
  return {.name = "mixed",
          .inputs = {{.shape = {6, 8}}},
          .layers = {{"norm", RmsNorm{8}, {-1}},
                     {"attention", Attention{.width = 8, .heads = 4, .causal = true, .rotary = 100, .inner = 16}, {0}},
                     {"sum", Add{}, {-1, 1}},
                     {"alone", Linear{8, 8}, {2}},
                     {"alone_norm", LayerNorm{8}, {3}},
                     {"up", Linear{8, 12, false}, {4}},
                     {"gelu", Activation{Activation::Kind::gelu}, {5}},
                     {"drop", Dropout{0.4}, {6}},
                     {"down", Linear{12, 8, false}, {7}},
                     {"pool", SequencePool{SequencePool::Mode::first}, {8}},
                     {"statistics", BatchNorm{8}, {9}},
                     {"head", Linear{8, 4}, {10}},
                     {"loss", CrossEntropyLoss{}, {11}}}};
}
// Grouped queries, gates and no biases: eight query heads for four of keys and values.
ModelGraph llama_model() {
  const Json config = {
      {"model_type", "llama"},    {"hidden_size", 16},        {"intermediate_size", 24}, {"num_hidden_layers", 2},
      {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"vocab_size", 12},        {"max_position_embeddings", 6},
      {"rope_theta", 100.0}};
  return read_hugging_face_config(config, "llama", {}).model;
}
ModelGraph text_model() {
  return transformer_classifier("texts", {.vocabulary = 20, .length = 6, .classes = 4, .blocks = 2, .width = 8}, 4, 16);
}
ModelGraph translation_model() {
  return transformer_translator(
      "translator", {.vocabulary = 16, .source_length = 5, .target_length = 6, .layers = 2, .width = 8}, 4, 16);
}
ModelGraph regression_model() { return transformer_regression(3, 16, 4, 32, 6); }
// Pairs of convolutions and of one with a linear layer, with what works on channels between them.
ModelGraph convolution_model() {
  return {.name = "convolutions",
          .inputs = {{.shape = {2, 8, 8}}},
          .layers = {{"first", Conv2d{.in = 2, .out = 8, .kernel = 3, .padding = 1}, {-1}},
                     {"norm", BatchNorm{8}, {0}},
                     {"relu", Activation{}, {1}},
                     {"pool", Pool2d{}, {2}},
                     {"second", Conv2d{.in = 8, .out = 6, .kernel = 3, .padding = 1, .bias = false}, {3}},
                     {"whole_norm", BatchNorm{6}, {4}},
                     {"tanh", Activation{Activation::Kind::tanh}, {5}},
                     {"third", Conv2d{.in = 6, .out = 4, .kernel = 1}, {6}},
                     {"flat", Flatten{}, {7}},
                     {"drop", Dropout{0.4}, {8}},
                     {"hidden", Linear{64, 8}, {9}},
                     {"hidden_relu", Activation{}, {10}},
                     {"head", Linear{8, 4}, {11}},
                     {"loss", CrossEntropyLoss{}, {12}}}};
}
// What a U-Net has between its convolutions, and a skip, which keeps the layer that reads it whole.
ModelGraph image_to_image_model() {
  return {.name = "image_to_image",
          .inputs = {{.shape = {2, 4, 4}}},
          .layers = {{"first", Conv2d{.in = 2, .out = 8, .kernel = 3, .padding = 1, .bias = false}, {-1}},
                     {"drop", Dropout{.probability = 0.3, .channels = true}, {0}},
                     {"norm", InstanceNorm{8}, {1}},
                     {"relu", Activation{Activation::Kind::leaky_relu}, {2}},
                     {"up", Upsample{}, {3}},
                     {"second", Conv2d{.in = 8, .out = 4, .kernel = 3, .padding = 1, .bias = false}, {4}},
                     {"pool", Pool2d{}, {5}},
                     {"concat", Concat{}, {6, -1}},
                     {"third", Conv2d{.in = 6, .out = 1, .kernel = 1, .bias = false}, {7}},
                     {"loss", BinaryCrossEntropyLoss{}, {8}}}};
}
ModelGraph relative_model() {
  return {.name = "relative",
          .inputs = {{.shape = {6, 8}}},
          .layers = {{"attention", RelativeAttention{.width = 8, .heads = 4}, {-1}},
                     {"norm", LayerNorm{8}, {0}},
                     {"again", RelativeAttention{.width = 8, .heads = 4}, {1}},
                     {"loss", MseLoss{}, {2}}}};
}
ModelGraph mlp_model() { return mlp_classifier({48, 40, 32, 24, 12}, {1, 12, 12}); }

struct TensorCase {
  std::string system;
  std::map<std::string, std::string> options = {};
  int groups = 1, tensor = 2, replicas = 1;
  bool batched = false;
};
void PrintTo(const TensorCase& c, std::ostream* out) {
  *out << c.system << ' ' << testing::PrintToString(c.options) << ", " << c.groups << " groups of " << c.tensor << ", "
       << c.replicas << " replicas";
}

TestSetup tensor_setup_of(const TensorCase& c, const ModelGraph& model) {
  return TestSetup(c.system, c.options, model, c.groups * c.tensor, kBatch, kTensorMicros, {c.replicas}, "system",
                   c.tensor);
}

Numbers one_device(const ModelGraph& model, const DataFeed& feed, bool batched = false) {
  return train(TestSetup("single_device", {}, model, 1, kBatch, kTensorMicros), feed,
               {.double_precision = true, .batched = batched});
}

void expect_as_one_device(const TensorCase& c, const ModelGraph& model) {
  SCOPED_TRACE(testing::Message() << testing::PrintToString(c) << ", " << model.name);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Numbers shared = train(tensor_setup_of(c, model), feed, {.double_precision = true, .batched = c.batched});
  expect_close(shared, one_device(model, feed), model, 1e-11);
}

class SharedLayers : public testing::TestWithParam<TensorCase> {};

TEST_P(SharedLayers, TrainAsOneDeviceDoes) {
  for (const ModelGraph& model : {test_gpt(), translation_model()}) expect_as_one_device(GetParam(), model);
}

INSTANTIATE_TEST_SUITE_P(
    Systems, SharedLayers,
    testing::Values(TensorCase{"gpipe", {}, 1, 2}, TensorCase{"gpipe", {}, 1, 4}, TensorCase{"gpipe", {}, 2, 2},
                    TensorCase{"gpipe", {{"recompute", "all"}}, 2, 2}, TensorCase{"one_f_one_b", {}, 2, 2},
                    TensorCase{"one_f_one_b", {}, 2, 2, 1, true}, TensorCase{"one_f_one_b", {}, 4, 2, 2},
                    TensorCase{"interleaved_1f1b", {}, 2, 2}, TensorCase{"zero_bubble", {{"variant", "h1"}}, 2, 2},
                    TensorCase{"zero_bubble", {{"variant", "v"}}, 2, 2},
                    TensorCase{"zero_bubble", {{"variant", "auto"}}, 2, 2}, TensorCase{"dapple", {}, 2, 2},
                    TensorCase{"chimera", {}, 2, 2}, TensorCase{"data_parallel", {}, 2, 2}));

TEST(SharedLayersOfEveryModel, TrainAsOneDeviceDoes) {
  for (const ModelGraph& model :
       {test_vit(), mixed_model(), llama_model(), test_mixtral(), convolution_model(), image_to_image_model(),
        relative_model(), text_model(), regression_model(), mlp_model(), translation_model(), test_gpt()})
    for (const int degree : {2, 4}) expect_as_one_device({"one_f_one_b", {}, degree == 2 ? 2 : 1, degree}, model);
}

// What every rank holds whole it also computes whole, from the same numbers in the same order.
TEST(SharedLayersOfEveryModel, LeaveTheWeightsThatAllHoldEqualToTheLastBit) {
  for (const ModelGraph& model : {test_gpt(), mixed_model(), llama_model(), test_mixtral(), translation_model()}) {
    SCOPED_TRACE(model.name);
    const TestSetup setup = tensor_setup_of({"one_f_one_b", {}, 2, 2}, model);
    SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
    spec.feed = random_feed(model, kBatch * kUpdates);
    RunRequest request;
    request.order = samples_from(0, kBatch * kUpdates);
    request.iterations = kUpdates;
    request.timeout = Seconds(120);
    request.keep_weights = true;
    const RunResult result = make_session(spec)->run(make_program(setup.prepared, kTensorMicros), request);
    const TensorModel& tensor = *setup.prepared.tensor;
    int compared = 0;
    for (std::size_t s = 0; s < result.weights.size(); s += 2)
      for (int u = 0; u < kUpdates; ++u) {
        const auto &first = result.weights[s].at(std::size_t(u)), &second = result.weights[s + 1].at(std::size_t(u));
        ASSERT_EQ(first.size(), second.size());
        std::size_t offset = 0;
        for (const int l : setup.prepared.plan.stages[s].layers) {
          const auto own = parameters(tensor.all.layers[std::size_t(l)]);
          for (std::size_t p = 0; p < own.size(); ++p) {
            const auto n = static_cast<std::size_t>(elements(own[p].shape));
            const bool whole = tensor.split_of(l).parameters[p].dimension < 0;
            EXPECT_EQ(std::equal(first.begin() + std::ptrdiff_t(offset), first.begin() + std::ptrdiff_t(offset + n),
                                 second.begin() + std::ptrdiff_t(offset)),
                      whole)
                << tensor.all.layers[std::size_t(l)].name << ", " << own[p].name;
            offset += n;
            ++compared;
          }
        }
      }
    EXPECT_GT(compared, 20);
  }
}

TEST(SharedLayersOfEveryModel, SumAsOftenAndAsMuchAsBothClocksAreTold) {
  for (const TensorCase& c : {TensorCase{"one_f_one_b", {}, 2, 2}, TensorCase{"gpipe", {{"recompute", "all"}}, 2, 2},
                              TensorCase{"zero_bubble", {{"variant", "h1"}}, 2, 4}})
    for (const ModelGraph& model : {test_gpt(), mixed_model(), llama_model(), test_mixtral(), convolution_model(),
                                    translation_model(), test_vit()}) {
      SCOPED_TRACE(testing::Message() << testing::PrintToString(c) << ", " << model.name);
      const TestSetup setup = tensor_setup_of(c, model);
      const Program program = make_program(setup.prepared, kTensorMicros);
      SessionSpec spec = setup.spec({.learning_rate = 0.05});
      spec.feed = random_feed(model, kBatch);
      RunRequest request;
      request.order = samples_from(0, kBatch);
      request.timeout = Seconds(120);
      const RunResult result = make_session(spec)->run(program, request);
      EXPECT_EQ(result.group_sums,
                tensor_sums(program, *setup.prepared.tensor, setup.prepared.plan, setup.prepared.micro_batch));
      EXPECT_GT(result.group_sums.front().count, 0);
    }
}

TEST(SharedLayersOfEveryModel, TakeTheMemoryThatIsPredicted) {
  for (const TensorCase& c :
       {TensorCase{"gpipe", {}, 1, 4}, TensorCase{"one_f_one_b", {}, 2, 2},
        TensorCase{"gpipe", {{"recompute", "all"}}, 2, 2}, TensorCase{"zero_bubble", {{"variant", "h1"}}, 2, 2}})
    for (const ModelGraph& model : {test_gpt(), mlp_model(), convolution_model(), text_model(), translation_model()}) {
      SCOPED_TRACE(testing::Message() << testing::PrintToString(c) << ", " << model.name);
      const TestSetup setup = tensor_setup_of(c, model);
      const OptimizerSpec optimizer{.learning_rate = 0.05, .momentum = 0.9};
      const Program program = make_program(setup.prepared, kTensorMicros);
      std::vector<MemoryByKind> peaks;
      train_by(program, setup, random_feed(model, kBatch * kUpdates), {.optimizer = optimizer}, &peaks);
      EXPECT_TRUE(as_predicted(peaks, memory(program, stage_memory(setup.prepared, optimizer, program.rule))));
    }
}

// A block has two sums forward and two backward, of batch x sequence x width each (Megatron-LM).
TEST(SharedLayersOfEveryModel, SumTwiceABlockAndDirection) {
  const ModelGraph model = test_gpt();
  const TensorModel tensor = split_tensors(model, 4);
  std::vector<int> block;
  for (std::size_t l = 0; l < tensor.all.layers.size(); ++l)
    if (tensor.all.layers[l].block == 1 && tensor.member_of(static_cast<int>(l)) == 0)
      block.push_back(static_cast<int>(l));
  const std::int64_t bytes = 2 * 4 * 5 * 6 * 16;  // two sums of 4 bytes, 5 samples, 6 tokens, width 16
  EXPECT_EQ(forward_sums(tensor, block, 5), (TensorSums{2, bytes}));
  EXPECT_EQ(input_gradient_sums(tensor, block, 5), (TensorSums{2, bytes}));
}

TEST(SharedLayersOfEveryModel, EvaluateAsTheWholeModel) {
  for (const ModelGraph& model : {test_gpt(), mixed_model(), convolution_model()}) {
    SCOPED_TRACE(model.name);
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    const auto evaluate = [&](const TestSetup& setup) {
      SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
      spec.double_precision = true;
      spec.feed = feed;
      const auto session = make_session(spec);
      RunRequest request;
      request.order = samples_from(0, kBatch * kUpdates);
      request.iterations = kUpdates;
      request.timeout = Seconds(120);
      request.snapshots = {1};
      session->run(make_program(setup.prepared, kTensorMicros), request);
      const Evaluation snapshot = session->evaluate_snapshot(0), end = session->evaluate();
      return std::vector<double>{snapshot.loss, snapshot.accuracy, end.loss, end.accuracy};
    };
    const auto shared = evaluate(tensor_setup_of({"one_f_one_b", {}, 2, 2}, model));
    const auto one = evaluate(TestSetup("single_device", {}, model, 1, kBatch, kTensorMicros));
    for (std::size_t k = 0; k < one.size(); ++k) EXPECT_NEAR(shared[k], one[k], 1e-10);
  }
}

// A profile of the small GPT in which two devices that share a layer take 0.4 of its time: Piper's plan for four
// devices is two stages of two, or one on two groups, and runs as it says.
TEST(SharedLayersOfPiper, RunForRealAsItsPlanSays) {
  const ModelGraph model = test_gpt();
  Workload workload = find_workload("tiny");
  workload.name = "shared_gpt";
  workload.model = model;
  workload.batch = kBatch;
  workload.microbatches = kTensorMicros;
  CostGraph costs = analytic_costs(model, kBatch / kTensorMicros, load_cluster("flat:1", "").devices.front());
  costs.source = "profile";
  for (LayerCost& layer : costs.layers) {
    layer.fused = false;
    layer.forward = layer.input_gradient = layer.weight_gradient = Seconds(1e-3);
    for (const int degree : {1, 2})
      layer.variants.push_back({.tensor = degree,
                                .id = "vanilla",
                                .seconds = Seconds(degree == 1 ? 3e-3 : 1.2e-3),
                                .parameters = Bytes(layer.parameters.value / degree)});
  }
  const auto file = [](const char* name, const Json& json) {
    const std::string path = testing::TempDir() + "tensor_parallel_" + name + ".json";
    std::ofstream(path) << json.dump();
    return path;
  };
  const std::string workload_file = file("workload", to_json(workload)), cost_file = file("costs", to_json(costs));
  const auto expect_as_one = [&](bool replicates, std::size_t stages) {
    SCOPED_TRACE(stages);
    const RunCase c = resolve({{{"system", "piper"},
                                {"options", {{"data_parallel", replicates ? "yes" : "no"}}},
                                {"workload", workload_file},
                                {"costs", cost_file},
                                {"ranks", 4},
                                {"steps", 3}},
                               in_file("test")});
    TestSetup setup("single_device", {}, model, 1, kBatch, kTensorMicros);
    setup.prepared = prepare(c, test_profiles());
    const Prepared& p = setup.prepared;
    ASSERT_TRUE(p.tensor);
    EXPECT_EQ(p.tensor->degree, 2);
    EXPECT_EQ(p.pipeline.stages.size(), stages);
    EXPECT_EQ(p.ranks.devices.size(), 4u);
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    expect_close(train(setup, feed, {.double_precision = true}), one_device(model, feed), model, 1e-11);
  };
  expect_as_one(false, 2);
  expect_as_one(true, 1);  // two groups, with a half of the micro-batches each
}

}  // namespace
}  // namespace sluice
