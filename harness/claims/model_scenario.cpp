// Scenarios of kind "model": a model of a published family, and training it on described devices with a published cut
// into stages. Fields: model ({"family", its sizes}), measure; for training also device ({"flops", "flops_16",
// "memory_bandwidth", "launch", "kernels": a calibration of the same chip, for times by shape at this device's peak
// and bandwidth}), link ({"bandwidth", "latency", "sends"}), balance (layers of every stage, counted as the paper
// counts them, or how many: then the best cut by time), system, set, micro_batch, microbatches, precision, attention,
// optimizer (its kind; sgd without momentum unless given).
#include <algorithm>
#include <memory>
#include <numeric>

#include "harness/base/source_folder.h"
#include "harness/case/predict_update.h"
#include "harness/claims/measure.h"
#include "harness/model/calibrated_costs.h"
#include "harness/model/cost_graph.h"
#include "harness/pipeline/system.h"
#include "harness/plan/chain_partition.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"
#include "workloads/models/published.h"

namespace sluice {

namespace {

struct ModelScenario {
  std::shared_ptr<const PublishedModel> model;
  const System* system = nullptr;
  Options options;
  Device device;
  std::optional<Calibration> kernels;  // of the device's chip, at its own peak and memory bandwidth
  Link link;
  Sends sends = Sends::overlapped;
  std::vector<int> balance;   // published layers of every stage
  bool best_balance = false;  // the sizes are left to the exact min-max cut by time
  std::int64_t micro_batch = 1;
  int microbatches = 1;
  Storage storage;
  OptimizerSpec optimizer;
};

struct Trained {
  double seconds = 0;                         // of an update
  double largest_peak = 0, sum_of_peaks = 0;  // bytes
  double activations = 0;                     // bytes, with buffers, of all devices
};

CostGraph layer_costs(const ModelScenario& given) {
  const ModelGraph& graph = given.model->graph;
  return given.kernels ? calibrated_costs(graph, given.micro_batch, given.device, *given.kernels, given.storage)
                       : analytic_costs(graph, given.micro_batch, given.device, given.storage);
}

PublishedModel read_model(JsonReader fields) {
  const std::string family = fields.text("family");
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [key, value] : fields.json().items())
    if (key != "family") sizes[key] = fields.integer<std::int64_t>(key, 1, 1'000'000);
  PublishedModel model = published_model(family, sizes, fields.where("family"));
  fields.no_other_keys();
  return model;
}

// The cut between published layers whose slowest stage is the fastest.
std::vector<int> best_balance(const ModelScenario& given) {
  const CostGraph costs = layer_costs(given);
  std::vector<double> before(static_cast<std::size_t>(given.model->units) + 1, 0);
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {
    const LayerCost& layer = costs.layers[l];
    before[static_cast<std::size_t>(given.model->unit_of_layer[l]) + 1] +=
        (layer.forward + layer.input_gradient + layer.weight_gradient).value;
  }
  std::partial_sum(before.begin(), before.end(), before.begin());
  const std::vector<int> cuts = partition_chain(given.model->units, static_cast<int>(given.balance.size()),
                                                [&](int first, int last, int) { return before[last] - before[first]; });
  std::vector<int> sizes;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) sizes.push_back(cuts[s + 1] - cuts[s]);
  return sizes;
}

Plan plan_of(const ModelScenario& given) {
  Plan plan{.stages = {}, .micro_batch = given.micro_batch};
  const std::vector<int>& units = given.model->unit_of_layer;
  int first = 0;
  for (const int size : given.best_balance ? best_balance(given) : given.balance) {
    PlanStage stage{.layers = {}, .devices = {DeviceId(plan.stages.size())}};
    for (std::size_t l = 0; l < units.size(); ++l)
      if (units[l] >= first && units[l] < first + size) stage.layers.push_back(static_cast<int>(l));
    plan.stages.push_back(std::move(stage));
    first += size;
  }
  return plan;
}

Cluster cluster_of(const ModelScenario& given) {
  Cluster cluster{.name = "published set-up", .source = "a claim", .devices = {}, .links = {}};
  cluster.sends = given.sends;
  const std::size_t n = given.balance.size();
  cluster.devices.assign(n, given.device);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b) {
      Link link = given.link;
      link.from = DeviceId(a);
      link.to = DeviceId(b);
      cluster.links.push_back(link);
    }
  return cluster;
}

Trained train(const ModelScenario& given) {
  const Plan plan = plan_of(given);
  const Cluster cluster = cluster_of(given);
  const CostGraph costs = layer_costs(given);
  const RankMap ranks = ranks_of(plan);
  const ScheduleProblem problem{stage_graph(plan, costs), ranks.placement, static_cast<int>(ranks.devices.size()),
                                given.microbatches, stage_costs(plan, costs, cluster)};
  const WeightRule rule = given.system->weights(problem, given.options);
  const Program program =
      checked(lower(given.system->schedule(problem, given.options), problem.graph, problem.placement, rule));
  const Seconds update = steady_update([&, op_costs = costs_of(plan, costs, cluster)](int times) {
    return simulate(program, op_costs, cluster, ranks.devices, {.iterations = 3 * times, .trace = false}).update_end;
  });
  Trained result{.seconds = update.value};
  for (const RankMemory& rank : memory(
           program, stage_memory(given.model->graph, plan, given.micro_batch, given.optimizer, rule, given.storage))) {
    const auto peak = static_cast<double>(rank.peak.total().value);
    result.largest_peak = std::max(result.largest_peak, peak);
    result.sum_of_peaks += peak;
    result.activations += static_cast<double>((rank.peak.activations + rank.peak.buffers).value);
  }
  return result;
}

