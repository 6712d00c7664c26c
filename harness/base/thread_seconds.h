// Processor time of a thread: the clock of limits on a search, which must not end sooner because other work runs in
// parallel.
#pragma once

#include <ctime>

namespace sluice {

// Seconds of compute of the calling thread since it began.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace sluice
