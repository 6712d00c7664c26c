#include "harness/case/settings.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/case/costs.h"
#include "harness/case/optimizer_settings.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/model/cluster.h"

namespace sluice {

namespace {

using nlohmann::json;

bool on_wall(const CaseReading& r) { return r.c.clock == Clock::wall; }
bool has_data(const CaseReading& r) { return r.workload->dataset != "synthetic"; }

void read_system(CaseReading& r, const std::string& key) {
  r.system = &find_system(r.entry.text(key), r.entry.where(key));
  r.c.system = r.system->name;
}

void read_options(CaseReading& r, const std::string& key) {
  std::map<std::string, std::string> given;
  if (r.entry.has(key)) {
    const JsonReader options = r.entry.object(key);
    for (const auto& item : options.json().items())
      given[item.key()] = item.value().is_string() ? item.value().get<std::string>() : item.value().dump();
  }
  r.c.options = resolve_options(r.system->options, given, r.entry.where(key)).values();
}

void read_workload(CaseReading& r, const std::string& key) {
  r.c.workload = r.entry.text(key);
  r.workload = &find_workload(r.c.workload, r.entry.where(key));
}

void check_costs(CaseReading& r) {
  if (is_cost_file(r.c.costs) && !std::filesystem::exists(r.c.costs))
    r.entry.fail("costs", "no such file '" + r.c.costs + "'", "give profile, analytic or a file of sluice profile");
}

// The transport and the device are there, and fit the clock and each other.
void check_transport_and_device(CaseReading& r) {
  RunCase& c = r.c;
  if (!on_wall(r)) {
    if (c.transport == TransportKind::mpi)
      r.entry.fail("transport", "the virtual clock runs in one process", "leave transport out");
    c.transport = TransportKind::none;
    c.device = DeviceKind::none;
  }
  if (c.transport == TransportKind::mpi && !mpi_built())
    r.entry.fail("transport", "this build has no MPI transport",
                 "install MPI (Debian: libopenmpi-dev openmpi-bin) and build again, or use threads");
  if (c.transport == TransportKind::mpi && c.device == DeviceKind::cuda)
    r.entry.fail("transport", "mpi carries what is in the CPU's memory", "use nccl");
  if (c.transport == TransportKind::nccl && c.device != DeviceKind::cuda)
    r.entry.fail("transport", "nccl connects GPUs", "use --device cuda, or threads");
}

// How many devices a cluster has; each cluster is read once.
int device_count(const std::string& cluster, const std::string& where) {
  static std::mutex mutex;
  static std::map<std::string, int> counts;
  const std::lock_guard lock(mutex);
  const auto known = counts.find(cluster);
  if (known != counts.end()) return known->second;
  try {
    const auto devices = load_cluster(cluster, source_folder() + "/workloads/clusters").devices.size();
    return counts[cluster] = static_cast<int>(devices);
  } catch (const InputError& e) {
    throw InputError(where, e.what());
  }
}

// The cluster can be read and has a device for every rank.
void check_cluster(CaseReading& r) {
  if (r.c.cluster == kThisMachine) return;
  const int ranks = r.system->one_process ? 1 : r.c.ranks;
  const int devices = device_count(r.c.cluster, r.entry.where("cluster"));
  if (ranks > devices)
    r.entry.fail("ranks", std::to_string(ranks) + " ranks on a cluster of " + std::to_string(devices) + " devices",
                 "use fewer ranks or a larger cluster");
}

void check_pipelines(CaseReading& r) {
  if (!r.system->one_process && r.c.ranks % r.c.data_parallel != 0)
    r.entry.fail("data_parallel",
                 std::to_string(r.c.data_parallel) + " pipelines do not divide " + std::to_string(r.c.ranks) + " ranks",
                 "choose ranks that are a multiple");
}

// One process has no pipe to fill: it takes the batch whole, unless that would not fit (full-size
// models) or is asked for. Anything else would flatter systems that take whole batches.
void fill_microbatches(CaseReading& r) {
  r.c.microbatches = r.system->one_process && r.workload->runs_for_real ? 1 : r.workload->microbatches;
}

void check_microbatches(CaseReading& r) {
  if (r.c.batch % r.c.microbatches != 0)
    r.entry.fail(
        "microbatches",
        std::to_string(r.c.microbatches) + " micro-batches do not divide the batch of " + std::to_string(r.c.batch),
        "choose a batch that is a multiple");
}

void check_length(CaseReading& r) {
  RunCase& c = r.c;
  if (c.epochs > 0 && c.steps > 0) r.entry.fail("steps", "give epochs or steps, not both");
  if (c.epochs > 0 && !has_data(r))
    r.entry.fail("epochs", "workload '" + c.workload + "' has no data set", "give steps");
  if (c.epochs > 0 || c.steps > 0) return;
  if (r.entry.has("steps")) r.entry.fail("steps", "is 0", "must be at least 1");
  c.steps = 100;
}

void check_train(CaseReading& r) {
  RunCase& c = r.c;
  if (on_wall(r) && !r.workload->runs_for_real)
    r.entry.fail("workload", "'" + c.workload + "' is a full-size declaration for the virtual clock",
                 "use --clock virtual");
  if (!c.train && on_wall(r)) r.entry.fail("train", "the wall clock always trains");
  if (!c.train) c.epochs = 0, c.steps = std::max(c.steps, 1);  // no learning curve: one update says it all
}

void check_pin(CaseReading& r) {
  if (r.c.pin == Pin::none) return;
  if (!on_wall(r)) r.entry.fail("pin", "the virtual clock has no ranks to pin");
  if (!hwloc_built())
    r.entry.fail("pin", "this build has no hwloc", "install it (Debian: libhwloc-dev) and build again, or use none");
}

void fill_optimizer(CaseReading& r) {
  const WorkloadOptimizer& usual = r.workload->optimizer;
  OptimizerSpec& optimizer = r.c.optimizer;
  optimizer.learning_rate = usual.lr;
  optimizer.momentum = usual.momentum;
  optimizer.weight_decay = usual.weight_decay;
  optimizer.kind = choice_named<OptimizerSpec::Kind>(usual.name).value_or(OptimizerSpec::Kind::sgd);
}

void read_optimizer_setting(CaseReading& r, const std::string& key) {
  if (!r.entry.has(key)) return;
  JsonReader optimizer = r.entry.object(key);
  r.tuned = read_optimizer(optimizer, r.c);
}

void check_purpose(CaseReading& r) {
  if (r.c.purpose != Purpose::boundary) return;
  if (r.c.steps == 0 || !r.c.train)
    r.entry.fail("steps", "a divergence boundary needs the loss of every update of a real training",
                 "give steps instead of epochs");
  if (r.tuned)
    r.entry.fail("purpose", "a divergence boundary needs a grid of rates, not a tuned one",
                 R"(give "optimizer": {"learning_rate": [0.01, 0.03, 0.1]})");
}

void read_tune_setting(CaseReading& r, const std::string& key) {
  if (!r.tuned) {
    if (r.entry.has(key)) r.entry.object(key);  // for the combinations of this entry that are tuned
    return;
  }
  if (!r.c.train) r.entry.fail("optimizer/learning_rate", "only training can be tuned");
  if (!r.entry.has(key))
    r.entry.fail(key, "is missing, but the learning rate is to be tuned",
                 R"(give "tune": {"learning_rate": [0.01, 0.03, 0.1]})");
  JsonReader tune = r.entry.object(key);
  r.c.tune = read_tune(tune, r.c);
  r.c.optimizer.learning_rate = 0;  // until it is chosen
}

void check_leftover(CaseReading& r) {
  if (r.c.leftover == Leftover::partial && r.c.evaluation == EvaluationMode::snapshot)
    r.entry.fail("leftover", "partial needs a pipe that is drained at every epoch's end", "use evaluation drain");
}

void read_failure(CaseReading& r, const std::string& key) {
  if (!r.entry.has(key)) return;
  JsonReader failure = r.entry.object(key);
  r.c.fail_rank = as_int(failure.integer("rank", 0), failure, "rank");
  r.c.fail_update = failure.integer("update", 0);
  failure.no_other_keys();
}

json failure_json(const RunCase& c) {
  return c.fail_rank < 0 ? json() : json{{"rank", c.fail_rank}, {"update", c.fail_update}};
}

std::vector<Setting> make_settings() {
  using Type = SettingValue::Type;
  const auto always = [](const RunCase&) { return true; };
  const auto if_replicated = [](const RunCase& c) { return c.data_parallel > 1; };
  return {
      {.key = "system",
       .group = HelpGroup::experiment,
       .help = "The system (see sluice list systems)",
       .value = {.type = Type::text, .read = read_system, .write = [](const RunCase& c) { return json(c.system); }}},
      {.key = "options",
       .has_flag = false,  // --set
       .value = {.read = read_options, .write = [](const RunCase& c) { return json(c.options); }}},
      {.key = "workload",
       .group = HelpGroup::experiment,
       .help = "Model, data and optimizer (see sluice list workloads)",
       .value = {.type = Type::text,
                 .read = read_workload,
                 .write = [](const RunCase& c) { return json(c.workload); }}},
      {.key = "clock",
       .group = HelpGroup::machine,
       .help = "run for real, or on a simulated cluster",
       .value = setting::choice(&RunCase::clock)},
      {.key = "cluster",
       .group = HelpGroup::machine,
       .help = "Cluster of the virtual clock, as of sluice plan",
       .value = setting::text(&RunCase::cluster),
       .fill =
           [](CaseReading& r) {
             if (on_wall(r)) r.c.cluster = kThisMachine;
           }},
      {.key = "costs",
       .group = HelpGroup::machine,
       .help = "Costs of layers: profile, analytic or a file",
       .default_text = "by the clock",
       .value = setting::text(&RunCase::costs),
       .fill = [](CaseReading& r) { r.c.costs = on_wall(r) ? kMeasuredCosts : kAnalyticCosts; },
       .check = check_costs},
      {.key = "transport",
       .group = HelpGroup::machine,
       .help = "one process, processes or GPUs",
       .value = setting::choice(&RunCase::transport)},
      {.key = "device",
       .group = HelpGroup::machine,
       .help = "what ranks compute on",
       .value = setting::choice(&RunCase::device),
       .check = check_transport_and_device},
      {.key = "ranks",
       .group = HelpGroup::parallelism,
       .help = "Devices that the system is given",
       .default_text = "2; mpi: all processes",
       .value = setting::integer(&RunCase::ranks, 1),
       .check = check_cluster,
       .settle =
           [](RunCase& c, const System& s) {
             if (s.one_process) c.ranks = 1;
           }},
      {.key = "data_parallel",
       .group = HelpGroup::parallelism,
       .help = "Replicas of the pipeline, which share ranks and batch",
       .value = setting::integer(&RunCase::data_parallel, 1),
       .in_digest = InDigest::unless_default,
       .in_record_options = if_replicated,
       .check = check_pipelines,
       .settle =
           [](RunCase& c, const System& s) {
             if (s.one_process) c.data_parallel = 1;
           }},
      {.key = "layout",
       .group = HelpGroup::parallelism,
       .help = "what lies on neighbouring devices",
       .value = setting::choice(&RunCase::layout),
       .in_digest = InDigest::unless_default,
       .in_record_options = if_replicated,
       .settle =
           [](RunCase& c, const System&) {
             if (c.data_parallel == 1) c.layout = PipelineReplicas::Layout::groups;
           }},
      {.key = "sharding",
       .group = HelpGroup::parallelism,
       .help = "what the replicas of a stage divide: nothing, the optimizer's state (ZeRO-1), or weights "
               "too (ZeRO-3), gathered for each use, visit to the stage or update",
       .value = setting::choice(&RunCase::sharding),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.sharding != StageSharding::system; },
       .settle =
           [](RunCase& c, const System& s) {
             if (s.one_process) c.sharding = StageSharding::system;
           }},
      {.key = "batch",
       .group = HelpGroup::batches,
       .help = "Samples per update",
       .default_text = "the workload's",
       .value = setting::integer(&RunCase::batch, 1),
       .fill = [](CaseReading& r) { r.c.batch = r.workload->batch; }},
      {.key = "microbatches",
       .group = HelpGroup::batches,
       .help = "Micro-batches per update",
       .default_text = "the workload's",
       .value = setting::integer(&RunCase::microbatches, 1),
       .fill = fill_microbatches,
       .check = check_microbatches,
       .settle =
           [](RunCase& c, const System& s) {
             if (!s.synchronous && !s.accumulates) c.microbatches = 1;
           }},
      {.key = "seed",
       .group = HelpGroup::training,
       .help = "Seed of the weights and of the data's order",
       .value = setting::integer(&RunCase::seed, 0)},
      {.key = "steps",
       .group = HelpGroup::batches,
       .help = "Updates instead of epochs",
       .default_text = "100 if there is no data set",
       .value = setting::integer(&RunCase::steps, 0)},
      {.key = "epochs",
       .group = HelpGroup::batches,
       .help = "Epochs, with an evaluation after each",
       .default_text = "the workload's",
       .value = setting::integer(&RunCase::epochs, 0),
       .fill = [](CaseReading& r) { r.c.epochs = r.c.steps > 0 || !has_data(r) ? 0 : r.workload->epochs; },
       .check = check_length},
      {.key = "evaluations_per_epoch",
       .has_flag = false,
       .value = setting::integer(&RunCase::evaluations_per_epoch, 1)},
      {.key = "train",
       .has_flag = false,
       .value = setting::boolean(&RunCase::train),
       .fill = [](CaseReading& r) { r.c.train = r.workload->runs_for_real; },
       .check = check_train},
      {.key = "weight_gradient",
       .group = HelpGroup::training,
       .help = "one product a layer and update",
       .value = setting::choice(&RunCase::weight_gradient),
       .in_record_options = always},
      {.key = "step",
       .group = HelpGroup::training,
       .help = "ranks wait for each other at the flush",
       .value = setting::choice(&RunCase::step),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.step != UpdateStart::free; },
       .settle =
           [](RunCase& c, const System& s) {
             if (!s.synchronous || s.one_process) c.step = UpdateStart::free;
           }},
      {.key = "pin",
       .group = HelpGroup::machine,
       .help = "a core of its own for every rank",
       .value = setting::choice(&RunCase::pin),
       .in_digest = InDigest::unless_default,
       .in_record_options = [](const RunCase& c) { return c.pin != Pin::none; },
       .check = check_pin},
      {.key = "optimizer",
       .has_flag = false,
       .value = {.read = read_optimizer_setting, .write = optimizer_json},
       .fill = fill_optimizer},
      {.key = "purpose",
       .has_flag = false,
       .value = setting::choice(&RunCase::purpose),
       .in_digest = InDigest::unless_default,
       .check = check_purpose},
      {.key = "tune",
       .has_flag = false,
       .value = {.read = read_tune_setting,
                 .write = [](const RunCase& c) { return c.tune ? tune_json(*c.tune) : json(); }}},
      {.key = "evaluation",
       .group = HelpGroup::training,
       .help = "evaluate copies while the pipeline runs on",
       .value = setting::choice(&RunCase::evaluation),
       .in_digest = InDigest::unless_default,
       .settle =
           [](RunCase& c, const System& s) {
             if (s.synchronous) c.evaluation = EvaluationMode::drain;
           }},
      {.key = "leftover",
       .group = HelpGroup::training,
       .help = "an epoch's last micro-batches make an update",
       .value = setting::choice(&RunCase::leftover),
       .in_digest = InDigest::unless_default,
       .check = check_leftover,
       .settle =
           [](RunCase& c, const System& s) {
             if (!s.accumulates) c.leftover = Leftover::drop;
           }},
      {.key = "timeout_seconds",
       .flag = "--timeout",
       .group = HelpGroup::batches,
       .help = "Seconds until a case ends as timed_out",
       .default_text = "none",
       .value = setting::not_negative(&RunCase::timeout_seconds),
       .in_digest = InDigest::never},
      {.key = "inject_failure",
       .has_flag = false,  // --inject-failure RANK:UPDATE holds for the cases of a sweep, too
       .value = {.read = read_failure, .write = failure_json}},
  };
}

}  // namespace

