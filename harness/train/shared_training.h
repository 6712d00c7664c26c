// Trainings that several cases of a sweep share. If two cases of the virtual clock compute the same numbers
// (program/numerics.h), the first of them in the sweep trains; the others take its losses and evaluations and add the
// times of their own clock. The source of a case's numbers does not depend on the number of parallel cases.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/exec/session.h"
#include "results/record_parts.h"

namespace sluice {

// The results of a training: what its session returned, call by call.
struct TrainedNumbers {
  struct Run {
    std::vector<double> losses;
    std::optional<std::int64_t> diverged;  // Execution::diverged
  };
  std::vector<Run> runs;
  std::vector<Evaluation> evaluations;
  CurveOf trained_by;  // the case that trained
};

// Lets other cases compute while one waits: calls `wait`, which blocks.
using WhileWaiting = std::function<void(const std::function<void()>& wait)>;

class SharedTrainings {
 public:
  // groups: for every case of the sweep in its order, a text that is equal for cases that might have the same numbers
  // (training_group); "": the case shares nothing.
  explicit SharedTrainings(std::vector<std::string> groups);

  // A case's handle. If destroyed before give(), waiting cases are released without a result.
  class Turn {
   public:
    Turn(SharedTrainings& all, std::size_t index, WhileWaiting while_waiting);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // The numbers named `key`, once the earlier case that trains them has ended; null: this case must train them and
    // give() them. Call it once. Waits until all earlier cases of its group have named theirs.
    std::shared_ptr<const TrainedNumbers> take(const std::string& key);
    void give(TrainedNumbers numbers);

   private:
    SharedTrainings& all_;
    std::size_t index_;
    WhileWaiting while_waiting_;
    std::string key_;
  };

 private:
  struct Shared {
    std::optional<std::size_t> trainer;  // none: the previous one has failed
    std::shared_ptr<const TrainedNumbers> numbers;
  };
  bool must_wait(std::size_t index, const std::string& key);
  bool all_before_have_named_theirs(std::size_t index) const;
  std::shared_ptr<const TrainedNumbers> take(std::size_t index, const std::string& key);

  std::vector<std::string> groups_;
  std::vector<bool> named_;  // per case: it has named its numbers, or never will
  std::map<std::string, Shared> shared_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// "" if the case trains by itself: on the wall clock, with a time limit or an injected failure, under interference,
// with a system that may change its plan during the run, or without a training. Needs no plan. The learning rate is not
// part of it, because a search may still have to find it.
std::string training_group(const RunCase& c);

// Runs `session` and keeps what it returns in `numbers`, which must outlive it.
std::unique_ptr<Session> keep_numbers(std::unique_ptr<Session> session, TrainedNumbers& numbers);
// Returns the results of a session that was called in the same way. Has no weights.
std::unique_ptr<Session> repeat_numbers(std::shared_ptr<const TrainedNumbers> numbers);

}  // namespace sluice
