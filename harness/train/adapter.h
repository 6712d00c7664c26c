// Adapter: carries out the decisions of a system during a run (System::adapt). On both clocks the system gets the
// ranks' seconds of every window of updates. If it returns another plan, the pipe drains, layers move to their new
// ranks, and the training continues. Changes that the system's options prescribe (System::prescribed) happen at their
// updates instead, for any windows: between threads and between processes the training is then the same, bit for bit.
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
  // Makes a session for the current plan, with the state of the file (after a restart).
  using Restart = std::function<void(const Prepared& now, const std::string& file)>;

  // updates: of the whole run. Throws InputError: prescribed changes in a run that cannot adapt, or after its end.
  Adapter(const RunCase& c, const Prepared& prepared, std::int64_t updates);

  // Whether the system adapts in this run: a chain on threads or processes, or on the virtual clock, without snapshot
  // evaluations.
  bool active() const { return active_; }
  const Prepared& prepared() const { return prepared_; }  // of the current plan
  // Continues an interrupted run after `updates` updates, with its windows, changes and plan. Returns whether the plan
  // is another one than the run's first.
  bool resume(const RecordedAdaptation& before, std::int64_t updates);

  struct Segment {
    std::int64_t updates = 0;
    int epoch = 0;
    double start = 0;  // seconds of the training before it
    bool traced = false;
  };
  // As run_segment() of one undrained segment, in one part per plan; the seconds of moves are separate. session:
  // `restart` replaces it. Throws RunStopped.
  SegmentResult run(const Segment& segment, std::unique_ptr<Session>& session, const RunRequest& request,
                    ProcessGroup* processes, const Restart& restart);
  void describe(Record& record) const;
  // Seconds of the updates so far in a run that knows the episodes (oracle.h); none on the wall clock.
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
  std::map<std::int64_t, Adaptation> prescribed_;  // by the number of updates of the run before each
  std::optional<Adaptation> next_;
  double decided_ = 0;
  std::int64_t updates_left_ = 0, updates_done_ = 0;
  std::vector<RecordedAdaptation::Change> changes_;
};

// A move between two plans: bytes of weights and optimizer state of the layers that change their device, and the
// seconds on the cluster's links, all pairs of devices at once.
struct MovedLayers {
  double bytes = 0, seconds = 0;
};
MovedLayers moved_layers(const Prepared& prepared, const OptimizerSpec& optimizer, const Plan& from, const Plan& to);
// The whole job's state, gathered on the first rank and distributed again.
MovedLayers restarted_layers(const Prepared& prepared, const OptimizerSpec& optimizer, const Plan& to);

}  // namespace sluice
