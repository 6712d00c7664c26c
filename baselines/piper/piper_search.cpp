// The whole of Piper's dynamic program, bounds included, in one file to be read beside the paper;
// long for that.
#include "baselines/piper/piper_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "baselines/piper/knapsack.h"
#include "baselines/piper/piper_model.h"
#include "harness/base/error.h"
#include "harness/plan/down_sets.h"
#include "harness/plan/search.h"

namespace sluice {

namespace {

constexpr double kAnyTime = std::numeric_limits<double>::max();  // but not never
// The authors' program takes times that differ by less for equal, in the units of its input.
constexpr double kEqual = 1e-9;

// A data degree and a mode, with what every down-set sums up to if each unit runs in its
// fastest variant and no edge is cut.
struct Degrees {
  std::size_t mode = 0;  // index into PiperModel::modes
  int data = 1;
  int devices = 1;
  std::vector<int> fastest;                  // per unit
  std::vector<std::vector<double>> seconds;  // [unit][choice]
  struct Sum {
    double seconds = 0, in_flight = 0, always = 0;
  };
  std::vector<Sum> sums;  // per down-set
};

// How a down-set can be planned within the time asked about: undominated pairs only.
struct Point {
  int devices = 0, degree_sum = 0;
  int rest = -1, rest_point = -1;  // the down-set without the first stage, and its point
  int degrees = -1;                // of the first stage
};

class PiperSearch {
 public:
  PiperSearch(const CostGraph& costs, const PiperOptions& options)
      : options_(options), model_(piper_model(costs, options)), deadline_(options.limits.seconds) {
    sets_ = down_sets(model_.graph.successors, options.limits.sets);
    if (!sets_.complete) {  // too many: cut the units in their order, as a chain
      complete_ = false;
      as_chain_ = true;
      std::vector<std::vector<int>> chain(model_.graph.units.size());
      for (std::size_t u = 0; u + 1 < chain.size(); ++u) chain[u] = {static_cast<int>(u) + 1};
      sets_ = down_sets(chain, static_cast<std::int64_t>(chain.size()) + 1);
    }
    most_sum_ = std::min(options.microbatches, options.devices);
    front_.resize(sets_.count());
    prepare_degrees();
    prepare_sets();
  }

  bool as_chain() const { return as_chain_; }

  PiperResult run() {
    PiperResult result;
    result.down_sets = static_cast<std::int64_t>(sets_.count());
    if (const auto best = least(sets_.full, options_.devices, most_sum_, kNever, true)) {
      result.stages = best->stages;
      result.seconds = best->seconds;
      // Stages that do not decide get their own best too, as the authors' program gives them.
      constexpr std::size_t most_sets = 3'000;  // down-sets for which that is cheap
      if (sets_.count() <= most_sets && !out_of_time_)
        if (auto polished = polish(*best)) result.stages = *polished;
    }
    result.states = states_;
    result.complete = complete_ && !out_of_time_;
    return result;
  }

 private:
  struct Found {
    double seconds = 0;
    std::vector<PiperStage> stages;
  };

  void prepare_degrees() {
    first_degrees_.push_back(0);
    for (std::size_t t = 0; t < model_.modes.size(); ++t) {
      const int most = options_.devices / model_.modes[t].tensor;
      for (int d = 1; d <= std::min(most, most_sum_); ++d) {
        if (options_.microbatches % d != 0 || (d > 1 && !options_.data_parallel)) continue;
        Degrees degrees{.mode = t, .data = d, .devices = d * model_.modes[t].tensor};
        for (const auto& choices : model_.choices[t]) {
          auto& seconds = degrees.seconds.emplace_back();
          for (const PiperChoice& c : choices)
            seconds.push_back(c.seconds / d +
                              4.0 * (d - 1) * c.parameters / d / options_.microbatches / options_.bandwidth);
          degrees.fastest.push_back(static_cast<int>(std::ranges::min_element(seconds) - seconds.begin()));
        }
        degrees_.push_back(std::move(degrees));
      }
      first_degrees_.push_back(degrees_.size());
    }
  }

