// DynPipe's partitions: the one to begin with, and another one for devices that have become slower.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

// A chain of layers (or of groups that move as one) for S stages on S devices in order.
struct DynPipeChain {
  std::vector<double> seconds;     // F + B of every layer on an undisturbed device of speed 1
  std::vector<double> bytes;       // over the cut before layer i; bytes[0] is not used
  std::vector<double> parameters;  // bytes
  std::vector<double> weight;      // of every layer in the convergence
  std::vector<double> speed;       // of every stage's device, undisturbed
  // Of every edge between two stages: what a message takes.
  std::vector<double> latency, seconds_per_byte;
  double lambda = 0;
  // Whether layers [first, last) fit as stage `stage`; empty: always.
  std::function<bool(int first, int last, int stage)> fits = {};

  int layers() const { return static_cast<int>(seconds.size()); }
  int stages() const { return static_cast<int>(speed.size()); }
};

// How many times as long a stage takes on its device as undisturbed; empty: 1. It may depend on what the stage holds.
using Slowdowns = std::function<double(int stage, int first, int last)>;

// The first layers of stages 1 .. S - 1, ascending.
using Cuts = std::vector<int>;

struct DynPipeCost {
  double objective = 0;  // seconds per micro-batch, times what staleness adds
  double period = 0;     // seconds per micro-batch
  std::vector<double> stage, transfer;
};
DynPipeCost cost_of(const DynPipeChain& chain, const Cuts& cuts, const Slowdowns& slowdowns);

struct DynPipeChoice {
  Cuts cuts;
  DynPipeCost cost;
  std::int64_t states = 0;  // looked at
  bool complete = true;     // all partitions were
};

// The partition of least objective; of equal ones that of the smaller period, then of the lexicographically smallest
// cuts. All partitions, if they are at most `most`; else the best cut of the slowest stage, moved cut by cut as long as
// that helps. Empty cuts with an infinite objective: none fits.
DynPipeChoice best_partition(const DynPipeChain& chain, const Slowdowns& slowdowns, std::int64_t most = 200'000);

// DynPipe's candidates: of every stage under `current` a cut after each of its k heaviest layers (compute and
// messages), and, as the released code does not, the present cuts and those up to `near` layers from them. code:
// without these, and with the last candidate merged away, as in the released code. The best of all their combinations
// that fit.
struct CandidateOptions {
  int heaviest = 2, near = 2;
  bool code = false;
};
std::vector<int> candidate_cuts(const DynPipeChain& chain, const Cuts& current, const CandidateOptions& options);
DynPipeChoice best_candidate(const DynPipeChain& chain, const Cuts& current, const Slowdowns& slowdowns,
                             const CandidateOptions& options = {});

}  // namespace sluice
