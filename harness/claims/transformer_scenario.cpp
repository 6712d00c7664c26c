// Scenarios of kind "transformer": training a GPT in 16 bit with tensor, pipeline and data parallelism, as Megatron-LM
// does. Fields: layers, hidden, heads, sequence, vocabulary, tensor, pipeline, data, chunks, micro_batch, batch,
// recompute, measure; sends (overlapped or blocking, as of a cluster) and whole_messages (every tensor-parallel rank
// sends the whole output of a stage, not its part); system and set, instead of 1F1B or, with chunks, interleaved 1F1B;
// balance (layers of every stage); rank (for measures of one); network and nvlink (bytes/s of a GPU's messages between
// and inside nodes), nvlink_latency (seconds of a step of a ring); compute (by which all that is not communication is
// longer); kernels, precision, attention, host_gap, blocking.
//
// With kernels, a calibration in 16 bit (workloads/devices), costs are by shape: calibrated_costs of the part of the
// model that a tensor-parallel rank holds, with sums over its group on nvlink. host_gap is what the host takes to start
// a kernel; blocking: it waits for each (CUDA_LAUNCH_BLOCKING).
//
// Without kernels the device is an A100. Seconds of a layer: matrix products at kProductRate of the peak, and what
// streams through memory (attention scores, norms, dropout, GELU) at a share of the bandwidth. The three shares are the
// medians over the nine rows of Table 6 of Qi et al. (ICLR 2024), which gives F, B and W of three models on one A100:
// the weight gradient is nothing but matrix products, so it gives the first; what is left of F and of B gives the
// others. The bytes are those of Megatron-LM's fused kernels: forward, 6.5 passes over the scores and 21 over the
// hidden state, backward 9.5 and 25, of two bytes.
#include <algorithm>
#include <cmath>

#include "harness/base/source_folder.h"
#include "harness/claims/measure.h"
#include "harness/claims/scenario.h"
#include "harness/model/calibrated_costs.h"
#include "harness/model/tensor_split.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"
#include "workloads/models/models.h"

namespace sluice {

namespace {

constexpr double kPeak = 312e12, kMemory = 2039e9;                       // A100 SXM 80 GB: NVIDIA's data sheet
constexpr double kProductRate = 0.806;                                   // of the peak
constexpr double kForwardStreaming = 0.387, kBackwardStreaming = 0.613;  // of the bandwidth
constexpr double kNvlink = 240e9;       // bytes/s of an all-reduce among 8: 12 links of 20 GB/s, NCCL's own figure
constexpr double kNetwork = 24e9;       // bytes/s of a GPU's 200 Gb/s card, 96 % of it
constexpr double kOptimizerBytes = 34;  // read and written a parameter: gradient, master weight, two moments, weight

struct TransformerScenario {
  double layers, hidden, heads, sequence, vocabulary, tensor, pipeline, data, chunks, micro_batch, batch;
  bool recompute;
  double network, nvlink, nvlink_latency, compute;
  Sends sends = Sends::overlapped;
  bool whole_messages = false;
  std::optional<Calibration> kernels;  // with the host's gap
  Storage storage;
  std::vector<double> balance;  // layers of every stage; empty: equal
  std::size_t rank;
  std::string system;
  std::map<std::string, std::string> options;

