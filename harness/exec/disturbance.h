// Disturbance: slows ranks and links of this machine, so that unequal and changing devices run for real. Ranks are
// slowed by pauses inside their ops (a duty cycle: the op ends later, so the order of events is that of a slower
// device) or by load that competes for their cores; messages pass through token buckets.
#pragma once

#include <memory>
#include <vector>

#include "harness/base/ids.h"
#include "harness/base/thread_seconds.h"
#include "harness/base/work.h"
#include "harness/exec/pinning.h"
#include "harness/model/interference.h"
#include "harness/model/throttle.h"

namespace sluice {

struct Disturbance {
  Interference interference;
  bool by_load = false;           // the episodes of devices: co-running load instead of pauses
  std::vector<double> slowdowns;  // per device, always; empty: none
  Throttle throttle;
  std::vector<DeviceId> devices;  // per rank
  double start = 0;               // seconds of training before the run

  bool throttles() const { return !throttle.empty(); }
  // The speed of the rank's ops under pauses; on the run's clock.
  PiecewiseSpeed pace_of(Rank rank) const;
  // The rate of messages between two ranks, as a share of the throttle's; on the run's clock.
  PiecewiseSpeed link_speed(Rank from, Rank to) const;
};

// Delays a rank at the end of each of its ops by the additional time of a slower device, in proportion to the processor
// time of the op, so that waiting for a crowded core counts once.
class Pacer {
 public:
  explicit Pacer(PiecewiseSpeed speed) : speed_(std::move(speed)) {}
  bool active() const { return !speed_.constant(); }
  void begin(double now);  // seconds from the run's start
  void end();

 private:
  PiecewiseSpeed speed_;
  double begin_ = 0, worked_ = 0;
};

// The share of a core for thread `number` (from 0) of a co-running load that slows a rank by `slowdown`: equal shares
// for the number of competitors that this needs, 0 for further threads.
double load_share(double slowdown, int number);

// Threads that run on the core of a rank while its device is in an episode: arithmetic (compute), streaming through
// memory (memory), mapping and touching pages (allocation). Each takes its load_share of the core.
class CoRunningLoad {
 public:
  // ranks: those of this process. pinning: binds the threads to the ranks' cores; null: no binding. Runs from now on,
  // the run's start, until the destructor.
  CoRunningLoad(const Disturbance& disturbance, const std::vector<Rank>& ranks, const Pinning* pinning);
  ~CoRunningLoad();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
