#include "systems/spp/min_cut.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "harness/base/stop.h"

namespace sluice {

Cut min_cut(const SquareMatrix& weights) {
  const std::size_t n = weights.size();
  if (n < 2) throw std::logic_error("a cut needs two vertices");
  SquareMatrix merged = weights;
  std::vector<std::vector<int>> members(n);  // of each merged vertex, named by its smallest member
  std::vector<std::size_t> left;
  for (std::size_t v = 0; v < n; ++v) {
    members[v] = {static_cast<int>(v)};
    left.push_back(v);
  }
  Cut best;
  while (left.size() > 1) {
    // One phase: orders the vertices by attachment to those before. The last is cut off from the
    // rest at its attachment, which is a minimum cut between it and the one before it.
    std::vector<double> attachment(n, 0);
    std::vector<std::size_t> waiting = left;
    std::size_t last = waiting.front(), before = last;
    waiting.erase(waiting.begin());
    while (!waiting.empty()) {
      check_stop();
      for (const std::size_t v : waiting) attachment[v] += merged.at(last, v);
      const auto next =
          std::ranges::max_element(waiting, {}, [&](std::size_t v) { return attachment[v]; });  // the first of equals
      before = std::exchange(last, *next);
      waiting.erase(next);
    }
    if (best.far_side.empty() || attachment[last] < best.weight) {
      best.weight = attachment[last];
      best.far_side = members[last];
    }
    const std::size_t into = std::min(last, before), gone = std::max(last, before);
    members[into].insert(members[into].end(), members[gone].begin(), members[gone].end());
    for (const std::size_t v : left) {
      merged.at(into, v) += merged.at(gone, v);
      merged.at(v, into) = merged.at(into, v);
    }
    left.erase(std::ranges::find(left, gone));
  }
  std::ranges::sort(best.far_side);
  for (std::size_t v = 0; v < n; ++v)
    if (!std::ranges::binary_search(best.far_side, static_cast<int>(v))) best.near_side.push_back(static_cast<int>(v));
  if (best.near_side.front() != 0) std::swap(best.near_side, best.far_side);
  return best;
}

}  // namespace sluice
