#include "baselines/piper/piper_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "baselines/piper/piper_model.h"
#include "baselines/piper/piper_stage_costs.h"
#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/plan/down_sets.h"

namespace sluice {

namespace {

constexpr double kAnyTime = std::numeric_limits<double>::max();  // but not never
// The authors' program takes times that differ by less for equal, in the units of its input.
constexpr double kEqual = 1e-9;
// So many down-sets are searched in a moment; of more, even the first plan takes long.
constexpr std::size_t kFewSets = 3'000;

using Degrees = PiperStageCosts::Degrees;

// How a down-set I can be planned within the time asked about, in k devices and with degree sum s: undominated pairs
// only. The stages after the first are those of J, planned as one of its own points.
struct Point {
  int devices = 0, degree_sum = 0;
  int rest = -1, rest_point = -1;  // J, and its point
  int degrees = -1;                // of the first stage
};

DownSets chain_of(std::size_t groups) {
  std::vector<std::vector<int>> successors(groups);
  for (std::size_t g = 0; g + 1 < groups; ++g) successors[g] = {static_cast<int>(g) + 1};
  return down_sets(successors, static_cast<std::int64_t>(groups) + 1);
}

class PiperSearch {
 public:
  PiperSearch(const PiperModel& model, const DownSets& sets, const PiperOptions& options)
      : options_(options),
        sets_(sets),
        modes_(model.modes.size()),
        one_tensor_(model.modes.back().tensor == 1),
        max_sum_(std::min(options.microbatches, options.devices)),
        deadline_(options.limits.seconds),
        costs_(model, sets, options, max_sum_),
        front_(sets.count()) {}

  // `known`: the seconds of a plan that there is already; kNever if there is none.
  PiperResult run(double known) {
    PiperResult result;
    result.down_sets = static_cast<std::int64_t>(sets_.count());
    has_plan_ = known < kNever;
    if (const auto best = least(sets_.full, options_.devices, max_sum_, known, true)) {
      result.stages = best->stages;
      result.seconds = best->seconds;
      // Stages that do not decide get their own best too, as the authors' program gives them.
      if (sets_.count() <= kFewSets && !out_of_time_)
        if (auto polished = polish(*best)) result.stages = *polished;
    }
    result.states = costs_.evaluated();
    result.complete = costs_.complete() && !out_of_time_;
    return result;
  }

 private:
  struct Found {
    double seconds = 0;
    std::vector<PiperStage> stages;
  };

  // Can the last of `within` be planned on `devices` within `limit`? Fills front_ for all of them.
  bool feasible(const std::vector<int>& within, int devices, int degree_sum, double limit) {
    const double per_second = 1 / limit * (1 - 1e-9);
    // By place in `within`, side by side: most pairs are rejected by these numbers alone.
    std::vector<double> work(within.size()), fewest(within.size(), kNever);
    for (std::size_t i = 0; i < within.size(); ++i) {
      work[i] = costs_.min_work(within[i]);
      front_[within[i]].clear();
    }
    front_[0].push_back({});
    fewest[0] = 0;
    for (std::size_t i = 1; i < within.size(); ++i) {
      const int set = within[i];
      auto& front = front_[set];
      double most = one_tensor_ ? std::min(devices, degree_sum) : devices;
      for (std::size_t j = 0; j < i; ++j) {
        check_stop();
        const double needs = (work[i] - work[j]) * per_second;  // devices of the stage, at least
        if (fewest[j] + needs > most) continue;
        const int rest = within[j];
        const auto& rest_front = front_[rest];
        const int stage_devices = std::max(1, static_cast<int>(std::ceil(needs)));
        const int min_sum = rest_front.back().degree_sum + (one_tensor_ ? stage_devices : 1);
        if (dominated(front, rest_front.front().devices + stage_devices, min_sum) || !sets_.within(rest, set)) continue;
        extend(set, rest, devices, degree_sum, limit);
        if (one_tensor_ && !front.empty()) most = front.front().devices - 1;
      }
      if (!front.empty()) fewest[i] = front.front().devices;
      if (has_plan_ && i % 256 == 0 && deadline_.passed()) {
        out_of_time_ = true;
        return false;
      }
    }
    return !front_[within.back()].empty();
  }

