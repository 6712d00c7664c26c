// GraphPipe's dynamic program (Jeon et al., ASPLOS 2025, section 5, algorithm 1): is there a stage graph whose stages
// all take at most t? In the paper's notation, for a part G of the series-parallel tree, the configuration
// c_s = (b_s, k_s) of the stages at its head, what follows it, c_t = (i_t, b_t, k_t), and d devices:
//
//   DP(G, c_s, c_t, d, t) = the stages of G with the fewest micro-batches i_s in flight at its head, and of those with
//                           the fewest bytes:
//     one stage of G, with data-parallel degree d, if TPS <= t and i_s = ComputeInFlight(c_s, c_t) fits in memory
//     G = G1 ; G2 (series):    DP(G2, c_m, c_t, d2, t) for every c_m, then DP(G1, c_s, (i_m, c_m), d - d2, t)
//     G = G1 || G2 (parallel): DP(G1, c_s, c_t, d1, t) and DP(G2, c_s, c_t, d - d1, t), which holds the more of both
//
// A series is solved from its end, because what a stage must hold follows from what its successors hold (kfkb.h). A
// stage is a run of consecutive elements of a series, or of branches of a parallel part sorted by work, and these are
// not split further. So S(a, P(S(b, c), d), e) can become one stage of all; or a | P | e; or a P | e; or inside of P
// b | c | d, b c | d, b c d; and so on.
//
// The stages at the head of a part share one configuration, as in the paper, except where nothing comes before them.
// Where a part absorbs a join (stage_lists.h), its branches feed the stage that holds the join.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/base/thread_seconds.h"
#include "systems/graphpipe/solved_states.h"
#include "systems/graphpipe/stage_lists.h"

namespace sluice {

// In place of the index of a configuration: at the head of a part that nothing comes before, each stage's own; after a
// part, that nothing follows.
inline constexpr int kAnyConfig = 31;

struct OutOfLimits {};  // thrown where a search has taken the time or the states that it may

class StageGraphDp {
 public:
  // All three must outlive it.
  StageGraphDp(StageLists& lists, const StageSearchSpace& space, const StageSearchLimits& limits);

  // Indices of StageLists::choices that the limits allow.
  const std::vector<std::size_t>& choices() const { return choices_; }
  // Memory aside, are the devices enough for stages of this time?
  bool has_enough_devices(double seconds);
  // Is there a stage graph whose stages take at most this time? Throws OutOfLimits.
  bool solve_within(double seconds);
  // The stages of the last solution, in topological order, and the slowest one's seconds.
  std::vector<FoundStage> stages();
  double slowest() const { return slowest_; }
  std::int64_t states() const { return states_ + static_cast<std::int64_t>(memo_.size()); }  // over all times

 private:
  // c_t: the successors of a part as one, what they hold and the index of their configuration.
  struct Successor {
    int in_flight = 0, config = kAnyConfig;
  };

  // How a part is solved for one c_s: a run of `taken` elements as one stage, or the first element split on `devices`;
  // then the rest of the list, whose head has configuration `head`.
  struct Solved {
    double bytes = 0;
    int in_flight = -1;        // i_s; -1: there is no solution
    std::int16_t taken = 0;    // a number, not a place: parts of equal signature share the solution
    std::int16_t choice = -1;  // of the stage; -1: the element was split
    std::int16_t devices = 0;
    std::int8_t head = kAnyConfig;
    std::int8_t tail = kAnyConfig;  // absorbing: the configuration of the stage with the join
  };

  // A part, all elements of a list from `first` on, and what it is solved for: exactly `devices`; before `next`; the
  // stage at its end of configuration `tail`; open: nothing comes before it, so that its heads may differ.
  struct State {
    int list = 0, first = 0, devices = 0;
    Successor next;
    int tail = kAnyConfig;
    bool open = false;
  };

  // How many devices a part may have.
  struct Range {
    int fewest = 0, most = 0;
    bool holds(int devices) const { return fewest <= devices && devices <= most; }
  };

  // In place of the index of solutions: there are none; there is nothing to solve.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1), kNothing = kNone - 1;

  State whole() const { return {.list = lists_.root, .devices = space_.devices, .open = true}; }
  const StageList& list_of(int list) const { return lists_.lists[list]; }
  int suffix_of(const StageList& list, int first) const { return lists_.costs_of(list).first_suffix + first; }
  // Solutions lie in one array: of every state one for each configuration at its head, then the one for any.
  const Solved& at(std::size_t state, int head) const { return solved_[state + static_cast<std::size_t>(slot_[head])]; }
  int head_of_slot(std::size_t slot) const { return slot < configs_.size() ? configs_[slot] : kAnyConfig; }
  bool too_slow(int stage, int devices) const {
    return lists_.stages[stage].min_work > within_ * std::min(devices, max_degree_) * (1 + 1e-9);
  }
  bool in_time(int stage, std::size_t choice) const { return lists_.stages[stage].seconds[choice] <= within_; }

  int in_flight(int config, Successor next) const;
  double stage_bytes(int stage, const StageChoice& choice, int in_flight);
  void set_time(double seconds);
  int fewest_devices(const StageList& list, int first);
  Range devices(const StageList& list, int first);
  static Range shared(Range part, Range rest, int all);

  std::size_t solve(const State& s);
  void watch_limits();
  void solve_series(const State& s, const StageList& list, std::span<Solved> best);
  void cut_series(const State& s, const StageList& list, std::span<Solved> best);
  void split_in_series(const State& s, const StageList& list, std::span<Solved> best);
  void solve_parallel(const State& s, const StageList& list, std::span<Solved> best);
  void cut_branches(const State& s, const StageList& list, std::span<Solved> best);
  void split_branch(const State& s, const StageList& list, std::span<Solved> best);
  std::size_t solve_other_branches(const State& s, const StageList& list, int from, int used, Successor next);

  void offer(std::span<Solved> best, int head, const Solved& solved) const;
  void offer_stage(std::span<Solved> best, int config, const Solved& stage, bool open) const;
  void offer_split(std::span<Solved> best, std::size_t part, Solved rest) const;
  void offer_beside(std::span<Solved> best, std::size_t others, int head, Solved first) const;
  bool is_worse(std::span<const Solved> best, const State& s, int config, int in_flight) const;

  void collect(const State& s, int head, std::vector<FoundStage>& result);
  FoundStage found_stage(const State& s, const Solved& found, Successor next);

  StageLists& lists_;
  const StageSearchSpace& space_;
  const StageSearchLimits& limits_;
  std::vector<std::size_t> choices_;
  std::vector<int> configs_;         // of these choices: indices into the space's
  int slot_[kAnyConfig + 1] = {};    // of a configuration, among a state's solutions
  std::size_t width_ = 1;            // solutions of a state
  int max_degree_ = 1;               // of the choices
  double within_ = 0, slowest_ = 0;  // t; the slowest stage of the solution
  SolvedStates memo_;
  std::vector<Solved> solved_;
  std::vector<int> fewest_;  // by suffix; 0: not known yet
  std::int64_t states_ = 0, visits_ = 0;
  double begin_ = thread_seconds();
};

}  // namespace sluice
