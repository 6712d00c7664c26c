// What an engine of the virtual clock is told, and what it finds.
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
  MicroBatchTimes micro_batches;   // of inference; all iterations
  double end = 0;                  // when everything is done
  std::int64_t instructions = 0;   // executed
};

struct SimulateOptions {
  int iterations = 1;  // the program, again and again, without a barrier between
  bool trace = true;
  // Takes sends in order of time even where no two senders share a medium, which changes nothing but the speed (a check
  // of the faster engine).
  bool time_ordered = false;
  // On one machine: the seconds of each op vary at random as much as measured ones did. None: they do not.
  std::optional<std::uint64_t> spread_seed = {};
  // What slows devices and links down; null: nothing. Its seconds count from `start` before the program's own.
  const Interference* interference = nullptr;
  double start = 0;
};

}  // namespace sluice