  static bool dominated(const std::vector<Point>& front, int devices, int degree_sum) {
    return std::ranges::any_of(front,
                               [&](const Point& p) { return p.devices <= devices && p.degree_sum <= degree_sum; });
  }

  // Adds to the front of `set` what a first stage before `rest` gives.
  void extend(int set, int rest, int devices, int degree_sum, double limit) {
    auto& front = front_[set];
    const auto& rest_front = front_[rest];
    for (std::size_t t = 0; t < modes_; ++t) {
      if (!costs_.can_run(set, rest, t)) continue;
      const auto fast_enough = [&](std::size_t n) {
        return PiperStageCosts::uncut_seconds(costs_.degrees()[n], set, rest) * (1 - 1e-12) <= limit;
      };
      std::size_t first = costs_.first_of(t);
      while (first < costs_.last_of(t) && !fast_enough(first)) ++first;
      for (std::size_t p = 0; p < rest_front.size(); ++p) {
        // The smallest degree that is fast enough dominates all larger ones.
        for (std::size_t n = first; n < costs_.last_of(t); ++n) {
          const Degrees& d = costs_.degrees()[n];
          const Point point{rest_front[p].devices + d.devices, rest_front[p].degree_sum + d.data, rest,
                            static_cast<int>(p), static_cast<int>(n)};
          if (point.devices > devices || point.degree_sum > degree_sum ||
              dominated(front, point.devices, point.degree_sum))
            break;
          if (!fast_enough(n)) continue;
          const int y = (point.degree_sum + d.data - 1) / d.data;
          if (costs_.seconds(set, rest, n, y, limit) > limit) continue;
          std::erase_if(front,
                        [&](const Point& q) { return q.devices >= point.devices && q.degree_sum >= point.degree_sum; });
          front.insert(std::ranges::lower_bound(front, point.devices, {}, &Point::devices), point);
          break;
        }
      }
    }
  }

  std::vector<int> sets_of(int target) const {
    std::vector<int> within;
    for (const int set : sets_.by_size)
      if (sets_.size[set] <= sets_.size[target] && sets_.within(set, target)) within.push_back(set);
    return within;
  }

  // The least time in which `target` can be planned, known to be at most `known`.
  std::optional<Found> least(int target, int devices, int degree_sum, double known, bool plan_too) {
    const std::vector<int> within = sets_of(target);
    const double floor = costs_.min_work(target) / devices;
    std::optional<Found> best;
    const auto attempt = [&](double limit) {
      check_stop();
      // The first attempt is made whatever the time: there must be a plan to fall back on.
      out_of_time_ = out_of_time_ || (has_plan_ && deadline_.passed());
      if (out_of_time_ || !feasible(within, devices, degree_sum, limit)) return false;
      best = read(target, plan_too);
      has_plan_ = true;
      return true;
    };
    const auto seconds = [&] { return best.value().seconds; };  // once an attempt has been made
    double low = floor;
    if (!std::isfinite(known)) {
      if (!attempt(kAnyTime)) return best;  // nothing fits
      for (double factor : {1.03, 1.15, 1.5, 2.0, 4.0}) {
        if (floor * factor >= seconds() || attempt(floor * factor)) break;
        low = floor * factor;
      }
    } else if (!attempt(known)) {
      return best;
    }
    while (!out_of_time_ && seconds() - low > 1e-11 * seconds() && seconds() > 0) {
      if (attempt((low + seconds()) / 2)) {
        // Once the best is found nothing better is: ask at once.
        const double just_below = seconds() * (1 - 1e-11);
        if (!attempt(just_below)) low = just_below;
      } else {
        low = (low + seconds()) / 2;
      }
    }
    return best;
  }

  // The plan in the fronts: the fewest devices.
  Found read(int target, bool plan_too) {
    Found found;
    const Point* point = &front_[target].front();
    for (int set = target; set != 0;) {
      PiperStage stage =
          costs_.stage(set, point->rest, static_cast<std::size_t>(point->degrees), point->degree_sum, plan_too);
      found.seconds = std::max(found.seconds, stage.seconds);
      if (plan_too) found.stages.push_back(std::move(stage));
      set = point->rest;
      point = &front_[set][point->rest_point];
    }
    return found;
  }

