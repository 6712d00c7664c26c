// failure detector: notices when a process of a job dies or stops answering, which MPI leaves to the
// launcher: the launcher kills the rest within a second, and who died is lost with them. Every
// process keeps a TCP connection to two witnesses (processes 0 and 1): a process that is killed has
// its connection closed by the system at once, and one that is stopped stays silent. The first
// witness that is not concerned reports it, tells the others, and ends the job.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "harness/exec/process_group.h"

namespace sluice {

class FailureDetector {
 public:
  // Called once at most, in the one process that reports, on the failure detector's own thread, before the
  // job is ended.
  using Report = std::function<void(int process, const std::string& how)>;
  // Ends all processes. Replaced in tests; must not return.
  using EndJob = std::function<void()>;

  // Collective over the process group; each process of a job has one. A process that no witness can be
  // reached from is noted in warning().
  FailureDetector(ProcessGroup& processes, Report report, EndJob end_job);
  // Collective: whoever leaves without a word counts as dead.
  ~FailureDetector();

  const std::string& warning() const;  // in process 0; "" if all are connected
  // This process cannot go on: reported as its failure. Does not return.
  [[noreturn]] void fail(const std::string& reason);

 private:
  class Thread;
  ProcessGroup& processes_;
  std::string warning_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace sluice
