// What tests of several rooms share: small models with random data, and a system prepared for one
// of them without the registry of workloads or a file.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/expert_costs.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/prepare.h"
#include "harness/case/size_rules.h"
#include "harness/case/tensor_costs.h"
#include "harness/exec/session.h"
#include "harness/model/expert_spread.h"
#include "harness/model/word_slices.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/plan/make_plan.h"
#include "workloads/models/hugging_face.h"
#include "workloads/models/models.h"

namespace sluice {

// Ids from 1 below `limit` and, at the end, `padding`: sample i has `length` less i mod `length` of
// them.
inline std::vector<std::int64_t> random_ids(std::int64_t samples, std::int64_t length, std::int64_t limit,
                                            std::int64_t padding) {
  std::mt19937_64 random(static_cast<std::uint64_t>(7 + length));
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < samples * length; ++i) {
    const auto id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit - 1)) + 1;
    ids.push_back(i % length < length - i / length % length ? id : padding);
  }
  return ids;
}

// Texts for a model of token ids, and classes of every position where it predicts there.
inline void feed_texts(const ModelGraph& model, std::int64_t samples, DataFeed& feed) {
  std::vector<std::vector<std::int64_t>> ids;
  for (std::size_t k = 0; k < model.inputs.size(); ++k) {
    std::int64_t vocabulary = 2;
    for (const LayerSpec& layer : model.layers)
      if (const auto* table = std::get_if<Embedding>(&layer.kind); table && layer.inputs[0] == -1 - static_cast<int>(k))
        vocabulary = table->vocabulary;
    ids.push_back(random_ids(samples, model.inputs[k].shape[0], vocabulary, 0));
  }
  const auto rows = [](const std::vector<std::int64_t>& from, std::span<const std::int64_t> indices,
                       std::int64_t samples_, std::int64_t* out) {
    const auto length = static_cast<std::int64_t>(from.size()) / samples_;
    for (const std::int64_t i : indices) out = std::copy_n(from.begin() + i * length, length, out);
  };
  feed.tokens = [=](bool, std::size_t input, std::span<const std::int64_t> indices, std::int64_t* out) {
    rows(ids.at(input), indices, samples, out);
  };
  const Shape prediction = model.shapes()[model.layers.size() - 2];
  if (prediction.size() == 2) {
    const auto targets = random_ids(samples, prediction[0], prediction[1], -100);
    feed.classes = [=](bool, std::span<const std::int64_t> indices, std::int64_t* out) {
      rows(targets, indices, samples, out);
    };
  }
}

// Class images, or values where the model ends in MseLoss, or texts; the same for every system that
// asks.
inline DataFeed random_feed(const ModelGraph& model, std::int64_t samples) {
  struct Data {
    std::vector<double> features, values;
    std::vector<std::int64_t> classes;
    std::int64_t width, outputs;
  };
  const Shape prediction = model.shapes()[model.layers.size() - 2];
  auto data = std::make_shared<Data>();
  data->width = elements(model.inputs.front().shape);
  data->outputs = elements(prediction);
  std::mt19937_64 random(99);
  std::normal_distribution<float> normal;  // floats, so that both precisions see the same numbers
  for (std::int64_t i = 0; i < samples * data->width; ++i)
    data->features.push_back(static_cast<double>(normal(random)));
  for (std::int64_t i = 0; i < samples; ++i)
    data->classes.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(prediction.back())));
  for (std::int64_t i = 0; i < samples * data->outputs; ++i)
    data->values.push_back(static_cast<double>(normal(random)));
  const auto copy = [](const std::vector<double>& from, std::int64_t width, std::span<const std::int64_t> indices,
                       auto* out) {
    using Out = std::remove_pointer_t<decltype(out)>;
    for (const std::int64_t i : indices)
      for (std::int64_t k = 0; k < width; ++k) *out++ = static_cast<Out>(from.at(i * width + k));
  };
  DataFeed feed;
  feed.train_samples = feed.test_samples = samples;
  feed.features = [=](bool, std::span<const std::int64_t> i, float* out) { copy(data->features, data->width, i, out); };
  feed.features_double = [=](bool, std::span<const std::int64_t> i, double* out) {
    copy(data->features, data->width, i, out);
  };
  if (has_dense_target(model.layers.back().kind)) {
    feed.values = [=](bool, std::span<const std::int64_t> i, double* out) {
      copy(data->values, data->outputs, i, out);
    };
  } else {
    feed.classes = [=](bool, std::span<const std::int64_t> indices, std::int64_t* out) {
      for (const std::int64_t i : indices) *out++ = data->classes.at(i);
    };
  }
  if (model.inputs.front().is_token_ids) feed_texts(model, samples, feed);
  return feed;
}

