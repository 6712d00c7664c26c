#include "harness/train/shared_training.h"

#include <stdexcept>
#include <utility>

#include "harness/case/settings.h"
#include "harness/pipeline/system.h"

namespace sluice {

SharedTrainings::SharedTrainings(std::vector<std::string> groups) : groups_(std::move(groups)) {
  for (const std::string& group : groups_) named_.push_back(group.empty());
}

bool SharedTrainings::must_wait(std::size_t index, const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (!all_before_have_named_theirs(index)) return true;
  const auto found = shared_.find(key);
  return found != shared_.end() && found->second.trainer && !found->second.numbers;
}

bool SharedTrainings::all_before_have_named_theirs(std::size_t index) const {
  for (std::size_t k = 0; k < index; ++k)
    if (!named_[k] && groups_[k] == groups_[index]) return false;
  return true;
}

std::shared_ptr<const TrainedNumbers> SharedTrainings::take(std::size_t index, const std::string& key) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return all_before_have_named_theirs(index); });
  named_[index] = true;
  changed_.notify_all();
  Shared& shared = shared_[key];
  if (!shared.trainer && !shared.numbers) shared.trainer = index;
  changed_.wait(lock, [&] { return shared.numbers || !shared.trainer || *shared.trainer == index; });
  if (shared.numbers) return shared.numbers;
  shared.trainer = index;
  return nullptr;
}

SharedTrainings::Turn::Turn(SharedTrainings& all, std::size_t index, WhileWaiting while_waiting)
    : all_(all), index_(index), while_waiting_(std::move(while_waiting)) {}

SharedTrainings::Turn::~Turn() {
  const std::lock_guard lock(all_.mutex_);
  all_.named_[index_] = true;
  if (const auto found = all_.shared_.find(key_); found != all_.shared_.end())
    if (found->second.trainer == index_ && !found->second.numbers) found->second.trainer.reset();
  all_.changed_.notify_all();
}

std::shared_ptr<const TrainedNumbers> SharedTrainings::Turn::take(const std::string& key) {
  key_ = all_.groups_[index_] + key;
  std::shared_ptr<const TrainedNumbers> numbers;
  const auto take = [&] { numbers = all_.take(index_, key_); };
  if (all_.must_wait(index_, key_)) {
    while_waiting_(take);
  } else {
    take();
  }
  return numbers;
}

void SharedTrainings::Turn::give(TrainedNumbers numbers) {
  const std::lock_guard lock(all_.mutex_);
  all_.shared_[key_].numbers = std::make_shared<const TrainedNumbers>(std::move(numbers));
  all_.changed_.notify_all();
}

std::string training_group(const RunCase& c) {
  if (c.clock != Clock::virtual_clock || !c.train || c.timeout_seconds > 0 || c.fail_rank >= 0) return "";
  // Their plans may change during the run, after a time that is their own.
  if (!c.interference.empty() || find_system(c.system, "system").adapt) return "";
  Json optimizer = to_json(c)["optimizer"];
  optimizer.erase("learning_rate");
  return Json{{"workload", c.workload},
              {"optimizer", optimizer},
              {"clip_norm", c.optimizer.clip_norm},
              {"seed", c.seed},
              {"batch", c.batch},
              {"epochs", c.epochs},
              {"evaluations_per_epoch", c.evaluations_per_epoch},
              {"steps", c.steps},
              {"evaluation", static_cast<int>(c.evaluation)},
              {"leftover", static_cast<int>(c.leftover)},
              {"validates", c.purpose == Purpose::tune}}
      .dump();
}

namespace {

[[noreturn]] void no_weights() { throw std::logic_error("numbers of another case's training have no weights"); }

class KeepingSession : public Session {
 public:
  KeepingSession(std::unique_ptr<Session> session, TrainedNumbers& numbers)
      : session_(std::move(session)), numbers_(numbers) {}

  RunResult run(const Program& program, const RunRequest& request) override {
    RunResult result = session_->run(program, request);
    numbers_.runs.push_back({result.losses, result.execution.diverged});
    return result;
  }
  Evaluation evaluate() override { return keep(session_->evaluate()); }
  Evaluation evaluate_snapshot(std::size_t k) override { return keep(session_->evaluate_snapshot(k)); }
  void save(const std::string& path) const override { session_->save(path); }
  void load(const std::string& path, bool of_any_plan) override { session_->load(path, of_any_plan); }
  std::vector<MemoryByKind> peak_memory() const override { return session_->peak_memory(); }
  void reset_peak_memory() override { session_->reset_peak_memory(); }
  std::vector<double> weights(int layer) const override { return session_->weights(layer); }
  std::vector<double> gradients(int layer) const override { return session_->gradients(layer); }
  std::int64_t updates_done() const override { return session_->updates_done(); }
  std::vector<std::uint64_t> layer_digests() const override { return session_->layer_digests(); }
  void repartition(const Plan& plan) override { session_->repartition(plan); }

 private:
  Evaluation keep(Evaluation evaluation) {
    numbers_.evaluations.push_back(evaluation);
    return evaluation;
  }
  std::unique_ptr<Session> session_;
  TrainedNumbers& numbers_;
};

class RepeatingSession : public Session {
 public:
  explicit RepeatingSession(std::shared_ptr<const TrainedNumbers> numbers) : numbers_(std::move(numbers)) {}

  RunResult run(const Program& program, const RunRequest& request) override {
    const TrainedNumbers::Run& run = numbers_->runs.at(next_run_++);
    RunResult result;
    result.losses = run.losses;
    result.execution.diverged = run.diverged;
    updates_ += run.diverged.value_or(std::int64_t{request.iterations} * program.updates);
    return result;
  }
  Evaluation evaluate() override { return numbers_->evaluations.at(next_evaluation_++); }
  Evaluation evaluate_snapshot(std::size_t) override { return evaluate(); }
  void save(const std::string&) const override { no_weights(); }
  void load(const std::string&, bool) override { no_weights(); }
  std::vector<MemoryByKind> peak_memory() const override { no_weights(); }
  void reset_peak_memory() override {}
  std::vector<double> weights(int) const override { no_weights(); }
  std::vector<double> gradients(int) const override { no_weights(); }
  std::int64_t updates_done() const override { return updates_; }
  std::vector<std::uint64_t> layer_digests() const override { no_weights(); }
  void repartition(const Plan&) override { no_weights(); }

 private:
  std::shared_ptr<const TrainedNumbers> numbers_;
  std::size_t next_run_ = 0, next_evaluation_ = 0;
  std::int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Session> keep_numbers(std::unique_ptr<Session> session, TrainedNumbers& numbers) {
  return std::make_unique<KeepingSession>(std::move(session), numbers);
}

std::unique_ptr<Session> repeat_numbers(std::shared_ptr<const TrainedNumbers> numbers) {
  return std::make_unique<RepeatingSession>(std::move(numbers));
}

}  // namespace sluice