  // The authors' reading of their table: with the fewest devices and the least degree sum that
  // reach the optimum, the first stage (in the order of their walk) after which the rest can keep
  // to its own optimum; and so on with the rest. Nothing if the time runs out.
  std::optional<std::vector<PiperStage>> polish(const Found& best) {
    std::vector<PiperStage> stages;
    int set = sets_.full;
    double seconds = best.seconds;
    if (!feasible(sets_of(set), options_.devices, max_sum_, seconds + kEqual)) return {};
    int devices = front_[set].front().devices;
    int sum = front_[set].front().degree_sum;
    while (set != 0) {
      const double limit = seconds + kEqual;
      if (!feasible(sets_of(set), devices, sum, limit)) return {};
      const auto next = next_stage(set, devices, sum, limit);
      if (!next) return {};
      stages.push_back(costs_.stage(set, next->rest, static_cast<std::size_t>(next->degrees), sum, true));
      const Degrees& d = costs_.degrees()[next->degrees];
      set = next->rest;
      devices -= d.devices;
      sum -= d.data;
      if (set == 0) break;
      const auto rest = least(set, devices, sum, limit, false);
      if (!rest || out_of_time_) return {};
      seconds = rest->seconds;
    }
    return stages;
  }

  std::optional<Point> next_stage(int set, int devices, int sum, double limit) {
    for (const int rest : sets_within(sets_, set))
      for (std::size_t t = 0; t < modes_; ++t) {
        if (!costs_.can_run(set, rest, t)) continue;
        for (std::size_t n = costs_.first_of(t); n < costs_.last_of(t); ++n) {
          const Degrees& d = costs_.degrees()[n];
          if (d.devices > devices || d.data > sum) break;
          if (!dominated(front_[rest], devices - d.devices, sum - d.data)) continue;
          if (costs_.seconds(set, rest, n, (sum + d.data - 1) / d.data, limit) <= limit)
            return Point{.rest = rest, .degrees = static_cast<int>(n)};
        }
      }
    return {};
  }

  const PiperOptions& options_;
  const DownSets& sets_;
  std::size_t modes_;
  bool one_tensor_;  // no tensor parallelism: then a plan's devices are its degree sum
  int max_sum_;
  Deadline deadline_;
  PiperStageCosts costs_;
  std::vector<std::vector<Point>> front_;  // per set; fewest devices first
  bool has_plan_ = false, out_of_time_ = false;
};

PiperResult search(const PiperModel& model, const DownSets& sets, const PiperOptions& options, double known = kNever) {
  return PiperSearch(model, sets, options).run(known);
}

}  // namespace

PiperResult piper_search(const CostGraph& costs, const PiperOptions& options) {
  if (options.devices < 1 || options.microbatches < 1)
    throw InputError("piper", "no devices or no micro-batches", "give at least one of each");
  if (!(options.bandwidth > 0)) throw InputError("piper", "the bandwidth is not positive");
  const PiperModel model = piper_model(costs, options);
  const DownSets chain_sets = chain_of(model.graph.groups.size());
  const DownSets sets = down_sets(model.graph.successors, options.limits.sets);
  if (sets.complete && sets.count() <= kFewSets) return search(model, sets, options);
  // Of many down-sets, the groups as a chain in their order first: a plan to fall back on, which takes little of the
  // time, and a bound for the others.
  PiperOptions part = options;
  part.limits.seconds *= sets.complete ? 0.2 : 1;
  PiperResult chain = search(model, chain_sets, part);
  chain.complete = false;
  if (!sets.complete) return chain;
  part.limits.seconds = options.limits.seconds - part.limits.seconds;
  PiperResult result = search(model, sets, part, chain.stages.empty() ? kNever : chain.seconds * (1 + kEqual));
  result.states += chain.states;
  if (!result.stages.empty() || chain.stages.empty()) return result;
  chain.down_sets = result.down_sets;
  chain.states = result.states;
  return chain;
}

}  // namespace sluice
