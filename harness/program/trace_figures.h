// Figures of a traced run's pipeline: idle time, exposed communication, imbalance, and the costs of the stages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/program/profiler_trace.h"
#include "harness/program/trace.h"

namespace sluice {

// Seconds of one micro-batch, means over the trace.
struct TracedStage {
  int stage = 0;
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  bool split_known = false;  // the trace has I and W; otherwise each is half of the backward
  double total() const { return forward + input_gradient + weight_gradient; }
};

struct TracedRankFigures {
  int rank = 0;
  std::vector<int> stages;
  double busy = 0;  // seconds per update in compute ops, without exposed communication inside them
  double idle = 0;  // seconds per update: makespan minus busy
  // Seconds per update in communication that no compute hides: a part of idle, or after the last op.
  double exposed = 0;
};

// Per update: means over the traced updates.
struct TraceFigures {
  int updates = 0, microbatches = 0;
  double makespan = 0;           // first start to last end of all compute ops, seconds
  std::optional<double> period;  // from the start of an update to that of the next, seconds; with several updates
  double bubble_ratio = 0, span_bubble = 0;  // as in program/trace.h
  // Idle share between the latest first backward and the earliest last forward of the ranks, when no rank warms up or
  // drains. None if there is no such time, as in GPipe.
  std::optional<double> steady_bubble;
  double exposed_share = 0;  // sum of exposed / (ranks * makespan)
  double imbalance = 0;      // slowest stage over the mean of the stages, in F + I + W
  std::vector<TracedRankFigures> ranks;
  std::vector<TracedStage> stages;  // 0, 1, ...
  double latency = 0;  // seconds: median time from an input's end on another rank to the start of the waiting rank's op
  std::vector<std::string> notes;
};

// A wait for a message is bubble while the op that makes it runs, and exposed communication after that. Throws
// InputError: stages that no file has, an op that two ranks have (files of several data-parallel pipelines).
TraceFigures figures_of(const TracedRun& run);

// The order of the ops of the first update as PyTorch's compute-only table (pytorch_table.h).
std::string table_of(const TracedRun& run);

}  // namespace sluice
