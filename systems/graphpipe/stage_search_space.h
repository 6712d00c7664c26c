// What GraphPipe's search for stages (Jeon et al., ASPLOS 2025, section 5) is given and what it finds.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "systems/graphpipe/kfkb.h"

namespace sluice {

// What a set of operators takes as one stage, in seconds.
struct StageWork {
  std::vector<double> compute;        // F + B of one op, for every entry of StageSearchSpace::microbatches_per_op()
  std::vector<double> communication;  // messages of one op, activations and their gradients, for the same entries
  std::vector<double> all_reduce;     // of the gradients, once an update, for every data-parallel degree of the space
};

// What one replica of a stage holds on its device, in bytes: weights, gradients and optimizer state at any time
// (`always`); and for every op whose backward is still to come a part that does not depend on the op's size (`per_op`)
// and a part for each of the finest micro-batches that the op takes.
struct StageFootprint {
  std::int64_t always = 0, per_op = 0, per_micro_batch = 0;
};

// Vertices are the operators. "Finest" micro-batches are the schedule's; a stage's own micro-batch b is a number of
// them.
struct StageSearchSpace {
  int devices = 1;                                     // |V_D|: all are used
  int microbatches = 1;                                // B: of one update, the finest
  std::vector<int> degrees = {1};                      // data-parallel degrees d
  std::vector<StageConfig> configs = {StageConfig{}};  // (b, k) that a stage may have
  // Replicas take the finest micro-batches in turn: a stage's b is its degree. Otherwise they share each of its
  // micro-batches equally.
  bool micro_batch_is_degree = false;
  bool overlap_communication = false;  // a stage's time is the longer of compute and communication, not their sum
  bool absorb_joins = false;           // a vertex after parallel branches may go to the end of one of them
  std::function<StageWork(std::span<const int> vertices)> work;
  std::function<StageFootprint(std::span<const int> vertices)> footprint;  // none: memory does not matter
  // All numbers that the costs of these vertices as stages follow from, in this order: what each costs and which
  // tensors it exchanges with which others. Parts of the model with equal signatures are costed and solved once. None:
  // every part is taken as different.
  std::function<std::vector<double>(std::span<const int> vertices)> signature;
  std::int64_t memory = 0;  // M, bytes of a device

  std::vector<int> microbatches_per_op() const;  // finest micro-batches that one op may take, b / d; ascending
};

struct FoundStage {
  std::vector<int> vertices;
  int degree = 1;
  StageConfig config;
  int in_flight = 0;  // finest micro-batches, as the search counted: never less than what the stage DAG needs
};
struct StageSearchResult {
  double slowest = 0;              // seconds of the slowest stage for one (finest) micro-batch
  std::vector<FoundStage> stages;  // in topological order; empty: nothing fits
  std::int64_t states = 0;         // solved, over all times tried
  bool complete = true;
};

// What one search may use of the space.
struct StageSearchLimits {
  int max_degree = 255;
  int max_micro_batch = 0xffff;
  int config = -1;  // index into the space's: the only one for all stages; -1: each stage any
  double faster_than = std::numeric_limits<double>::infinity();  // slower plans are of no use
  // Where these run out, the search ends with the best so far.
  double seconds = 60;
  std::int64_t states = 2'000'000;  // of any one time tried
};

}  // namespace sluice
