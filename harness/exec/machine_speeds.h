// Reference speeds of this machine. A stored profile is checked with them before use: its times are wrong if the
// machine has become slower or faster since.
#pragma once

#include <string>

#include "harness/model/measurement.h"

namespace sluice {

// Measures them in turn, in 0.8 seconds, each as the 10th percentile of the seconds of 200 or more short runs, because
// medians do not repeat. In 40 consecutive gauges, on two cores with a load of 5, the largest change from one to the
// next was 0.1 % (arithmetic), 1.6 % (memory) and 1.4 % (message); for best quartiles, in 80 gauges, 21, 14 and 377 %.
// It does not detect other programs that take a core in turns, only effects on nearly every run: a core at another
// clock rate or shared with another machine, shared caches, and cores that are farther apart.
MachineSpeeds measure_machine_speeds();

// Those that differ from `then` by more than 5 %: "memory is 12 % slower, messages are 30 % slower"; empty: none.
std::string changed_speeds(const MachineSpeeds& then, const MachineSpeeds& now);

}  // namespace sluice
