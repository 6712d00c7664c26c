// Scenarios of kind "transformer": training a GPT on A100 in 16 bit with tensor, pipeline and data parallelism, as
// Megatron-LM does. Fields: layers, hidden, heads, sequence, vocabulary, tensor, pipeline, data, chunks, micro_batch,
// batch, recompute, measure.
//
// Seconds of a layer: matrix products at kProductRate of the peak, and what streams through memory (attention scores,
// norms, dropout, GELU) at a share of the bandwidth. The three shares are the medians over the nine rows of Table 6 of
// Qi et al. (ICLR 2024), which gives F, B and W of three models on one A100: the weight gradient is nothing but matrix
// products, so it gives the first; what is left of F and of B gives the others. The bytes are those of Megatron-LM's
// fused kernels: forward, 6.5 passes over the scores and 21 over the hidden state, backward 9.5 and 25, of two bytes.
#include <algorithm>
#include <cmath>

#include "harness/claims/measure.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

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

  double tokens() const { return micro_batch * sequence; }
  int microbatches() const { return static_cast<int>(batch / (data * micro_batch)); }
  double parameters() const { return layers * (12 * hidden * hidden + 13 * hidden) + (vocabulary + sequence) * hidden; }
};

struct LayerSeconds {
  double forward, input_gradient, weight_gradient;
};

LayerSeconds layer_seconds(const TransformerScenario& t) {
  const double h = t.hidden, products = 24 * t.tokens() * h * h / t.tensor,
               attention = 4 * t.tokens() * t.sequence * h / t.tensor, rate = kPeak * kProductRate;
  const double scores = 2 * t.heads * t.tokens() * t.sequence / t.tensor, hidden = 2 * t.tokens() * h;
  // Norms and residual additions are on every rank of a tensor group; GELU and the heads' layout are divided.
  const double forward = 6.5 * scores + hidden * (11 + 10 / t.tensor);
  const double backward = 9.5 * scores + hidden * (11 + 14 / t.tensor);
  const double reduce = t.tensor == 1 ? 0 : 2 * 2 * (t.tensor - 1) / t.tensor * hidden / kNvlink;  // two all-reduces
  return {(products + attention) / rate + forward / (kMemory * kForwardStreaming) + reduce,
          (products + 2 * attention) / rate + backward / (kMemory * kBackwardStreaming) + reduce, products / rate};
}

// Seconds of an iteration: the pipeline, the gradients' all-reduce and the optimizer's step.
double iteration_seconds(const TransformerScenario& t) {
  LayerSeconds layer = layer_seconds(t);
  if (t.recompute) layer.input_gradient += layer.forward;  // once the gradient is there
  const bool interleaved = t.chunks > 1;
  const System& system = find_system(interleaved ? "interleaved_1f1b" : "one_f_one_b", "transformer");
  const auto chunks = std::to_string(static_cast<int>(t.chunks));
  const Options options = resolve_options(
      system.options,
      interleaved ? std::map<std::string, std::string>{{"chunks", chunks}} : std::map<std::string, std::string>{},
      "transformer");
  const double per_stage = t.layers / (t.pipeline * t.chunks);
  const StageCost stage{Seconds(per_stage * layer.forward), Seconds(per_stage * layer.input_gradient),
                        Seconds(per_stage * layer.weight_gradient), Seconds(0), Bytes(0)};
  const int ranks = static_cast<int>(t.pipeline);
  const Seconds message(2 * t.tokens() * t.hidden / t.tensor / kNetwork);
  const Cluster cluster = latency_cluster(ranks, message);
  UniformChain chain = uniform_chain(system, options, cluster, ranks, t.microbatches(), stage, message);
  // The last stage projects to the vocabulary besides.
  const Seconds head(2 * t.tokens() * t.hidden * t.vocabulary / t.tensor / (kPeak * kProductRate));
  StageCost& last = chain.problem.costs.back();
  last.forward += head;
  last.input_gradient += head;
  last.weight_gradient += head;
  const Schedule schedule = system.schedule(chain.problem, options);
  const Program program =
      lower(schedule, chain.problem.graph, chain.problem.placement, system.weights(chain.problem, options));
  const double pipeline =
      simulate(program, {chain.problem.costs, {}}, cluster, chain.devices, {.trace = false}).bubble.makespan;
  const double own = t.parameters() / (t.tensor * t.pipeline);
  const double cards = std::max(1.0, std::min(8 / t.tensor, t.data));  // that a data-parallel group has in a machine
  const double reduce = t.data == 1 ? 0 : 2 * (t.data - 1) / t.data * 2 * own / (kNetwork * cards);
  return pipeline + reduce + kOptimizerBytes * own / (0.8 * kMemory);
}

// As the paper counts them: with the recomputation, of one GPU.
double tflops(const TransformerScenario& t) {
  const double h = t.hidden, l = t.layers, s = t.sequence;
  const double work =
      (t.recompute ? 96 : 72) * t.batch * s * l * h * h * (1 + s / (6 * h) + t.vocabulary / (16 * l * h));
  return work / (t.tensor * t.pipeline * t.data) / iteration_seconds(t) / 1e12;
}

struct TransformerMeasure {
  const char* name;
  double (*value)(const TransformerScenario&);
};

constexpr TransformerMeasure kTransformerMeasures[] = {
    {"tflops", tflops},
    {"parameters_billions", [](const TransformerScenario& t) { return t.parameters() / 1e9; }},
    {"stage_forward_ms", [](const TransformerScenario& t) { return 1e3 * t.layers * layer_seconds(t).forward; }},
    {"stage_input_gradient_ms",
     [](const TransformerScenario& t) { return 1e3 * t.layers * layer_seconds(t).input_gradient; }},
    {"stage_weight_gradient_ms",
     [](const TransformerScenario& t) { return 1e3 * t.layers * layer_seconds(t).weight_gradient; }},
};

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
  if (std::fmod(t.batch, t.data * t.micro_batch) != 0)
    reader.fail("batch", "is no multiple of data * micro_batch", "change one of them");
  const TransformerMeasure& measure = read_measure(reader, kTransformerMeasures);
  return [t, &measure](ProfileStore&) { return Figure{measure.value(t), {}}; };
}

std::vector<std::string> transformer_measures() { return names_of(kTransformerMeasures); }

}  // namespace sluice
