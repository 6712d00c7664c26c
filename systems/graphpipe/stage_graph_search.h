// GraphPipe's partitioner (Jeon et al., ASPLOS 2025, section 5, algorithm 1): a binary search on t, the time per sample
// (TPS) of the slowest stage. For every t tried, SearchStageGraph(G_C, D, t) is the dynamic program of
// stage_graph_dp.h; the least t for which it finds a stage graph G_S is the answer:
//
//   min over G_S of max over its stages i of TPS_i,   peak memory of stage i on each of its devices <= M
//
//   TPS_i = ( T_i(F) + T_i(B) + messages_i ) / b_i + all-reduce_i / B
//
// The paper halves an interval of t until it is small. Here only the stages' own times are tried, so the time found is
// the least of the stage graphs that the dynamic program considers, not one within some tolerance of it. As in the
// paper, these leave out graphs in which the first stages of parallel branches after a common stage have different
// configurations: of 204 random models of a fork and a join, all such graphs tried, the best was 1.02 to 1.14 times as
// fast for 4.
#pragma once

#include <memory>

#include "systems/graphpipe/series_parallel.h"
#include "systems/graphpipe/stage_search_space.h"

namespace sluice {

struct StageLists;

// Costs every possible stage of the tree once; searches with limits share that.
class StageGraphSearch {
 public:
  // The tree and the space must outlive it. Throws InputError for more than 255 devices, 30 configurations
  // or 65535 micro-batches.
  StageGraphSearch(const SeriesParallelTree& tree, const StageSearchSpace& space);
  ~StageGraphSearch();
  StageSearchResult run(const StageSearchLimits& limits = {});

 private:
  const StageSearchSpace& space_;
  std::unique_ptr<StageLists> lists_;
};

}  // namespace sluice
