// FailureDetector: detects that a process of a job dies or stops answering. MPI leaves that to the launcher, which
// kills the other processes within a second, so that none can report which one died. Every process keeps a TCP
// connection to two witnesses, processes 0 and 1: the operating system closes the connection of a killed process at
// once, and a suspended process is silent. The first witness that is still alive reports the failure, tells the others,
// and ends the job.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "harness/exec/process_group.h"

namespace sluice {

class FailureDetector {
 public:
  // Called at most once, in the one process that reports, on the failure detector's own thread, before it ends the job.
  using Report = std::function<void(int process, const std::string& how)>;
  // Ends all processes. Replaced in tests; must not return.
  using EndJob = std::function<void()>;

  // Collective over the process group; each process of a job has one. warning() names a process that reaches no
  // witness.
  FailureDetector(ProcessGroup& processes, Report report, EndJob end_job);
  // Collective: a process that leaves without it counts as dead.
  ~FailureDetector();

  const std::string& warning() const;  // in process 0; "" if all are connected
  // Reports that this process cannot go on, and why. Does not return.
  [[noreturn]] void fail(const std::string& reason);

 private:
  class Thread;
  ProcessGroup& processes_;
  std::string warning_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace sluice