// How one system trains a model: the plan for `ranks` ranks and batches of `batch` samples in
// `microbatches` micro-batches. Throws InputError where the system cannot.
struct TestSetup {
  std::shared_ptr<Workload> workload;
  Prepared prepared;
  int microbatches;

  TestSetup(const std::string& system, const std::map<std::string, std::string>& options, const ModelGraph& model,
            int ranks, std::int64_t batch, int microbatches_, const PipelineReplicas& replicas = {},
            const std::string& sharding = "system", int tensor = 1, const MicrobatchSizes& sizes = {})
      : workload(std::make_shared<Workload>()), microbatches(microbatches_) {
    workload->name = model.name;
    workload->model = model;
    Prepared& p = prepared;
    p.system = &find_system(system, "test");
    p.workload = workload.get();
    p.options = resolve_options(p.system->options, options, "test");
    p.cluster = load_cluster("flat:" + std::to_string(ranks), "");
    p.sizes = sizes;
    if (sizes.differ()) require_sizes_possible(*p.system);
    p.micro_batch = sizes.differ() ? sizes.distinct().back() : batch / microbatches;
    p.microbatches_per_update = microbatches;
    if (p.system->divides_words) {
      if (replicas.count > 1 || tensor > 1 || sharding != "system")
        throw InputError("test", "a system that divides words has no replicas and no tensor-parallel groups");
      p.words = std::make_shared<const TensorModel>(slice_words(model, ranks));
    }
    const auto costs_of = [&](std::int64_t size) {
      const CostFormula formula = [&](const ModelGraph& part) {
        return analytic_costs(part, size, p.cluster.devices.front());
      };
      return p.words    ? word_slice_costs(formula(model), *p.words, p.cluster, formula)
             : p.tensor ? member_costs(formula(model), *p.tensor, p.cluster, formula)
                        : formula(model);
    };
    if (tensor > 1) {
      p.tensor = std::make_shared<const TensorModel>(split_tensors(model, tensor));
      p.member_costs = costs_of(p.micro_batch);
      p.costs = members_of(p.member_costs, tensor);
    } else {
      p.costs = costs_of(p.micro_batch);
    }
    for (const std::int64_t size : sizes.distinct()) p.size_costs.push_back(costs_of(size));
    p.replicas = replicas;
    const std::optional<StageSharding> chosen = choice_named<StageSharding>(sharding);
    if (!chosen) throw std::invalid_argument(sharding);
    p.sharding = *chosen;
    Problem problem{tensor > 1 ? p.member_costs : p.costs, p.cluster,
                    ranks / replicas.count / tensor,       batch / replicas.count,
                    microbatches / replicas.count,         {}};
    if (sizes.differ()) problem.sizes = sizes_of_pipeline(sizes, replicas.count);
    if (p.words) problem.word_slices = word_slices(*p.words);
    adopt_pipeline(p, make_plan(*p.system, problem, p.options));
  }

  SessionSpec spec(const OptimizerSpec& optimizer) const {
    SessionSpec s;
    s.model = running_model(prepared);
    s.tensor = divided_model(prepared);
    s.plan = prepared.plan;
    s.optimizer = optimizer;
    s.micro_batch = prepared.micro_batch;
    s.sharding = sharding_of(prepared, microbatches);
    return s;
  }
};

// The setup with the model's experts spread over its replicas.
inline TestSetup with_spread_experts(TestSetup setup) {
  Prepared& p = setup.prepared;
  const auto replicas = static_cast<int>(p.plan.stages.front().devices.size());
  p.spread = std::make_shared<const ModelGraph>(spread_experts(setup.workload->model, replicas));
  const CostFormula formula = [&](const ModelGraph& model) {
    return analytic_costs(model, p.micro_batch, p.cluster.devices.front());
  };
  const auto devices = static_cast<int>(p.cluster.devices.size());
  p.costs = spread_costs(p.costs, setup.workload->model, *p.spread, p.cluster,
                         groups_of_experts(devices, {replicas, p.replicas.layout}), formula);
  adopt_pipeline(p, {p.pipeline, p.order});
  return setup;
}

// The samples of `updates` updates, in order of the data set from `first` on.
inline std::vector<std::int64_t> samples_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), first);
  return order;
}

