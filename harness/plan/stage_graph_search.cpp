#include "harness/plan/stage_graph_search.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "harness/core/error.h"
#include "harness/plan/stage_lists.h"

namespace sluice {

std::vector<int> StageSearchSpace::groupings() const {
  std::vector<int> result;
  for (const StageRate& rate : rates)
    for (const int degree : degrees) {
      if (rate_is_degree ? rate.micro_batch != degree : rate.micro_batch % degree != 0) continue;
      const int grouping = rate.micro_batch / degree;
      if (microbatches % grouping == 0 && degree <= microbatches / grouping)
        result.push_back(grouping);
    }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

namespace {

constexpr int kAny = 31;  // of a rate: the source's where nothing comes before, no successor

// The successors of a part, as one: what they hold, and their rate. kAny: there are none.
struct Next {
  int in_flight = 0, rate = kAny;
};

// How a state was solved: a run [first, last) as one stage, or the first element split on
// `devices`; then the rest, at whose head stands `head`.
struct Solved {
  int in_flight = -1;  // at the head; -1: there is no solution
  double bytes = 0;
  int last = 0;
  int choice = -1;  // -1: the element was split
  int devices = 0;
  int head = kAny;
  int tail = kAny;  // absorbing: the rate of the stage with the join
};

struct OutOfLimits {};

class Search {
 public:
  Search(const SeriesParallelTree& tree, const StageSearchSpace& space)
      : space_(space), stages_(tree, space) {
    for (const StageChoice& c : stages_.choices) most_devices_ = std::max(most_devices_, c.degree);
  }

  StageSearchResult run() {
    StageSearchResult best;
    std::vector<double> times;
    for (const StageRun& run : stages_.runs)
      times.insert(times.end(), run.seconds.begin(), run.seconds.end());
    std::ranges::sort(times);
    times.erase(std::unique(times.begin(), times.end()), times.end());
    try {
      // The least time that has a solution; the slowest stage of a solution may be faster still.
      std::size_t low = 0, high = times.size();
      for (std::size_t k = times.empty() ? 0 : times.size() - 1; low < high; k = (low + high) / 2) {
        if (!solve_within(times[k])) {
          low = k + 1;
          continue;
        }
        best.stages = stages();
        best.slowest = slowest_;
        high = static_cast<std::size_t>(std::ranges::lower_bound(times, slowest_) - times.begin());
      }
    } catch (const OutOfLimits&) {
      best.complete = false;
    }
    best.states = states_ + static_cast<std::int64_t>(memo_.size());
    return best;
  }

 private:
  bool solve_within(double seconds) {
    within_ = seconds;
    states_ += static_cast<std::int64_t>(memo_.size());
    memo_.clear();
    return solve(stages_.root, 0, space_.devices, {}, kAny, kAny).in_flight >= 0;
  }

  int before(int rate, Next next) const {
    const StageRate r = space_.rates[static_cast<std::size_t>(rate)];
    if (next.rate == kAny) return in_flight_of_sink(r, space_.microbatches);
    return in_flight_before(r, next.in_flight, space_.rates[static_cast<std::size_t>(next.rate)],
                            space_.microbatches);
  }

  // Bytes of the stage on all its devices; negative: it does not fit.
  double stage_bytes(int run_index, const StageChoice& c, int in_flight) {
    if (!space_.footprint) return 0;
    StageRun& run = stages_.runs[static_cast<std::size_t>(run_index)];
    auto& footprint = run.footprint[c.grouping];
    if (!footprint) footprint = space_.footprint(run.vertices, stages_.groupings[c.grouping]);
    const int b = space_.rates[static_cast<std::size_t>(c.rate)].micro_batch;
    const std::int64_t bytes = footprint->always + (in_flight + b - 1) / b * footprint->per_op;
    return bytes > space_.memory ? -1 : static_cast<double>(bytes) * c.degree;
  }

  // The elements of a list from `first` on, on exactly `devices`. head: the rate of the stages at
  // their head; tail: of the one at their end.
  Solved solve(int list_index, int first, int devices, Next next, int head, int tail) {
    const StageList& list = stages_.lists[static_cast<std::size_t>(list_index)];
    const auto a = static_cast<std::size_t>(first);
    if (devices < 1 || list.least_work[a] > within_ * devices * (1 + 1e-9)) return {};
    const std::uint64_t key =
        ((((static_cast<std::uint64_t>(list.suffix[a]) << 8 | static_cast<std::uint64_t>(devices))
               << 17 |
           static_cast<std::uint64_t>(next.in_flight))
              << 5 |
          static_cast<std::uint64_t>(next.rate))
             << 5 |
         static_cast<std::uint64_t>(head))
            << 5 |
        static_cast<std::uint64_t>(tail);
    if (const auto known = memo_.find(key); known != memo_.end()) return known->second;
    watch_limits();
    Solved best;
    const auto offer = [&](Solved s) {
      const bool better =
          best.in_flight < 0 || (head == kAny ? std::pair(s.bytes, s.in_flight * 1.0) <
                                                    std::pair(best.bytes, best.in_flight * 1.0)
                                              : std::pair(s.in_flight * 1.0, s.bytes) <
                                                    std::pair(best.in_flight * 1.0, best.bytes));
      if (better) best = s;
    };
    if (list.series) {
      solve_series(list_index, first, devices, next, head, tail, offer);
    } else {
      solve_parallel(list_index, first, devices, next, head, offer);
    }
    return memo_[key] = best;
  }

  template <class Offer>
  void solve_series(int list_index, int first, int devices, Next next, int head, int tail,
                    Offer offer) {
    const StageList& list = stages_.lists[static_cast<std::size_t>(list_index)];
    const int m = static_cast<int>(list.elements.size());
    for (int last = first + 1; last <= m; ++last) {
      const int run = list.run_of(first, last);
      if (too_slow(run, devices)) break;
      for (std::size_t k = 0; k < stages_.choices.size(); ++k) {
        const StageChoice& c = stages_.choices[k];
        if (!allowed(run, k, head) || c.degree > devices || (c.degree == devices) != (last == m))
          continue;
        if (last == m) {
          if (tail != kAny && c.rate != tail) continue;
          const int in_flight = before(c.rate, next);
          const double bytes = stage_bytes(run, c, in_flight);
          if (bytes >= 0) offer(Solved{in_flight, bytes, last, static_cast<int>(k)});
          continue;
        }
        for (int r = 0; r < rate_count(); ++r) {
          const Solved rest = solve(list_index, last, devices - c.degree, next, r, tail);
          if (rest.in_flight < 0) continue;
          const int in_flight = before(c.rate, {rest.in_flight, r});
          const double bytes = stage_bytes(run, c, in_flight);
          if (bytes >= 0)
            offer(Solved{in_flight, bytes + rest.bytes, last, static_cast<int>(k), 0, r});
        }
      }
    }
    const int inner = list.elements[static_cast<std::size_t>(first)].list;
    if (inner < 0) return;
    if (first + 1 == m) {
      const Solved part = solve(inner, 0, devices, next, head, tail);
      if (part.in_flight >= 0) offer(Solved{part.in_flight, part.bytes, m, -1, devices});
      return;
    }
    for (int d = 1; d < devices; ++d)
      for (int r = 0; r < rate_count(); ++r) {
        const Solved rest = solve(list_index, first + 1, devices - d, next, r, tail);
        if (rest.in_flight < 0) continue;
        const Solved part = solve(inner, 0, d, {rest.in_flight, r}, head, kAny);
        if (part.in_flight >= 0)
          offer(Solved{part.in_flight, part.bytes + rest.bytes, first + 1, -1, d, r});
      }
  }

  template <class Offer>
  void solve_parallel(int list_index, int first, int devices, Next next, int head, Offer offer) {
    const StageList& list = stages_.lists[static_cast<std::size_t>(list_index)];
    const int m = static_cast<int>(list.elements.size());
    const bool joins = list.absorbs && first == 0;
    // The rest of the branches beside what was made of the first; they feed the join if that holds
    // it.
    const auto with_rest = [&](Solved s, int used, Next after) {
      if (s.last == m) {
        if (used == devices) offer(s);
        return;
      }
      const Solved rest = solve(list_index, s.last, devices - used, after, head, kAny);
      if (rest.in_flight < 0) return;
      s.in_flight = std::max(s.in_flight, rest.in_flight);
      s.bytes += rest.bytes;
      offer(s);
    };
    for (int last = first + 1; last <= m; ++last) {
      const int run = list.run_of(first, last);
      if (too_slow(run, devices)) break;
      for (std::size_t k = 0; k < stages_.choices.size(); ++k) {
        const StageChoice& c = stages_.choices[k];
        if (!allowed(run, k, head) || c.degree > devices) continue;
        const int in_flight = before(c.rate, next);
        const double bytes = stage_bytes(run, c, in_flight);
        if (bytes < 0) continue;
        Solved s{in_flight, bytes, last, static_cast<int>(k)};
        if (joins) s.tail = c.rate;
        with_rest(s, c.degree, joins ? Next{in_flight, c.rate} : next);
      }
    }
    const int inner = list.elements[static_cast<std::size_t>(first)].list;
    if (inner < 0) return;
    for (int d = 1; d <= devices; ++d)
      for (int r = 0; r < (joins ? rate_count() : 1); ++r) {
        const int tail = joins ? r : kAny;
        const Solved part = solve(inner, 0, d, next, head, tail);
        if (part.in_flight < 0) continue;
        Solved s{part.in_flight, part.bytes, first + 1, -1, d, kAny, tail};
        with_rest(s, d, joins ? Next{before(r, next), r} : next);
      }
  }

  int rate_count() const { return static_cast<int>(space_.rates.size()); }
  bool too_slow(int run, int devices) const {
    return stages_.runs[static_cast<std::size_t>(run)].least_work >
           within_ * std::min(devices, most_devices_) * (1 + 1e-9);
  }
  bool allowed(int run, std::size_t choice, int head) const {
    return (head == kAny || stages_.choices[choice].rate == head) &&
           stages_.runs[static_cast<std::size_t>(run)].seconds[choice] <= within_;
  }

  void watch_limits() {
    if (static_cast<std::int64_t>(memo_.size()) > space_.states) throw OutOfLimits();
    if (++visits_ % 1024 != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration<double>(now - begin_).count() > space_.seconds) throw OutOfLimits();
  }

  // --- the stages of the solution ---

  std::vector<FoundStage> stages() {
    std::vector<FoundStage> result;
    slowest_ = 0;
    collect(stages_.root, 0, space_.devices, {}, kAny, kAny, result);
    return result;
  }

  void add_stage(const StageList& list, int first, const Solved& s, int in_flight,
                 std::vector<FoundStage>& result) {
    const StageRun& run = stages_.runs[static_cast<std::size_t>(list.run_of(first, s.last))];
    const StageChoice& c = stages_.choices[static_cast<std::size_t>(s.choice)];
    slowest_ = std::max(slowest_, run.seconds[static_cast<std::size_t>(s.choice)]);
    result.push_back(
        {run.vertices, c.degree, space_.rates[static_cast<std::size_t>(c.rate)], in_flight});
  }

  void collect(int list_index, int first, int devices, Next next, int head, int tail,
               std::vector<FoundStage>& result) {
    const Solved s = solve(list_index, first, devices, next, head, tail);
    const StageList& list = stages_.lists[static_cast<std::size_t>(list_index)];
    const bool more = s.last < static_cast<int>(list.elements.size());
    const int used =
        s.choice >= 0 ? stages_.choices[static_cast<std::size_t>(s.choice)].degree : s.devices;
    const int inner = list.elements[static_cast<std::size_t>(first)].list;
    Next after = next;  // of what comes first
    if (list.series) {
      if (more) {
        const Solved rest = solve(list_index, s.last, devices - used, next, s.head, tail);
        after = {rest.in_flight, s.head};
      }
      if (s.choice >= 0) {
        const int rate = stages_.choices[static_cast<std::size_t>(s.choice)].rate;
        add_stage(list, first, s, before(rate, after), result);
      } else {
        collect(inner, 0, used, after, head, more ? kAny : tail, result);
      }
      if (more) collect(list_index, s.last, devices - used, next, s.head, tail, result);
      return;
    }
    // Parallel: the branches that feed a join come before the branch that holds it.
    const bool joins = s.tail != kAny;
    const Next rest_next = joins ? Next{before(s.tail, next), s.tail} : next;
    if (joins && more) collect(list_index, s.last, devices - used, rest_next, head, kAny, result);
    if (s.choice >= 0) {
      const int rate = stages_.choices[static_cast<std::size_t>(s.choice)].rate;
      add_stage(list, first, s, before(rate, next), result);
    } else {
      collect(inner, 0, used, next, head, s.tail, result);
    }
    if (!joins && more) collect(list_index, s.last, devices - used, rest_next, head, kAny, result);
  }

  const StageSearchSpace& space_;
  StageLists stages_;
  int most_devices_ = 1;
  double within_ = 0, slowest_ = 0;
  std::unordered_map<std::uint64_t, Solved> memo_;
  std::int64_t states_ = 0, visits_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

StageSearchResult search_stage_graph(const SeriesParallelTree& tree,
                                     const StageSearchSpace& space) {
  if (space.devices > 255 || space.rates.size() >= kAny || space.microbatches > 0xffff)
    throw InputError("graph pipeline search",
                     std::to_string(space.devices) + " devices, " +
                         std::to_string(space.rates.size()) + " micro-batch sizes and " +
                         std::to_string(space.microbatches) + " micro-batches are too many",
                     "at most 255, 30 and 65535");
  return Search(tree, space).run();
}

}  // namespace sluice
