#include <fmt/format.h>

#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/output_file.h"
#include "harness/base/quantities.h"
#include "harness/case/co_run_profile.h"
#include "harness/case/profile_store.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/cli/commands.h"
#include "harness/cli/exit_codes.h"
#include "harness/cli/gpu_program.h"
#include "harness/exec/mpi/mpi.h"
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

void tell(const CoRunProfile& profile, const ForestRows& published, const std::optional<HeldOutLoads>& error) {
  for (const CoRunProfile::Load& load : profile.loads)
    fmt::print(stderr, "{} on {} core, as much as {:.3g}x takes: {:.3g} times slower\n",
               choice_name(load.load.resource), load.load.own_core ? "the rank's" : "another", load.load.slowdown,
               load.slowdown);
  const std::size_t rows = rows_of(profile).y.size();
  fmt::print(stderr, "{} rows of {} loads", rows, profile.loads.size());
  if (!published.y.empty()) fmt::print(stderr, ", {} published rows", published.y.size());
  fmt::print(stderr, "\n");
  if (!error) return;
  fmt::print(stderr,
             "the forest of {} loads on the other {}: mean squared error {:.3g}, mean absolute error {:.3g}; mean "
             "squared error of the rows' mean {:.3g}, of the slowdown that was seen {:.3g}\n",
             error->learned, error->held_out, error->error.mean_squared, error->error.mean_absolute,
             error->error.mean_squared_of_mean, error->mean_squared_of_seen);
}

Json co_run_rows_of(const ProfileArguments& a, const ProfileKey& key, const Workload& workload) {
  const ForestRows published = a.published.empty() ? ForestRows{} : read_forest_rows(a.published);
  const CoRunProfile profile = measure_co_run_profile(key, workload, a.seconds);
  const std::optional<HeldOutLoads> error = hold_out(profile, published);
  tell(profile, published, error);
  return to_json(profile, key, error);
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
    text = co_run_rows_of(a, key, workload).dump(1) + "\n";
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