  double tokens() const { return micro_batch * sequence; }
  double peak() const { return kernels ? kernels->peak : kPeak; }
  double stream_rate() const {
    return (kernels ? kernels->memory_bandwidth * kernels->stream_share : 0.8 * kMemory) / compute;
  }
  std::size_t stages() const { return static_cast<std::size_t>(pipeline * chunks); }
  double layers_of(std::size_t stage) const {
    return balance.empty() ? layers / static_cast<double>(stages()) : balance[stage];
  }
  int microbatches() const { return static_cast<int>(batch / (data * micro_batch)); }
  double parameters() const { return layers * (12 * hidden * hidden + 13 * hidden) + (vocabulary + sequence) * hidden; }
};

struct LayerSeconds {
  double forward, input_gradient, weight_gradient;
};

LayerSeconds layer_seconds(const TransformerScenario& t) {
  const double h = t.hidden, products = 24 * t.tokens() * h * h / t.tensor,
               attention = 4 * t.tokens() * t.sequence * h / t.tensor, rate = kPeak * kProductRate / t.compute,
               memory = kMemory / t.compute;
  const double scores = 2 * t.heads * t.tokens() * t.sequence / t.tensor, hidden = 2 * t.tokens() * h;
  // Norms and residual additions are on every rank of a tensor group; GELU and the heads' layout are divided.
  const double forward = 6.5 * scores + hidden * (11 + 10 / t.tensor);
  const double backward = 9.5 * scores + hidden * (11 + 14 / t.tensor);
  const double reduce = t.tensor == 1 ? 0 : 2 * 2 * (t.tensor - 1) / t.tensor * hidden / kNvlink;  // two all-reduces
  return {(products + attention) / rate + forward / (memory * kForwardStreaming) + reduce,
          (products + 2 * attention) / rate + backward / (memory * kBackwardStreaming) + reduce, products / rate};
}

struct Parts {
  LayerSeconds first, layer, last;  // embeddings; one transformer layer; norm, head and loss
};

// Of a ring all-reduce of `bytes` in a tensor-parallel group.
double sum_seconds(const TransformerScenario& t, double bytes) {
  return 2 * (t.tensor - 1) * (t.nvlink_latency + bytes / t.tensor / t.nvlink);
}

Parts parts_by_shape(const TransformerScenario& t) {
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  const ModelGraph graph = gpt("gpt", 1, whole(t.hidden), whole(t.heads), whole(t.sequence), whole(t.vocabulary));
  const TensorModel split = t.tensor > 1 ? split_tensors(graph, static_cast<int>(t.tensor)) : TensorModel{};
  const Device device{.name = t.kernels->device, .flops_16 = t.kernels->peak};
  const CostGraph costs =
      calibrated_costs(t.tensor > 1 ? split.member : graph, whole(t.micro_batch), device, *t.kernels, t.storage);
  Parts parts{};
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    const int block = graph.layers[l].block;
    LayerSeconds& part = block == 0 ? parts.first : block == 1 ? parts.layer : parts.last;
    part.forward += t.compute * costs.layers[l].forward.value;
    part.input_gradient += t.compute * costs.layers[l].input_gradient.value;
    part.weight_gradient += t.compute * costs.layers[l].weight_gradient.value;
    if (t.tensor == 1) continue;
    const double bytes = t.micro_batch * static_cast<double>(t.storage.activation.value);
    for (const std::int64_t sum : split.layers[l].forward_sums)
      part.forward += sum_seconds(t, bytes * static_cast<double>(sum));
    for (const std::int64_t sum : split.layers[l].input_gradient_sums)
      part.input_gradient += sum_seconds(t, bytes * static_cast<double>(sum));
  }
  return parts;
}

Parts parts_of(const TransformerScenario& t) {
  if (t.kernels) return parts_by_shape(t);
  const double head = 2 * t.tokens() * t.hidden * t.vocabulary / t.tensor / (kPeak * kProductRate) * t.compute;
  return {{}, layer_seconds(t), {head, head, head}};
}

// With the recomputation, once the gradient is there.
StageCost stage_cost(const TransformerScenario& t, const Parts& parts, std::size_t stage) {
  LayerSeconds layer = parts.layer;
  if (t.recompute) layer.input_gradient += layer.forward;
  const double layers = t.layers_of(stage);
  StageCost cost{Seconds(layers * layer.forward), Seconds(layers * layer.input_gradient),
                 Seconds(layers * layer.weight_gradient), Seconds(0), Bytes(0)};
  const auto add = [&](const LayerSeconds& part) {
    cost.forward += Seconds(part.forward);
    cost.input_gradient += Seconds(part.input_gradient);
    cost.weight_gradient += Seconds(part.weight_gradient);
  };
  if (stage == 0) add(parts.first);
  if (stage + 1 == t.stages()) add(parts.last);
  return cost;
}

// Seconds of an iteration: the pipeline, the gradients' all-reduce and the optimizer's step.
double iteration_seconds(const TransformerScenario& t) {
  const System& system = find_system(t.system, "transformer");
  const Options options = resolve_options(system.options, t.options, "transformer");
  const int ranks = static_cast<int>(t.pipeline);
  const Seconds message(2 * t.tokens() * t.hidden / (t.whole_messages ? 1 : t.tensor) / t.network);
  Cluster cluster = latency_cluster(ranks, message);
  cluster.sends = t.sends;
  const Parts parts = parts_of(t);
  UniformChain chain =
      uniform_chain(system, options, cluster, ranks, t.microbatches(), stage_cost(t, parts, 0), message);
  for (std::size_t s = 0; s < chain.problem.costs.size(); ++s) {
    StageCost& stage = chain.problem.costs[s];
    const StageCost own = stage_cost(t, parts, s);
    stage.forward = own.forward;
    stage.input_gradient = own.input_gradient;
    stage.weight_gradient = own.weight_gradient;
  }
  const Schedule schedule = system.schedule(chain.problem, options);
  const Program program =
      lower(schedule, chain.problem.graph, chain.problem.placement, system.weights(chain.problem, options));
  const double pipeline =
      simulate(program, {chain.problem.costs, {}}, cluster, chain.devices, {.trace = false}).bubble.makespan;
  const double own = t.parameters() / (t.tensor * t.pipeline);
  const double cards = std::max(1.0, std::min(8 / t.tensor, t.data));  // that a data-parallel group has in a machine
  const double reduce = t.data == 1 ? 0 : 2 * (t.data - 1) / t.data * 2 * own / (t.network * cards);
  return pipeline + reduce + kOptimizerBytes * own / t.stream_rate();
}

// As the paper counts them: with the recomputation, of one GPU.
double tflops(const TransformerScenario& t) {
  const double h = t.hidden, l = t.layers, s = t.sequence;
  const double work =
      (t.recompute ? 96 : 72) * t.batch * s * l * h * h * (1 + s / (6 * h) + t.vocabulary / (16 * l * h));
  return work / (t.tensor * t.pipeline * t.data) / iteration_seconds(t) / 1e12;
}

// Without recomputation, over the peak (Megatron-LM's formula).
double mfu_percent(const TransformerScenario& t) {
  const double h = t.hidden, l = t.layers, s = t.sequence;
  const double work = 72 * t.batch * s * l * h * h * (1 + s / (6 * h) + t.vocabulary / (12 * l * h));
  return 100 * work / (t.tensor * t.pipeline * t.data) / iteration_seconds(t) / t.peak();
}

StageCost rank_cost(const TransformerScenario& t) { return stage_cost(t, parts_of(t), t.rank); }

struct TransformerMeasure {
  const char* name;
  double (*value)(const TransformerScenario&);
};

constexpr TransformerMeasure kTransformerMeasures[] = {
    {"tflops", tflops},
    {"parameters_billions", [](const TransformerScenario& t) { return t.parameters() / 1e9; }},
    {"stage_forward_ms", [](const TransformerScenario& t) { return 1e3 * t.layers * parts_of(t).layer.forward; }},
    {"stage_input_gradient_ms",
     [](const TransformerScenario& t) { return 1e3 * t.layers * parts_of(t).layer.input_gradient; }},
    {"stage_weight_gradient_ms",
     [](const TransformerScenario& t) { return 1e3 * t.layers * parts_of(t).layer.weight_gradient; }},
    {"rank_forward_ms", [](const TransformerScenario& t) { return 1e3 * rank_cost(t).forward.value; }},
    {"rank_backward_ms",
     [](const TransformerScenario& t) {
       const StageCost cost = rank_cost(t);
       return 1e3 * (cost.input_gradient + cost.weight_gradient).value;
     }},
    {"mfu_percent", mfu_percent},
    {"iteration_ms", [](const TransformerScenario& t) { return 1e3 * iteration_seconds(t); }},
    {"tokens_per_second",  // of a GPU
     [](const TransformerScenario& t) {
       return t.batch * t.sequence / (t.tensor * t.pipeline * t.data) / iteration_seconds(t);
     }},
};

void read_kernels(JsonReader& reader, TransformerScenario& t) {
  t.kernels = load_calibration(reader.text("kernels"), source_folder() + "/workloads/devices");
  if (!t.kernels->is_16_bit()) reader.fail("kernels", "are in fp32", "name a calibration in 16 bit");
  t.storage = {reader.choice_or("precision", Precision::mixed), reader.choice_or("attention", AttentionScores::fused)};
  if (!t.storage.is_16_bit()) reader.fail("precision", "must be of 16 bit");
  if (reader.has("host_gap")) t.kernels->host_gap = parse_seconds(reader.text("host_gap"), reader.where("host_gap"));
  t.kernels->blocking_launches = reader.boolean("blocking", false);
}

void read_stages(JsonReader& reader, TransformerScenario& t) {
  const bool interleaved = t.chunks > 1;
  t.system = reader.text("system", interleaved ? "interleaved_1f1b" : "one_f_one_b");
  t.options = read_set(reader);
  if (interleaved && !t.options.contains("chunks")) t.options["chunks"] = std::to_string(static_cast<int>(t.chunks));
  find_system(t.system, reader.where("system"));
  if (reader.has("balance")) t.balance = reader.numbers("balance", 0, 100'000);
  if (!t.balance.empty() && t.balance.size() != t.stages())
    reader.fail("balance",
                "has " + std::to_string(t.balance.size()) + " stages, the pipeline " + std::to_string(t.stages()));
  t.rank = reader.integer_or<std::size_t>("rank", 0, 0, t.stages() - 1);
}

}  // namespace

Scenario read_transformer_scenario(JsonReader& reader) {
  const auto size = [&](const std::string& key, std::int64_t otherwise) {
    const std::int64_t most = 10'000'000;
    return static_cast<double>(otherwise > 0 ? reader.integer_or<std::int64_t>(key, otherwise, 1, most)
                                             : reader.integer<std::int64_t>(key, 1, most));
  };
  TransformerScenario t{};
  t.layers = size("layers", 0);
  t.hidden = size("hidden", 0);
  t.heads = size("heads", 0);
  t.sequence = size("sequence", 0);
  t.vocabulary = size("vocabulary", 51'200);
  t.tensor = size("tensor", 1);
  t.pipeline = size("pipeline", 1);
  t.data = size("data", 1);
  t.chunks = size("chunks", 1);
  t.micro_batch = size("micro_batch", 1);
  t.batch = size("batch", 1);
  t.recompute = reader.boolean("recompute", true);
  if (t.pipeline > 4096) reader.fail("pipeline", "is too large");
  t.network = reader.above_zero_or("network", kNetwork, kMaxNumber);
  t.nvlink = reader.above_zero_or("nvlink", kNvlink, kMaxNumber);
  t.nvlink_latency = reader.number_or("nvlink_latency", 0, 0, 1);
  t.compute = reader.above_zero_or("compute", 1, 100);
  t.sends = reader.choice_or("sends", Sends::overlapped);
  t.whole_messages = reader.boolean("whole_messages", false);
  if (reader.has("kernels")) read_kernels(reader, t);
  read_stages(reader, t);
  if (std::fmod(t.batch, t.data * t.micro_batch) != 0)
    reader.fail("batch", "is no multiple of data * micro_batch", "change one of them");
  const TransformerMeasure& measure = read_measure(reader, kTransformerMeasures);
  return [t, &measure](ProfileStore&) { return Figure{measure.value(t), {}}; };
}

std::vector<std::string> transformer_measures() { return names_of(kTransformerMeasures); }

}  // namespace sluice
