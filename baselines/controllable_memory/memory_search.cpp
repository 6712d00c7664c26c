#include "baselines/controllable_memory/memory_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "baselines/controllable_memory/v_order.h"
#include "harness/base/error.h"
#include "harness/base/index.h"

namespace sluice {

namespace {

constexpr int kImproved = 48;    // of the rated blocks, how many are improved
constexpr int kGapPasses = 4;    // times that the gaps of an order are filled, at most
constexpr int kTurnsTried = 8;   // of a two-part block, how many lengths of its first part
constexpr int kLongestStep = 5;  // slots from rank to rank going down
constexpr int kLongestGap = 6;   // slots between two passes where a micro-batch turns

using Orders = std::vector<std::vector<Op>>;  // of each rank

// Plays an order with the problem's times.
class Play {
 public:
  explicit Play(const ScheduleProblem& problem)
      : p_(problem.ranks), stages_(problem.stages()), m_(problem.microbatches), latency_(problem.latency.value) {
    for (int s = 0; s < stages_; ++s) {
      if (problem.costs.empty()) {
        seconds_.push_back({1, 1, 1});
        continue;
      }
      const StageCost& cost = problem.costs[s];
      seconds_.push_back({cost.forward.value, cost.input_gradient.value, cost.weight_gradient.value});
    }
  }

  double seconds(const Op& op) const { return seconds_[op.stage.value][kind_of(op)]; }

  // When the inputs of an op are there, infinite if they never came in the order played last.
  double inputs_there(const Op& op) const {
    const int s = op.stage.value, i = op.micro.value;
    switch (op.kind) {
      case OpKind::forward:
        return s == 0 ? 0 : handed_on(s - 1, 0, s, i);
      case OpKind::weight_gradient:
        return end_[at(s, 1, i)];
      default:
        return s == stages_ - 1 ? end_[at(s, 0, i)] : std::max(end_[at(s, 0, i)], handed_on(s + 1, 1, s, i));
    }
  }

  // The longest span of a rank from its first op to the end of its last; infinite if ranks wait for one another.
  double span(const Orders& orders) {
    end_.assign(std::size_t{3} * stages_ * static_cast<std::size_t>(m_), std::numeric_limits<double>::infinity());
    std::vector<std::size_t> next(p_, 0);
    std::vector<double> clock(p_, 0), first(p_, 0);
    starts.assign(p_, {});
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < p_; ++r)
        for (; next[r] < orders[r].size(); ++next[r], moved = true) {
          const Op& op = orders[r][next[r]];
          const double ready = inputs_there(op);
          if (ready == std::numeric_limits<double>::infinity()) break;
          const double start = std::max(clock[r], ready);
          if (next[r] == 0) first[r] = start;
          starts[r].push_back(start);
          clock[r] = end_[at(op.stage.value, kind_of(op), op.micro.value)] = start + seconds(op);
        }
    }
    double longest = 0;
    for (int r = 0; r < p_; ++r) {
      if (next[r] < orders[r].size()) return std::numeric_limits<double>::infinity();
      longest = std::max(longest, clock[r] - first[r]);
    }
    return longest;
  }

  std::vector<std::vector<double>> starts;  // of the order played last, per rank

 private:
  static int kind_of(const Op& op) {
    return op.kind == OpKind::forward ? 0 : op.kind == OpKind::input_gradient ? 1 : 2;
  }
  std::size_t at(int stage, int kind, int micro) const {
    return (static_cast<std::size_t>(stage) * 3 + kind) * m_ + micro;
  }
  int rank_of(int stage) const { return std::min(stage, 2 * p_ - 1 - stage); }
  double handed_on(int from, int kind, int to, int micro) const {
    return end_[at(from, kind, micro)] + (rank_of(from) == rank_of(to) ? 0 : latency_);
  }

  int p_, stages_, m_;
  double latency_;
  std::vector<std::array<double, 3>> seconds_;  // F, I, W
  std::vector<double> end_;
};

// What an op adds to the activations held: one at the begin of an F, minus one at the end of a W.
int added(const Op& op) { return op.kind == OpKind::forward ? 1 : op.kind == OpKind::weight_gradient ? -1 : 0; }

// Whether the op at `from` of a rank's order may come before the op at `to`, within `most` activations. (An op before
// which activations are let go may come as early as it likes.)
bool fits_in_memory(const std::vector<Op>& ops, const std::vector<int>& held, std::size_t from, std::size_t to,
                    int most) {
  if (added(ops[from]) <= 0) return true;
  for (std::size_t k = to; k < from; ++k)
    if (held[k] + 1 > most) return false;
  return to == 0 || held[to - 1] + 1 <= most;
}

// What a rank holds after each op from `from` to `to`, which may have changed places.
void update_held(std::vector<int>& held, const std::vector<Op>& ops, std::size_t from, std::size_t to) {
  for (std::size_t k = from; k <= to; ++k) held[k] = (k == 0 ? 0 : held[k - 1]) + added(ops[k]);
}

