// RunCase: one experiment, fully spelled out: what a sweep's grid expands into and what a record is
// of.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json_reader.h"
#include "harness/exec/session.h"
#include "workloads/models/registry.h"

namespace sluice {

// How a learning rate is searched: every rate of the grid trains once, as a recorded case of its
// own with the same everything but the seed and the length (tuning.h).
struct TuneSpec {
  std::vector<double> learning_rates;  // ascending, each once
  std::uint64_t seed = 101;            // none of the seeds that are measured
  int epochs = 0, steps = 0;           // of a candidate; one of them
};

// The learning rate over a run, as a factor of the optimizer's. Updates are the run's.
struct RateSchedule {
  std::string kind = "constant";  // constant | step | polynomial
  int every_epochs = 1;           // step: after so many epochs ...
  double factor = 0.1;            // ... times this
  double power = 1;               // polynomial: (1 - update / all updates)^power
  double at(std::int64_t update, std::int64_t updates_per_epoch, std::int64_t all_updates) const;
};

struct RunCase {
  std::string system;                          // full name, aliases resolved
  std::map<std::string, std::string> options;  // all declared ones, resolved
  std::string workload;
  std::string cluster = "flat:4";  // the virtual clock's; on the wall clock "this machine"
  std::string clock = "wall";      // wall | virtual
  std::string costs = "profile";   // what planning and the virtual clock use: profile | analytic | a file
  std::string transport = "threads";
  std::string device = "cpu";
  int ranks = 2;
  // Pipelines that run beside each other, each on ranks / data_parallel ranks with its share of the
  // micro-batches, and how they lie over the devices (pipeline/replicas.h).
  int data_parallel = 1;
  std::string layout = "groups";  // groups | pipelines
  // What the ranks of a stage divide: "system" (what the system does of itself), none (replicas
  // that reduce gradients), optimizer (ZeRO-1), or weights too, gathered for every op (use), for
  // every visit to a stage (visit) or once an update (update).
  std::string sharding = "system";
  std::int64_t batch = 0;  // samples per update
  int microbatches = 0;    // per update (asynchronous systems: 1, a whole batch at a time)
  std::uint64_t seed = 1;
  int epochs = 0;  // 0: `steps` updates without evaluation
  int evaluations_per_epoch = 1;
  int steps = 0;
  bool train = true;                               // virtual clock: false leaves the numerics out, no curve
  std::string weight_gradient = "per_microbatch";  // or "batched": W of an update as one GEMM per layer
  // Of synchronous systems: free, a rank goes on once its own stages have stepped; barrier, no rank
  // begins the next update before all have (RunPolicy::step_barrier).
  std::string step = "free";
  std::string pin = "none";  // or "core": every rank on a core of its own (exec/pinning.h)
  OptimizerSpec optimizer;
  RateSchedule rate_schedule;
  // drain: an asynchronous pipe runs empty before each evaluation; snapshot: it runs on, and copies
  // of the weights are evaluated afterwards. Synchronous systems have nothing to drain.
  std::string evaluation = "drain";
  // The micro-batches at an epoch's end that fill no update of an asynchronous system that
  // accumulates: dropped, as all systems do with the samples after the last whole batch, or one
  // more update, divided by their number. With partial it sees samples that the others do not.
  std::string leftover = "drop";
  std::optional<TuneSpec> tune;     // "learning_rate": "tuned"; optimizer's is then the chosen one
  std::string purpose = "measure";  // measure | boundary | tune (made by tuning_cases only)
  double timeout_seconds = 0;       // 0: none
  int fail_rank = -1;               // --inject-failure RANK:UPDATE, for tests and demonstrations
  std::int64_t fail_update = -1;
};

// Whether its ranks are the processes of an MPI job: over mpi always, over nccl if a launcher
// started several.
bool runs_as_processes(const RunCase& c);

// Canonical: its digest names the experiment. A tuned case is named by its search, not by the rate
// that the search finds.
nlohmann::json to_json(const RunCase& c);
nlohmann::json to_json(const OptimizerSpec& optimizer);

// One object of a sweep's grid (or the command line's flags as JSON): every key may hold a list,
// so may those inside "options" and "optimizer", and the result is every combination. "system"
// takes
// "*" (all) and "*asynchronous" (all that update without a flush). Defaults come from the workload.
// Throws InputError: unknown keys and names (with a suggestion), wrong types, counts below 1, a
// batch that the micro-batches do not divide.
std::vector<RunCase> expand_case(const nlohmann::json& entry, const std::string& file, const std::string& pointer);

// A sweep file: {"name", "title", "defaults": {...}, "grid": [{...}, ...]}. Cases that are the same
// experiment (single_device under several rank counts) are kept once.
struct Sweep {
  std::string name, title;
  std::vector<RunCase> cases;
};
Sweep load_sweep(const std::string& path);

// Keeps the cases i, i + n, i + 2 n, ... of "i/n" (i from 0). Cases that share a learning-rate
// search count as one and stay together. Throws InputError.
std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description);

}  // namespace sluice
