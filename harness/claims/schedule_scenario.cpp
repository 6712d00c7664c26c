// Scenarios of kind "schedule": a system's order on a chain of stages. Fields: system, set, ranks, microbatches,
// updates, F, I and W (one time for all stages, or a list with one for each) and latency, in one unit of time; step
// (free or barrier), micro_batch (samples), measure; for bytes stash, weight_stash and weights of a stage, or
// "transformer": layers of a stage, hidden, heads, sequence, bytes_per_parameter, and, where the first and the last
// stage are others, their layers (ends) and vocabulary.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/case/predict_update.h"
#include "harness/claims/measure.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"
#include "workloads/models/models.h"

namespace sluice {

namespace {

// What stages hold: all the same, except for the ends of a chain where these are given.
struct StageBytes {
  StageMemory middle;
  std::optional<StageMemory> first, last;

  std::vector<StageMemory> of(std::size_t stages) const {
    std::vector<StageMemory> all(stages, middle);
    if (first) all.front() = *first;
    if (last) all.back() = *last;
    return all;
  }
};

struct ScheduleScenario {
  const System* system = nullptr;
  Options options;
  int ranks = 0, microbatches = 0;
  int updates = 1;                // of the microbatches, by systems that accumulate without a flush
  std::vector<StageCost> stages;  // in order
  Seconds latency;
  bool barrier = false;
  double micro_batch = 1;
  StageBytes bytes;
};

struct Ran {
  const ScheduleScenario& given;
  Cluster cluster;
  UniformChain chain;
  Schedule schedule;
  Program program;
  Simulation simulation;