struct ModelMeasure {
  const char* name;
  bool trains;
  double (*value)(const ModelScenario&);
};

double samples(const ModelScenario& m) { return static_cast<double>(m.micro_batch * m.microbatches); }
double parameters(const ModelScenario& m) { return static_cast<double>(m.model->parameters); }

constexpr ModelMeasure kModelMeasures[] = {
    {"parameters_millions", false, [](const ModelScenario& m) { return parameters(m) / 1e6; }},
    {"parameters_billions", false, [](const ModelScenario& m) { return parameters(m) / 1e9; }},
    {"gib_at_12_bytes_a_parameter", false, [](const ModelScenario& m) { return 12 * parameters(m) / kGiB; }},
    {"layers", false, [](const ModelScenario& m) { return static_cast<double>(m.model->units); }},
    {"samples_per_second", true, [](const ModelScenario& m) { return samples(m) / train(m).seconds; }},
    {"peak_gib", true, [](const ModelScenario& m) { return train(m).largest_peak / kGiB; }},
    {"activation_gib", true, [](const ModelScenario& m) { return train(m).activations / kGiB; }},
    {"sum_of_peaks_gib", true, [](const ModelScenario& m) { return train(m).sum_of_peaks / kGiB; }},
};

void read_balance(JsonReader& reader, ModelScenario& given) {
  given.balance = reader.integers<int>("balance", 1, 100'000);
  if (given.balance.empty()) reader.fail("balance", "must name at least one stage");
  const int sum = std::accumulate(given.balance.begin(), given.balance.end(), 0);
  if (sum != given.model->units)
    reader.fail("balance",
                "has " + std::to_string(sum) + " layers, the model has " + std::to_string(given.model->units));
}

void read_training(JsonReader& reader, ModelScenario& given) {
  given.system = &find_system(reader.text("system"), reader.where("system"));
  given.options = resolve_options(given.system->options, read_set(reader), reader.where("set"));
  JsonReader device = reader.object("device");
  given.device.name = device.text("name", "device");
  given.device.flops = device.above_zero_or("flops", given.device.flops, kMaxNumber);
  given.device.flops_16 = device.has("flops_16") ? device.above_zero_or("flops_16", 0, kMaxNumber) : 0;
  given.device.memory_bandwidth = device.above_zero_or("memory_bandwidth", given.device.memory_bandwidth, kMaxNumber);
  given.device.launch = Seconds(device.number_or("launch", given.device.launch.value, 0, kMaxSeconds));
  if (device.has("kernels")) {
    given.kernels = load_calibration(device.text("kernels"), source_folder() + "/workloads/devices");
  }
  device.no_other_keys();
  given.storage = {reader.choice_or("precision", Precision::fp32),
                   reader.choice_or("attention", AttentionScores::fused)};
  given.optimizer.kind = reader.choice_or("optimizer", OptimizerKind::sgd);
  if (given.kernels) {
    if (given.kernels->is_16_bit() != given.storage.is_16_bit())
      device.fail("kernels", "are in " + given.kernels->precision, "name a calibration in the scenario's precision");
    given.kernels->peak = given.device.peak(given.storage);
    given.kernels->memory_bandwidth = given.device.memory_bandwidth;
  }
  if (given.storage.is_16_bit() && given.device.flops_16 == 0)
    device.fail("flops_16", "is missing", "give the peak in 16 bit, or leave precision out");
  given.link.bandwidth = 12e9;
  if (reader.has("link")) {
    JsonReader link = reader.object("link");
    given.link.bandwidth = link.above_zero_or("bandwidth", given.link.bandwidth, kMaxNumber);
    given.link.latency = Seconds(link.number_or("latency", 0, 0, kMaxSeconds));
    given.sends = link.choice_or("sends", Sends::overlapped);
    link.no_other_keys();
  }
  const Json& balance = reader.raw("balance");
  if (balance.is_number_integer()) {
    const int stages = reader.integer<int>("balance", 1, 10'000);
    if (stages > given.model->units) reader.fail("balance", "is more than the model's layers");
    given.balance.assign(stages, 0);
    given.best_balance = true;
  } else {
    read_balance(reader, given);
  }
  given.micro_batch = reader.integer<std::int64_t>("micro_batch", 1, 1'000'000);
  given.microbatches = reader.integer<int>("microbatches", 1, 1'000'000);
}

}  // namespace

Scenario read_model_scenario(JsonReader& reader) {
  ModelScenario given;
  given.model = std::make_shared<const PublishedModel>(read_model(reader.object("model")));
  const ModelMeasure& measure = read_measure(reader, kModelMeasures);
  if (measure.trains) read_training(reader, given);
  return [given, &measure](ProfileStore&) { return Figure{measure.value(given), {}}; };
}

std::vector<std::string> model_measures() { return names_of(kModelMeasures); }

}  // namespace sluice
