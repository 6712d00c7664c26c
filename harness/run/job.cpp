#include "harness/run/job.h"

#include <fmt/format.h>

#include <cstdio>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "harness/case/settings.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/run/describe_case.h"
#include "harness/run/environment.h"
#include "results/store.h"

namespace sluice {

Job::Job() {
  describe_environment();  // asks git in a process of its own, which some networks allow only now
  processes_ = join_mpi_job();
}

Job::~Job() { failure_detector_.reset(); }

void Job::guard(const std::filesystem::path& records) {
  records_ = records;
  failure_detector_ = std::make_unique<FailureDetector>(
      *processes_, [this](int process, const std::string& how) { record_failure(process, how); },
      [] { abort_mpi_job(1); });
  if (!failure_detector_->warning().empty()) fmt::print(stderr, "warning: {}\n", failure_detector_->warning());
}

void Job::record_failure(int process, const std::string& how) {
  const std::lock_guard lock(mutex_);
  fmt::print(stderr, "error: rank {}: {}; the job ends\n", process, visible(how));
  if (!current_) return;
  current_->outcome = RecordOutcome::failed;
  current_->reason = how;
  current_->failed_rank = process;
  try {
    Store(records_).append(*current_);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", visible(e.what()));
  }
  current_.reset();
}

Record Job::run_here(const RunCase& c, ProfileStore& profiles, RunHooks hooks) {
  hooks.job = processes_.get();
  {
    const std::lock_guard lock(mutex_);
    current_ = record_of(c);
  }
  const auto end = [&] {
    const std::lock_guard lock(mutex_);
    current_.reset();
  };
  try {
    Record record = run_case(c, profiles, hooks);
    end();
    return record;
  } catch (const AgreedError&) {
    throw;
  } catch (const std::exception& e) {
    // Only this process stopped. The others wait for it: only the failure detector can tell them.
    failure_detector_->fail(e.what());
  } catch (const Cancelled&) {
    end();
    throw;
  }
}

Record Job::run(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks) {
  if (!runs_as_processes(c)) return run_case(c, profiles, hooks);
  // A tuned learning rate was chosen from records that only this process has.
  const Json message = {{"digest", digest_of(c)}, {"learning_rate", c.optimizer.learning_rate}};
  processes_->broadcast(message.dump(), 0);
  return run_here(c, profiles, hooks);
}

void Job::dismiss() { processes_->broadcast("", 0); }

void Job::follow(const std::vector<RunCase>& cases, ProfileStore& profiles, const RunHooks& hooks) {
  std::map<std::string, const RunCase*> by_digest;
  for (const RunCase& c : cases) by_digest[digest_of(c)] = &c;
  for (;;) {
    const std::string text = processes_->broadcast("", 0);
    if (text.empty()) return;
    const Json message = Json::parse(text);
    const auto found = by_digest.find(message.at("digest").get<std::string>());
    if (found == by_digest.end())
      failure_detector_->fail("this process read another sweep than process 0: the same files on every machine?");
    RunCase c = *found->second;
    c.optimizer.learning_rate = message.at("learning_rate").get<double>();
    try {
      run_here(c, profiles, hooks);
    } catch (const Cancelled&) {
      // The first process was interrupted too, and will dismiss this one.
    }
  }
}

}  // namespace sluice
