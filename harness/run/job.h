// Job: the processes that mpirun or srun started, which work through one sweep. The first one runs it as a single
// process would (run_sweep) and tells the others, case by case, what to run with it; only it shows progress and writes
// records. Cases on threads or on the virtual clock it runs alone. A process that dies ends the job, with a record of
// the case it died in.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/exec/mpi/failure_detector.h"
#include "harness/exec/process_group.h"
#include "harness/run/run_case.h"

namespace sluice {

class Job {
 public:
  // Joins the processes that the launcher started. Collective. Throws InputError in a build without MPI.
  Job();
  ~Job();  // collective

  bool leads() const { return processes_->rank() == 0; }
  ProcessGroup& processes() { return *processes_; }
  // Starts the failure detector: from here on a process that dies leaves a record with outcome "failed" in the file
  // `records`. Collective.
  void guard(const std::filesystem::path& records);

  // In the first process: runs a case, as run_case(). After the last one dismiss() ends follow() in the
  // others.
  Record run(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks);
  void dismiss();
  // In the others: runs those of these cases that the first one announces, until it dismisses them.
  void follow(const std::vector<RunCase>& cases, ProfileStore& profiles, const RunHooks& hooks);

 private:
  Record run_here(const RunCase& c, ProfileStore& profiles, RunHooks hooks);
  void record_failure(int process, const std::string& how);

  std::unique_ptr<ProcessGroup> processes_;
  std::filesystem::path records_;
  std::mutex mutex_;
  std::optional<Record> current_;  // of the case that runs: what to store should a process die now
  std::unique_ptr<FailureDetector> failure_detector_;
};

}  // namespace sluice
