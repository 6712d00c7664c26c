// Whether the cores that ranks run on work side by side. The cores of a virtual machine may be two threads of one
// physical core for seconds at a time, and another process may take one: what several ranks do is then up to twice as
// slow, which is no property of what is measured.
#pragma once

#include <limits>

namespace sluice {

class CoreGauge {
 public:
  // threads: as many as ranks compute at a time. most_seconds: how long it waits in all.
  CoreGauge(int threads, double most_seconds) : threads_(threads), seconds_left_(most_seconds) {}

  // How many times as long some arithmetic takes on all threads at a time as it ever took on one: about 1 where cores
  // work side by side, 2 where two share a physical one. Some milliseconds; 1 for a single thread.
  double slowdown();
  bool side_by_side() { return slowdown() < 1.4; }

  // Computes until the cores work side by side, or the time is up.
  void wait();
  // Whether what was measured just now should be measured again: the cores do not work side by side, and there is time
  // left to wait until they do.
  bool again() { return threads_ > 1 && seconds_left_ > 0 && !side_by_side(); }

 private:
  int threads_;
  double seconds_left_;
  double alone_ = std::numeric_limits<double>::infinity();  // seconds on one thread, the least so far
};

}  // namespace sluice
