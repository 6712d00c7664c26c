// Input and output of an engine of the virtual clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/model/interference.h"
#include "harness/program/trace.h"

namespace sluice {

struct Simulation {
  Trace trace;                     // of the first iteration; empty unless asked for
  Bubbles bubble;                  // of the first iteration
  std::vector<double> update_end;  // when the last rank finished update u, seconds; all iterations
  MicroBatchTimes micro_batches;   // for inference; all iterations
  double end = 0;                  // when everything is done
  std::int64_t instructions = 0;   // executed
};

struct SimulateOptions {
  int iterations = 1;  // runs of the program, one after another without a barrier
  bool trace = true;
  // Processes sends in order of time even if no two senders share a medium. This changes only the speed (a check of the
  // faster engine).
  bool time_ordered = false;
  // Slowdowns of devices and links; null: none. Its clock is `start` seconds ahead of the program's.
  const Interference* interference = nullptr;
  double start = 0;
};

}  // namespace sluice
