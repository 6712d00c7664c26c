#include "systems/graphpipe/stage_lists.h"

#include <algorithm>
#include <functional>

#include "harness/base/stop.h"

namespace sluice {

StageLists::StageLists(const SeriesParallelTree& tree, const StageSearchSpace& space)
    : microbatches_per_op(space.microbatches_per_op()), tree_(tree), space_(space) {
  make_choices();
  if (is(tree.root, Kind::leaf)) {
    StageList list{.series = true};
    list.elements = {element_of(tree.root)};
    root = add_list(std::move(list));
  } else {
    root = list_of(tree.root);
  }
}

const StageFootprint& StageLists::footprint(int stage) {
  PossibleStage& possible = stages[stage];
  check_stop();
  if (!possible.footprint) possible.footprint = space_.footprint(possible.vertices);
  return *possible.footprint;
}

void StageLists::make_choices() {
  for (std::size_t d = 0; d < space_.degrees.size(); ++d)
    for (std::size_t r = 0; r < space_.configs.size(); ++r) {
      const int degree = space_.degrees[d], b = space_.configs[r].micro_batch;
      if (space_.micro_batch_is_degree ? b != degree : b % degree != 0) continue;
      const auto g = std::ranges::find(microbatches_per_op, b / degree);
      if (g == microbatches_per_op.end() || degree > space_.microbatches / *g || degree > space_.devices) continue;
      choices.push_back({degree, static_cast<int>(r), static_cast<std::size_t>(g - microbatches_per_op.begin()), d});
    }
}

StageElement StageLists::element_of(int node) {
  const auto& n = tree_.nodes[node];
  if (n.kind == Kind::leaf) return {-1, {n.vertex}};
  return {list_of(node), vertices_below(tree_, node)};
}

int StageLists::list_of(int node) {
  check_stop();
  const auto& n = tree_.nodes[node];
  StageList list{.series = n.kind == Kind::series};
  for (std::size_t i = 0; i < n.children.size(); ++i) {
    const bool joins = space_.absorb_joins && list.series && i + 1 < n.children.size() &&
                       is(n.children[i], Kind::parallel) && is(n.children[i + 1], Kind::leaf);
    if (joins) {
      list.elements.push_back(absorbing(n.children[i], n.children[i + 1]));
      ++i;
    } else {
      list.elements.push_back(element_of(n.children[i]));
    }
  }
  if (!list.series) sort_by_work(list.elements, 0);
  return add_list(std::move(list));
}

// A parallel node whose lightest branch that ends in a vertex takes the join as part of that
// vertex; such a branch comes first.
StageElement StageLists::absorbing(int node, int join) {
  const auto& n = tree_.nodes[node];
  const int joined = tree_.nodes[join].vertex;
  int chosen = -1;
  double lightest = 0;
  for (const int child : n.children) {
    const auto& c = tree_.nodes[child];
    if (c.kind == Kind::parallel || (c.kind == Kind::series && !is(c.children.back(), Kind::leaf))) continue;
    const double work = min_work(space_.work(vertices_below(tree_, child)));
    if (chosen < 0 || work < lightest) chosen = child, lightest = work;
  }
  if (chosen < 0) {  // every branch ends in branches: as a series of its own
    StageList series{.series = true};
    series.elements = {element_of(node), element_of(join)};
    StageElement element{add_list(std::move(series)), vertices_below(tree_, node)};
    element.vertices.push_back(joined);
    return element;
  }
  StageList list{.series = false, .absorbs = true};
  const auto& c = tree_.nodes[chosen];
  if (c.kind == Kind::leaf) {
    list.elements.push_back({-1, {c.vertex, joined}});
  } else {
    StageList branch{.series = true};
    for (const int child : c.children) branch.elements.push_back(element_of(child));
    branch.elements.back().vertices.push_back(joined);
    StageElement element{-1, vertices_below(tree_, chosen)};
    element.vertices.push_back(joined);
    element.list = add_list(std::move(branch));
    list.elements.push_back(std::move(element));
  }
  for (const int child : n.children)
    if (child != chosen) list.elements.push_back(element_of(child));
  sort_by_work(list.elements, 1);
  StageElement element{-1, vertices_below(tree_, node)};
  element.vertices.push_back(joined);
  element.list = add_list(std::move(list));
  return element;
}

void StageLists::sort_by_work(std::vector<StageElement>& elements, std::size_t first) {
  std::vector<std::pair<double, StageElement>> keyed;
  for (std::size_t i = first; i < elements.size(); ++i)
    keyed.emplace_back(min_work(space_.work(elements[i].vertices)), std::move(elements[i]));
  std::ranges::stable_sort(keyed, std::greater<>(), [](const auto& k) { return k.first; });
  for (auto& [work, element] : keyed) elements[first++] = std::move(element);
}

double StageLists::min_work(const StageWork& work) const {
  double least = work.compute.empty() ? 0 : work.compute[0] / microbatches_per_op[0];
  for (std::size_t g = 1; g < microbatches_per_op.size(); ++g)
    least = std::min(least, work.compute[g] / microbatches_per_op[g]);
  return least;
}

int StageLists::add_list(StageList list) {
  const int next = static_cast<int>(list_costs.size());
  list.costs = space_.signature ? costs_of_signature_.try_emplace(signature_of(list), next).first->second : next;
  if (list.costs == next) list_costs.push_back(make_costs(list));
  lists.push_back(std::move(list));
  return static_cast<int>(lists.size()) - 1;
}

StageListCosts StageLists::make_costs(const StageList& list) {
  const std::size_t m = list.elements.size();
  StageListCosts costs{.stage = std::vector<int>(m * m, -1), .first_suffix = suffixes};
  suffixes += static_cast<int>(m);
  for (std::size_t a = 0; a < m; ++a) {
    std::vector<int> vertices;
    for (std::size_t p = a; p < m; ++p) {
      const auto& own = list.elements[p].vertices;
      vertices.insert(vertices.end(), own.begin(), own.end());
      costs.stage[a * m + p] = add_stage(vertices);
    }
    costs.vertices.push_back(static_cast<int>(vertices.size()));
    costs.min_work += stages[costs.stage[a * m + a]].min_work;
  }
  return costs;
}

// All that the costs of the list's possible stages follow from.
std::vector<double> StageLists::signature_of(const StageList& list) {
  std::vector<double> signature{list.series ? 1.0 : 0.0, list.absorbs ? 1.0 : 0.0};
  std::vector<int> vertices;
  for (const StageElement& e : list.elements) {
    signature.push_back(e.list < 0 ? -1 : lists[e.list].costs);
    signature.push_back(static_cast<double>(e.vertices.size()));
    vertices.insert(vertices.end(), e.vertices.begin(), e.vertices.end());
  }
  const std::vector<double> costs = space_.signature(vertices);
  signature.insert(signature.end(), costs.begin(), costs.end());
  return signature;
}

int StageLists::add_stage(const std::vector<int>& vertices) {
  const StageWork work = space_.work(vertices);
  PossibleStage stage{.vertices = vertices};
  for (const StageChoice& c : choices) stage.seconds.push_back(stage_seconds(work, c));
  stage.min_work = min_work(work);
  stages.push_back(std::move(stage));
  return static_cast<int>(stages.size()) - 1;
}

double StageLists::stage_seconds(const StageWork& work, const StageChoice& c) const {
  const int ops = space_.microbatches / microbatches_per_op[c.size];
  const int rounds = (ops + c.degree - 1) / c.degree;
  const double compute = work.compute[c.size], messages = work.communication[c.size];
  const double op = space_.overlap_communication ? std::max(compute, messages) : compute + messages;
  return (rounds * op + work.all_reduce[c.degree_index]) / space_.microbatches;
}

}  // namespace sluice
