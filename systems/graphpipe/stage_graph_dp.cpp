#include "systems/graphpipe/stage_graph_dp.h"

#include <array>

#include "harness/base/stop.h"

namespace sluice {

static constexpr int kTooSlow = 1 << 20;  // devices; sums of two must not overflow

StageGraphDp::StageGraphDp(StageLists& lists, const StageSearchSpace& space, const StageSearchLimits& limits)
    : lists_(lists), space_(space), limits_(limits), fewest_(static_cast<std::size_t>(lists.suffixes)) {
  for (std::size_t k = 0; k < lists.choices.size(); ++k) {
    const StageChoice& c = lists.choices[k];
    const int b = space.configs[c.config].micro_batch;
    if (c.degree > limits.max_degree || b > limits.max_micro_batch || (limits.config >= 0 && c.config != limits.config))
      continue;
    choices_.push_back(k);
    max_degree_ = std::max(max_degree_, c.degree);
    if (std::ranges::find(configs_, c.config) == configs_.end()) configs_.push_back(c.config);
  }
  for (int i = 0; i < static_cast<int>(configs_.size()); ++i) slot_[configs_[i]] = i;
  slot_[kAnyConfig] = static_cast<int>(configs_.size());
  width_ = configs_.size() + 1;
}

void StageGraphDp::set_time(double seconds) {
  within_ = seconds;
  fewest_.assign(fewest_.size(), 0);
}

bool StageGraphDp::has_enough_devices(double seconds) {
  set_time(seconds);
  return fewest_devices(list_of(lists_.root), 0) <= space_.devices;
}

bool StageGraphDp::solve_within(double seconds) {
  set_time(seconds);
  states_ += static_cast<std::int64_t>(memo_.size());
  memo_.clear();
  solved_.clear();
  const State& s = whole();
  if (!devices(list_of(s.list), 0).holds(s.devices)) return false;
  const std::size_t all = solve(s);
  return all != kNone && at(all, kAnyConfig).in_flight >= 0;
}

// ComputeInFlight: i_s of a stage of this configuration.
int StageGraphDp::in_flight(int config, Successor next) const {
  const StageConfig c = space_.configs[config];
  if (next.config == kAnyConfig) return in_flight_of_sink(c, space_.microbatches);
  return in_flight_before(c, next.in_flight, space_.configs[next.config], space_.microbatches);
}

// Bytes of the stage on all its devices; negative: it does not fit.
double StageGraphDp::stage_bytes(int stage, const StageChoice& c, int in_flight) {
  if (!space_.footprint) return 0;
  const StageFootprint& footprint = lists_.footprint(stage);
  const std::int64_t op = footprint.per_op + lists_.microbatches_per_op[c.size] * footprint.per_micro_batch;
  const int b = space_.configs[c.config].micro_batch;
  const std::int64_t bytes = footprint.always + (in_flight + b - 1) / b * op;
  return bytes > space_.memory ? -1 : static_cast<double>(bytes) * c.degree;
}

// --- how many devices a part may have ---

// The fewest devices that the elements from `first` on take within the time, whatever they hold in memory and wait for;
// kTooSlow: any number is too slow.
int StageGraphDp::fewest_devices(const StageList& list, int first) {
  int& known = fewest_[suffix_of(list, first)];
  if (known != 0) return known;
  const int m = static_cast<int>(list.elements.size());
  int least = kTooSlow;
  for (int last = first + 1; last <= m; ++last) {
    check_stop();
    const int stage = lists_.stage_of(list, first, last);
    if (too_slow(stage, max_degree_)) break;
    int degree = kTooSlow;
    for (const std::size_t k : choices_)
      if (lists_.choices[k].degree < degree && in_time(stage, k)) degree = lists_.choices[k].degree;
    if (degree < least) least = std::min(least, degree + (last < m ? fewest_devices(list, last) : 0));
  }
  const int inner = list.elements[first].list;
  if (inner >= 0) {
    const int part = fewest_devices(list_of(inner), 0);
    if (part < least) least = std::min(least, part + (first + 1 < m ? fewest_devices(list, first + 1) : 0));
  }
  return known = least;
}

// Of the elements from `first` on: enough for the time, and no more than there are replicas of vertices for.
StageGraphDp::Range StageGraphDp::devices(const StageList& list, int first) {
  if (first == static_cast<int>(list.elements.size())) return {};
  const int vertices = lists_.costs_of(list).vertices[first];
  return {std::max(1, fewest_devices(list, first)), vertices * max_degree_};
}

// Of a part, when it and the rest have `all` together.
StageGraphDp::Range StageGraphDp::shared(Range part, Range rest, int all) {
  return {std::max(part.fewest, all - rest.most), std::min(part.most, all - rest.fewest)};
}

// --- the recursion ---

// Index of the solutions of a state with a number of devices that it may have; kNone: it has none.
std::size_t StageGraphDp::solve(const State& s) {
  const StageList& list = list_of(s.list);
  std::uint64_t key = static_cast<std::uint64_t>(suffix_of(list, s.first));
  key = key << 8 | static_cast<std::uint64_t>(s.devices);
  key = key << 17 | static_cast<std::uint64_t>(s.next.in_flight);
  key = key << 5 | static_cast<std::uint64_t>(s.next.config);
  key = key << 5 | static_cast<std::uint64_t>(s.tail);
  key = key << 1 | static_cast<std::uint64_t>(s.open);
  if (const std::size_t* const known = memo_.find(key)) return *known;
  watch_limits();
  std::array<Solved, kAnyConfig + 1> room;
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

void StageGraphDp::watch_limits() {
  check_stop();
  if (static_cast<std::int64_t>(memo_.size()) > limits_.states) throw OutOfLimits();
  if (++visits_ % 1024 != 0) return;
  if (thread_seconds() - begin_ > limits_.seconds) throw OutOfLimits();
}

// Fewest in flight, then fewest bytes; at any head, where nothing waits for it, fewest bytes.
void StageGraphDp::offer(std::span<Solved> best, int head, const Solved& solved) const {
  Solved& known = best[slot_[head]];
  const bool fewer = solved.in_flight < known.in_flight;
  const bool better =
      known.in_flight < 0 ||
      (head == kAnyConfig ? solved.bytes < known.bytes || (solved.bytes == known.bytes && fewer)
                          : fewer || (solved.in_flight == known.in_flight && solved.bytes < known.bytes));
  if (better) known = solved;
}

void StageGraphDp::offer_stage(std::span<Solved> best, int config, const Solved& stage, bool open) const {
  offer(best, config, stage);
  if (open) offer(best, kAnyConfig, stage);
}

// More in flight than what is known: its bytes need not be asked for.
bool StageGraphDp::is_worse(std::span<const Solved> best, const State& s, int config, int in_flight) const {
  const int known = best[slot_[config]].in_flight;
  return !s.open && known >= 0 && known < in_flight;
}

void StageGraphDp::solve_series(const State& s, const StageList& list, std::span<Solved> best) {
  cut_series(s, list, best);
  if (list.elements[s.first].list >= 0) split_in_series(s, list, best);
}

// The first elements as one stage, before the rest.
void StageGraphDp::cut_series(const State& s, const StageList& list, std::span<Solved> best) {
  const int m = static_cast<int>(list.elements.size());
  for (int last = s.first + 1; last <= m; ++last) {
    const int stage_number = lists_.stage_of(list, s.first, last);
    if (too_slow(stage_number, s.devices)) break;
    const Range after_it = devices(list, last);
    for (const std::size_t k : choices_) {
      const StageChoice& c = lists_.choices[k];
      if (!after_it.holds(s.devices - c.degree) || !in_time(stage_number, k)) continue;
      Solved stage{.taken = static_cast<std::int16_t>(last - s.first), .choice = static_cast<std::int16_t>(k)};
      if (last == m) {
        if (s.tail != kAnyConfig && c.config != s.tail) continue;
        stage.in_flight = in_flight(c.config, s.next);
        stage.bytes = stage_bytes(stage_number, c, stage.in_flight);
        if (stage.bytes >= 0) offer_stage(best, c.config, stage, s.open);
        continue;
      }
      const std::size_t rest = solve({s.list, last, s.devices - c.degree, s.next, s.tail});
      if (rest == kNone) continue;
      for (const int head : configs_) {
        const Solved& after = at(rest, head);
        if (after.in_flight < 0) continue;
        stage.in_flight = in_flight(c.config, {after.in_flight, head});
        if (is_worse(best, s, c.config, stage.in_flight)) continue;
        const double bytes = stage_bytes(stage_number, c, stage.in_flight);
        if (bytes < 0) continue;
        stage.bytes = bytes + after.bytes;
        stage.head = static_cast<std::int8_t>(head);
        offer_stage(best, c.config, stage, s.open);
      }
    }
  }
}

// The first element split into stages of its own, before the rest.
void StageGraphDp::split_in_series(const State& s, const StageList& list, std::span<Solved> best) {
  const int m = static_cast<int>(list.elements.size());
  const int inner = list.elements[s.first].list;
  const Range own = devices(list_of(inner), 0);
  if (s.first + 1 == m) {
    if (own.holds(s.devices))
      offer_split(best, solve({inner, 0, s.devices, s.next, s.tail, s.open}),
                  {.taken = 1, .devices = static_cast<std::int16_t>(s.devices)});
    return;
  }
  const Range mine = shared(own, devices(list, s.first + 1), s.devices);
  for (int d = mine.fewest; d <= mine.most; ++d) {
    const std::size_t rest = solve({s.list, s.first + 1, s.devices - d, s.next, s.tail});
    if (rest == kNone) continue;
    for (const int head : configs_) {
      const Solved after = at(rest, head);
      if (after.in_flight < 0) continue;
      offer_split(best, solve({inner, 0, d, {after.in_flight, head}, kAnyConfig, s.open}),
                  {.bytes = after.bytes,
                   .taken = 1,
                   .devices = static_cast<std::int16_t>(d),
                   .head = static_cast<std::int8_t>(head)});
    }
  }
}

// Offers a split element for every head that it has a solution for.
void StageGraphDp::offer_split(std::span<Solved> best, std::size_t part, Solved rest) const {
  if (part == kNone) return;
  const double rest_bytes = rest.bytes;
  for (std::size_t i = 0; i < width_; ++i) {
    const int head = head_of_slot(i);
    const Solved& p = at(part, head);
    if (p.in_flight < 0) continue;
    rest.in_flight = p.in_flight;
    rest.bytes = rest_bytes + p.bytes;
    offer(best, head, rest);
  }
}

void StageGraphDp::solve_parallel(const State& s, const StageList& list, std::span<Solved> best) {
  cut_branches(s, list, best);
  if (list.elements[s.first].list >= 0) split_branch(s, list, best);
}

std::size_t StageGraphDp::solve_other_branches(const State& s, const StageList& list, int from, int used,
                                               Successor next) {
  if (from == static_cast<int>(list.elements.size())) return kNothing;
  return solve({s.list, from, s.devices - used, next, kAnyConfig, s.open});
}

// Offers what was made of the first branches in parallel with the others.
void StageGraphDp::offer_beside(std::span<Solved> best, std::size_t others, int head, Solved first) const {
  if (others != kNothing) {
    const Solved& parallel = at(others, head);
    if (parallel.in_flight < 0) return;
    first.in_flight = std::max(first.in_flight, parallel.in_flight);
    first.bytes += parallel.bytes;
  }
  offer(best, head, first);
}

// The first branches as one stage, in parallel with the others; these feed it if it holds the join.
void StageGraphDp::cut_branches(const State& s, const StageList& list, std::span<Solved> best) {
  const int m = static_cast<int>(list.elements.size());
  const bool joins = list.absorbs && s.first == 0;
  for (int last = s.first + 1; last <= m; ++last) {
    const int stage_number = lists_.stage_of(list, s.first, last);
    if (too_slow(stage_number, s.devices)) break;
    const Range beside_it = devices(list, last);
    for (const std::size_t k : choices_) {
      const StageChoice& c = lists_.choices[k];
      if (!beside_it.holds(s.devices - c.degree) || !in_time(stage_number, k)) continue;
      const int held = in_flight(c.config, s.next);
      if (is_worse(best, s, c.config, held)) continue;
      const double bytes = stage_bytes(stage_number, c, held);
      if (bytes < 0) continue;
      Solved stage{.bytes = bytes,
                   .in_flight = held,
                   .taken = static_cast<std::int16_t>(last - s.first),
                   .choice = static_cast<std::int16_t>(k)};
      if (joins) stage.tail = static_cast<std::int8_t>(c.config);
      const std::size_t others =
          solve_other_branches(s, list, last, c.degree, joins ? Successor{held, c.config} : s.next);
      if (others == kNone) continue;
      offer_beside(best, others, c.config, stage);
      if (s.open) offer_beside(best, others, kAnyConfig, stage);
    }
  }
}

// The first branch split into stages of its own, in parallel with the others; these feed its last stage if that holds
// the join.
void StageGraphDp::split_branch(const State& s, const StageList& list, std::span<Solved> best) {
  const bool joins = list.absorbs && s.first == 0;
  const int inner = list.elements[s.first].list;
  const Range mine = shared(devices(list_of(inner), 0), devices(list, s.first + 1), s.devices);
  for (int d = mine.fewest; d <= mine.most; ++d) {
    for (std::size_t t = 0; t < (joins ? configs_.size() : 1); ++t) {
      const int tail = joins ? configs_[t] : kAnyConfig;
      const std::size_t part = solve({inner, 0, d, s.next, tail, s.open});
      if (part == kNone) continue;
      const Successor next = joins ? Successor{in_flight(tail, s.next), tail} : s.next;
      const std::size_t others = solve_other_branches(s, list, s.first + 1, d, next);
      if (others == kNone) continue;
      for (std::size_t i = 0; i < width_; ++i) {
        const int head = head_of_slot(i);
        const Solved& p = at(part, head);
        if (p.in_flight < 0) continue;
        offer_beside(best, others, head,
                     {.bytes = p.bytes,
                      .in_flight = p.in_flight,
                      .taken = 1,
                      .devices = static_cast<std::int16_t>(d),
                      .tail = static_cast<std::int8_t>(tail)});
      }
    }
  }
}

// --- the stages of the solution, in topological order ---

std::vector<FoundStage> StageGraphDp::stages() {
  std::vector<FoundStage> result;
  slowest_ = 0;
  collect(whole(), kAnyConfig, result);
  return result;
}

void StageGraphDp::collect(const State& s, int head, std::vector<FoundStage>& result) {
  const Solved found = at(solve(s), head);
  const StageList& list = list_of(s.list);
  const bool is_stage = found.choice >= 0;
  const int used = is_stage ? lists_.choices[found.choice].degree : found.devices;
  const int last = s.first + found.taken;
  const bool more = last < static_cast<int>(list.elements.size());
  const bool joins = !list.series && found.tail != kAnyConfig;
  State rest{s.list, last, s.devices - used, s.next, s.tail, s.open && !list.series};
  if (joins) rest.next = {in_flight(found.tail, s.next), found.tail};
  Successor next = s.next;  // of the first part
  if (list.series && more) next = {at(solve(rest), found.head).in_flight, found.head};
  // The branches that feed a join come before the branch that holds it.
  if (joins && more) collect(rest, head, result);
  if (is_stage) {
    result.push_back(found_stage(s, found, next));
  } else {
    const int inner = list.elements[s.first].list;
    const int tail = list.series ? (more ? kAnyConfig : s.tail) : found.tail;
    collect({inner, 0, used, next, tail, s.open}, head, result);
  }
  if (!joins && more) collect(rest, list.series ? found.head : head, result);
}

FoundStage StageGraphDp::found_stage(const State& s, const Solved& found, Successor next) {
  const StageList& list = list_of(s.list);
  const int last = s.first + found.taken;
  const auto choice_number = static_cast<std::size_t>(found.choice);
  const StageChoice& choice = lists_.choices[choice_number];
  const int stage = lists_.stage_of(list, s.first, last);
  slowest_ = std::max(slowest_, lists_.stages[stage].seconds[choice_number]);
  std::vector<int> vertices;  // the possible stage's are those of another part of equal signature
  for (int e = s.first; e < last; ++e) {
    const auto& own = list.elements[e].vertices;
    vertices.insert(vertices.end(), own.begin(), own.end());
  }
  return {std::move(vertices), choice.degree, space_.configs[choice.config], in_flight(choice.config, next)};
}

}  // namespace sluice
