#include "harness/case/setting_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <mutex>
#include <numeric>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/base/source_folder.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/expert_rules.h"
#include "harness/case/file_digests.h"
#include "harness/case/optimizer_settings.h"
#include "harness/case/precision_rules.h"
#include "harness/case/profile_workload.h"
#include "harness/case/tensor_rules.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/model/cluster.h"
#include "harness/model/fold_layers.h"
#include "harness/model/load_interference.h"
#include "harness/model/module_file.h"
#include "harness/model/module_stages.h"
#include "harness/model/pipeline_layout.h"
#include "harness/model/throttle.h"

namespace sluice::setting {

bool on_wall(const CaseReading& r) { return r.c.clock == Clock::wall; }
bool has_data(const CaseReading& r) { return r.workload->dataset != "synthetic"; }
bool infers(const RunCase& c) { return c.task == Task::inference; }

void read_system(CaseReading& r, const std::string& key) {
  r.system = &find_system(r.entry.text(key), r.entry.where(key));
  r.c.system = r.system->name;
}

void read_options(CaseReading& r, const std::string& key) {
  std::map<std::string, std::string> given;
  if (r.entry.has(key)) {
    const JsonReader options = r.entry.object(key);
    for (const auto& item : options.json().items()) given[item.first] = item.second.text();
  }
  if (const std::string system = r.entry.text("system"); system.starts_with(kOrderFromFile)) {
    const std::string file = system.substr(kOrderFromFile.size());
    if (const auto other = given.try_emplace("file", file).first; other->second != file)
      throw InputError(r.entry.where(key),
                       "option 'file' is '" + other->second + "', but the system is '" + system + "'",
                       "give one of them");
  }
  const Options resolved = resolve_options(r.system->options, given, r.entry.where(key));
  r.c.options = resolved.values();
  for (const OptionSpec& spec : r.system->options) {
    if (!spec.check_file || r.c.options[spec.name] == spec.default_value) continue;
    try {
      spec.check_file(r.c.options[spec.name]);
    } catch (const InputError& e) {
      throw InputError(r.entry.where(key), "option '" + spec.name + "': " + e.what());
    }
  }
  if (r.system->made_for) r.made_for = r.system->made_for(resolved);
}

Json options_json(const RunCase& c) {
  std::map<std::string, std::string> options = c.options;
  const System* system = system_called(c.system);
  if (!system) return options;
  for (const OptionSpec& spec : system->options)
    if (spec.in_digest_unless_default && options.contains(spec.name) && options[spec.name] == spec.default_value)
      options.erase(spec.name);
  return options;
}

// Why a value of the option decides nothing in this case; "": it does.
static std::string why_unused(const OptionSpec& spec, const RunCase& c, const System& system) {
  if (spec.training_only && infers(c)) return "only training depends on it";
  if (spec.replicas_only && !may_have_replicas(c, system)) return "no stage has replicas";
  if (spec.replicas_only && c.sharding != StageSharding::system) return "only with sharding=system";
  const Options options = resolve_options(system.options, c.options, "options");
  for (const OptionCondition& condition : spec.only_with)
    if (!options.holds(condition)) return "only with " + to_text(condition);
  return "";
}

void canonicalize_options(RunCase& c, const System& system) {
  for (const OptionSpec& spec : system.options)
    if ((spec.training_only || spec.replicas_only) && !why_unused(spec, c, system).empty())
      c.options[spec.name] = spec.default_value;
}

std::string why_option_is_unused(const CaseReading& r, const std::string& name) {
  const auto spec = std::ranges::find(r.system->options, name, &OptionSpec::name);
  return why_unused(*spec, r.c, *r.system);
}

bool has_pairs(const RunCase& c, const System& system) {
  return system.pairs && !infers(c) && system.pairs(resolve_options(system.options, c.options, "options"));
}

std::string without_key(const std::string& cluster, const std::string& key) {
  const std::size_t begin = cluster.find("," + key + "=");
  if (begin == std::string::npos) return cluster;
  const std::size_t end = std::min(cluster.find(',', begin + 1), cluster.size());
  return cluster.substr(0, begin) + cluster.substr(end);
}

void read_workload(CaseReading& r, const std::string& key) {
  r.c.workload = r.entry.text(key);
  r.workload = &find_workload_or_profile(r.c.workload, r.entry.text("costs", ""), r.entry.where(key));
}

void fill_workload_digest(CaseReading& r) { r.c.workload_digest = workload_digest(*r.workload); }

void check_workload_digest(CaseReading& r) {
  const std::string given = r.c.workload_digest;
  fill_workload_digest(r);
  if (given != r.c.workload_digest)
    r.entry.fail("workload_digest", "'" + r.c.workload + "' holds another workload than that of digest " + given,
                 "leave workload_digest out to run it as it is now");
}

void fill_file_digests(CaseReading& r) { r.c.file_digests = file_digests(r.c); }

void check_file_digests(CaseReading& r) {
  const std::string given = r.c.file_digests;
  fill_file_digests(r);
  if (given != r.c.file_digests)
    r.entry.fail("file_digests", "its files have the digests '" + r.c.file_digests + "', not '" + given + "'",
                 "leave file_digests out to run it with the files as they are now");
}

void check_task(CaseReading& r) {
  if (!infers(r.c) && r.system->inference_only)
    r.entry.fail("task", r.c.system + " plans inference and cannot train", "use --task inference, or leave task out");
}

static void check_calibrations(CaseReading& r) {
  if (is_this_machine(r.c))
    r.entry.fail("costs", "this machine has no calibration", "use profile, or a cluster on the virtual clock");
  try {
    calibrated_cost_source(r.c.costs, r.workload->model,
                           load_cluster(r.c.cluster, source_folder() + "/workloads/clusters"), storage_of(r.c));
  } catch (const InputError& e) {
    throw InputError(r.entry.where("costs"), e.what());
  }
}

void check_costs(CaseReading& r) {
  const bool profile = is_profile_workload(*r.workload);
  if (profile && r.c.costs == "raw") return;
  if (!is_cost_file(r.c.costs)) {
    if (profile) r.c.costs = kAnalyticCosts;  // the file's own
    return;                                   // calibrated ones depend on the precision
  }
  std::error_code ignored;
  if (!std::filesystem::exists(r.c.costs, ignored))
    r.entry.fail("costs", r.c.costs == "raw" ? "raw is for published profiles" : "no such file '" + r.c.costs + "'",
                 "give profile, analytic, calibrated or a file of sluice profile");
  try {
    check_cost_file(r.c.costs, *r.workload);
  } catch (const InputError& e) {
    throw InputError(r.entry.where("costs"), e.what());
  }
}

void check_precision(CaseReading& r) { sluice::check_precision(r.c, *r.workload, r.entry.where("precision")); }

void check_attention(CaseReading& r) {
  sluice::check_attention(r.c, *r.workload, r.entry.where("attention"));
  if (is_calibrated(r.c.costs)) check_calibrations(r);
}

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
static int device_count(const std::string& cluster, const std::string& where) {
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

// Whether the cluster says how fast its devices are in 16 bit.
static void check_peak(const CaseReading& r) {
  try {
    require_peak(load_cluster(r.c.cluster, source_folder() + "/workloads/clusters").devices, storage_of(r.c));
  } catch (const InputError& e) {
    throw InputError(r.entry.where("precision"), e.what());
  }
}

void fill_ranks(CaseReading& r) {
  if (r.made_for)
    r.c.ranks = r.made_for->ranks;
  else if (!on_wall(r) && !is_this_machine(r.c) && !r.entry.has("ranks"))
    r.c.ranks = device_count(r.c.cluster, r.entry.where("cluster"));
}

void check_cluster(CaseReading& r) {
  if (is_this_machine(r.c)) return;
  const int ranks = r.system->one_process ? 1 : r.c.ranks;
  const int devices = device_count(r.c.cluster, r.entry.where("cluster"));
  if (storage_of(r.c).is_16_bit() && !is_profile_workload(*r.workload)) check_peak(r);
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

void read_gradient_buckets(CaseReading& r, const std::string& key) {
  if (!r.entry.has(key)) return;
  const std::string text = r.entry.text(key), where = r.entry.where(key);
  r.c.gradient_buckets = text == kReducedAtTheEnd ? Bytes(0) : parse_bytes(text, where);
  if (text != kReducedAtTheEnd && r.c.gradient_buckets.value <= 0)
    throw InputError(where, "'" + text + "' is not a size of a bucket", "write a size like 25MB, or end");
}

Json gradient_buckets_json(const RunCase& c) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  const std::int64_t bytes = c.gradient_buckets.value;
  if (bytes == 0) return kReducedAtTheEnd;
  return bytes % kMegabyte == 0 ? std::to_string(bytes / kMegabyte) + "MB" : std::to_string(bytes) + "B";
}

bool may_have_replicas(const RunCase& c, const System& system) {
  if (infers(c) || system.one_process || c.ranks == c.tensor) return false;
  if (c.data_parallel > 1 || system.data_parallel) return true;
  return system.replicates && system.replicates(resolve_options(system.options, c.options, "options"));
}

// Of costs, by the parts of the PyTorch model that they are of.
static std::vector<NamedLayer> named_layers(const CaseReading& r) {
  std::vector<NamedLayer> layers;
  if (const ProfileWorkload* profile = profile_workload(r.c.workload, r.c.costs))
    for (const LayerCost& layer : profile->costs.layers)
      layers.push_back({layer.part.empty() ? layer.name : layer.part, !layer.part.empty()});
  for (const LayerSpec& layer : r.workload->model.layers) layers.push_back({layer.name, parameter_count(layer) > 0});
  return layers;
}

void read_stages(CaseReading& r, const std::string& key) {
  const std::string text = r.entry.text(key, ""), where = r.entry.where(key);
  if (is_module_list(text)) {
    r.c.first_layers = stages_of_modules(text, named_layers(r), where);
    return;
  }
  if (is_layout(text)) {
    if (r.workload->model.layers.empty())
      throw InputError(where, "the costs of '" + r.c.workload + "' name no blocks",
                       "give the first layers of the stages, as in 7,15,22");
    r.c.first_layers = stages_of_layout(text, r.workload->model, where);
    return;
  }
  r.c.first_layers = counts_in(text, where);
  const bool ascend = std::ranges::is_sorted(r.c.first_layers, std::less_equal());
  if (!ascend)
    throw InputError(where, "the first layers of the stages are '" + text + "', which do not ascend",
                     "give those of all stages but the first, in their order");
}

Json stages_json(const RunCase& c) {
  return c.first_layers.empty() ? Json() : Json(fmt::format("{}", fmt::join(c.first_layers, ",")));
}

bool has_cuts(const RunCase& c, const System& system) {
  return c.first_layers.empty() && !system.one_process && !system.data_parallel && c.ranks > c.tensor * c.data_parallel;
}

bool cuts_may_count_messages(const RunCase& c, const System& system) {
  return has_cuts(c, system) && !is_this_machine(c);
}

void check_cuts(CaseReading& r) {
  if (r.c.cuts != Cuts::blocks || repeated_blocks(r.workload->model).copies > 0) return;
  r.entry.fail("cuts", "'" + r.c.workload + "' has no blocks that repeat", "use messages or compute");
}

bool cuts_by_its_own_objective(const RunCase& c, const System& system) {
  return system.own_cuts && system.own_cuts(resolve_options(system.options, c.options, "options"));
}

bool updates_after_every_micro_batch(const RunCase& c, const System& system) {
  return !system.synchronous && !system.accumulates && !infers(c) && c.microbatch_sizes.empty();
}

void check_tensor(CaseReading& r) {
  if (r.c.tensor == 1 || r.system->one_process) return;
  check_groups(r.c, *r.workload, r.entry.where("tensor"));
}

void check_experts(CaseReading& r) {
  if (r.c.experts == ExpertPlacement::replicated || r.system->one_process) return;
  check_spread_experts(r.c, *r.system, *r.workload, r.entry.where("experts"));
}

// Samples in a micro-batch of a published profile, which has them in one size.
static std::int64_t profiled_micro_batch(const CaseReading& r) { return r.workload->batch / r.workload->microbatches; }

void read_microbatch_sizes(CaseReading& r, const std::string& key) {
  if (!r.entry.has(key)) return;
  r.c.microbatch_sizes = r.entry.integers<std::int64_t>(key, 1, kMaxSamples);
  if (r.c.microbatch_sizes.empty()) r.entry.fail(key, "is an empty list", "give the samples of each, as in 3,3,2,2");
}

Json microbatch_sizes_json(const RunCase& c) { return c.microbatch_sizes.empty() ? Json() : Json(c.microbatch_sizes); }

static std::int64_t sum_of_sizes(const RunCase& c) {
  return std::accumulate(c.microbatch_sizes.begin(), c.microbatch_sizes.end(), std::int64_t{0});
}

void fill_batch(CaseReading& r) {
  if (!r.c.microbatch_sizes.empty()) {
    r.c.batch = sum_of_sizes(r.c);
    return;
  }
  r.c.batch = r.workload->batch;
  if (!is_profile_workload(*r.workload)) return;
  const std::int64_t one = profiled_micro_batch(r);
  if (!r.system->synchronous && !r.system->accumulates)
    r.c.batch = one;
  else if (r.entry.has("microbatches"))
    r.c.batch = exact_product<std::int64_t>(one, r.entry.integer("microbatches", 1, kMaxCount));
  else if (r.made_for)
    r.c.batch = exact_product<std::int64_t>(one, r.made_for->microbatches);
}

void check_batch(CaseReading& r) {
  if (r.c.microbatch_sizes.empty()) return;
  const std::int64_t sum = sum_of_sizes(r.c);
  if (r.c.batch != sum)
    r.entry.fail("batch",
                 "is " + std::to_string(r.c.batch) + " samples, and microbatch_sizes add up to " + std::to_string(sum),
                 "leave batch out, or change the sizes");
  if (sum > kMaxSamples)
    r.entry.fail("microbatch_sizes", "add up to " + std::to_string(sum) + " samples",
                 "use at most " + std::to_string(kMaxSamples));
}

void fill_microbatches(CaseReading& r) {
  if (!r.c.microbatch_sizes.empty()) {
    r.c.microbatches = int_of(std::ssize(r.c.microbatch_sizes), "micro-batches");
    return;
  }
  const Workload& workload = *r.workload;
  if (r.made_for) {
    r.c.microbatches = r.made_for->microbatches;
    return;
  }
  if (is_profile_workload(workload)) {  // whose micro-batches have one size
    const std::int64_t one = profiled_micro_batch(r);
    r.c.microbatches = static_cast<int>(std::clamp<std::int64_t>(r.c.batch / one, 1, kMaxCount));
    return;
  }
  const bool whole = r.system->one_process && r.workload->runs_for_real && !infers(r.c);
  // A given batch that the workload's own number does not divide: as many as divide both.
  const std::int64_t own = whole ? 1 : r.workload->microbatches;
  r.c.microbatches = static_cast<int>(std::gcd(own, r.c.batch));
}

// The sizes of a system that takes the first micro-batches of every pipeline in halves, where the case gives none.
static void take_halves(CaseReading& r) {
  if (!r.system->halved || infers(r.c)) return;
  const int halved = r.system->halved(resolve_options(r.system->options, r.c.options, "options"));
  if (halved == 0 || r.c.microbatches % r.c.data_parallel != 0) return;  // the latter is rejected later
  const int own = r.c.microbatches / r.c.data_parallel;
  const std::int64_t samples = r.c.batch / r.c.microbatches;
  if (halved >= own || samples < 2)
    r.entry.fail("microbatches",
                 "are " + std::to_string(own) + " of " + std::to_string(samples) + " samples in a pipeline, and " +
                     r.c.system + " takes the first " + std::to_string(halved) + " in halves",
                 "let it halve fewer than all, of at least 2 samples");
  const std::vector<std::int64_t> sizes = first_halved(own, samples, halved);
  for (int d = 0; d < r.c.data_parallel; ++d)
    r.c.microbatch_sizes.insert(r.c.microbatch_sizes.end(), sizes.begin(), sizes.end());
  r.c.microbatches += halved * r.c.data_parallel;
}

void check_microbatches(CaseReading& r) {
  if (!r.c.microbatch_sizes.empty()) {
    if (std::ssize(r.c.microbatch_sizes) != r.c.microbatches)
      r.entry.fail("microbatches",
                   "are " + std::to_string(r.c.microbatches) + ", and microbatch_sizes has " +
                       std::to_string(r.c.microbatch_sizes.size()),
                   "leave microbatches out, or change the sizes");
    return;
  }
  if (r.c.batch % r.c.microbatches != 0)
    r.entry.fail(
        "microbatches",
        std::to_string(r.c.microbatches) + " micro-batches do not divide the batch of " + std::to_string(r.c.batch),
        "choose a number that divides it");
  take_halves(r);
}

void check_length(CaseReading& r) {
  RunCase& c = r.c;
  if (c.epochs > 0 && c.steps > 0) r.entry.fail("steps", "give epochs or steps, not both");
  if (c.epochs > 0 && infers(c)) r.entry.fail("epochs", "inference has no epochs", "give steps: that many batches");
  if (c.epochs > 0 && !has_data(r))
    r.entry.fail("epochs", "workload '" + c.workload + "' has no data set", "give steps");
  if (c.epochs > 0 || c.steps > 0) return;
  for (const char* length : {"steps", "epochs"})
    if (r.entry.has(length)) r.entry.fail(length, "is 0", "must be at least 1");
  c.steps = 100;
}

void fill_train(CaseReading& r) { r.c.train = r.workload->runs_for_real && !counted_only(r.c); }

void check_train(CaseReading& r) {
  RunCase& c = r.c;
  if (c.train && counted_only(c))
    r.entry.fail("train", "training computes in fp32, with fused attention", "leave train out, precision or attention");
  if (on_wall(r) && !r.workload->runs_for_real)
    r.entry.fail("workload", "'" + c.workload + "' is a full-size declaration for the virtual clock",
                 "use --clock virtual");
  if (!c.train && on_wall(r)) r.entry.fail("train", "the wall clock always trains");
  if (c.train) require_module_files(r.workload->model);
  if (!c.train) c.epochs = 0, c.steps = std::max(c.steps, 1);  // no learning curve: one update says it all
}

void check_pin(CaseReading& r) {
  if (r.c.pin == Pin::none) return;
  if (!on_wall(r)) r.entry.fail("pin", "the virtual clock has no ranks to pin");
  if (!hwloc_built())
    r.entry.fail("pin", "this build has no hwloc", "install it (Debian: libhwloc-dev) and build again, or use none");
}

// Where a rank is slowed, devices are ranks; on the virtual clock they are the cluster's.
static int devices_of(const CaseReading& r) {
  return is_this_machine(r.c) ? r.c.ranks : device_count(r.c.cluster, r.entry.where("cluster"));
}

void check_interference(CaseReading& r) {
  const Interference interference = load_interference(r.c.interference, devices_of(r), r.entry.where("interference"));
  if (!on_wall(r) || interference.empty()) return;
  if (r.c.device == DeviceKind::cuda)
    r.entry.fail("interference", "GPUs are not slowed on purpose", "use --device cpu, or the virtual clock");
  const bool on_links = std::ranges::count(interference.episodes, Resource::link, &Episode::resource) > 0;
  if (on_links && !r.entry.has("throttle"))
    r.entry.fail("interference", "memory between ranks has no rate that an episode could lower",
                 "give throttle, e.g. rate=1GB/s");
}

void check_interference_by(CaseReading& r) {
  if (r.c.interference_by == InterferenceBy::pause) return;
  if (!on_wall(r)) r.entry.fail("interference_by", "the virtual clock has no load", "leave it out");
  if (r.c.pin == Pin::none)
    r.entry.fail("interference_by", "load runs on the cores of ranks, which are not pinned", "add pin core");
}

void check_slowdown(CaseReading& r) {
  if (r.c.slowdown.empty() || r.c.slowdown == "none") return;
  if (!on_wall(r)) r.entry.fail("slowdown", "is of real ranks", "give a cluster whose devices differ in speed");
  parse_slowdowns(r.c.slowdown, r.c.ranks, r.entry.where("slowdown"));
  if (r.c.device == DeviceKind::cuda) r.entry.fail("slowdown", "GPUs are not slowed on purpose", "use --device cpu");
}

void check_throttle(CaseReading& r) {
  if (r.c.throttle.empty() || r.c.throttle == "none") return;
  if (!on_wall(r)) r.entry.fail("throttle", "is of real links", "give a cluster with such links");
  Throttle::parse(r.c.throttle, r.c.ranks, r.entry.where("throttle"));
  if (r.c.device == DeviceKind::cuda) r.entry.fail("throttle", "links of GPUs are not throttled", "use --device cpu");
}

static void set_default_optimizer(OptimizerSpec& optimizer, const Workload& workload) {
  const WorkloadOptimizer& own = workload.optimizer;
  optimizer.learning_rate = own.lr;
  optimizer.momentum = own.momentum;
  optimizer.weight_decay = own.weight_decay;
  optimizer.kind = choice_named<OptimizerSpec::Kind>(own.name).value_or(OptimizerSpec::Kind::sgd);
}

void fill_optimizer(CaseReading& r) { set_default_optimizer(r.c.optimizer, *r.workload); }

void read_optimizer_setting(CaseReading& r, const std::string& key) {
  if (!r.entry.has(key)) return;
  JsonReader optimizer = r.entry.object(key);
  r.tuned = read_optimizer(optimizer, r.c);
}

void canonicalize_optimizer(RunCase& c, const System&) {
  if (infers(c)) {
    const Workload& workload = find_workload_or_profile(c.workload, c.costs, "workload");
    c.optimizer = {};
    set_default_optimizer(c.optimizer, workload);
  }
  if (infers(c) || !c.train) c.rate_schedule = {};
}

Json untrained_optimizer_json(const RunCase& c) {
  OptimizerSpec optimizer;
  set_default_optimizer(optimizer, find_workload_or_profile(c.workload, c.costs, "workload"));
  const OptimizerSpec& own = c.optimizer;
  optimizer.kind = own.kind;
  optimizer.momentum = own.momentum;
  optimizer.matrices = own.matrices;
  optimizer.sides = own.sides;
  optimizer.source = own.source;
  return to_json(optimizer);
}

void check_clip_norm(CaseReading& r) {
  if (r.c.optimizer.clip_norm > 0 && !r.system->synchronous)
    r.entry.fail("clip_norm",
                 r.c.system +
                     " updates every stage at its own time, so that the gradients of all stages, whose norm "
                     "it is, never exist at once",
                 "leave clip_norm out, or use a system with a flush");
}

void check_purpose(CaseReading& r) {
  if (r.c.purpose != Purpose::boundary) return;
  if (infers(r.c)) r.entry.fail("purpose", "a divergence boundary is one of training");
  if (!r.c.train) r.entry.fail("train", "a divergence boundary needs a real training", "use a case that trains");
  if (r.c.steps == 0)
    r.entry.fail("steps", "a divergence boundary needs the loss of every update", "give steps instead of epochs");
  if (r.tuned)
    r.entry.fail("purpose", "a divergence boundary needs a grid of rates, not a tuned one",
                 R"(give "optimizer": {"learning_rate": [0.01, 0.03, 0.1]})");
}

void read_tune_setting(CaseReading& r, const std::string& key) {
  if (!r.tuned) {
    if (r.entry.has(key)) r.entry.object(key);  // for the combinations of this entry that are tuned
    return;
  }
  if (!r.c.train || infers(r.c)) r.entry.fail("optimizer/learning_rate", "only training can be tuned");
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
  r.c.fail_rank = failure.integer("rank", 0, kMaxCount);
  if (failure.has("move")) {
    r.c.fail_move = failure.integer("move", 0, kMaxCount);
    r.c.fail_killed = failure.has("killed") && failure.boolean("killed");
    if (r.c.fail_killed && r.c.transport != TransportKind::mpi)
      failure.fail("killed", "ends a rank's process, and ranks are threads here", "give \"transport\": \"mpi\"");
  } else {
    r.c.fail_update = failure.integer<std::int64_t>("update", 0, kMaxWhole);
  }
  failure.no_other_keys();
}

bool failure_happens(const RunCase& c) { return c.train && c.fail_rank >= 0 && c.fail_rank < c.ranks; }

Json failure_json(const RunCase& c) {
  if (c.fail_rank < 0) return {};
  if (c.fail_move < 0) return {{"rank", c.fail_rank}, {"update", c.fail_update}};
  Json json = {{"rank", c.fail_rank}, {"move", c.fail_move}};
  if (c.fail_killed) json["killed"] = true;
  return json;
}

}  // namespace sluice::setting
