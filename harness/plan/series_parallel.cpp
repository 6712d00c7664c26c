#include "harness/plan/series_parallel.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "harness/core/error.h"

namespace sluice {

namespace {

class Decomposition {
 public:
  Decomposition(int vertices, std::span<const std::pair<int, int>> edges, const std::string& where)
      : count_(static_cast<std::size_t>(vertices)),
        successors_(count_),
        before_(count_, std::vector<char>(count_, 0)) {
    std::vector<int> waiting(count_, 0);
    for (const auto& [from, to] : edges) {
      if (from < 0 || to < 0 || from >= vertices || to >= vertices)
        throw InputError(where, "edge " + std::to_string(from) + " -> " + std::to_string(to) +
                                    " names a vertex that does not exist");
      successors_[static_cast<std::size_t>(from)].push_back(static_cast<std::size_t>(to));
      ++waiting[static_cast<std::size_t>(to)];
    }
    for (std::size_t v = 0; v < count_; ++v)
      if (waiting[v] == 0) order_.push_back(v);
    for (std::size_t k = 0; k < order_.size(); ++k)
      for (const std::size_t w : successors_[order_[k]])
        if (--waiting[w] == 0) order_.push_back(w);
    if (order_.size() != count_) throw InputError(where, "the graph has a cycle");
    for (std::size_t k = count_; k-- > 0;) {
      const std::size_t v = order_[k];
      for (const std::size_t w : successors_[v]) {
        before_[v][w] = 1;
        const char* after = before_[w].data();
        char* all = before_[v].data();
        for (std::size_t x = 0; x < count_; ++x) all[x] = static_cast<char>(all[x] | after[x]);
      }
    }
  }

  SeriesParallelTree run() {
    tree_.root = decompose(order_);
    return std::move(tree_);
  }

 private:
  using Kind = SeriesParallelTree::Kind;
  using Part = std::vector<std::size_t>;  // in topological order

  bool comparable(std::size_t a, std::size_t b) const { return before_[a][b] || before_[b][a]; }

  // Connected components of the vertices of `part` under "comparable" or its opposite, each in
  // topological order, and in the order of their first vertices.
  std::vector<Part> components(const Part& part, bool by_comparable) const {
    std::vector<Part> found;
    Part left = part, frontier, rest;
    while (!left.empty()) {
      std::vector<bool> in(count_, false);
      frontier = {left.front()};
      left.erase(left.begin());
      while (!frontier.empty()) {
        const std::size_t v = frontier.back();
        frontier.pop_back();
        in[v] = true;
        rest.clear();
        for (const std::size_t w : left)
          (comparable(v, w) == by_comparable ? frontier : rest).push_back(w);
        std::swap(left, rest);
      }
      Part& component = found.emplace_back();
      for (const std::size_t v : part)
        if (in[v]) component.push_back(v);
    }
    return found;
  }

  int decompose(const Part& part) {
    if (part.size() == 1) {
      tree_.nodes.push_back({Kind::leaf, static_cast<int>(part.front()), {}});
      return static_cast<int>(tree_.nodes.size()) - 1;
    }
    if (auto branches = components(part, true); branches.size() > 1)
      return join(Kind::parallel, branches);
    auto parts = components(part, false);
    if (parts.size() == 1) parts = cut_at_a_level(part);
    return join(Kind::series, parts);
  }

  int join(Kind kind, const std::vector<Part>& parts) {
    SeriesParallelTree::Node node{kind, -1, {}};
    for (const Part& part : parts) {
      const int child = decompose(part);
      // A cut may leave parts that are series themselves.
      const auto& below = tree_.nodes[static_cast<std::size_t>(child)];
      if (below.kind == kind)
        node.children.insert(node.children.end(), below.children.begin(), below.children.end());
      else
        node.children.push_back(child);
    }
    tree_.nodes.push_back(std::move(node));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }

  // Longest path of each vertex inside the part, from its sources or to its sinks.
  std::vector<int> levels(const Part& part, bool from_sources) const {
    std::vector<int> level(count_, 0);
    const auto relax = [&](std::size_t v, std::size_t w) {
      if (from_sources ? before_[w][v] : before_[v][w]) level[v] = std::max(level[v], level[w] + 1);
    };
    for (std::size_t k = 0; k < part.size(); ++k)
      for (std::size_t j = 0; j < k; ++j)
        from_sources ? relax(part[k], part[j])
                     : relax(part[part.size() - 1 - k], part[part.size() - 1 - j]);
    return level;
  }

  std::vector<Part> cut_at_a_level(const Part& part) {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    std::vector<Part> best;
    for (const bool from_sources : {true, false}) {
      const std::vector<int> level = levels(part, from_sources);
      int last = 0;
      for (const std::size_t v : part) last = std::max(last, level[v]);
      for (int cut = 0; cut < last; ++cut) {
        Part above, below;
        for (const std::size_t v : part)
          ((level[v] <= cut) == from_sources ? above : below).push_back(v);
        std::int64_t added = 0;
        for (const std::size_t a : above)
          for (const std::size_t b : below) added += comparable(a, b) ? 0 : 1;
        if (added < fewest) {
          fewest = added;
          best = {above, below};
        }
      }
    }
    tree_.added += fewest;
    return best;
  }

  std::size_t count_;
  std::vector<std::vector<std::size_t>> successors_;
  std::vector<std::vector<char>> before_;  // [a][b]: a path leads from a to b
  Part order_;
  SeriesParallelTree tree_;
};

}  // namespace

SeriesParallelTree series_parallel(int vertices, std::span<const std::pair<int, int>> edges,
                                   const std::string& where) {
  if (vertices < 1) throw InputError(where, "the graph has no vertices");
  return Decomposition(vertices, edges, where).run();
}

static std::string to_text(const SeriesParallelTree& tree, int node) {
  const auto& n = tree.nodes[static_cast<std::size_t>(node)];
  if (n.kind == SeriesParallelTree::Kind::leaf) return std::to_string(n.vertex);
  std::string text = n.kind == SeriesParallelTree::Kind::series ? "S(" : "P(";
  for (std::size_t i = 0; i < n.children.size(); ++i)
    text += (i ? "," : "") + to_text(tree, n.children[i]);
  return text + ")";
}

std::string to_text(const SeriesParallelTree& tree) { return to_text(tree, tree.root); }

std::vector<int> vertices_below(const SeriesParallelTree& tree, int node) {
  const auto& n = tree.nodes[static_cast<std::size_t>(node)];
  if (n.kind == SeriesParallelTree::Kind::leaf) return {n.vertex};
  std::vector<int> all;
  for (const int child : n.children) {
    const std::vector<int> below = vertices_below(tree, child);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace sluice