// Moves into a rank's first idle time the first later op of some stage and kind that fits into it whole; whether it
// did. With the times of the order as it was played last.
bool fill_gaps(std::vector<Op>& ops, std::vector<double> starts, const Play& play, int stages, int most) {
  if (ops.empty()) return false;
  bool moved = false;
  const auto name_of = [](const Op& op) { return 4 * op.stage.index() + static_cast<std::size_t>(op.kind); };
  std::vector<int> held(ops.size()), left(4 * static_cast<std::size_t>(stages), 0);  // ops of a name from place k on
  update_held(held, ops, 0, ops.size() - 1);
  int names = 0;  // that have ops left
  for (std::size_t k = 1; k < ops.size(); ++k) names += left[name_of(ops[k])]++ == 0;
  std::vector<char> seen(left.size());
  for (std::size_t k = 1; k < ops.size(); names -= --left[name_of(ops[k])] == 0, ++k) {
    const double gap = starts[k - 1] + play.seconds(ops[k - 1]);
    if (starts[k] <= gap) continue;
    std::ranges::fill(seen, false);
    for (std::size_t later = k, new_names = 0; std::cmp_less(new_names, names); ++later) {
      const std::size_t name = name_of(ops[later]);
      if (seen[name]) continue;
      seen[name] = true;
      ++new_names;
      if (later == k) continue;
      const double start = std::max(gap, play.inputs_there(ops[later]));
      if (start + play.seconds(ops[later]) > starts[k] || !fits_in_memory(ops, held, later, k, most)) continue;
      std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(k), ops.begin() + static_cast<std::ptrdiff_t>(later),
                  ops.begin() + static_cast<std::ptrdiff_t>(later) + 1);
      std::rotate(starts.begin() + static_cast<std::ptrdiff_t>(k), starts.begin() + static_cast<std::ptrdiff_t>(later),
                  starts.begin() + static_cast<std::ptrdiff_t>(later) + 1);
      starts[k] = start;
      update_held(held, ops, k, later);
      moved = true;
      break;
    }
  }
  return moved;
}

struct Rated {
  BuildingBlock block;
  double span;
};

// All blocks within the limit, with the span of a few of their repetitions.
std::vector<Rated> rated_blocks(const ScheduleProblem& problem, int activations) {
  const int p = problem.ranks;
  ScheduleProblem few = problem;
  few.microbatches = std::min(problem.microbatches, 2 * p);
  Play play(few);
  std::vector<Rated> rated;
  const auto rate = [&](BuildingBlock block) {
    if (block.empty()) return;
    const VOrder order(block, few.microbatches);
    if (order.peak() > activations) return;
    const double span = play.span(order.ops());
    rated.push_back({std::move(block), span});
  };
  rate(v_min_block(p));
  rate(v_half_block(p));
  rate(v_zb_block(p));
  const int stride = std::max(1, (p - 1) / kTurnsTried);
  for (int first = 1; first <= kLongestStep; ++first)
    for (int second = 1; second <= first; ++second)
      for (int changes = first == second ? p - 1 : 1; changes <= p - 1; changes += stride)
        for (int a = 1; a <= kLongestGap; ++a)
          for (int b = 1; b <= kLongestGap; ++b)
            for (int c = 1; c <= kLongestGap; ++c) rate(two_part_block(p, first, second, changes, {a, b, c}));
  std::stable_sort(rated.begin(), rated.end(), [](const Rated& a, const Rated& b) { return a.span < b.span; });
  return rated;
}

}  // namespace

int fewest_activations(int ranks, int microbatches) { return VOrder(v_min_block(ranks), microbatches).peak(); }

std::vector<std::vector<Op>> shortest_v_order(const ScheduleProblem& problem, int activations) {
  std::vector<Rated> rated = rated_blocks(problem, activations);
  if (rated.empty())
    throw InputError("controllable_memory",
                     "memory=" + std::to_string(activations) + " activations of one stage on a rank",
                     "give at least " + std::to_string(fewest_activations(problem.ranks, problem.microbatches)) +
                         ", which V-Min holds");
  if (count_of(rated) > kImproved) rated.resize(kImproved);
  Play play(problem);
  Orders best;
  double shortest = std::numeric_limits<double>::infinity();
  for (const Rated& candidate : rated)
    for (const std::optional<int> most : {std::optional<int>(), std::optional<int>(activations)}) {
      VOrder order(candidate.block, problem.microbatches);
      order.improve(most);
      Orders orders = order.ops();
      for (int pass = 0; pass <= kGapPasses; ++pass) {
        const double span = play.span(orders);
        // Ops that take no time may have been moved around each other.
        if (span == std::numeric_limits<double>::infinity()) break;
        if (span < shortest) shortest = span, best = orders;
        bool moved = false;
        for (int r = 0; r < problem.ranks; ++r)
          moved |= fill_gaps(orders[r], play.starts[r], play, problem.stages(), activations);
        if (!moved) break;
      }
    }
  return best;
}

}  // namespace sluice
