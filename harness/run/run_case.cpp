#include "harness/run/run_case.h"

#include <optional>

#include "harness/base/error.h"
#include "harness/base/error_words.h"
#include "harness/base/stop.h"
#include "harness/case/file_digests.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/run/describe_case.h"
#include "harness/run/prepare_in_job.h"
#include "harness/train/training.h"

namespace sluice {

namespace {

// One case becomes one record: it is prepared, rejected where it cannot run, trained on its clock, and described.
class CaseRun {
 public:
  CaseRun(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks)
      : case_(c), profiles_(profiles), hooks_(hooks), record_(record_of(c)) {}

  Record run() {
    std::optional<Seconds> limit;
    if (case_.timeout_seconds > 0) limit = Seconds(case_.timeout_seconds);
    const StopScope stop(hooks_.cancel, limit);
    try {
      agree_on_error(job(), [&] { require_same_files(case_); });
      if (!prepare_ranks()) return std::move(record_);
      agree_on_error(processes_.get(), [&] { describe(); });
      if (processes_) compare_programs(*processes_, record_.outcome, program_);
      if (record_.outcome == RecordOutcome::ok) train();
    } catch (const RunStopped& stopped) {
      if (stopped.kind == RunStopped::Kind::cancelled) throw Cancelled{};
      if (stopped.kind == RunStopped::Kind::timed_out) return timed_out();
      fail(stopped.what());
      if (stopped.rank) record_.failed_rank = stopped.rank->value;
    } catch (const Stopped& stopped) {
      if (stopped.kind == Stopped::Kind::cancelled) throw Cancelled{};
      return timed_out();
    } catch (const AgreedError& e) {
      fail(e.what());
    } catch (const std::exception& e) {
      if (job()) throw;  // only this process knows: the job ends
      fail(words_of(e));
    }
    return std::move(record_);
  }

 private:
  ProcessGroup* job() const { return runs_as_processes(case_) ? hooks_.job : nullptr; }

  void fail(const std::string& reason) {
    record_.outcome = RecordOutcome::failed;
    record_.reason = reason;
  }

  Record timed_out() {
    record_.outcome = RecordOutcome::timed_out;
    record_.reason = "took longer than " + to_text(Seconds(case_.timeout_seconds));
    return std::move(record_);
  }

  void reject(const std::string& reason) {
    record_.outcome = RecordOutcome::unsupported;
    record_.reason = reason;
  }

  // False: no rank of the case runs in this process, or the case is rejected.
  bool prepare_ranks() {
    if (job() && case_.ranks > job()->size()) {
      reject(std::to_string(case_.ranks) + " ranks need as many processes; the job has " +
             std::to_string(job()->size()));
      return false;
    }
    try {
      if (!job()) {
        prepared_ = prepare(case_, profiles_);
      } else {
        processes_ = prepare_in_job(case_, *job(), profiles_, prepared_);
        if (!processes_) return false;
      }
      if (case_.pin == Pin::core) pin();
      if (case_.leftover == Leftover::partial) prepared_.leftover = Leftover::partial;
    } catch (const InputError& e) {
      // The case itself was found sound when it was read: it is the system that rejects.
      reject(e.what());
      return false;
    }
    return true;
  }

  void pin() {
    pinning_ = pin_to_cores(static_cast<int>(prepared_.ranks.devices.size()), processes_.get());
    record_.environment.pinning = {.library = hwloc_library(), .cpus = pinning_->cpus()};
  }

  // Plan, theory, memory; sets the outcome where the case cannot run.
  void describe() {
    describe_plan(case_, prepared_, record_);
    training_.emplace(case_, prepared_);
    const Segments& segments = training_->segments();
    record_.updates_per_epoch = segments.updates_per_epoch();
    const int microbatches = segments.microbatches_of_program(0, segments.first_updates());
    try {
      reject_optimizer(microbatches);
      reject_snapshots(microbatches);
      program_ = make_program(prepared_, microbatches);
    } catch (const InputError& e) {
      return reject(e.what());
    }
    const std::vector<RankMemory> predicted = predicted_memory(prepared_, program_, case_.optimizer);
    describe_program(case_, prepared_, program_, microbatches, predicted, record_);
    if (const std::string over = over_memory(prepared_, predicted); !over.empty()) {
      record_.outcome = RecordOutcome::out_of_memory;
      record_.reason = over;
    }
  }

  void reject_optimizer(int microbatches) const {
    const OptimizerSpec& o = case_.optimizer;
    const bool momentum_sgd = o.kind == OptimizerSpec::Kind::sgd && o.momentum != 0;
    const WeightRule rule = rule_of(prepared_, microbatches);
    if (rule.momentum_sgd_only && !momentum_sgd)
      throw InputError("optimizer", case_.system + " predicts by momentum SGD's rule only",
                       "use sgd with momentum, or leave out strict");
    if (rule.nesterov_adam_only && o.kind != OptimizerKind::nadamw && o.kind != OptimizerKind::nadam)
      throw InputError("optimizer", case_.system + "'s correction is NAdam's momentum",
                       "use nadamw, or leave out strict");
    const bool adam = o.kind != OptimizerKind::sgd && o.kind != OptimizerKind::rmsprop && !o.treats_matrices();
    if (rule.forward_delta == WeightRule::Delta::first_moment && !momentum_sgd && !adam)
      throw InputError("optimizer", choice_name(o.kind) + " keeps no moving average of the gradients to predict with",
                       "use sgd with momentum or an Adam, or predict with the optimizer's own direction");
    if (!o.treats_matrices()) return;
    const std::string name = choice_name(o.kind);
    if (sharding_of(prepared_, microbatches).active())
      throw InputError("optimizer", name + " needs whole matrices, and sharding cuts them", "leave sharding out");
    if (prepared_.system->adapt)
      throw InputError("optimizer", "the state of " + name + " does not move from rank to rank", "use adamw");
  }

  // Between snapshots the pipeline is not drained, so that one program is that of all epochs.
  void reject_snapshots(int microbatches) const {
    if (!training_.value().segments().snapshots()) return;
    const WeightRule first = rule_of(prepared_, microbatches, 0);
    const WeightRule last = rule_of(prepared_, microbatches, case_.epochs - 1);
    if (first.pipemare.delay != last.pipemare.delay)
      throw InputError("evaluation",
                       "snapshot runs all epochs at once, and " + case_.system + " runs its first ones in another way",
                       "use drain");
  }

  void train() { training_.value().run(program_, hooks_, processes_.get(), pinning_.get(), record_); }

  const RunCase& case_;
  ProfileStore& profiles_;
  const RunHooks& hooks_;
  Record record_;
  Prepared prepared_;
  std::unique_ptr<ProcessGroup> processes_;  // that hold the case's ranks, in a job; null: threads of this process
  std::unique_ptr<Pinning> pinning_;         // null: ranks run on any core
  Program program_;                          // of the first segment
  std::optional<Training> training_;
};

}  // namespace

Record run_case(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks) {
  return CaseRun(c, profiles, hooks).run();
}

}  // namespace sluice