  void prepare_sets() {
    const std::size_t n = model_.graph.units.size();
    border_.resize(sets_.count());
    missing_.assign(model_.modes.size(), std::vector<int>(sets_.count()));
    work_.assign(sets_.count(), 0);
    least_memory_.assign(model_.modes.size(),
                         std::vector<std::vector<double>>(static_cast<std::size_t>(most_sum_) + 1));
    for (Degrees& d : degrees_) d.sums.resize(sets_.count());
    std::vector<double> least_work(n, kNever);  // device-seconds
    for (std::size_t u = 0; u < n; ++u)
      for (std::size_t t = 0; t < model_.modes.size(); ++t)
        for (const PiperChoice& c : model_.choices[t][u])
          least_work[u] = std::min(least_work[u], c.seconds * model_.modes[t].tensor);
    for (std::size_t s = 0; s < sets_.count(); ++s) {
      const int set = static_cast<int>(s);
      for (std::size_t u = 0; u < n; ++u) {
        if (!sets_.contains(set, static_cast<int>(u))) continue;
        if (least_work[u] < kNever) work_[s] += least_work[u];
        for (std::size_t t = 0; t < model_.modes.size(); ++t) missing_[t][s] += model_.choices[t][u].empty();
        for (Degrees& d : degrees_) {
          if (d.seconds[u].empty()) continue;
          const auto l = static_cast<std::size_t>(d.fastest[u]);
          const PiperChoice& c = model_.choices[d.mode][u][l];
          d.sums[s].seconds += d.seconds[u][l];
          d.sums[s].in_flight += c.in_flight;
          d.sums[s].always += c.always;
        }
      }
      for (std::size_t e = 0; e < model_.graph.edges.size(); ++e)
        if (!sets_.contains(set, model_.graph.edges[e].from) && sets_.contains(set, model_.graph.edges[e].to))
          border_[s].push_back(static_cast<int>(e));
    }
  }

  // Units of the stage `set` without `rest` with cut edges, and the bytes of each of their choices.
  struct CutUnit {
    int unit = 0;
    std::vector<double> bytes;  // per choice
  };

  void find_cuts(int set, int rest, std::size_t mode) {
    for (CutUnit& cut : cuts_) spare_.push_back(std::move(cut.bytes));  // keep their memory
    cuts_.clear();
    const auto add = [&](int unit, int edge, bool in) {
      const auto u = static_cast<std::size_t>(unit);
      const auto& choices = model_.choices[mode][u];
      auto found = std::ranges::find(cuts_, unit, &CutUnit::unit);
      if (found == cuts_.end()) {
        cuts_.push_back({unit, {}});
        found = cuts_.end() - 1;
        if (!spare_.empty()) {
          found->bytes = std::move(spare_.back());
          spare_.pop_back();
        }
        found->bytes.assign(choices.size(), 0.0);
      }
      const auto& edges = in ? model_.in_edges[u] : model_.out_edges[u];
      const auto place = static_cast<std::size_t>(std::ranges::find(edges, edge) - edges.begin());
      for (std::size_t l = 0; l < choices.size(); ++l)
        found->bytes[l] += 2 * (model_.graph.edges[static_cast<std::size_t>(edge)].bytes +
                                (in ? choices[l].in_sync : choices[l].out_sync)[place]);
    };
    std::vector<int> incoming;
    for (const int e : border_[static_cast<std::size_t>(set)]) {
      const int to = model_.graph.edges[static_cast<std::size_t>(e)].to;
      if (sets_.contains(rest, to)) continue;
      add(to, e, true);
      if (model_.modes[mode].recompute) incoming.push_back(e);
    }
    received_ = received_bytes(model_, incoming);
    for (const int e : border_[static_cast<std::size_t>(rest)]) {
      const int from = model_.graph.edges[static_cast<std::size_t>(e)].from;
      if (sets_.contains(set, from)) add(from, e, false);
    }
  }

