// Profiles of this machine: measured once per workload, micro-batch and build, and kept in memory and as files.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "harness/case/choices.h"
#include "harness/exec/machine_speeds.h"
#include "harness/exec/process_group.h"
#include "harness/exec/session.h"
#include "harness/model/cost_graph.h"
#include "harness/pipeline/optimizer.h"
#include "workloads/models/registry.h"

namespace sluice {

class Json;

// What a profile depends on, in addition to the machine and the build.
struct ProfileKey {
  std::string workload;
  std::int64_t micro_batch = 1;         // samples
  DeviceKind device = DeviceKind::cpu;  // cuda: each layer alone, on a GPU
  OptimizerSpec optimizer = {};         // its kind determines the time of a step
  std::optional<int> neighbours = {};   // busy ranks next to the measured one; none: one on every other core
  std::string workload_digest = {};     // of a workload file (profile_workload.h)
  int batched_microbatches = 0;         // micro-batches whose weight gradients are one product; 0: one product each
};
// Everything that a profile depends on, including the machine and the build. One line of text.
std::string to_text(const ProfileKey& key);

std::string machine_signature();  // "Intel(R) Xeon(R) Processor, 2 cores"
std::string build_signature();    // of the running program: its LibTorch and a digest of its file

// $SLUICE_PROFILE_CACHE, or else .cache/profiles in the project's folder.
std::string default_profile_folder();

// Measures: mostly seconds, at most minutes. Throws InputError in a build without LibTorch.
CostGraph measure_profile(const ProfileKey& key, const Workload& workload, int rounds = 3);

// How a store measures; tests use their own.
struct ProfileMeasurements {
  std::function<MachineSpeeds()> speeds = measure_machine_speeds;
  std::function<CostGraph(const ProfileKey&, const Workload&, int rounds)> profile = measure_profile;
};

// The profiles of one command. A command makes one store and passes it to all code that plans a case, so that no
// profile is measured twice. Thread-safe; while one thread measures, others that need costs wait.
class ProfileStore {
 public:
  // rounds: of the profiles that are measured here (RunProfileSpec::rounds).
  explicit ProfileStore(std::string folder, int rounds = 3, ProfileMeasurements measure = {})
      : folder_(std::move(folder)), rounds_(rounds), measure_(std::move(measure)) {}

  const std::string& folder() const { return folder_; }
  std::string file_of(const ProfileKey& key) const;

  // From memory, else from the key's file, else measured now and stored. Before the first use of a file, the store
  // measures the machine's speeds, and it measures every CPU profile again whose own speeds differ from them by more
  // than 5 %, with a warning. between_processes: with the costs of messages between processes, measured now if the
  // profile lacks them. Throws what measure_profile() throws; the store is then unchanged.
  CostGraph costs(const ProfileKey& key, const Workload& workload, bool between_processes);

  // The key's file only, if the machine is still as fast as when it was written. nullopt: no such file, or one that was
  // damaged, edited or has other speeds, which a warning on stderr names. Only one thread at a time may call this and
  // store().
  std::optional<CostGraph> stored(const ProfileKey& key);
  // Writes the key's file, whole or not at all, with a seal; of a CPU with the machine's speeds, measured now if
  // `costs` has none. If the folder cannot be written, it prints a warning on stderr and no error: the next process
  // measures again.
  void store(const ProfileKey& key, const CostGraph& costs);
  // Warns on stderr, once a file, if its costs are of another machine, or this one's speeds differ from those of then
  // by more than 5 %.
  void warn_of_changes(const std::string& file, const MachineCosts& then);

  // The costs in memory, so that the other processes of a job plan with the same. adopt() replaces costs of the same
  // key; it throws, without any change, if one does not have the form of to_json().
  Json to_json() const;
  void adopt(const Json& costs);

 private:
  const MachineSpeeds& speeds();

  std::string folder_;
  int rounds_;
  ProfileMeasurements measure_;
  std::optional<MachineSpeeds> speeds_;  // last measured
  std::set<std::string> compared_;       // files that warn_of_changes() has seen
  mutable std::mutex mutex_;
  std::map<std::string, CostGraph> costs_;  // by to_text(key)
};

// The samples that its training reads; nullopt if they are synthetic or not on this machine.
std::optional<DataFeed> feed_for_profile(const Workload& workload);

// Starts two processes of an MPI job, which measure the costs of messages and collectives between them; seconds. Only
// cases whose ranks are processes need it, so measure_profile() leaves it out. They run `sluice profile`, this program.
// Empty result: this is another program (a test), or they cannot be started or fail.
BetweenProcesses measure_by_processes(const ProfileKey& key);
// Runs in both processes.
BetweenProcesses measure_profile_between(const ProfileKey& key, const Workload& workload, ProcessGroup& processes);

// Seconds since a profile was made; nothing if its time cannot be read.
std::optional<double> profile_age(const MachineCosts& machine);

}  // namespace sluice
