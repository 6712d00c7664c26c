#include "baselines/autopipe/autopipe_search.h"

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/order_timing.h"

namespace sluice {

namespace {

using Starts = std::vector<int>;

// 1F1B with two micro-batches for every stage.
StageOrders order_of(int stages) {
  StageOrders orders(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s)
    orders::one_forward_one_backward(
        2 * stages, stages - 1 - s, [&](int k) { orders[s].push_back(forward_op(s, k)); },
        [&](int k) { orders[s].push_back(backward_op(s, k)); });
  return orders;
}

// Seconds that a stage waits between its first backward and its last forward.
double waits_in_steady_phase(const OrderTiming& timing, int stage) {
  const auto &begin = timing.begin[stage], &end = timing.end[stage];
  const std::size_t warm_up = timing.end.size() - 1 - static_cast<std::size_t>(stage);
  double waits = 0;
  for (std::size_t k = warm_up + 2; k < begin.size() - warm_up; ++k) waits += begin[k] - end[k - 1];
  return waits;
}

class AutoPipeSearch {
 public:
  AutoPipeSearch(std::span<const BlockSeconds> blocks, std::span<const double> speeds)
      : speeds_(speeds), order_(order_of(count_of(speeds))) {
    for (const BlockSeconds& block : blocks) {
      forward_.push_back(forward_.back() + block.forward);
      backward_.push_back(backward_.back() + block.backward);
    }
  }

  AutoPipeResult run(double seconds) {
    const Deadline deadline(seconds);
    AutoPipeResult result;
    const auto time = [&](Starts starts) {
      ++result.states;
      return timed(std::move(starts));
    };
    result.kept.push_back(time(balanced(count_of(forward_) - 1, stages())));
    std::map<int, AutoPipeCut> best;  // by critical stage
    std::set<Starts> seen{result.kept.front().starts};
    std::deque<AutoPipeCut> next{result.kept.front()};
    const auto add = [&](AutoPipeCut cut) {
      if (seen.insert(cut.starts).second) next.push_back(std::move(cut));
    };
    for (; !next.empty(); next.pop_front()) {
      if (deadline.passed()) {
        result.complete = false;
        break;
      }
      const AutoPipeCut cut = next.front();
      const auto [known, fresh] = best.try_emplace(cut.critical, cut);
      if (!fresh && cut.seconds < known->second.seconds) known->second = cut;
      const int c = cut.critical;
      if (c == 0) continue;
      // first: of the stage behind those that are cut anew.
      const auto recut = [&](int first, int behind) {
        Starts starts = balanced(first, behind);
        starts.insert(starts.end(), cut.starts.begin() + behind + 1, cut.starts.end());
        return starts;
      };
      if (cut.starts[c] + 1 < cut.starts[c + 1]) {
        Starts front = recut(cut.starts[c] + 1, c);
        if (!seen.contains(front)) add(time(std::move(front)));
      }
      if (c + 1 < stages() && cut.starts[c + 1] - 1 > c) {
        Starts back = recut(cut.starts[c + 1] - 1, c + 1);
        if (seen.contains(back)) continue;
        AutoPipeCut moved = time(std::move(back));
        if (moved.critical <= c) add(std::move(moved));
      }
    }
    for (auto& [critical, cut] : best) result.kept.push_back(std::move(cut));
    return result;
  }

  AutoPipeCut timed(Starts starts) const {
    ChainSeconds seconds;
    for (int s = 0; s < stages(); ++s) {
      const auto of = [&](const std::vector<double>& sums) {
        return std::vector<double>(2 * speeds_.size(), (sums[starts[s + 1]] - sums[starts[s]]) / speeds_[s]);
      };
      seconds.forward.push_back(of(forward_));
      seconds.backward.push_back(of(backward_));
    }
    const OrderTiming timing = time_order(order_, seconds);
    const double rounding = 1e-9 * timing.makespan;
    AutoPipeCut cut{std::move(starts), timing.makespan, 0};
    double least = kNever;
    for (int s = 0; s < stages(); ++s) {
      const double waits = waits_in_steady_phase(timing, s);
      if (waits > least + rounding) continue;
      cut.critical = s;
      least = std::min(least, waits);
    }
    return cut;
  }

 private:
  int stages() const { return count_of(speeds_); }

  // The cut of the first blocks into the first stages whose slowest is fastest; in the end the number of those blocks.
  const Starts& balanced(int blocks, int stages) {
    const auto [known, fresh] = balanced_.try_emplace({blocks, stages});
    if (fresh)
      known->second = partition_chain(blocks, stages, [&](int first, int last, int stage) {
        return (forward_[last] + backward_[last] - forward_[first] - backward_[first]) / speeds_[stage];
      });
    return known->second;
  }

  std::vector<double> forward_{0}, backward_{0};  // seconds of all blocks before each
  std::span<const double> speeds_;
  StageOrders order_;
  std::map<std::pair<int, int>, Starts> balanced_;
};

}  // namespace

AutoPipeCut timed_cut(std::span<const BlockSeconds> blocks, std::span<const double> speeds, std::vector<int> starts) {
  return AutoPipeSearch(blocks, speeds).timed(std::move(starts));
}

AutoPipeResult autopipe_search(std::span<const BlockSeconds> blocks, std::span<const double> speeds,
                               const SearchLimits& limits) {
  return AutoPipeSearch(blocks, speeds).run(limits.seconds);
}

}  // namespace sluice