  // TPS of that stage with y micro-batches in flight; more than `limit` if it cannot be within it,
  // infinity if it does not fit. find_cuts() has been called for it.
  double stage_seconds(int set, int rest, std::size_t number, int y, double limit) {
    const Degrees& d = degrees_[number];
    const Degrees::Sum& all = d.sums[static_cast<std::size_t>(set)];
    const Degrees::Sum& less = d.sums[static_cast<std::size_t>(rest)];
    double seconds = all.seconds - less.seconds, in_flight = all.in_flight - less.in_flight;
    double always = all.always - less.always;
    for (const CutUnit& cut : cuts_) {
      const auto u = static_cast<std::size_t>(cut.unit);
      const auto fastest = static_cast<std::size_t>(d.fastest[u]);
      std::size_t best = 0;
      double best_seconds = kNever;
      for (std::size_t l = 0; l < cut.bytes.size(); ++l) {
        const double s = d.seconds[u][l] + cut.bytes[l] / d.data / options_.bandwidth;
        if (s < best_seconds) best_seconds = s, best = l;
      }
      seconds += best_seconds - d.seconds[u][fastest];
      const auto& choices = model_.choices[d.mode][u];
      in_flight += choices[best].in_flight - choices[fastest].in_flight;
      always += choices[best].always - choices[fastest].always;
    }
    ++states_;
    const double memory = options_.memory - received_ * y;
    if (in_flight * y + always <= memory || seconds > limit) return seconds;
    const std::vector<double>& least = least_memory(d.mode, y);
    if (least[static_cast<std::size_t>(set)] - least[static_cast<std::size_t>(rest)] > memory * (1 + 1e-12))
      return kNever;
    const std::uint64_t key =
        ((static_cast<std::uint64_t>(set) * sets_.count() + static_cast<std::uint64_t>(rest)) * degrees_.size() +
         number) *
            (static_cast<std::uint64_t>(most_sum_) + 1) +
        static_cast<std::uint64_t>(y);
    const auto known = solved_.find(key);
    if (known != solved_.end()) return known->second;
    const auto solution = choose(set, rest, number, y);
    return solved_[key] = solution ? solution->seconds : kNever;
  }

  // Per set: bytes with y micro-batches in flight if every unit runs in its smallest variant.
  const std::vector<double>& least_memory(std::size_t mode, int y) {
    std::vector<double>& least = least_memory_[mode][static_cast<std::size_t>(y)];
    if (!least.empty()) return least;
    least.resize(sets_.count());
    std::vector<double> of_unit;
    for (const auto& choices : model_.choices[mode]) {
      double bytes = choices.empty() ? 0 : kNever;  // such a unit is refused elsewhere
      for (const PiperChoice& c : choices) bytes = std::min(bytes, c.in_flight * y + c.always);
      of_unit.push_back(bytes);
    }
    for (const int set : sets_.by_size)
      for (int u = 0; u < static_cast<int>(of_unit.size()); ++u)
        if (sets_.contains(set, u)) least[static_cast<std::size_t>(set)] += of_unit[static_cast<std::size_t>(u)];
    return least;
  }

  std::vector<int> units_between(int set, int rest) const {
    std::vector<int> units;
    for (int u = 0; u < static_cast<int>(model_.graph.units.size()); ++u)
      if (sets_.contains(set, u) && !sets_.contains(rest, u)) units.push_back(u);
    return units;
  }

