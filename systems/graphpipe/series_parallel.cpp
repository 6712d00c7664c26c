#include "systems/graphpipe/series_parallel.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "harness/base/error.h"

namespace sluice {

namespace {

// Vertices go by their place in a topological order; sets of them are bits.
class Decomposition {
 public:
  Decomposition(int vertices, std::span<const std::pair<int, int>> edges, const std::string& where)
      : count_(static_cast<std::size_t>(vertices)), words_((count_ + 63) / 64), comparable_(count_ * words_, 0) {
    std::vector<int> waiting(count_, 0);
    std::vector<std::vector<std::size_t>> successors(count_);
    for (const auto& [from, to] : edges) {
      if (from < 0 || to < 0 || from >= vertices || to >= vertices)
        throw InputError(where, "edge " + std::to_string(from) + " -> " + std::to_string(to) +
                                    " names a vertex that does not exist");
      successors[from].push_back(static_cast<std::size_t>(to));
      ++waiting[to];
    }
    for (std::size_t v = 0; v < count_; ++v)
      if (waiting[v] == 0) order_.push_back(v);
    for (std::size_t k = 0; k < order_.size(); ++k)
      for (const std::size_t w : successors[order_[k]])
        if (--waiting[w] == 0) order_.push_back(w);
    if (order_.size() != count_) throw InputError(where, "the graph has a cycle");
    std::vector<std::size_t> place(count_);
    for (std::size_t k = 0; k < count_; ++k) place[order_[k]] = k;
    for (std::size_t k = count_; k-- > 0;)
      for (const std::size_t w : successors[order_[k]]) {
        insert(related(k), place[w]);
        for (std::size_t i = 0; i < words_; ++i) related(k)[i] |= related(place[w])[i];
      }
    for (std::size_t k = count_; k-- > 0;)  // so far a set holds the later ones only
      for_each(Part(related(k), related(k) + words_), [&](std::size_t later) { insert(related(later), k); });
  }

  SeriesParallelTree run() {
    Part all(words_, 0);
    for (std::size_t k = 0; k < count_; ++k) insert(all.data(), k);
    tree_.root = decompose(all);
    return std::move(tree_);
  }

 private:
  using Kind = SeriesParallelTree::Kind;
  using Word = std::uint64_t;
  using Part = std::vector<Word>;

  static void insert(Word* set, std::size_t place) { set[place / 64] |= Word{1} << place % 64; }
  // The first place in a set; count_: it is empty.
  std::size_t first_of(const Part& set) const {
    for (std::size_t i = 0; i < words_; ++i)
      if (set[i] != 0) return 64 * i + static_cast<std::size_t>(std::countr_zero(set[i]));
    return count_;
  }
  template <class Visit>
  static void for_each(const Part& set, Visit visit) {
    for (std::size_t i = 0; i < set.size(); ++i)
      for (Word left = set[i]; left != 0; left &= left - 1)
        visit(64 * i + static_cast<std::size_t>(std::countr_zero(left)));
  }
  // What a path leads to, or comes from.
  Word* related(std::size_t place) { return comparable_.data() + place * words_; }
  const Word* related(std::size_t place) const { return comparable_.data() + place * words_; }
  bool comparable(std::size_t a, std::size_t b) const { return (related(a)[b / 64] >> b % 64 & 1) != 0; }

  // Connected components of the vertices of `part` under "comparable" or its opposite, in the order
  // of their first vertices.
  std::vector<Part> components(const Part& part, bool by_comparable) const {
    std::vector<Part> found;
    Part left = part, frontier(words_);
    for (std::size_t first; (first = first_of(left)) < count_;) {
      Part& component = found.emplace_back(words_, 0);
      insert(frontier.data(), first);
      for (std::size_t v; (v = first_of(frontier)) < count_;) {
        insert(component.data(), v);
        const Word* const of_v = related(v);
        for (std::size_t i = 0; i < words_; ++i) {
          frontier[i] |= left[i] & (by_comparable ? of_v[i] : ~of_v[i]);
          frontier[i] &= ~component[i];
          left[i] &= ~(frontier[i] | component[i]);
        }
      }
    }
    return found;
  }