std::span<const Setting> settings() {
  static const std::vector<Setting> all = make_settings();
  return all;
}

std::string flag_of_key(const std::string& key) {
  const auto setting = std::ranges::find(settings(), key, &Setting::key);
  if (setting != settings().end() && !setting->flag.empty()) return setting->flag;
  std::string flag = "--" + key;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string flag_of(const Setting& setting) { return flag_of_key(setting.key); }

std::string help_of(const Setting& setting) {
  const std::vector<std::string>& choices = setting.value.choices;
  const json otherwise = setting.value.write(RunCase{});
  if (choices.empty()) {
    const std::string text = otherwise.is_string() ? otherwise.get<std::string>() : otherwise.dump();
    const std::string& shown = setting.default_text.empty() ? text : setting.default_text;
    return shown.empty() ? setting.help : setting.help + " (default: " + shown + ")";
  }
  std::string names;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) names += i + 1 < choices.size() ? ", " : " or ";
    names += choices[i] == otherwise ? choices[i] + " (default)" : choices[i];
  }
  return names + ": " + setting.help;
}

RunCase read_case(const json& entry, const std::string& file, const std::string& pointer) {
  JsonReader reader(entry, file, pointer);
  CaseReading reading{reader};
  for (const Setting& setting : settings()) {
    if (setting.fill) setting.fill(reading);
    setting.value.read(reading, setting.key);
    if (setting.check) setting.check(reading);
  }
  reader.no_other_keys();
  for (const Setting& setting : settings())
    if (setting.settle) setting.settle(reading.c, *reading.system);
  return reading.c;
}

json to_json(const RunCase& c) {
  const RunCase usual;
  json all = json::object();
  for (const Setting& setting : settings()) {
    if (setting.in_digest == InDigest::never) continue;
    json value = setting.value.write(c);
    const bool left_out = setting.in_digest == InDigest::unless_default && value == setting.value.write(usual);
    if (!left_out && !value.is_null()) all[setting.key] = std::move(value);
  }
  return all;
}

std::map<std::string, std::string> record_options(const RunCase& c) {
  std::map<std::string, std::string> options;
  for (const Setting& setting : settings()) {
    if (!setting.in_record_options || !setting.in_record_options(c)) continue;
    const json value = setting.value.write(c);
    options[setting.key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return options;
}

}  // namespace sluice
