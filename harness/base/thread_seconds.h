// Processor time of a thread: the clock of limits on a search, which must not end sooner because something else runs
// in parallel with it.
#pragma once

#include <ctime>

namespace sluice {

// Seconds that the calling thread has computed since it began.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace sluice
