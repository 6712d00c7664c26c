#include "harness/plan/down_sets.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <unordered_map>

#include "harness/base/stop.h"

namespace sluice {

namespace {

class Growth {
 public:
  Growth(const std::vector<std::vector<int>>& needs, std::int64_t cap)
      : needs_(needs), cap_(static_cast<std::size_t>(cap)) {
    sets_.nodes = needs.size();
    sets_.words = needs.size() / 64 + 1;
  }

  DownSets run() {
    find_or_add(std::vector<std::uint64_t>(sets_.words, 0));
    // The walk by hand: a graph of a thousand nodes would be a thousand calls deep.
    struct Frame {
      int set;
      std::size_t next;  // node to try
    };
    std::vector<Frame> stack{{0, 0}};
    while (!stack.empty() && sets_.complete) {
      check_stop();
      Frame& top = stack.back();
      if (top.next == needs_.size()) {
        stack.pop_back();
        continue;
      }
      const int set = top.set, v = static_cast<int>(top.next++);
      if (sets_.contains(set, v) || !may_join(set, v)) continue;
      const auto begin = sets_.bits.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(set) * sets_.words);
      std::vector<std::uint64_t> larger(begin, begin + static_cast<std::ptrdiff_t>(sets_.words));
      larger[static_cast<std::size_t>(v) / 64] |= std::uint64_t{1} << (static_cast<std::size_t>(v) % 64);
      const auto [found, fresh] = find_or_add(larger);
      sets_.one_less[found].push_back(set);
      if (fresh) stack.push_back({found, 0});
    }
    if (!sets_.complete) return {.complete = false};
    sets_.by_size.resize(sets_.count());
    std::iota(sets_.by_size.begin(), sets_.by_size.end(), 0);
    std::ranges::stable_sort(sets_.by_size, {}, [&](int set) { return sets_.size[set]; });
    sets_.full = sets_.by_size.back();
    return std::move(sets_);
  }

 private:
  bool may_join(int set, int v) const {
    return std::ranges::all_of(needs_[v], [&](int other) { return sets_.contains(set, other); });
  }

  std::pair<int, bool> find_or_add(const std::vector<std::uint64_t>& bits) {
    const std::string key(reinterpret_cast<const char*>(bits.data()), bits.size() * sizeof bits[0]);
    const auto [found, fresh] = number_.try_emplace(key, static_cast<int>(sets_.count()));
    if (fresh) {
      sets_.bits.insert(sets_.bits.end(), bits.begin(), bits.end());
      int size = 0;
      for (const std::uint64_t word : bits) size += std::popcount(word);
      sets_.size.push_back(size);
      sets_.one_less.emplace_back();
      sets_.complete = sets_.count() <= cap_;
    }
    return {found->second, fresh};
  }

  const std::vector<std::vector<int>>& needs_;
  std::size_t cap_;
  DownSets sets_;
  std::unordered_map<std::string, int> number_;
};

}  // namespace

DownSets down_sets(const std::vector<std::vector<int>>& needs, std::int64_t cap) { return Growth(needs, cap).run(); }

std::vector<int> sets_within(const DownSets& sets, int set) {
  std::vector<int> found, stack{set};
  std::vector<bool> seen(sets.count());
  seen[set] = true;
  while (!stack.empty()) {
    check_stop();
    const int at = stack.back();
    stack.pop_back();
    if (at != set) found.push_back(at);
    for (const int smaller : sets.one_less[at]) {
      if (seen[smaller]) continue;
      seen[smaller] = true;
      stack.push_back(smaller);
    }
  }
  return found;
}

}  // namespace sluice
