// Down-sets: sets of nodes of a DAG that hold, for each node, all nodes on one side of it. Two nested ones differ by a
// contiguous set, so they are the states of the exact dynamic programs of Piper (section 4 there; closed under
// successors) and of Tarnawski et al. (closed under predecessors).
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct DownSets {
  std::size_t nodes = 0;
  std::size_t words = 0;                   // of 64 bits, per set
  std::vector<std::uint64_t> bits;         // set after set; set 0 is empty
  std::vector<int> size;                   // nodes in each set
  std::vector<int> by_size;                // the sets by size, then by number
  std::vector<std::vector<int>> one_less;  // per set: those with one node less, in the order of the search
  bool complete = true;                    // false: more sets than the cap, and none are stored
  int full = 0;                            // the set of all nodes

  std::size_t count() const { return size.size(); }
  bool contains(int set, int node) const {
    return bits[static_cast<std::size_t>(set) * words + static_cast<std::size_t>(node) / 64] >>
               (static_cast<std::size_t>(node) % 64) &
           1;
  }
  bool within(int small, int large) const {
    const std::uint64_t* a = &bits[static_cast<std::size_t>(small) * words];
    const std::uint64_t* b = &bits[static_cast<std::size_t>(large) * words];
    for (std::size_t w = 0; w < words; ++w)
      if (a[w] & ~b[w]) return false;
    return true;
  }
};

// Sets that hold, for each node v, all of needs[v]. Depth first, lower nodes first: the numbering of the authors'
// programs, which decides their ties.
DownSets down_sets(const std::vector<std::vector<int>>& needs, std::int64_t cap);

// The down-sets within `set`, without itself, in the order of the authors' depth-first walk.
std::vector<int> sets_within(const DownSets& sets, int set);

}  // namespace sluice
