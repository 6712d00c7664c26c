// Job: the processes that mpirun or srun started, which work through one sweep. The first one runs it like a single
// process (run_sweep) and announces to the others, case by case, what to run with it. Only the first shows progress and
// writes records, and it runs cases on threads or on the virtual clock alone. If a process dies, the job ends with a
// record of the running case.
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
  // Starts the failure detector: from here on, the death of a process leaves a record with outcome "failed" in the file
  // `records`. Collective.
  void guard(const std::filesystem::path& records);

  // In the first process: runs a case, as run_case(). After the last one, dismiss() ends follow() in the others.
  Record run(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks);
  void dismiss();
  // In the others: runs those of these cases that the first process announces, until it dismisses them.
  void follow(const std::vector<RunCase>& cases, ProfileStore& profiles, const RunHooks& hooks);

 private:
  Record run_here(const RunCase& c, ProfileStore& profiles, RunHooks hooks);
  void record_failure(int process, const std::string& how);

  std::unique_ptr<ProcessGroup> processes_;
  std::filesystem::path records_;
  std::mutex mutex_;
  std::optional<Record> current_;  // of the running case, to be stored if a process dies now
  std::unique_ptr<FailureDetector> failure_detector_;
};

}  // namespace sluice