  Simulation simulate_times(int iterations) const {
    return simulate(program, {chain.problem.costs, {}}, cluster, chain.devices,
                    {.iterations = iterations, .trace = false});
  }
  double largest(auto value_of) const {
    double result = 0;
    for (const RankPeak& peak : peaks(schedule)) result = std::max(result, static_cast<double>(value_of(peak)));
    return result;
  }
  double span() const { return simulation.bubble.max_span; }
  double update() const {
    return steady_update([this](int times) { return simulate_times(3 * times).update_end; }).value;
  }
  double samples() const { return given.micro_batch * given.microbatches / given.ranks; }
  // Time that a rank computes, on average.
  double work() const {
    Seconds all(0);
    for (const StageCost& stage : given.stages) all += stage.forward + stage.input_gradient + stage.weight_gradient;
    return all.value * given.microbatches / given.ranks;
  }
  double messages() const {
    double count = 0;
    for (const auto& rank : program.ranks)
      count += static_cast<double>(std::ranges::count_if(
          rank, [](const Instruction& i) { return is_send(i.opcode) && is_along_edge(i.opcode); }));
    return count;
  }
  // Of a collective, on the rank that runs most of them.
  double max_collectives(bool gathers) const {
    const Sharding sharding =
        given.system->sharding ? given.system->sharding(chain.problem, given.options) : Sharding{};
    std::size_t most = 0;
    for (const RankCollectives& rank : collectives(schedule, sharding))
      most = std::max(most, gathers ? rank.gathers.size() : rank.reductions.size());
    return static_cast<double>(most);
  }
  std::vector<RankMemory> ranks_memory() const { return memory(program, given.bytes.of(chain.problem.graph.size())); }
  double peak_bytes() const {
    std::int64_t most = 0;
    for (const RankMemory& rank : ranks_memory()) most = std::max(most, rank.peak.total().value);
    return static_cast<double>(most);
  }
  // Weight tensors of a stage that a rank holds at once, predictions included.
  double versions() const {
    int most = 0;
    for (const RankMemory& rank : ranks_memory()) most = std::max(most, rank.peak_versions);
    return most;
  }
  // Stages whose weights the fullest rank holds.
  double stages_held() const {
    std::vector<int> held(static_cast<std::size_t>(given.ranks), 0);
    for (const auto& replicas : chain.problem.placement.stages)
      for (const Rank rank : replicas) ++held[rank.index()];
    return *std::ranges::max_element(held);
  }
  // The same as a multiple of what one rank has without copies.
  double weight_copies() const { return stages_held() * given.ranks / static_cast<double>(chain.problem.graph.size()); }
};

struct ScheduleMeasure {
  const char* name;
  double (*value)(const Ran&);
};

constexpr ScheduleMeasure kScheduleMeasures[] = {
    {"span_bubble", [](const Ran& r) { return r.simulation.bubble.span_bubble; }},
    {"bubble", [](const Ran& r) { return r.simulation.bubble.bubble_ratio; }},
    {"bubble_over_work", [](const Ran& r) { return (r.simulation.bubble.makespan - r.work()) / r.work(); }},
    {"makespan", [](const Ran& r) { return r.simulation.bubble.makespan; }},
    {"idle", [](const Ran& r) { return *std::ranges::max_element(r.simulation.bubble.idle); }},
    {"span_idle", [](const Ran& r) { return r.span() - r.work(); }},
    {"samples_per_second", [](const Ran& r) { return r.samples() / r.span(); }},
    {"samples_per_second_of_updates", [](const Ran& r) { return r.samples() / r.update(); }},
    {"in_flight", [](const Ran& r) { return r.largest([](const RankPeak& p) { return p.in_flight; }); }},
    {"least_in_flight",
     [](const Ran& r) { return 1e9 - r.largest([](const RankPeak& p) { return 1e9 - p.in_flight; }); }},
    {"messages", [](const Ran& r) { return r.messages(); }},
    {"gathers", [](const Ran& r) { return r.max_collectives(true); }},
    {"reductions", [](const Ran& r) { return r.max_collectives(false); }},
    {"stages_held", [](const Ran& r) { return r.stages_held(); }},
    {"weight_copies", [](const Ran& r) { return r.weight_copies(); }},
    {"versions", [](const Ran& r) { return r.versions(); }},
    {"peak_bytes", [](const Ran& r) { return r.peak_bytes(); }},
    {"peak_gib", [](const Ran& r) { return r.peak_bytes() / kGiB; }},
};

Bytes rounded(double bytes) { return Bytes(std::llround(bytes)); }

// What the layers of one part of a model hold, as a stage of its own.
StageMemory part_of_model(const ModelGraph& model, int part, std::int64_t micro_batch, double per_parameter) {
  std::vector<int> layers;
  std::int64_t parameters = 0;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    if (model.layers[l].block != part) continue;
    layers.push_back(static_cast<int>(l));
    parameters += parameter_count(model.layers[l]);
  }
  const StageStash kept =
      stage_stash(model, model.shapes(), layers, micro_batch, {Precision::mixed, AttentionScores::kept_with_dropout});
  return {.weights = rounded(static_cast<double>(parameters) * per_parameter),
          .stash = kept.forward,
          .weight_stash = kept.weight};
}

StageMemory sum_of(std::int64_t times, const StageMemory& a, const StageMemory& b) {
  return {.weights = times * a.weights + b.weights,
          .stash = times * a.stash + b.stash,
          .weight_stash = times * a.weight_stash + b.weight_stash};
}

// Stages of a GPT with dropout, which keeps its scores, in 16 bit: `blocks` blocks each; where "ends" is given, the
// first and the last have that many, plus the embedding and the head.
StageBytes transformer_stages(JsonReader fields, std::int64_t micro_batch, const std::string& where) {
  const auto size = [&](const std::string& key, int least) {
    return fields.integer<std::int64_t>(key, least, 1'000'000);
  };
  const std::int64_t blocks = size("layers", 1), hidden = size("hidden", 1), heads = size("heads", 1),
                     tokens = size("sequence", 1);
  const bool has_ends = fields.has("ends");
  const std::int64_t ends = has_ends ? size("ends", 0) : 0, vocabulary = has_ends ? size("vocabulary", 1) : 1;
  const double per_parameter = fields.number("bytes_per_parameter", 0, 1e6);
  fields.no_other_keys();
  try {
    const ModelGraph model = gpt("transformer", 3, hidden, heads, tokens, vocabulary, 0.1);
    const auto part = [&](int number) { return part_of_model(model, number, micro_batch, per_parameter); };
    const StageMemory block = part(2);
    StageBytes result{.middle = sum_of(blocks, block, {}), .first = {}, .last = {}};
    if (!has_ends) return result;
    result.first = sum_of(ends, block, part(0));
    result.last = sum_of(ends, block, part(model.layers.back().block));
    return result;
  } catch (const InputError& e) {
    throw InputError(where, e.what());
  }
}

int count_of(JsonReader& reader, const std::string& key, int most) { return reader.integer<int>(key, 1, most); }

// Of each of the stages: one number for all, or a list with one for each. 1 unless given.
std::vector<double> times_of(JsonReader& reader, const std::string& key, std::size_t stages) {
  if (!reader.has(key) || !reader.raw(key).is_array())
    return std::vector<double>(stages, reader.number_or(key, 1, 0, kMaxSeconds));
  std::vector<double> times = reader.numbers(key, 0, kMaxSeconds);
  if (times.size() != stages)
    reader.fail(key, fmt::format("has {} values for {} stages", times.size(), stages), "give one for each");
  return times;
}

std::vector<StageCost> stage_times(JsonReader& reader, std::size_t stages) {
  const std::vector<double> forward = times_of(reader, "F", stages), input_gradient = times_of(reader, "I", stages),
                            weight_gradient = times_of(reader, "W", stages);
  std::vector<StageCost> costs;
  for (std::size_t s = 0; s < stages; ++s)
    costs.push_back(
        {Seconds(forward[s]), Seconds(input_gradient[s]), Seconds(weight_gradient[s]), Seconds(0), Bytes(0)});
  return costs;
}

double share_until_weight_gradient(const StageMemory& stage) {
  if (stage.stash == Bytes(0)) return 1;
  return std::min(1.0, static_cast<double>(stage.weight_stash.value) / static_cast<double>(stage.stash.value));
}

bool differ(const StageCost& a, const StageCost& b) {
  return a.forward != b.forward || a.input_gradient != b.input_gradient || a.weight_gradient != b.weight_gradient;
}

Ran run(const ScheduleScenario& given) {
  const int microbatches = given.microbatches * (given.system->data_parallel ? given.ranks : 1);
  const Cluster cluster = latency_cluster(given.ranks, given.latency);
  Ran ran{given,
          cluster,
          uniform_chain(*given.system, given.options, cluster, given.ranks, microbatches, given.stages.front(),
                        given.latency),
          {},
          {},
          {}};
  ScheduleProblem& problem = ran.chain.problem;
  const std::size_t planned = problem.costs.size();
  if (planned == given.stages.size())
    problem.costs = given.stages;
  else if (std::ranges::adjacent_find(given.stages, differ) != given.stages.end())
    throw NotAvailable(
        fmt::format("the system's plan has {} stages, the times are of {}", planned, given.stages.size()));
  if (given.system->accumulates) problem.microbatches_per_update = microbatches / given.updates;
  if (given.bytes.middle.stash > Bytes(0))
    for (const StageMemory& stage : given.bytes.of(problem.graph.size()))
      problem.weight_stash_share.push_back(share_until_weight_gradient(stage));
  ran.schedule = given.system->schedule(problem, given.options);
  const bool synchronous = given.system->synchronous;
  ran.program =
      checked(lower(ran.schedule, problem.graph, problem.placement, given.system->weights(problem, given.options), {},
                    {.step_barrier = given.barrier && synchronous}));
  ran.simulation = ran.simulate_times(1);
  return ran;
}

}  // namespace

