#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/output_file.h"
#include "harness/case/profile_store.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/cli/commands.h"
#include "harness/cli/exit_codes.h"
#include "harness/cli/gpu_program.h"
#include "harness/exec/co_runs.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"

namespace sluice {

namespace {

void reject_what_co_runs_do_not_take(const ProfileArguments& a, DeviceKind device) {
  if (!a.co_run) {
    if (a.seconds != ProfileArguments{}.seconds) throw InputError("--seconds", "is for --co-run", "leave it out");
    if (!a.published.empty()) throw InputError("--published", "is for --co-run", "give --co-run as well");
    return;
  }
  if (device != DeviceKind::cpu)
    throw InputError("--co-run", "loads compete with ranks on CPUs only", "leave --device out");
  if (!(a.seconds > 0 && a.seconds <= kMaxSeconds))
    throw InputError("--seconds", "must be above 0", "give 1, or more for less noise");
  if (a.neighbours) throw InputError("--neighbours", "is not for --co-run, which sets its own loads", "leave it out");
}

Json co_run_json_of(const ProfileArguments& a, const ProfileKey& key, const Workload& workload) {
  const auto learner =
      std::ranges::find_if(all_systems(), [](const System* system) { return system->co_run_file != nullptr; });
  if (learner == all_systems().end()) throw InputError("--co-run", "no system of this build learns from co-runs");
  const CostGraph costs = analytic_costs(workload.model, key.micro_batch, Device{});
  const auto measure = [&](const std::vector<CoRunLoad>& loads) {
    CoRunSpec spec;
    spec.model = workload.model;
    spec.micro_batch = key.micro_batch;
    spec.optimizer = key.optimizer;
    spec.feed = feed_for_profile(workload);
    spec.seconds = a.seconds / spec.rounds;
    spec.loads = loads;
    return measure_co_runs(spec);
  };
  CoRunFile file = (*learner)->co_run_file({costs, std::max(co_run_cores(), 1), a.published, measure});
  fmt::print(stderr, "{}", file.told);
  file.json["workload"] = key.workload;
  file.json["micro_batch"] = key.micro_batch;
  file.json["machine"] = machine_signature();
  file.json["build"] = build_signature();
  return std::move(file.json);
}

// What messages and collectives between the processes that a launcher started cost; nothing but in the first of them.
std::string between_processes(const ProfileArguments& a, const ProfileKey& key, const Workload& workload, int started) {
  const std::unique_ptr<ProcessGroup> processes = join_mpi_job();
  try {
    agree_on_error(processes.get(), [&] {
      if (started != 2 || a.co_run || a.neighbours || key.device != DeviceKind::cpu)
        throw InputError("profile", std::to_string(started) + " processes were started together",
                         "start two, without --co-run, --neighbours and --device, to measure what messages between "
                         "processes cost; start one for all else");
    });
  } catch (AgreedError& e) {
    print_while_joined(e, *processes);
    throw;
  }
  const BetweenProcesses costs = measure_profile_between(key, workload, *processes);
  return processes->rank() == 0 ? to_json(costs).dump(2) + "\n" : "";
}

// A profile, co-run rows, or costs between processes.
bool is_profile(const std::string& text) {
  const Json json = Json::parse_if_json(text).value_or(Json());
  if (!json.is_object()) return false;
  if (!json.contains("schema")) return json.contains("message") && json.contains("reduce") && json.contains("scatter");
  return json["schema"].is_string() && (json["schema"] == "sluice/cost_graph/1" || json["schema"] == "sluice/co_run/1");
}

}  // namespace

int profile_command(const ProfileArguments& a) {
  std::optional<OutputFile> out;
  if (!a.out.empty()) out.emplace(a.out, "a profile", is_profile);
  const auto give = [&](const std::string& text) {
    if (out)
      out->write(text);
    else
      fmt::print("{}", text);
  };
  const Workload& workload = find_workload(a.flags.values.at("workload"));
  if (!workload.runs_for_real)
    throw InputError("--workload", "'" + workload.name + "' is a full-size declaration",
                     "profile a workload that runs here");
  const RunCase c = resolve(entry_of(a.flags, {{"system", "gpipe"}}));  // its micro-batches are those of any system
  reject_what_co_runs_do_not_take(a, c.device);
  need_device(c.device);
  if (a.neighbours && *a.neighbours < 0) throw InputError("--neighbours", "must be at least 0");
  ProfileKey key{.workload = workload.name, .micro_batch = c.batch / c.microbatches, .device = c.device};
  key.workload_digest = c.workload_digest;
  key.optimizer = c.optimizer;
  if (a.neighbours) key.neighbours = a.neighbours;
  if (const int started = launch_from_environment().size; started > 1) {
    const std::string text = between_processes(a, key, workload, started);
    if (!text.empty()) give(text);
    return 0;
  }
  std::string text;
  if (a.co_run) {
    text = co_run_json_of(a, key, workload).dump(1) + "\n";
  } else {
    CostGraph graph = measure_profile(key, workload);
    if (key.device == DeviceKind::cpu && a.neighbours != 0) graph.machine->processes = measure_by_processes(key);
    if (!a.neighbours) ProfileStore(default_profile_folder()).store(key, graph);
    text = to_json(graph).dump(2) + "\n";
  }
  give(text);
  return 0;
}

}  // namespace sluice
