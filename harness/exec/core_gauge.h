// Whether the cores that ranks run on are at their full speed. The cores of a virtual machine may be two threads of one
// physical core for seconds at a time, or share one with another virtual machine, and another process may take one:
// what ranks do is then up to twice as slow, which is no property of what is measured.
#pragma once

namespace sluice {

class CoreGauge {
 public:
  // threads: as many as ranks compute at a time. max_seconds: how long it waits in all.
  CoreGauge(int threads, double max_seconds) : threads_(threads), seconds_left_(max_seconds) {}

  // How many times as long some arithmetic takes on all threads at a time as it ever took on one in this process: about
  // 1 where cores work by themselves, 2 where two share a physical one. Some milliseconds.
  double slowdown();
  bool undisturbed() { return slowdown() < 1.4; }

  // Computes until the cores are at their speed, or the time is up.
  void wait();
  // Whether what was measured just now should be measured again: the cores are slow, and there is time left to wait
  // until they are not.
  bool again() { return seconds_left_ > 0 && !undisturbed(); }

 private:
  int threads_;
  double seconds_left_;
};

}  // namespace sluice
