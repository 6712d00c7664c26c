#include "systems/dynpipe/partition.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"
#include "systems/dynpipe/period.h"

namespace sluice {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Bounds {
  int first, last;
};
Bounds bounds(const DynPipeChain& chain, const Cuts& cuts, int stage) {
  const auto s = static_cast<std::size_t>(stage);
  return {s == 0 ? 0 : cuts[s - 1], s == cuts.size() ? chain.layers() : cuts[s]};
}

double sum_of(const std::vector<double>& values, int first, int last) {
  return std::accumulate(values.begin() + first, values.begin() + last, 0.0);
}

// One way over the link behind stage `stage`, if the cut stands before layer `layer`.
double transfer_seconds(const DynPipeChain& chain, std::size_t stage, int layer) {
  return chain.latency[stage] + chain.bytes[layer] * chain.seconds_per_byte[stage];
}

class Best {
 public:
  Best(const DynPipeChain& chain, const Slowdowns& slowdowns) : chain_(chain), slowdowns_(slowdowns) {
    choice_.cost.objective = choice_.cost.period = kNever;
  }
  // True if these cuts are the best so far.
  bool look_at(const Cuts& cuts) {
    ++choice_.states;
    for (int s = 0; s < chain_.stages(); ++s) {
      const auto [first, last] = bounds(chain_, cuts, s);
      if (first >= last || (chain_.fits && !chain_.fits(first, last, s))) return false;
    }
    DynPipeCost cost = cost_of(chain_, cuts, slowdowns_);
    if (std::tie(cost.objective, cost.period, cuts) >=
        std::tie(choice_.cost.objective, choice_.cost.period, choice_.cuts))
      return false;
    choice_.cuts = cuts;
    choice_.cost = std::move(cost);
    return true;
  }
  DynPipeChoice& choice() { return choice_; }

 private:
  const DynPipeChain& chain_;
  const Slowdowns& slowdowns_;
  DynPipeChoice choice_;
};

// Every ascending choice of `stages` - 1 of the positions.
void all_choices(const std::vector<int>& positions, int cuts, Best& best) {
  if (static_cast<int>(positions.size()) < cuts) return;
  std::vector<std::size_t> at(static_cast<std::size_t>(cuts));
  std::iota(at.begin(), at.end(), std::size_t{0});
  Cuts chosen(at.size());
  for (;;) {
    for (std::size_t k = 0; k < at.size(); ++k) chosen[k] = positions[at[k]];
    best.look_at(chosen);
    std::size_t k = at.size();
    while (k > 0 && at[k - 1] == positions.size() - at.size() + k - 1) --k;
    if (k == 0) return;
    ++at[k - 1];
    for (; k < at.size(); ++k) at[k] = at[k - 1] + 1;
  }
}

// C(n, k), or more than `most`.
std::int64_t choices(std::int64_t n, std::int64_t k, std::int64_t most) {
  std::int64_t result = 1;
  for (std::int64_t i = 1; i <= k; ++i) {
    result = result * (n - k + i) / i;
    if (result > most) return most + 1;
  }
  return result;
}

// Moves single cuts, and neighbouring pairs, while that helps.
void improve(const DynPipeChain& chain, Best& best) {
  for (bool better = true; better;) {
    better = false;
    const Cuts from = best.choice().cuts;
    for (std::size_t k = 0; k < from.size(); ++k)
      for (const int step : {-3, -2, -1, 1, 2, 3})
        for (const int pair : {0, 1}) {
          Cuts moved = from;
          for (std::size_t j = k; j < std::min(from.size(), k + 1 + static_cast<std::size_t>(pair)); ++j)
            moved[j] += step;
          const bool ascending = std::ranges::is_sorted(moved) && moved.front() > 0 && moved.back() < chain.layers();
          if (ascending && best.look_at(moved)) better = true;
        }
  }
}

}  // namespace

DynPipeCost cost_of(const DynPipeChain& chain, const Cuts& cuts, const Slowdowns& slowdowns) {
  DynPipeCost cost;
  std::vector<double> weight;
  for (int s = 0; s < chain.stages(); ++s) {
    const auto [first, last] = bounds(chain, cuts, s);
    const auto at = static_cast<std::size_t>(s);
    const double slowdown = slowdowns ? slowdowns(s, first, last) : 1;
    cost.stage.push_back(slowdown * sum_of(chain.seconds, first, last) / chain.speed[at]);
    weight.push_back(sum_of(chain.weight, first, last));
    if (s + 1 < chain.stages()) cost.transfer.push_back(transfer_seconds(chain, at, last));
  }
  cost.period = steady_period(cost.stage, cost.transfer).seconds;
  cost.objective = time_to_target(cost.period, chain.lambda, mean_staleness(weight));
  return cost;
}