Scenario read_schedule_scenario(JsonReader& reader) {
  ScheduleScenario given;
  given.system = &find_system(reader.text("system"), reader.where("system"));
  given.options = resolve_options(given.system->options, read_set(reader), reader.where("set"));
  given.ranks = count_of(reader, "ranks", 4096);
  given.microbatches = count_of(reader, "microbatches", 1'000'000);
  given.stages =
      stage_times(reader, static_cast<std::size_t>(given.ranks * stages_per_rank(*given.system, given.options)));
  given.latency = Seconds(reader.number_or("latency", 0, 0, kMaxSeconds));
  const std::string step = reader.text("step", "free");
  if (step != "free" && step != "barrier") reader.fail("step", "must be free or barrier");
  given.barrier = step == "barrier";
  given.micro_batch = reader.number_or("micro_batch", 1, 0, 1e9);
  given.updates = reader.has("updates") ? count_of(reader, "updates", 1'000'000) : 1;
  if (given.microbatches % given.updates != 0) reader.fail("updates", "must divide the micro-batches");
  if (reader.has("transformer"))
    given.bytes =
        transformer_stages(reader.object("transformer"), std::llround(given.micro_batch), reader.where("transformer"));
  else
    given.bytes.middle = {.weights = rounded(reader.number_or("weights", 0, 0, 1e15)),
                          .stash = rounded(reader.number_or("stash", 0, 0, 1e15)),
                          .weight_stash = rounded(reader.number_or("weight_stash", 0, 0, 1e15))};
  const ScheduleMeasure& measure = read_measure(reader, kScheduleMeasures);
  return [given, &measure](ProfileStore&) { return Figure{measure.value(run(given)), {}}; };
}

std::vector<std::string> schedule_measures() { return names_of(kScheduleMeasures); }

}  // namespace sluice
