// Adapter: carries out what a system decides during a run (System::adapt). On both clocks the ranks' seconds of every
// window of updates go to the system; where it answers with another plan, the pipe runs empty, layers move to their new
// ranks, and the training goes on. Changes that the system's options prescribe (System::prescribed) come at their
// updates instead, whatever the windows show: between threads and between processes the training is then the same, bit
// for bit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/prepare.h"
#include "harness/exec/session.h"
#include "harness/train/run_segment.h"
#include "results/record.h"

namespace sluice {

class Adapter {
 public:
  // Makes a session for the plan that runs now, with the state of the file (after a restart).
  using Restart = std::function<void(const Prepared& now, const std::string& file)>;

  // updates: of the whole run. Throws InputError: changes are prescribed to a run that cannot adapt, or after its end.
  Adapter(const RunCase& c, const Prepared& prepared, std::int64_t updates);

  // Whether the system adapts in this run: a chain on threads or processes, or on the virtual clock, whose evaluations
  // need no snapshots.
  bool active() const { return active_; }
  const Prepared& prepared() const { return prepared_; }  // of the plan that runs now
  // Goes on after `updates` updates of a run that was interrupted: with its windows, changes and plan. Returns whether
  // the plan is another one than the run's first.
  bool resume(const RecordedAdaptation& before, std::int64_t updates);

  struct Segment {
    std::int64_t updates = 0;
    int epoch = 0;
    double start = 0;  // seconds of the training before it
    bool traced = false;
  };
  // As run_segment() of one undrained segment, and in as many parts as plans follow one another in it; the seconds of
  // moving are its own. session: where it stands is changed by `restart`. Throws RunStopped.
  SegmentResult run(const Segment& segment, std::unique_ptr<Session>& session, const RunRequest& request,
                    ProcessGroup* processes, const Restart& restart);
  void describe(Record& record) const;
  // What the updates so far take a run that knows the episodes (oracle.h); none on the wall clock.
  std::optional<double> seconds_of_oracle() const;

 private:
  std::optional<std::int64_t> decide(const std::vector<double>& compute, std::int64_t begun, double now);
  std::optional<std::int64_t> decide_by_simulation(const Program& program, double start);
  void agree(ProcessGroup* processes);
  // Carries out next_; `now`: seconds of the training. Returns the seconds that it took.
  double carry_out(std::unique_ptr<Session>& session, ProcessGroup* processes, const Restart& restart, double now);
  void adopt(const Plan& plan);
  Problem problem() const { return problem_of(prepared_, case_); }

  const RunCase& case_;
  Prepared prepared_;
  bool active_ = false;
  int window_ = 0;
  std::vector<Plan> plans_;
  std::vector<ObservedWindow> windows_;
  std::map<std::int64_t, Adaptation> prescribed_;  // by the updates of the run before each
  std::optional<Adaptation> next_;
  double decided_ = 0;
  std::int64_t updates_left_ = 0, updates_done_ = 0;
  std::vector<RecordedAdaptation::Change> changes_;
};

// What a move carries between two plans: bytes of weights and optimizer state of the layers that change their device,
// and the seconds that the cluster's links take for it, all pairs of devices at once.
struct MovedLayers {
  double bytes = 0, seconds = 0;
};
MovedLayers moved_layers(const Prepared& prepared, const OptimizerSpec& optimizer, const Plan& from, const Plan& to);
// The whole job's state, gathered on the first rank and given out again.
MovedLayers restarted_layers(const Prepared& prepared, const OptimizerSpec& optimizer, const Plan& to);

}  // namespace sluice
