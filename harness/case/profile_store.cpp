#include "harness/case/profile_store.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/read_text.h"
#include "harness/base/run_program.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/case/feed.h"
#include "harness/case/optimizer_settings.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/run_profile.h"
#include "harness/exec/training_library.h"
#include "results/store.h"

namespace sluice {

namespace fs = std::filesystem;

std::string machine_signature() {
  static const std::string signature = [] {
    std::ifstream in("/proc/cpuinfo");
    std::string name = "unknown processor";
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("model name")) {
        name = line.substr(line.find(':') + 2);
        break;
      }
    return name + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
  }();
  return signature;
}

std::string build_signature() {
  static const std::string signature = [] {
    std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a, over words
    for (const std::string& file : {std::string("/proc/self/exe"), training_library_path()}) {
      std::ifstream in(file, std::ios::binary);
      for (std::uint64_t word = 0; in.read(reinterpret_cast<char*>(&word), sizeof word); word = 0)
        hash = (hash ^ word) * 1099511628211ULL;
    }
    return fmt::format("LibTorch {}, program {:016x}", torch_version(), hash);
  }();
  return signature;
}

std::string to_text(const ProfileKey& key) {
  Json optimizer = to_json(key.optimizer);
  optimizer.erase("learning_rate");
  Json all = {{"workload", key.workload},
              {"micro_batch", key.micro_batch},
              {"device", choice_name(key.device)},
              {"optimizer", optimizer},
              {"batched_microbatches", key.batched_microbatches},
              {"neighbours", key.neighbours.value_or(-1)},
              {"machine", machine_signature()},
              {"build", build_signature()}};
  if (!key.workload_digest.empty()) all["workload_digest"] = key.workload_digest;
  return all.dump();
}

std::string default_profile_folder() {
  const char* given = std::getenv("SLUICE_PROFILE_CACHE");
  return given && *given ? given : cache_folder() + "/profiles";
}

std::string ProfileStore::file_of(const ProfileKey& key) const {
  const std::string name = fs::path(key.workload).stem().string();  // of a workload file
  return fmt::format("{}/{}-{}-{}.json", folder_, name, key.micro_batch, digest(Json(to_text(key))));
}

static void warn(const std::string& text) { fmt::print(stderr, "warning: profile cache: {}\n", visible(text)); }

// A name for what the file says of the key, so that one that was edited, or is another key's, is found out.
static std::string seal(const ProfileKey& key, const Json& profile) {
  return digest(Json::array({to_text(key), profile}));
}

const MachineSpeeds& ProfileStore::speeds() {
  if (!speeds_) speeds_ = measure_.speeds();
  return *speeds_;
}

std::optional<CostGraph> ProfileStore::stored(const ProfileKey& key) {
  const std::string file = file_of(key);
  if (!fs::exists(file)) return std::nullopt;
  try {
    const Json json = parse_json_file(file);
    JsonReader reader(json, file);
    const Json& profile = reader.raw("profile");
    if (reader.text("seal") != seal(key, profile)) throw InputError(file, "was changed after it was written");
    reader.no_other_keys();
    CostGraph costs = cost_graph_from_json(profile, file);
    if (costs.machine && costs.machine->speeds)
      if (const std::string changed = changed_speeds(*costs.machine->speeds, speeds()); !changed.empty())
        throw InputError(file, "this machine is not as it was: " + changed);
    return costs;
  } catch (const InputError& e) {
    warn(std::string(e.what()) + "; it is measured anew");
    return std::nullopt;
  }
}

void ProfileStore::store(const ProfileKey& key, const CostGraph& costs) {
  const std::string file = file_of(key);
  CostGraph graph = costs;
  if (!graph.machine) graph.machine.emplace();
  if (key.device == DeviceKind::cpu && !graph.machine->speeds) graph.machine->speeds = measure_.speeds();
  if (graph.machine->speeds) speeds_ = graph.machine->speeds;
  const Json profile = sluice::to_json(graph);
  std::error_code failure;
  fs::create_directories(folder_, failure);  // write_text() says why there is none
  try {
    write_text(file, Json{{"seal", seal(key, profile)}, {"profile", profile}}.dump(1) + "\n");
  } catch (const RunError& e) {
    warn(std::string(e.what()) + "; the next run measures again");
  }
}

void ProfileStore::warn_of_changes(const std::string& file, const MachineCosts& then) {
  const std::lock_guard lock(mutex_);
  if (!compared_.insert(file).second) return;
  std::string text;
  if (then.machine != machine_signature()) {
    text = fmt::format("was measured on another machine, '{}'", then.machine);
  } else if (then.speeds) {
    const std::string changed = changed_speeds(*then.speeds, speeds());
    if (!changed.empty()) text = "this machine is not as it was: " + changed;
  }
  if (!text.empty())
    fmt::print(stderr, "warning: {}: {}; measure again with: sluice profile\n", visible(file), visible(text));
}

