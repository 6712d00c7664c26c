// The series-parallel tree of a model as GraphPipe's search walks it: lists of elements, every run
// of consecutive elements costed as one stage, and what looks alike under one number.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "harness/plan/stage_graph_search.h"

namespace sluice {

// One way to run a stage: degree, micro-batch and k.
struct StageChoice {
  int degree = 1, rate = 0;
  std::size_t grouping = 0, degree_index = 0;
};

struct StageRun {  // consecutive elements of a list as one stage
  std::vector<int> vertices;
  std::vector<double> seconds;  // for a (finest) micro-batch, all-reduce shared out; per choice
  double least_work = 0;        // device-seconds of a micro-batch, at the least
  std::vector<std::optional<StageFootprint>> footprint;  // per grouping, once asked for
  int id = 0;
};

struct StageElement {
  int list = -1;  // of a part that can be split; -1: a vertex
  std::vector<int> vertices;
  int id = 0;
};

struct StageList {
  bool series = true;
  bool absorbs = false;  // parallel: the first branch ends with the join that the others feed
  std::vector<StageElement> elements;  // parallel: heaviest first, but for a branch with a join
  std::vector<std::vector<int>> run;   // [first][last - first - 1]: index into runs
  std::vector<int> suffix;             // structural id of the elements from here on
  std::vector<double> least_work;      // of the same
  std::vector<int> vertices;           // their number
  int run_of(int first, int last) const {
    return run[static_cast<std::size_t>(first)][static_cast<std::size_t>(last - first - 1)];
  }
};

struct StageLists {
  StageLists(const SeriesParallelTree& tree, const StageSearchSpace& space);

  std::vector<int> groupings;
  std::vector<StageChoice> choices;
  std::vector<StageList> lists;
  std::vector<StageRun> runs;
  int root = 0;

  std::size_t looks() const { return ids_.size(); }  // ids of suffixes are below

  // What a run keeps as one stage; asked for once for all runs that look alike.
  const StageFootprint& footprint(int run, std::size_t grouping);

 private:
  using Kind = SeriesParallelTree::Kind;

  void make_choices();
  StageElement element_of(int node);
  int list_of(int node);
  StageElement absorbing(int node, int join);
  void sort_by_work(std::vector<StageElement>& elements, std::size_t first);
  int add_list(StageList list);
  int add_run(const std::vector<int>& vertices, std::vector<double> key);
  int id_of_vertex(const StageElement& e);
  int intern(std::vector<double> key);
  double least_work(const StageWork& work) const;
  double stage_seconds(const StageWork& work, const StageChoice& choice) const;
  bool is(int node, Kind kind) const {
    return tree_.nodes[static_cast<std::size_t>(node)].kind == kind;
  }

  const SeriesParallelTree& tree_;
  const StageSearchSpace& space_;
  std::map<std::vector<double>, int> ids_;
  std::map<std::pair<int, std::size_t>, StageFootprint> footprints_;  // by run id and grouping
};

}  // namespace sluice
