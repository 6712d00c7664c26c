// GraphPipe's partitioner (Jeon et al., ASPLOS 2025, section 5, algorithm 1): binary search on the
// time of the slowest stage, and for each time a dynamic program over the series-parallel tree that
// finds stages, their data-parallel degree, micro-batch and k, with the fewest micro-batches in
// flight at the source, subject to the time and to every device's memory.
//
// What a stage can be: a run of consecutive parts of a series node, or a run of the branches of a
// parallel node (sorted by work), whole; parts of the run are not split further. So
//
//   S(a, P(S(b, c), d), e)      one stage of all; or a | P | e; or a P | e; or inside P: b | c | d,
//                               b c | d, b c d; ...
//
// A series is solved from its end, because a stage's memory needs what its successors hold
// (kfkb.h). The stages at the head of a part share one micro-batch and k, as in the paper, except
// where nothing comes before them. The times tried are the stages' own times, so the bottleneck
// found is the least there is, not one within some tolerance of it.
//
// `absorb_joins`: a vertex that follows a parallel node goes to the end of its lightest branch, in
// whose last stage it stays; the other branches then feed that stage.
//
// Parts that look alike (the branches of most models) are costed and solved once.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/base/quantities.h"
#include "systems/graphpipe/kfkb.h"
#include "systems/graphpipe/series_parallel.h"

namespace sluice {

// A set of vertices as one stage. Seconds.
struct StageWork {
  std::vector<double> compute;  // of one op, per number of micro-batches per op of the space: the sum of its vertices'
  std::vector<double> communication;  // of one op, per number of micro-batches per op
  std::vector<double> all_reduce;     // once an update, per degree of the space
};
// Bytes on each replica's device: always, and of one op in flight for being one and for every
// (finest) micro-batch that it takes.
struct StageFootprint {
  std::int64_t always = 0, per_op = 0, per_micro_batch = 0;
};

struct StageSearchSpace {
  int devices = 1;       // all are used
  int microbatches = 1;  // of one update, the finest
  std::vector<int> degrees = {1};
  std::vector<StageRate> rates = {StageRate{}};
  // Replicas take the finest micro-batches in turn: a stage's micro-batch is its degree. Otherwise
  // they share each of its micro-batches equally.
  bool rate_is_degree = false;
  bool overlap_communication = false;  // the longer of the two counts, not the sum
  bool absorb_joins = false;
  std::function<StageWork(std::span<const int> vertices)> work;
  std::function<StageFootprint(std::span<const int> vertices)> footprint;  // or none
  // What the vertices of a part, in this order, cost, and how they hang on one another and on
  // others: where two parts look the same, the same places of both cost the same as a stage. None:
  // no two parts look alike.
  std::function<std::vector<double>(std::span<const int> vertices)> look;
  std::int64_t memory = 0;  // bytes of a device

  std::vector<int> micros_per_op() const;  // micro-batches that an op may take: rate / degree, ascending
};

struct FoundStage {
  std::vector<int> vertices;
  int degree = 1;
  StageRate rate;
  int in_flight = 0;  // as the search counted: never less than what the stage DAG needs
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
  int rate = -1;  // index into the space's: the only one for all stages; -1: each stage any
  double faster_than = std::numeric_limits<double>::infinity();  // slower plans are of no use
  // Where these run out, the search ends with the best so far.
  double seconds = 60;
  std::int64_t states = 2'000'000;  // of any one time tried
};

struct StageLists;

// Costs every run of the tree once; searches with limits share that.
class StageGraphSearch {
 public:
  // The tree and the space must outlive it. Throws InputError for more than 255 devices, 30 rates
  // or 65535 micro-batches.
  StageGraphSearch(const SeriesParallelTree& tree, const StageSearchSpace& space);
  ~StageGraphSearch();
  StageSearchResult run(const StageSearchLimits& limits = {});

 private:
  const StageSearchSpace& space_;
  std::unique_ptr<StageLists> lists_;
};

}  // namespace sluice
