// The paper's algorithm 1 and the binary search around it in one class, to be read beside it; long
// because runs, series and branches are each solved in a way of their own.
#include "systems/graphpipe/stage_graph_search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "harness/base/error.h"
#include "systems/graphpipe/stage_lists.h"

namespace sluice {

std::vector<int> StageSearchSpace::micros_per_op() const {
  std::vector<int> result;
  for (const StageRate& rate : rates)
    for (const int degree : degrees) {
      if (rate_is_degree ? rate.micro_batch != degree : rate.micro_batch % degree != 0) continue;
      const int micros_per_op = rate.micro_batch / degree;
      if (microbatches % micros_per_op == 0 && degree <= microbatches / micros_per_op) result.push_back(micros_per_op);
    }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

namespace {

constexpr int kNever = 1 << 20;  // devices; sums of two must not overflow
constexpr int kAny = 31;         // of a rate: the source's where nothing comes before; no successor

// The successors of a part, as one: what they hold, and their rate. kAny: there are none.
struct Next {
  int in_flight = 0, rate = kAny;
};

// How a part was solved, given the rate of the stages at its head: a run of `taken` elements as one
// stage, or the first element split on `devices`; then the rest, at whose head stands `head`.
struct Solved {
  double bytes = 0;
  int in_flight = -1;        // at the head; -1: there is no solution
  std::int16_t taken = 0;    // a number, not a place: parts that look alike share it
  std::int16_t choice = -1;  // -1: the element was split
  std::int16_t devices = 0;
  std::int8_t head = kAny;
  std::int8_t tail = kAny;  // absorbing: the rate of the stage with the join
};

// A part, and what it must fit: all its elements from `first` on, on exactly `devices`, before
// `next`; tail: the rate of the stage at its end; open: nothing comes before it, so that its heads
// may have any rates.
struct State {
  int list = 0, first = 0, devices = 0;
  Next next;
  int tail = kAny;
  bool open = false;
};

struct OutOfLimits {};

// From the key of a state to the index of its solutions; most of a search is asking for them. Keys
// are never 0.
class SolvedStates {
 public:
  std::size_t size() const { return size_; }
  void clear() {
    std::ranges::fill(slots_, Slot{});
    size_ = 0;
  }
  const std::size_t* find(std::uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place_of(key)];
    return slot.key == key ? &slot.index : nullptr;
  }
  void add(std::uint64_t key, std::size_t index) {
    if (2 * ++size_ > slots_.size()) {
      std::vector<Slot> old(std::max<std::size_t>(64, 4 * slots_.size()));
      std::swap(old, slots_);
      for (const Slot& slot : old)
        if (slot.key != 0) slots_[place_of(slot.key)] = slot;
    }
    slots_[place_of(key)] = {key, index};
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::size_t index = 0;
  };
  // Where the key is, or would go.
  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;  // a power of two
    std::size_t place = (key * 0x9e3779b97f4a7c15U) >> 32 & mask;
    while (slots_[place].key != 0 && slots_[place].key != key) place = (place + 1) & mask;
    return place;
  }
  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

class StageSearch {
 public:
  StageSearch(StageLists& lists, const StageSearchSpace& space, const StageSearchLimits& limits)
      : lists_(lists), space_(space), limits_(limits), fewest_(static_cast<std::size_t>(lists.suffixes)) {
    for (std::size_t k = 0; k < lists.choices.size(); ++k) {
      const StageChoice& c = lists.choices[k];
      const int b = space.rates[static_cast<std::size_t>(c.rate)].micro_batch;
      if (c.degree > limits.max_degree || b > limits.max_micro_batch || (limits.rate >= 0 && c.rate != limits.rate))
        continue;
      choices_.push_back(k);
      most_devices_ = std::max(most_devices_, c.degree);
      if (std::ranges::find(rates_, c.rate) == rates_.end()) rates_.push_back(c.rate);
    }
    for (int i = 0; i < static_cast<int>(rates_.size()); ++i)
      slot_[static_cast<std::size_t>(rates_[static_cast<std::size_t>(i)])] = i;
    slot_[kAny] = static_cast<int>(rates_.size());
    width_ = rates_.size() + 1;
  }

  StageSearchResult run() {
    StageSearchResult best;
    const auto attempt = [&](double seconds) {
      if (!solve_within(seconds)) return false;
      best.stages = stages();
      best.slowest = slowest_;
      return true;
    };
    // The least time that has a solution; the slowest stage of a solution may be faster still. A
    // solution is looked for from the least time that devices could do, where there is little to
    // try, in growing steps. Only the stages' times between the last refusal and the solution are
    // left to ask for then.
    const double slowest = std::min(slowest_run(), limits_.faster_than * (1 - 1e-9));
    if (slowest < slowest_run() && !possible(slowest)) return best;
    auto [refused, bound] = least_possible(slowest);
    try {
      for (double step = 0.01; !attempt(bound) && bound < slowest; step = std::min(2 * step, 0.25)) {
        refused = bound;
        bound = bound > 0 ? std::min(slowest, bound * (1 + step)) : slowest;
      }
      if (!best.stages.empty()) {
        const std::vector<double> times = times_between(refused, best.slowest);
        std::size_t low = 0, high = times.size();
        while (low < high) {
          const std::size_t middle = (low + high) / 2;
          if (attempt(times[middle])) {
            high = static_cast<std::size_t>(std::ranges::lower_bound(times, slowest_) - times.begin());
          } else {
            low = middle + 1;
          }
        }
      }
    } catch (const OutOfLimits&) {
      best.complete = false;
    }
    best.states = states_ + static_cast<std::int64_t>(memo_.size());
    return best;
  }

 private:
  int suffix_of(const StageList& list, int first) const { return lists_.shape_of(list).first_suffix + first; }
  double least_seconds() const {
    return lists_.shape_of(lists_.lists[static_cast<std::size_t>(lists_.root)]).least_work / space_.devices;
  }
  double slowest_run() const {
    double slowest = 0;
    for (const StageRun& r : lists_.runs)
      for (const std::size_t k : choices_) slowest = std::max(slowest, r.seconds[k]);
    return slowest;
  }
  // Within the time, and whatever memory says, are there enough devices?
  bool possible(double seconds) {
    within_ = seconds;
    fewest_.assign(fewest_.size(), 0);
    return fewest(lists_.lists[static_cast<std::size_t>(lists_.root)], 0) <= space_.devices;
  }
  // The least of the stages' times that is possible, after one that is not.
  std::pair<double, double> least_possible(double slowest) {
    double low = std::min(least_seconds(), slowest) * (1 - 1e-9), high = slowest;
    if (low <= 0) return {0, slowest};
    while (high > low * 1.02) {
      const double middle = std::sqrt(low * high);
      (possible(middle) ? high : low) = middle;
    }
    const std::vector<double> times = times_between(low, high);
    const auto first = std::ranges::partition_point(times, [&](double t) { return !possible(t); });
    if (first != times.begin()) low = *(first - 1);
    return {low, first == times.end() ? high : *first};
  }
  std::vector<double> times_between(double above, double below) const {
    std::vector<double> times;
    for (const StageRun& r : lists_.runs)
      for (const std::size_t k : choices_)
        if (r.seconds[k] > above && r.seconds[k] < below) times.push_back(r.seconds[k]);
    std::ranges::sort(times);
    times.erase(std::unique(times.begin(), times.end()), times.end());
    return times;
  }

  bool solve_within(double seconds) {
    within_ = seconds;
    states_ += static_cast<std::int64_t>(memo_.size());
    memo_.clear();
    solved_.clear();
    fewest_.assign(fewest_.size(), 0);
    const State& s = whole();
    if (!devices(lists_.lists[static_cast<std::size_t>(s.list)], 0).holds(s.devices)) return false;
    const auto all = solve(s);
    return all != kNone && at(all, kAny).in_flight >= 0;
  }

  State whole() const { return {.list = lists_.root, .devices = space_.devices, .open = true}; }

  int before(int rate, Next next) const {
    const StageRate r = space_.rates[static_cast<std::size_t>(rate)];
    if (next.rate == kAny) return in_flight_of_sink(r, space_.microbatches);
    return in_flight_before(r, next.in_flight, space_.rates[static_cast<std::size_t>(next.rate)], space_.microbatches);
  }

  // Bytes of the stage on all its devices; negative: it does not fit.
  double stage_bytes(int run, const StageChoice& c, int in_flight) {
    if (!space_.footprint) return 0;
    const StageFootprint& footprint = lists_.footprint(run);
    const std::int64_t op = footprint.per_op + lists_.micros_per_op[c.micros_per_op] * footprint.per_micro_batch;
    const int b = space_.rates[static_cast<std::size_t>(c.rate)].micro_batch;
    const std::int64_t bytes = footprint.always + (in_flight + b - 1) / b * op;
    return bytes > space_.memory ? -1 : static_cast<double>(bytes) * c.degree;
  }

  // Solutions lie in one array: of every state one for each rate at its head, then the one for any.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1), kNothing = kNone - 1;
  const Solved& at(std::size_t state, int head) const {
    return solved_[state + static_cast<std::size_t>(slot_[static_cast<std::size_t>(head)])];
  }

  // The fewest devices that the elements from `first` on take within the time, whatever they hold
  // in memory and wait for; kNever: any number is too slow.
  int fewest(const StageList& list, int first) {
    int& known = fewest_[static_cast<std::size_t>(suffix_of(list, first))];
    if (known != 0) return known;
    const int m = static_cast<int>(list.elements.size());
    int least = kNever;
    for (int last = first + 1; last <= m; ++last) {
      const int run = lists_.run_of(list, first, last);
      if (too_slow(run, most_devices_)) break;
      int degree = kNever;
      for (const std::size_t k : choices_)
        if (lists_.choices[k].degree < degree && in_time(run, k)) degree = lists_.choices[k].degree;
      if (degree < least) least = std::min(least, degree + (last < m ? fewest(list, last) : 0));
    }
    const int inner = list.elements[static_cast<std::size_t>(first)].list;
    if (inner >= 0) {
      const int part = fewest(lists_.lists[static_cast<std::size_t>(inner)], 0);
      if (part < least) least = std::min(least, part + (first + 1 < m ? fewest(list, first + 1) : 0));
    }
    return known = least;
  }

  // How many devices the elements from `first` on may have: enough for the time, and no more than
  // there are replicas of vertices to put on them.
  struct Range {
    int fewest = 0, most = 0;
    bool holds(int devices) const { return fewest <= devices && devices <= most; }
  };
  Range devices(const StageList& list, int first) {
    if (first == static_cast<int>(list.elements.size())) return {};
    const int vertices = lists_.shape_of(list).vertices[static_cast<std::size_t>(first)];
    return {std::max(1, fewest(list, first)), vertices * most_devices_};
  }
  // Of a part, when it and the rest have `all` together.
  static Range shared(Range part, Range rest, int all) {
    return {std::max(part.fewest, all - rest.most), std::min(part.most, all - rest.fewest)};
  }

  // Index of the solutions of a state with a number of devices that it may have; kNone: it has
  // none.
  std::size_t solve(const State& s) {
    const StageList& list = lists_.lists[static_cast<std::size_t>(s.list)];
    std::uint64_t key = static_cast<std::uint64_t>(suffix_of(list, s.first));
    key = key << 8 | static_cast<std::uint64_t>(s.devices);
    key = key << 17 | static_cast<std::uint64_t>(s.next.in_flight);
    key = key << 5 | static_cast<std::uint64_t>(s.next.rate);
    key = key << 5 | static_cast<std::uint64_t>(s.tail);
    key = key << 1 | static_cast<std::uint64_t>(s.open);
    if (const std::size_t* const known = memo_.find(key)) return *known;
    watch_limits();
    std::array<Solved, kAny + 1> room;
    const std::span<Solved> best(room.data(), width_);
    if (list.series) {
      solve_series(s, list, best);
    } else {
      solve_parallel(s, list, best);
    }
    std::size_t index = kNone;
    if (std::ranges::any_of(best, [](const Solved& b) { return b.in_flight >= 0; })) {
      index = solved_.size();
      solved_.insert(solved_.end(), best.begin(), best.end());
    }
    memo_.add(key, index);
    return index;
  }

  // Fewest in flight, then fewest bytes; at any head, where nothing waits for it, fewest bytes.
  void offer(std::span<Solved> best, int head, const Solved& s) const {
    Solved& known = best[static_cast<std::size_t>(slot_[static_cast<std::size_t>(head)])];
    const bool fewer = s.in_flight < known.in_flight;
    const bool better =
        known.in_flight < 0 || (head == kAny ? s.bytes < known.bytes || (s.bytes == known.bytes && fewer)
                                             : fewer || (s.in_flight == known.in_flight && s.bytes < known.bytes));
    if (better) known = s;
  }
  void offer_stage(std::span<Solved> best, int rate, const Solved& s, bool open) const {
    offer(best, rate, s);
    if (open) offer(best, kAny, s);
  }
  // More in flight than what is known: its bytes need not be asked for.
  bool is_worse(std::span<const Solved> best, const State& s, int rate, int in_flight) const {
    const int known = best[static_cast<std::size_t>(slot_[static_cast<std::size_t>(rate)])].in_flight;
    return !s.open && known >= 0 && known < in_flight;
  }

  void solve_series(const State& s, const StageList& list, std::span<Solved> best) {
    const int m = static_cast<int>(list.elements.size());
    for (int last = s.first + 1; last <= m; ++last) {
      const int run = lists_.run_of(list, s.first, last);
      if (too_slow(run, s.devices)) break;
      const Range after_it = devices(list, last);
      for (const std::size_t k : choices_) {
        const StageChoice& c = lists_.choices[k];
        if (!after_it.holds(s.devices - c.degree) || !in_time(run, k)) continue;
        Solved stage{.taken = static_cast<std::int16_t>(last - s.first), .choice = static_cast<std::int16_t>(k)};
        if (last == m) {
          if (s.tail != kAny && c.rate != s.tail) continue;
          stage.in_flight = before(c.rate, s.next);
          stage.bytes = stage_bytes(run, c, stage.in_flight);
          if (stage.bytes >= 0) offer_stage(best, c.rate, stage, s.open);
          continue;
        }
        const std::size_t rest = solve({s.list, last, s.devices - c.degree, s.next, s.tail});
        if (rest == kNone) continue;
        for (const int r : rates_) {
          const Solved& after = at(rest, r);
          if (after.in_flight < 0) continue;
          stage.in_flight = before(c.rate, {after.in_flight, r});
          if (is_worse(best, s, c.rate, stage.in_flight)) continue;
          const double bytes = stage_bytes(run, c, stage.in_flight);
          if (bytes < 0) continue;
          stage.bytes = bytes + after.bytes;
          stage.head = static_cast<std::int8_t>(r);
          offer_stage(best, c.rate, stage, s.open);
        }
      }
    }
    const int inner = list.elements[static_cast<std::size_t>(s.first)].list;
    if (inner < 0) return;
    const Range own = devices(lists_.lists[static_cast<std::size_t>(inner)], 0);
    if (s.first + 1 == m) {
      if (own.holds(s.devices))
        add_split(best, solve({inner, 0, s.devices, s.next, s.tail, s.open}),
                  {.taken = 1, .devices = static_cast<std::int16_t>(s.devices)});
      return;
    }
    const Range mine = shared(own, devices(list, s.first + 1), s.devices);
    for (int d = mine.fewest; d <= mine.most; ++d) {
      const std::size_t rest = solve({s.list, s.first + 1, s.devices - d, s.next, s.tail});
      if (rest == kNone) continue;
      for (const int r : rates_) {
        const Solved after = at(rest, r);
        if (after.in_flight < 0) continue;
        add_split(best, solve({inner, 0, d, {after.in_flight, r}, kAny, s.open}),
                  {.bytes = after.bytes,
                   .taken = 1,
                   .devices = static_cast<std::int16_t>(d),
                   .head = static_cast<std::int8_t>(r)});
      }
    }
  }

  // Offers a split element for every head that it has a solution for. `s`: the rest.
  void add_split(std::span<Solved> best, std::size_t part, Solved s) {
    if (part == kNone) return;
    const double rest_bytes = s.bytes;
    for (std::size_t i = 0; i < width_; ++i) {
      const int head = i < rates_.size() ? rates_[i] : kAny;
      const Solved& p = at(part, head);
      if (p.in_flight < 0) continue;
      s.in_flight = p.in_flight;
      s.bytes = rest_bytes + p.bytes;
      offer(best, head, s);
    }
  }

  void solve_parallel(const State& s, const StageList& list, std::span<Solved> best) {
    const int m = static_cast<int>(list.elements.size());
    const bool joins = list.absorbs && s.first == 0;
    // The rest of the branches, from `from` on; they feed the join if the first holds it.
    const auto rest_of = [&](int from, int used, Next after) {
      return from == m ? kNothing : solve({s.list, from, s.devices - used, after, kAny, s.open});
    };
    // Offers what was made of the first beside the rest.
    const auto beside = [&](std::size_t rest, int head, Solved first) {
      if (rest != kNothing) {
        const Solved& others = at(rest, head);
        if (others.in_flight < 0) return;
        first.in_flight = std::max(first.in_flight, others.in_flight);
        first.bytes += others.bytes;
      }
      offer(best, head, first);
    };
    for (int last = s.first + 1; last <= m; ++last) {
      const int run = lists_.run_of(list, s.first, last);
      if (too_slow(run, s.devices)) break;
      const Range beside_it = devices(list, last);
      for (const std::size_t k : choices_) {
        const StageChoice& c = lists_.choices[k];
        if (!beside_it.holds(s.devices - c.degree) || !in_time(run, k)) continue;
        const int in_flight = before(c.rate, s.next);
        if (is_worse(best, s, c.rate, in_flight)) continue;
        const double bytes = stage_bytes(run, c, in_flight);
        if (bytes < 0) continue;
        Solved stage{.bytes = bytes,
                     .in_flight = in_flight,
                     .taken = static_cast<std::int16_t>(last - s.first),
                     .choice = static_cast<std::int16_t>(k)};
        if (joins) stage.tail = static_cast<std::int8_t>(c.rate);
        const std::size_t rest = rest_of(last, c.degree, joins ? Next{in_flight, c.rate} : s.next);
        if (rest == kNone) continue;
        beside(rest, c.rate, stage);
        if (s.open) beside(rest, kAny, stage);
      }
    }
    const int inner = list.elements[static_cast<std::size_t>(s.first)].list;
    if (inner < 0) return;
    const Range mine =
        shared(devices(lists_.lists[static_cast<std::size_t>(inner)], 0), devices(list, s.first + 1), s.devices);
    for (int d = mine.fewest; d <= mine.most; ++d) {
      for (std::size_t t = 0; t < (joins ? rates_.size() : 1); ++t) {
        const int tail = joins ? rates_[t] : kAny;
        const std::size_t part = solve({inner, 0, d, s.next, tail, s.open});
        if (part == kNone) continue;
        const std::size_t rest = rest_of(s.first + 1, d, joins ? Next{before(tail, s.next), tail} : s.next);
        if (rest == kNone) continue;
        for (std::size_t i = 0; i < width_; ++i) {
          const int head = i < rates_.size() ? rates_[i] : kAny;
          const Solved& p = at(part, head);
          if (p.in_flight < 0) continue;
          beside(rest, head,
                 {.bytes = p.bytes,
                  .in_flight = p.in_flight,
                  .taken = 1,
                  .devices = static_cast<std::int16_t>(d),
                  .tail = static_cast<std::int8_t>(tail)});
        }
      }
    }
  }

  bool too_slow(int run, int devices) const {
    return lists_.runs[static_cast<std::size_t>(run)].least_work >
           within_ * std::min(devices, most_devices_) * (1 + 1e-9);
  }
  bool in_time(int run, std::size_t choice) const {
    return lists_.runs[static_cast<std::size_t>(run)].seconds[choice] <= within_;
  }

  void watch_limits() {
    if (static_cast<std::int64_t>(memo_.size()) > limits_.states) throw OutOfLimits();
    if (++visits_ % 1024 != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration<double>(now - begin_).count() > limits_.seconds) throw OutOfLimits();
  }

  // --- the stages of the solution, in topological order ---

  std::vector<FoundStage> stages() {
    std::vector<FoundStage> result;
    slowest_ = 0;
    collect(whole(), kAny, result);
    return result;
  }

  void collect(const State& s, int head, std::vector<FoundStage>& result) {
    const Solved found = at(solve(s), head);
    const StageList& list = lists_.lists[static_cast<std::size_t>(s.list)];
    const StageChoice* choice = found.choice < 0 ? nullptr : &lists_.choices[static_cast<std::size_t>(found.choice)];
    const int used = choice ? choice->degree : found.devices;
    const int last = s.first + found.taken;
    const bool more = last < static_cast<int>(list.elements.size());
    const bool joins = !list.series && found.tail != kAny;
    State rest{s.list, last, s.devices - used, s.next, s.tail, s.open && !list.series};
    if (joins) rest.next = {before(found.tail, s.next), found.tail};
    Next next = s.next;  // of the first part
    if (list.series && more) next = {at(solve(rest), found.head).in_flight, found.head};
    // The branches that feed a join come before the branch that holds it.
    if (joins && more) collect(rest, head, result);
    if (choice) {
      const int run_index = lists_.run_of(list, s.first, last);
      const StageRun& run = lists_.runs[static_cast<std::size_t>(run_index)];
      slowest_ = std::max(slowest_, run.seconds[static_cast<std::size_t>(found.choice)]);
      std::vector<int> vertices;  // the run's are those of a part that looks alike
      for (int e = s.first; e < last; ++e) {
        const auto& own = list.elements[static_cast<std::size_t>(e)].vertices;
        vertices.insert(vertices.end(), own.begin(), own.end());
      }
      result.push_back({std::move(vertices), choice->degree, space_.rates[static_cast<std::size_t>(choice->rate)],
                        before(choice->rate, next)});
    } else {
      const int inner = list.elements[static_cast<std::size_t>(s.first)].list;
      const int tail = list.series ? (more ? kAny : s.tail) : found.tail;
      collect({inner, 0, used, next, tail, s.open}, head, result);
    }
    if (!joins && more) collect(rest, list.series ? found.head : head, result);
  }

  StageLists& lists_;
  const StageSearchSpace& space_;
  StageSearchLimits limits_;
  std::vector<std::size_t> choices_;  // that the limits allow
  std::vector<int> rates_;            // of these
  int slot_[kAny + 1] = {};           // of a rate, among a state's solutions
  std::size_t width_ = 1;
  int most_devices_ = 1;
  double within_ = 0, slowest_ = 0;
  SolvedStates memo_;
  std::vector<int> fewest_;  // by suffix; 0: not known yet
  std::vector<Solved> solved_;
  std::int64_t states_ = 0, visits_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

StageGraphSearch::StageGraphSearch(const SeriesParallelTree& tree, const StageSearchSpace& space) : space_(space) {
  if (space.devices > 255 || space.rates.size() >= kAny || space.microbatches > 0xffff)
    throw InputError("graph pipeline search",
                     std::to_string(space.devices) + " devices, " + std::to_string(space.rates.size()) +
                         " micro-batch sizes and " + std::to_string(space.microbatches) + " micro-batches are too many",
                     "at most 255, 30 and 65535");
  lists_ = std::make_unique<StageLists>(tree, space);
}

StageGraphSearch::~StageGraphSearch() = default;

StageSearchResult StageGraphSearch::run(const StageSearchLimits& limits) {
  return StageSearch(*lists_, space_, limits).run();
}

}  // namespace sluice
