// Job: the processes that mpirun or srun started, working through one sweep together. The first one
// runs it as a single process would (run_sweep) and tells the others, case by case, what to run
// with it; only it shows progress and writes records. Cases on threads or on the virtual clock it
// runs alone. A process that dies ends the job, with a record of the case it died in.
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
  // Joins the processes of the launch; collective. Throws InputError without MPI.
  Job();
  ~Job();  // collective

  bool leads() const { return processes_->rank() == 0; }
  ProcessGroup& processes() { return *processes_; }
  // From here on a process that dies leaves a `failed` record in `records`. Collective.
  void guard(const std::filesystem::path& records);

  // In the first process: a RunOne for run_sweep. Afterwards dismiss() the others.
  Record run(const RunCase& c, const RunHooks& hooks);
  void dismiss();
  // In the others: runs what the first one says, of these cases, until it dismisses them.
  void follow(const std::vector<RunCase>& cases, const RunHooks& hooks);

 private:
  Record run_here(const RunCase& c, RunHooks hooks);
  void report(int process, const std::string& how);

  std::unique_ptr<ProcessGroup> processes_;
  std::filesystem::path records_;
  std::mutex mutex_;
  std::optional<Record> current_;  // what to store should a process die now
  std::unique_ptr<FailureDetector> failure_detector_;
};

}  // namespace sluice