  int decompose(const Part& part) {
    const std::size_t first = first_of(part);
    std::size_t size = 0;
    for (const Word word : part) size += static_cast<std::size_t>(std::popcount(word));
    if (size == 1) {
      tree_.nodes.push_back({Kind::leaf, static_cast<int>(order_[first]), {}});
      return static_cast<int>(tree_.nodes.size()) - 1;
    }
    if (const auto branches = components(part, true); branches.size() > 1) return join(Kind::parallel, branches);
    auto parts = components(part, false);
    if (parts.size() == 1) parts = cut_at_a_level(part);
    return join(Kind::series, parts);
  }

  int join(Kind kind, const std::vector<Part>& parts) {
    SeriesParallelTree::Node node{kind, -1, {}};
    for (const Part& part : parts) {
      const int child = decompose(part);
      // A cut may leave parts that are series themselves.
      const auto& below = tree_.nodes[child];
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
    std::vector<std::size_t> done;
    const auto reach = [&](std::size_t v) {
      for (const std::size_t w : done)
        if (comparable(v, w)) level[v] = std::max(level[v], level[w] + 1);
      done.push_back(v);
    };
    std::vector<std::size_t> places;
    for_each(part, [&](std::size_t v) { places.push_back(v); });
    if (!from_sources) std::ranges::reverse(places);
    std::ranges::for_each(places, reach);
    return level;
  }

  std::vector<Part> cut_at_a_level(const Part& part) {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    std::vector<Part> best;
    for (const bool from_sources : {true, false}) {
      const std::vector<int> level = levels(part, from_sources);
      int last = 0;
      for_each(part, [&](std::size_t v) { last = std::max(last, level[v]); });
      for (int cut = 0; cut < last; ++cut) {
        Part above(words_, 0), below(words_, 0);
        for_each(part, [&](std::size_t v) { insert(((level[v] <= cut) == from_sources ? above : below).data(), v); });
        std::int64_t added = 0;
        for_each(above, [&](std::size_t v) {
          for (std::size_t i = 0; i < words_; ++i) added += std::popcount(below[i] & ~related(v)[i]);
        });
        if (added < fewest) {
          fewest = added;
          best = {above, below};
        }
      }
    }
    tree_.added += fewest;
    return best;
  }

  std::size_t count_, words_;
  std::vector<Word> comparable_;    // a set for every place
  std::vector<std::size_t> order_;  // the vertex at every place
  SeriesParallelTree tree_;
};

}  // namespace

SeriesParallelTree series_parallel(int vertices, std::span<const std::pair<int, int>> edges, const std::string& where) {
  if (vertices < 1) throw InputError(where, "the graph has no vertices");
  return Decomposition(vertices, edges, where).run();
}

static std::string to_text(const SeriesParallelTree& tree, int node) {
  const auto& n = tree.nodes[node];
  if (n.kind == SeriesParallelTree::Kind::leaf) return std::to_string(n.vertex);
  std::string text = n.kind == SeriesParallelTree::Kind::series ? "S(" : "P(";
  for (std::size_t i = 0; i < n.children.size(); ++i) text += (i ? "," : "") + to_text(tree, n.children[i]);
  return text + ")";
}

std::string to_text(const SeriesParallelTree& tree) { return to_text(tree, tree.root); }

std::vector<int> vertices_below(const SeriesParallelTree& tree, int node) {
  const auto& n = tree.nodes[node];
  if (n.kind == SeriesParallelTree::Kind::leaf) return {n.vertex};
  std::vector<int> all;
  for (const int child : n.children) {
    const std::vector<int> below = vertices_below(tree, child);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace sluice
