// Traces of pipelined training runs, .json or .json.gz: in Chrome's JSON those of PyTorch's profiler (Kineto; one file
// per rank) and those that sluice itself writes with --trace (one file for all ranks); and NVTX ranges of Nsight
// Systems, projected on the GPU (one file per rank; nsys stats --report nvtx_gpu_proj_trace --format json).
//
// A compute op of a rank is a range: an event whose name matches a pattern. Its time is
//  on a GPU  from the start of the first to the end of the last kernel that was launched in the range, without kernels
//            of communication (NCCL, RCCL); Nsight Systems' projection includes those;
//  on a CPU  the range, from the end of the last receive that it waits for (no op begins until then) to the start of
//            the first send after that.
// If no file has such a range, runs of autograd's ops distinguish forwards from backwards. A rank whose ranges launch
// kernels is assumed to compute on its GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/program/program.h"
#include "harness/program/range_patterns.h"

namespace sluice {

struct TimeSpan {
  double start = 0, end = 0;  // seconds
};
// Sorted, without overlaps and without empty intervals.
using TimeSpans = std::vector<TimeSpan>;
TimeSpans merged(std::vector<TimeSpan> intervals);
TimeSpans without(const TimeSpans& intervals, const TimeSpans& removed);
double seconds_in(const TimeSpans& intervals, double start, double end);  // of [start, end] covered by intervals

struct TracedOp {
  Opcode opcode = Opcode::forward;  // forward, backward, input_gradient, weight_gradient or recompute
  int stage = 0;
  std::string micro;          // its name in the trace; otherwise counted per stage and kind in its update
  double start = 0, end = 0;  // seconds
  // One op of an overlapped pair. A range of a pair is halved; both ops read their inputs before the pair and have
  // their outputs after it.
  bool overlapped = false;
  double reads = 0, made = 0;  // seconds: start and end of the op, or of its pair
};

struct TracedRank {
  int rank = 0;
  std::string file;
  std::vector<std::vector<TracedOp>> updates;  // ops by their starts
  // Communication that no compute hides. From a profiler: collectives (point-to-point messages also last while their
  // sender computes); from sluice: collectives and the messages to this rank.
  TimeSpans exposed;
};

struct TracedRun {
  std::vector<TracedRank> ranks;           // by rank; each has the same number of updates, at least one
  std::vector<std::pair<int, int>> edges;  // of the stage graph, if the trace has it; empty: a chain
  bool on_gpu = false;                     // times are those of kernels
  std::vector<std::string> notes;          // what was left out or assumed, one sentence each
};

// Throws InputError: a file that is no trace or has none of the ranges, an invalid pattern, ranks given twice, files of
// steps that do not overlap in time.
TracedRun read_traces(const std::vector<std::string>& files, const RangePatterns& patterns);

}  // namespace sluice