// The defaults, and every other choice of every option, one at a time.
inline std::vector<std::map<std::string, std::string>> option_sets(const System& system) {
  std::vector<std::map<std::string, std::string>> sets{{}};
  for (const OptionSpec& option : system.options)
    for (const std::string& choice : option.choices)
      if (choice != option.default_value) sets.push_back({{option.name, choice}});
  return sets;
}

// |a - b| / |b| over a layer; infinite where the sizes differ or something is not a number.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (difference == 0) return 0;
  const double error = std::sqrt(difference / norm);
  return std::isnan(error) ? INFINITY : error;
}

inline ModelGraph test_cnn() { return small_cnn({1, 28, 28}, 10); }
inline ModelGraph test_mlp() { return mlp_classifier({48, 40, 32, 24, 10}, {1, 12, 12}); }
constexpr TextClassifier kTestTexts{.vocabulary = 20, .length = 6, .classes = 3, .blocks = 3, .width = 8};
constexpr Translator kTestTranslation{
    .vocabulary = 15, .source_length = 5, .target_length = 6, .layers = 3, .width = 8};
inline ModelGraph test_residual_lstm() { return residual_lstm("residual_lstm", kTestTexts); }
inline ModelGraph test_text_transformer() { return transformer_classifier("text_transformer", kTestTexts, 2, 16); }
inline ModelGraph test_gnmt() { return gnmt("gnmt", kTestTranslation); }
inline ModelGraph test_translator() { return transformer_translator("translator", kTestTranslation, 2, 16); }
inline ModelGraph test_transformer() { return transformer_regression(3, 16, 2, 32, 6); }
// A language model of three blocks in which the embedding, the first block and every attention and second linear layer
// are frozen.
inline ModelGraph test_fine_tuned() {
  ModelGraph model = gpt("fine_tuned", 3, 8, 2, 6, 12);
  for (LayerSpec& layer : model.layers)
    for (const char* part : {"embedding", "positions", "_0", "attention_", "down_"})
      if (parameter_count(layer) > 0 && layer.name.find(part) != std::string::npos) layer.frozen = true;
  return model;
}
// Four experts, two of them for a token; in the second block an expert takes a limited number of tokens.
inline ModelGraph test_mixtral() {
  const Json config = {{"model_type", "mixtral"},      {"hidden_size", 16},        {"intermediate_size", 12},
                       {"num_hidden_layers", 2},       {"num_attention_heads", 4}, {"vocab_size", 12},
                       {"max_position_embeddings", 6}, {"num_local_experts", 4}};
  ModelGraph model = read_hugging_face_config(config, "mixtral", {}).model;
  for (LayerSpec& layer : model.layers)
    if (auto* experts = std::get_if<Experts>(&layer.kind); experts && layer.name.starts_with("model.layers.1."))
      experts->capacity = 0.8;
  return model;
}
inline ModelGraph test_xlnet() { return xlnet("xlnet", 2, 8, 2, 6, 20); }
// What a U-Net is made of, one level deep.
inline ModelGraph test_hourglass() {
  const Activation leaky{Activation::Kind::leaky_relu};
  return {.name = "hourglass",
          .inputs = {{.shape = {2, 8, 8}}},
          .layers = {{"down", Conv2d{.in = 2, .out = 4, .kernel = 3, .padding = 1, .bias = false}, {-1}},
                     {"drop", Dropout{.probability = 0.2, .channels = true}, {0}},
                     {"norm", InstanceNorm{4}, {1}},
                     {"skip", leaky, {2}},
                     {"pool", Pool2d{}, {3}},
                     {"bottom", Conv2d{.in = 4, .out = 6, .kernel = 3, .padding = 1, .bias = false}, {4}},
                     {"bottom_norm", InstanceNorm{6}, {5}},
                     {"bottom_relu", leaky, {6}},
                     {"up", Upsample{}, {7}},
                     {"concat", Concat{}, {8, 3}},
                     {"mix", Conv2d{.in = 10, .out = 4, .kernel = 3, .padding = 1, .bias = false}, {9}},
                     {"mix_norm", InstanceNorm{4}, {10}},
                     {"mix_relu", leaky, {11}},
                     {"segment", Conv2d{.in = 4, .out = 1, .kernel = 1, .bias = false}, {12}},
                     {"loss", BinaryCrossEntropyLoss{}, {13}}}};
}

}  // namespace sluice
