// The series-parallel tree of a model as GraphPipe's dynamic program walks it: lists of elements, every run of
// consecutive elements costed as one possible stage. Lists with equal signatures (branches of the same layers, in most
// models) share their costs, and so are costed and solved once.
//
// Where the space absorbs joins, a vertex that follows a parallel node (a concat) goes to the end of its lightest
// branch, in whose last stage it stays; the other branches then feed that stage.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "systems/graphpipe/series_parallel.h"
#include "systems/graphpipe/stage_search_space.h"

namespace sluice {

// A data-parallel degree d with a configuration (b, k) that it allows.
struct StageChoice {
  int degree = 1;
  int config = 0;                // index into StageSearchSpace::configs
  std::size_t size = 0;          // of its ops: index into StageLists::microbatches_per_op, b / d
  std::size_t degree_index = 0;  // into StageSearchSpace::degrees
};

struct PossibleStage {                      // consecutive elements of a list
  std::vector<int> vertices;                // of the first list with its signature
  std::vector<double> seconds;              // TPS for every choice: of a (finest) micro-batch, all-reduce shared out
  double min_work = 0;                      // device-seconds of a micro-batch, at the least
  std::optional<StageFootprint> footprint;  // once asked for
};

struct StageElement {
  int list = -1;  // of a part that can be split; -1: it cannot
  std::vector<int> vertices;
};

// What lists with equal signatures have in common.
struct StageListCosts {
  std::vector<int> stage;     // of every first and last element: index into StageLists::stages
  int first_suffix = 0;       // the elements from k on have number first_suffix + k, among those of all lists
  double min_work = 0;        // device-seconds, sum over the elements
  std::vector<int> vertices;  // number of them from each element on
};

struct StageList {
  bool series = true;                  // else parallel
  bool absorbs = false;                // parallel: the first branch ends with the join that the others feed
  std::vector<StageElement> elements;  // parallel: heaviest first, except for a branch with a join
  int costs = 0;                       // index into StageLists::list_costs
};

struct StageLists {
  // Both must outlive it.
  StageLists(const SeriesParallelTree& tree, const StageSearchSpace& space);

  std::vector<int> microbatches_per_op;  // of the space
  std::vector<StageChoice> choices;
  std::vector<StageList> lists;
  std::vector<StageListCosts> list_costs;
  std::vector<PossibleStage> stages;
  int root = 0;      // the list of the whole model
  int suffixes = 0;  // of all lists of different signatures

  const StageListCosts& costs_of(const StageList& list) const { return list_costs[list.costs]; }
  // Index of the possible stage of elements first .. last - 1.
  int stage_of(const StageList& list, int first, int last) const {
    const int m = static_cast<int>(list.elements.size());
    return costs_of(list).stage[first * m + last - 1];
  }
  const StageFootprint& footprint(int stage);

 private:
  using Kind = SeriesParallelTree::Kind;

  void make_choices();
  StageElement element_of(int node);
  int list_of(int node);
  StageElement absorbing(int node, int join);
  void sort_by_work(std::vector<StageElement>& elements, std::size_t first);
  int add_list(StageList list);
  StageListCosts make_costs(const StageList& list);
  std::vector<double> signature_of(const StageList& list);
  int add_stage(const std::vector<int>& vertices);
  double min_work(const StageWork& work) const;
  double stage_seconds(const StageWork& work, const StageChoice& choice) const;
  bool is(int node, Kind kind) const { return tree_.nodes[node].kind == kind; }

  const SeriesParallelTree& tree_;
  const StageSearchSpace& space_;
  std::map<std::vector<double>, int> costs_of_signature_;
};

}  // namespace sluice
