// Profiles of this machine: measured once for a workload, micro-batch and build, and kept in memory and as files.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
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

// What a profile is of, besides the machine and the build.
struct ProfileKey {
  std::string workload;
  std::int64_t micro_batch = 1;         // samples
  DeviceKind device = DeviceKind::cpu;  // cuda: each layer alone, on a GPU
  OptimizerSpec optimizer = {};         // its kind decides what a step takes
  std::optional<int> neighbours = {};   // busy ranks next to the measured one; none: on all other cores
  std::string workload_digest = {};     // of a workload file (profile_workload.h)
  int batched_microbatches = 0;         // micro-batches whose weight gradients are one product; 0: each by itself
};
// Everything that decides what is measured, the machine and the build included. One line of text.
std::string to_text(const ProfileKey& key);

std::string machine_signature();  // "Intel(R) Xeon(R) Processor, 2 cores"
std::string build_signature();    // of the running program: its LibTorch and a digest of its file

// $SLUICE_PROFILE_CACHE, or else .cache/profiles in the project's folder.
std::string default_profile_folder();

// Measures; minutes at most, mostly seconds. Throws InputError in a build without LibTorch.
CostGraph measure_profile(const ProfileKey& key, const Workload& workload, int rounds = 3);

// How a store measures; tests have their own.
struct ProfileMeasurements {
  std::function<MachineSpeeds()> speeds = measure_machine_speeds;
  std::function<CostGraph(const ProfileKey&, const Workload&, int rounds)> profile = measure_profile;
};

// The profiles of one command: a command makes a store and passes it to whatever plans a case, so that no profile is
// measured twice. Safe to use from several threads; while one measures, the others that ask for costs wait.
class ProfileStore {
 public:
  // rounds: of a profile that is measured here (RunProfileSpec::rounds).
  explicit ProfileStore(std::string folder, int rounds = 3, ProfileMeasurements measure = {})
      : folder_(std::move(folder)), rounds_(rounds), measure_(std::move(measure)) {}

  const std::string& folder() const { return folder_; }
  std::string file_of(const ProfileKey& key) const;

  // From memory, or else from the key's file, or else measured now and stored. Before its first file is used, a store
  // measures the machine's speeds, and measures each profile of a CPU anew whose own speeds differ from them by more
  // than 5 %, with a warning. between_processes: with the costs of messages between processes, measured now where the
  // profile lacks them. Throws what measure_profile() throws; the store is then as before.
  CostGraph costs(const ProfileKey& key, const Workload& workload, bool between_processes);

  // The key's file only, as long as the machine is as fast as when it was written. Nothing where there is no such file,
  // or one that was damaged, edited or of another speed: a warning on stderr names it. This and store() are for one
  // thread at a time.
  std::optional<CostGraph> stored(const ProfileKey& key);
  // Measures the machine's speeds and writes the key's file with them, whole or not at all, with a seal. A folder that
  // cannot be written is no error but a warning on stderr: the next process measures again.
  void store(const ProfileKey& key, const CostGraph& costs);

  // What is in memory, for the other processes of a job to plan with the same costs. adopt() replaces costs of the same
  // key; it throws, without taking any, where one is not as to_json() wrote it.
  Json to_json() const;
  void adopt(const Json& costs);

 private:
  std::string folder_;
  int rounds_;
  ProfileMeasurements measure_;
  std::optional<MachineSpeeds> speeds_;  // the last that were measured
  mutable std::mutex mutex_;
  std::map<std::string, CostGraph> costs_;  // by to_text(key)
};

// The samples that a training of it reads; none where they are synthetic or not on this machine.
std::optional<DataFeed> feed_for_profile(const Workload& workload);

// Starts two processes of an MPI job, which measure what messages and collectives between them cost; seconds. Only
// cases whose ranks are processes need it, so that measure_profile() leaves it out. They run `sluice profile`, this
// program: not measured where it is another one (a test's), or where they cannot be started or fail.
BetweenProcesses measure_by_processes(const ProfileKey& key);
// In both of the processes.
BetweenProcesses measure_profile_between(const ProfileKey& key, const Workload& workload, ProcessGroup& processes);

// Seconds since a profile was made; nothing if its time cannot be read.
std::optional<double> profile_age(const MachineCosts& machine);

}  // namespace sluice