CostGraph ProfileStore::costs(const ProfileKey& key, const Workload& workload, bool between_processes) {
  const std::lock_guard lock(mutex_);
  const auto lacks_processes = [&](const CostGraph& graph) {
    return between_processes && graph.machine && !graph.machine->processes.measured();
  };
  const std::string text = to_text(key);
  const auto found = costs_.find(text);
  if (found != costs_.end() && !lacks_processes(found->second)) return found->second;
  std::optional<CostGraph> costs = found != costs_.end() ? found->second : stored(key);
  const bool whole = costs && costs->layers.size() == workload.model.layers.size();
  if (!whole) costs = measure_.profile(key, workload, rounds_);
  const bool lacking = lacks_processes(*costs);
  if (lacking) costs->machine->processes = measure_by_processes(key);
  if (!whole || lacking) store(key, *costs);
  return costs_.insert_or_assign(text, *std::move(costs)).first->second;
}

Json ProfileStore::to_json() const {
  const std::lock_guard lock(mutex_);
  Json list = Json::array();
  for (const auto& [key, costs] : costs_) list.push_back({{"key", key}, {"costs", sluice::to_json(costs)}});
  return list;
}

void ProfileStore::adopt(const Json& list) {
  std::map<std::string, CostGraph> adopted;
  for (const Json& item : list)
    adopted[item.at("key").get<std::string>()] = cost_graph_from_json(item.at("costs"), "costs of another process");
  const std::lock_guard lock(mutex_);
  adopted.merge(costs_);
  costs_ = std::move(adopted);
}

static std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::optional<double> profile_age(const MachineCosts& machine) {
  std::tm utc{};
  std::istringstream in(machine.made);
  in >> std::get_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  if (in.fail()) return std::nullopt;
  return std::difftime(std::time(nullptr), timegm(&utc));
}

std::optional<DataFeed> feed_for_profile(const Workload& workload) {
  if (workload.dataset == "synthetic") return std::nullopt;
  try {
    return feed_of(data_of(workload.dataset, workload.model));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// This program, where it is `sluice` with MPI; else "".
static std::string program_of_processes() {
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  const std::string name = self.filename().string();
  return mpi_built() && (name == "sluice" || name == "sluice-cuda") ? self.string() : "";
}

// Without the variables of a job that this process is itself in: Open MPI would take the new one for a part of it.
static std::vector<std::string> outside_of_jobs() {
  std::vector<std::string> words{"env"};
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable, name = text.substr(0, text.find('='));
    for (const char* prefix : {"OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_"})
      if (name.starts_with(prefix)) words.insert(words.end(), {"-u", name});
  }
  words.insert(words.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  return words;
}

BetweenProcesses measure_by_processes(const ProfileKey& key) {
  const std::string program = program_of_processes();
  if (program.empty()) return {};
  std::vector<std::string> words = outside_of_jobs();
  words.insert(words.end(), {"mpirun", "-n", "2", program, "profile", "--workload", key.workload, "--batch",
                             std::to_string(key.micro_batch), "--microbatches", "1"});
  const ProgramEnd end = run_program(words, {.limit = std::min(Seconds(120), time_left().value_or(Seconds(120)))});
  stop_now();
  if (!end.ok()) return {};
  try {
    const Json json = Json::parse(end.output);
    JsonReader reader(json, "mpirun");
    return between_processes_from_json(reader);
  } catch (const std::exception&) {
    return {};
  }
}

static RunProfileSpec spec_of(const ProfileKey& key, const Workload& workload) {
  RunProfileSpec spec;
  spec.model = workload.model;
  spec.micro_batch = key.micro_batch;
  spec.optimizer = key.optimizer;
  spec.feed = feed_for_profile(workload);
  spec.neighbours =
      key.neighbours.value_or(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8) - 1);
  spec.batched_microbatches = key.batched_microbatches;
  return spec;
}

BetweenProcesses measure_profile_between(const ProfileKey& key, const Workload& workload, ProcessGroup& processes) {
  return measure_between_processes(spec_of(key, workload), processes);
}

// Only kernels are measured there: messages on one GPU are handed over. A prediction of weights reads and writes what
// an update does.
static MachineCosts executor_costs_of_gpu(const CostGraph& graph) {
  double seconds = 0, bytes = 0;
  for (const LayerCost& layer : graph.layers) {
    seconds += layer.update.value;
    bytes += static_cast<double>(layer.parameters.value);
  }
  MachineCosts machine;
  machine.predict = bytes > 0 ? seconds / bytes : 0;
  return machine;
}

CostGraph measure_profile(const ProfileKey& key, const Workload& workload, int rounds) {
  constexpr int repeats = 7;
  CostGraph graph;
  if (key.device == DeviceKind::cuda) {
    graph = measure_costs(workload.model, key.micro_batch, repeats, choice_name(key.device));
    graph.machine = executor_costs_of_gpu(graph);
  } else {
    RunProfileSpec spec = spec_of(key, workload);
    spec.rounds = rounds;
    graph = measure_in_runs(spec);
    if (!graph.machine) throw std::logic_error("a profile of whole runs describes its machine");
  }
  graph.machine->machine = machine_signature();
  graph.machine->build = build_signature();
  graph.machine->made = utc_now();
  if (key.device == DeviceKind::cpu) graph.machine->speeds = measure_machine_speeds();
  return graph;
}

}  // namespace sluice
