// Whether the cores of the ranks run at full speed. The cores of a virtual machine may be two threads of one physical
// core for seconds at a time, or share one with another virtual machine, and another process may take one: ranks are
// then up to twice as slow, which is not a property of the measured code.
#pragma once

namespace sluice {

class CoreGauge {
 public:
  // threads: number of ranks that compute at a time. max_seconds: limit on its total waiting time.
  CoreGauge(int threads, double max_seconds) : threads_(threads), seconds_left_(max_seconds) {}

  // Time of fixed arithmetic on all threads at once / its min time in this process: about 1 if cores work
  // independently, 2 if two share a physical one. Takes some milliseconds.
  double slowdown();
  bool undisturbed() { return slowdown() < 1.4; }

  // Computes until the cores are at full speed, or the time limit is reached.
  void wait();
  // Whether the last measurement should be repeated: the cores are slow, and there is waiting time left.
  bool again() { return seconds_left_ > 0 && !undisturbed(); }

 private:
  int threads_;
  double seconds_left_;
};

}  // namespace sluice