  std::optional<KnapsackResult> choose(int set, int rest, std::size_t number, int y) {
    const Degrees& d = degrees_[number];
    std::vector<std::vector<KnapsackChoice>> items;
    for (const int unit : units_between(set, rest)) {
      const auto u = static_cast<std::size_t>(unit);
      const auto cut = std::ranges::find(cuts_, unit, &CutUnit::unit);
      auto& item = items.emplace_back();
      for (std::size_t l = 0; l < d.seconds[u].size(); ++l) {
        const PiperChoice& c = model_.choices[d.mode][u][l];
        const double bytes = cut == cuts_.end() ? 0 : cut->bytes[l];
        item.push_back({d.seconds[u][l] + bytes / d.data / options_.bandwidth, c.in_flight * y + c.always});
      }
    }
    const double memory = options_.memory - received_ * y;
    if (!options_.exact_knapsack) return greedy_knapsack(items, memory);
    auto result = exact_knapsack(items, memory);
    if (result && !result->complete) complete_ = false;
    return result;
  }

  // Can the last of `within` be planned on `devices` within `limit`? Fills front_ for all of them.
  bool feasible(const std::vector<int>& within, int devices, int degree_sum, double limit) {
    const bool one_tensor = model_.modes.back().tensor == 1;  // then a plan's devices are its degree sum
    const double per_second = 1 / limit * (1 - 1e-9);
    // By place in `within`, side by side: most pairs are refused by these numbers alone.
    std::vector<double> work(within.size()), fewest(within.size(), kNever);
    for (std::size_t i = 0; i < within.size(); ++i) {
      work[i] = work_[static_cast<std::size_t>(within[i])];
      front_[static_cast<std::size_t>(within[i])].clear();
    }
    front_[0].push_back({});
    fewest[0] = 0;
    for (std::size_t i = 1; i < within.size(); ++i) {
      const int set = within[i];
      auto& front = front_[static_cast<std::size_t>(set)];
      double most = one_tensor ? std::min(devices, degree_sum) : devices;
      for (std::size_t j = 0; j < i; ++j) {
        const double needs = (work[i] - work[j]) * per_second;  // devices of the stage, at least
        if (fewest[j] + needs > most) continue;
        const int rest = within[j];
        const auto& rest_front = front_[static_cast<std::size_t>(rest)];
        const int stage_devices = std::max(1, static_cast<int>(std::ceil(needs)));
        const int least_sum = rest_front.back().degree_sum + (one_tensor ? stage_devices : 1);
        if (dominated(front, rest_front.front().devices + stage_devices, least_sum) || !sets_.within(rest, set))
          continue;
        extend(set, rest, devices, degree_sum, limit);
        if (one_tensor && !front.empty()) most = front.front().devices - 1;
      }
      if (!front.empty()) fewest[i] = front.front().devices;
      if (has_plan_ && i % 256 == 0 && deadline_.passed()) {
        out_of_time_ = true;
        return false;
      }
    }
    return !front_[static_cast<std::size_t>(within.back())].empty();
  }

  static bool dominated(const std::vector<Point>& front, int devices, int degree_sum) {
    return std::ranges::any_of(front,
                               [&](const Point& p) { return p.devices <= devices && p.degree_sum <= degree_sum; });
  }

