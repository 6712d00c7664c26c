// Series-parallel decomposition of a DAG (GraphPipe, Jeon et al., ASPLOS 2025, section 5): a tree
// whose leaves are the vertices; the parts of a series node follow one another (every vertex of a
// part comes before every vertex of the next), the parts of a parallel node know nothing of one
// another.
//
// It is taken of the order that the edges generate, not of the edges: x -> y -> z and x -> z is the
// chain x y z. What has such a tree is what FlexFlow's reduction of the inverse line graph accepts:
// transitive reductions in which the vertices without successors of one part are joined to all the
// vertices without predecessors of the next.
//
// A DAG that has none is made to have one by orderings alone: nothing is duplicated, no edge is
// taken away. Where a part can be split neither in series nor in parallel, it is cut at one level of its longest paths,
// and everything above is ordered before everything below; of all levels, counted from the sources
// or from the sinks, the one that orders the fewest pairs. Every level would be the stratum
// synchronisation; a single level in the worst place is the chain.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct SeriesParallelTree {
  enum class Kind { leaf, series, parallel };
  struct Node {
    Kind kind = Kind::leaf;
    int vertex = -1;            // of a leaf
    std::vector<int> children;  // two or more, never of their parent's kind; of a series in order
  };
  std::vector<Node> nodes;
  int root = -1;
  std::int64_t added = 0;  // pairs of vertices ordered that the edges do not order; 0: it had a tree
};

// vertices >= 1; edges (from, to) of a DAG. Throws InputError at `where` for a cycle or an edge out
// of range. O(vertices^2) for every level of the tree.
SeriesParallelTree series_parallel(int vertices, std::span<const std::pair<int, int>> edges, const std::string& where);

// "S(P(S(0,1),2),3)"
std::string to_text(const SeriesParallelTree& tree);

// The vertices below a node, as they come in the tree: a topological order that keeps branches
// together.
std::vector<int> vertices_below(const SeriesParallelTree& tree, int node);

}  // namespace sluice