DynPipeChoice best_partition(const DynPipeChain& chain, const Slowdowns& slowdowns, std::int64_t most) {
  Best best(chain, slowdowns);
  const int cuts = chain.stages() - 1;
  if (chain.stages() > chain.layers()) return best.choice();
  std::vector<int> positions(static_cast<std::size_t>(chain.layers() - 1));
  std::iota(positions.begin(), positions.end(), 1);
  if (choices(chain.layers() - 1, cuts, most) <= most) {
    all_choices(positions, cuts, best);
    return best.choice();
  }
  best.choice().complete = false;
  const auto layers = static_cast<std::size_t>(chain.layers());
  std::vector<double> seconds;  // [stage][first][last]; kNever: does not fit
  seconds.reserve(static_cast<std::size_t>(chain.stages()) * layers * (layers + 1));
  for (int s = 0; s < chain.stages(); ++s)
    for (int first = 0; first < chain.layers(); ++first) {
      double sum = 0;
      for (int last = 0; last <= chain.layers(); ++last) {
        if (last > first) sum += chain.seconds[last - 1];
        const bool fits = last > first && (!chain.fits || chain.fits(first, last, s));
        const double slowdown = fits && slowdowns ? slowdowns(s, first, last) : 1;
        seconds.push_back(fits ? slowdown * sum / chain.speed[s] : kNever);
      }
    }
  // From several cuts: balanced by computing alone, and with the messages that a cut costs, once (as if they were
  // computed) or as far as they take longer than the stage (as PipeDream counts them).
  std::int64_t states = 0;
  for (const auto count_message :
       {+[](double stage, double) { return stage; }, +[](double stage, double message) { return stage + 2 * message; },
        +[](double stage, double message) { return std::max(stage, message); }}) {
    Best here(chain, slowdowns);
    try {
      const Cuts seed = partition_chain(chain.layers(), chain.stages(), [&](int first, int last, int s) {
        const auto at = static_cast<std::size_t>(s);
        const double stage =
            seconds[(at * layers + static_cast<std::size_t>(first)) * (layers + 1) + static_cast<std::size_t>(last)];
        return count_message(stage, s == 0 ? 0 : transfer_seconds(chain, at - 1, first));
      });
      here.look_at(Cuts(seed.begin() + 1, seed.end() - 1));
      improve(chain, here);
    } catch (const InputError&) {  // nothing fits
    }
    states += here.choice().states;
    if (!here.choice().cuts.empty() && here.choice().cost.objective < best.choice().cost.objective)
      best.choice() = here.choice();
  }
  best.choice().states = states;
  best.choice().complete = false;
  return best.choice();
}

std::vector<int> candidate_cuts(const DynPipeChain& chain, const Cuts& current, const CandidateOptions& options) {
  std::set<int> cuts;
  for (int s = 0; s < chain.stages(); ++s) {
    const auto [first, last] = bounds(chain, current, s);
    std::vector<std::pair<double, int>> layers;  // heaviest first, of equal ones the first
    for (int l = first; l < last; ++l) {
      const auto edge_bytes = [&](int cut) { return cut > 0 && cut < chain.layers() ? chain.bytes[cut] : 0.0; };
      const double per_byte = chain.seconds_per_byte.empty() ? 0.0 : chain.seconds_per_byte.front();
      layers.emplace_back(-(chain.seconds[l] + per_byte * (edge_bytes(l) + edge_bytes(l + 1))), l);
    }
    std::ranges::sort(layers);
    for (std::size_t k = 0; k < std::min(layers.size(), static_cast<std::size_t>(options.heaviest)); ++k)
      cuts.insert(layers[k].second + 1);
  }
  if (options.code) {
    if (!cuts.empty()) cuts.erase(std::prev(cuts.end()));
  } else {
    for (const int cut : current)
      for (int near = -options.near; near <= options.near; ++near) cuts.insert(cut + near);
  }
  std::vector<int> inside;
  for (const int cut : cuts)
    if (cut > 0 && cut < chain.layers()) inside.push_back(cut);
  return inside;
}

DynPipeChoice best_candidate(const DynPipeChain& chain, const Cuts& current, const Slowdowns& slowdowns,
                             const CandidateOptions& options) {
  Best best(chain, slowdowns);
  std::vector<int> positions = candidate_cuts(chain, current, options);
  constexpr std::int64_t kMax = 200'000;
  const auto count = [&] { return choices(static_cast<std::int64_t>(positions.size()), chain.stages() - 1, kMax); };
  if (count() <= kMax) {
    all_choices(positions, chain.stages() - 1, best);
  } else {
    best.choice().complete = false;
    best.look_at(current);
    improve(chain, best);
  }
  return best.choice();
}

}  // namespace sluice