  // Adds to the front of `set` what a first stage before `rest` gives.
  void extend(int set, int rest, int devices, int degree_sum, double limit) {
    auto& front = front_[static_cast<std::size_t>(set)];
    const auto& rest_front = front_[static_cast<std::size_t>(rest)];
    for (std::size_t t = 0; t < model_.modes.size(); ++t) {
      if (missing_[t][static_cast<std::size_t>(set)] > missing_[t][static_cast<std::size_t>(rest)]) continue;
      bool cuts_known = false;
      for (std::size_t p = 0; p < rest_front.size(); ++p) {
        // The smallest degree that is fast enough dominates all larger ones.
        for (std::size_t n = first_degrees_[t]; n < first_degrees_[t + 1]; ++n) {
          const Degrees& d = degrees_[n];
          const Point point{rest_front[p].devices + d.devices, rest_front[p].degree_sum + d.data, rest,
                            static_cast<int>(p), static_cast<int>(n)};
          if (point.devices > devices || point.degree_sum > degree_sum ||
              dominated(front, point.devices, point.degree_sum))
            break;
          if ((d.sums[static_cast<std::size_t>(set)].seconds - d.sums[static_cast<std::size_t>(rest)].seconds) *
                  (1 - 1e-12) >
              limit)
            continue;
          if (!cuts_known) find_cuts(set, rest, t), cuts_known = true;
          const int y = (point.degree_sum + d.data - 1) / d.data;
          if (stage_seconds(set, rest, n, y, limit) > limit) continue;
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
      if (sets_.size[static_cast<std::size_t>(set)] <= sets_.size[static_cast<std::size_t>(target)] &&
          sets_.within(set, target))
        within.push_back(set);
    return within;
  }

  // The least time in which `target` can be planned, known to be at most `known`.
  std::optional<Found> least(int target, int devices, int degree_sum, double known, bool plan_too) {
    const std::vector<int> within = sets_of(target);
    const double floor = work_[static_cast<std::size_t>(target)] / devices;
    std::optional<Found> best;
    const auto attempt = [&](double limit) {
      // The first attempt is made whatever the time: there must be a plan to fall back on.
      out_of_time_ = out_of_time_ || (has_plan_ && deadline_.passed());
      if (out_of_time_ || !feasible(within, devices, degree_sum, limit)) return false;
      best = read(target, plan_too);
      has_plan_ = true;
      return true;
    };
    double low = floor;
    if (!std::isfinite(known)) {
      if (!attempt(kAnyTime)) return best;  // nothing fits
      for (double factor : {1.03, 1.15, 1.5, 2.0, 4.0}) {
        if (floor * factor >= best->seconds || attempt(floor * factor)) break;
        low = floor * factor;
      }
    } else if (!attempt(known)) {
      return best;
    }
    while (!out_of_time_ && best->seconds - low > 1e-11 * best->seconds && best->seconds > 0) {
      if (attempt((low + best->seconds) / 2)) {
        // Once the best is found nothing better is: ask at once.
        const double just_below = best->seconds * (1 - 1e-11);
        if (!attempt(just_below)) low = just_below;
      } else {
        low = (low + best->seconds) / 2;
      }
    }
    return best;
  }

  // The plan in the fronts: the fewest devices.
  Found read(int target, bool plan_too) {
    Found found;
    const Point* point = &front_[static_cast<std::size_t>(target)].front();
    for (int set = target; set != 0;) {
      PiperStage stage =
          make_stage(set, point->rest, static_cast<std::size_t>(point->degrees), point->degree_sum, plan_too);
      found.seconds = std::max(found.seconds, stage.seconds);
      if (plan_too) found.stages.push_back(std::move(stage));
      set = point->rest;
      point = &front_[static_cast<std::size_t>(set)][static_cast<std::size_t>(point->rest_point)];
    }
    return found;
  }

  PiperStage make_stage(int set, int rest, std::size_t number, int degree_sum, bool with_layers) {
    const Degrees& d = degrees_[number];
    const int y = (degree_sum + d.data - 1) / d.data;
    find_cuts(set, rest, d.mode);
    PiperStage stage{.data = d.data,
                     .tensor = model_.modes[d.mode].tensor,
                     .recompute = model_.modes[d.mode].recompute,
                     .seconds = stage_seconds(set, rest, number, y, kNever)};
    if (!with_layers) return stage;
    const auto chosen = choose(set, rest, number, y);
    const std::vector<int> units = units_between(set, rest);
    for (std::size_t i = 0; i < units.size(); ++i) {
      const auto u = static_cast<std::size_t>(units[i]);
      for (const int layer : model_.graph.units[u].layers) {
        stage.layers.push_back(layer);
        stage.variants.push_back(model_.choices[d.mode][u][static_cast<std::size_t>(chosen->chosen[i])].variant);
      }
    }
    return stage;
  }

  // The authors' reading of their table: with the fewest devices and the least degree sum that
  // reach the optimum, the first stage (in the order of their walk) after which the rest can keep
  // to its own optimum; and so on with the rest. Nothing if the time runs out.
  std::optional<std::vector<PiperStage>> polish(const Found& best) {
    std::vector<PiperStage> stages;
    int set = sets_.full;
    double seconds = best.seconds;
    if (!feasible(sets_of(set), options_.devices, most_sum_, seconds + kEqual)) return {};
    int devices = front_[static_cast<std::size_t>(set)].front().devices;
    int sum = front_[static_cast<std::size_t>(set)].front().degree_sum;
    while (set != 0) {
      const double limit = seconds + kEqual;
      if (!feasible(sets_of(set), devices, sum, limit)) return {};
      const auto next = next_stage(set, devices, sum, limit);
      if (!next) return {};
      stages.push_back(make_stage(set, next->rest, static_cast<std::size_t>(next->degrees), sum, true));
      const Degrees& d = degrees_[static_cast<std::size_t>(next->degrees)];
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
      for (std::size_t t = 0; t < model_.modes.size(); ++t) {
        if (missing_[t][static_cast<std::size_t>(set)] > missing_[t][static_cast<std::size_t>(rest)]) continue;
        find_cuts(set, rest, t);
        for (std::size_t n = first_degrees_[t]; n < first_degrees_[t + 1]; ++n) {
          const Degrees& d = degrees_[n];
          if (d.devices > devices || d.data > sum) break;
          if (!dominated(front_[static_cast<std::size_t>(rest)], devices - d.devices, sum - d.data)) continue;
          if (stage_seconds(set, rest, n, (sum + d.data - 1) / d.data, limit) <= limit)
            return Point{.rest = rest, .degrees = static_cast<int>(n)};
        }
      }
    return {};
  }

  const PiperOptions& options_;
  PiperModel model_;
  Deadline deadline_;
  DownSets sets_;
  int most_sum_ = 1;
  std::vector<Degrees> degrees_;                                // by mode, then data degree
  std::vector<std::size_t> first_degrees_;                      // of each mode, and the end
  std::vector<std::vector<int>> border_;                        // per set: edges into it
  std::vector<std::vector<int>> missing_;                       // [mode][set]: units without a choice
  std::vector<double> work_;                                    // per set: device-seconds at least
  std::vector<std::vector<Point>> front_;                       // per set; fewest devices first
  std::vector<std::vector<std::vector<double>>> least_memory_;  // [mode][y][set], once asked for
  std::vector<std::vector<double>> spare_;                      // of former cuts
  std::vector<CutUnit> cuts_;                                   // of the stage looked at
  double received_ = 0;                               // and what it keeps of every micro-batch, where it recomputes
  std::unordered_map<std::uint64_t, double> solved_;  // stages that do not fit at their fastest
  std::int64_t states_ = 0;
  bool complete_ = true;
  bool has_plan_ = false, out_of_time_ = false;
  bool as_chain_ = false;  // there were too many down-sets
};

}  // namespace

PiperResult piper_search(const CostGraph& costs, const PiperOptions& options) {
  if (options.devices < 1 || options.microbatches < 1)
    throw InputError("piper", "no devices or no micro-batches", "give at least one of each");
  if (!(options.bandwidth > 0)) throw InputError("piper", "the bandwidth is not positive");
  // Of many down-sets, the first plan may be all that the time allows: everything on few devices. A
  // fifth of the time is kept for the units in their order, which take little of it.
  PiperOptions most = options, rest = options;
  most.limits.seconds *= 0.8;
  rest.limits.seconds *= 0.2;
  rest.limits.sets = 0;
  PiperSearch search(costs, most);
  PiperResult result = search.run();
  if (result.complete || search.as_chain()) return result;
  PiperResult chain = PiperSearch(costs, rest).run();
  chain.down_sets = result.down_sets;
  chain.states += result.states;
  chain.complete = false;
  const bool better = result.stages.empty() || chain.seconds < result.seconds;
  if (!chain.stages.empty() && better) return chain;
  result.states = chain.states;
  return result;
}

}  // namespace sluice
