// The series-parallel tree of a model as GraphPipe's search walks it: lists of elements, every run
// of consecutive elements costed as one stage. Lists that look alike (branches of the same layers)
// share one shape, and so are costed and solved once.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "systems/graphpipe/stage_graph_search.h"

namespace sluice {

// One way to run a stage: degree, micro-batch and k.
struct StageChoice {
  int degree = 1, rate = 0;
  std::size_t micros_per_op = 0, degree_index = 0;
};

struct StageRun {                           // consecutive elements of a list as one stage
  std::vector<int> vertices;                // of the first list of its shape
  std::vector<double> seconds;              // for a (finest) micro-batch, all-reduce shared out; per choice
  double least_work = 0;                    // device-seconds of a micro-batch, at the least
  std::optional<StageFootprint> footprint;  // once asked for
};

struct StageElement {
  int list = -1;  // of a part that can be split; -1: a vertex
  std::vector<int> vertices;
};

// What lists that look alike have in common.
struct StageShape {
  std::vector<int> run;       // of every first and last element: index into runs
  int first_suffix = 0;       // the elements from k on have number first_suffix + k
  double least_work = 0;      // device-seconds, sum over the elements
  std::vector<int> vertices;  // number of them from each element on
};

struct StageList {
  bool series = true;
  bool absorbs = false;                // parallel: the first branch ends with the join that the others feed
  std::vector<StageElement> elements;  // parallel: heaviest first, but for a branch with a join
  int shape = 0;
};

struct StageLists {
  StageLists(const SeriesParallelTree& tree, const StageSearchSpace& space);

  std::vector<int> micros_per_op;
  std::vector<StageChoice> choices;
  std::vector<StageList> lists;
  std::vector<StageShape> shapes;
  std::vector<StageRun> runs;
  int root = 0;
  int suffixes = 0;  // of all shapes

  const StageShape& shape_of(const StageList& list) const { return shapes[static_cast<std::size_t>(list.shape)]; }
  // Index of the run of elements first .. last - 1.
  int run_of(const StageList& list, int first, int last) const {
    const int m = static_cast<int>(list.elements.size());
    return shape_of(list).run[static_cast<std::size_t>(first * m + last - 1)];
  }
  // What a run keeps as one stage.
  const StageFootprint& footprint(int run);

 private:
  using Kind = SeriesParallelTree::Kind;

  void make_choices();
  StageElement element_of(int node);
  int list_of(int node);
  StageElement absorbing(int node, int join);
  void sort_by_work(std::vector<StageElement>& elements, std::size_t first);
  int add_list(StageList list);
  StageShape make_shape(const StageList& list);
  std::vector<double> look_of(const StageList& list);
  int add_run(const std::vector<int>& vertices);
  double least_work(const StageWork& work) const;
  double stage_seconds(const StageWork& work, const StageChoice& choice) const;
  bool is(int node, Kind kind) const { return tree_.nodes[static_cast<std::size_t>(node)].kind == kind; }

  const SeriesParallelTree& tree_;
  const StageSearchSpace& space_;
  std::map<std::vector<double>, int> known_shapes_;  // by look
};

}  // namespace sluice
