#include "harness/program/wait_cycle.h"

#include <algorithm>

namespace sluice {

std::optional<Violation> wait_cycle(std::size_t ranks, const std::function<Wait(std::size_t rank)>& wait_of) {
  std::vector<Wait> waits;
  for (std::size_t r = 0; r < ranks; ++r) waits.push_back(wait_of(r));
  const auto next = [&](std::size_t r) { return static_cast<std::size_t>(waits[r].rank); };
  std::vector<std::size_t> reached_from(ranks, ranks);  // the first walk that came to a rank
  for (std::size_t start = 0; start < ranks; ++start) {
    std::size_t r = start;
    for (; waits[r].rank >= 0 && reached_from[r] == ranks; r = next(r)) reached_from[r] = start;
    if (waits[r].rank < 0 || reached_from[r] != start || next(r) == r) continue;
    std::vector<std::size_t> cycle{r};
    for (std::size_t member = next(r); member != r; member = next(member)) cycle.push_back(member);
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    std::string text = "ranks wait for one another in a cycle:";
    for (const std::size_t member : cycle) {
      const Wait& wait = waits[member];
      text += (member == cycle.front() ? " rank " : ", rank ") + std::to_string(member) + " at " + wait.at + " for " +
              (wait.need.empty() ? "" : wait.need + " of ") + "rank " + std::to_string(wait.rank);
    }
    return Violation{Violation::Kind::deadlock, text};
  }
  return std::nullopt;
}

}  // namespace sluice
