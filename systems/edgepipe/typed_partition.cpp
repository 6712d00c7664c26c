#include "systems/edgepipe/typed_partition.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "harness/base/error.h"

namespace sluice {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Both passes walk the same states; they differ in what a state's value is.
class Search {
 public:
  explicit Search(const TypedChain& chain) : chain_(chain), types_(chain.counts.size()) {
    std::size_t used = 1;
    for (const int count : chain.counts) {
      radix_.push_back(used);
      used *= static_cast<std::size_t>(count) + 1;
      if (used > std::size_t{4'000'000} / (static_cast<std::size_t>(chain.layers) + 1) / types_)
        throw InputError("edgepipe",
                         "the cluster has " + std::to_string(types_) +
                             " types of devices, too many to count how many "
                             "of each are used",
                         "use fewer devices, or types that differ in nothing");
    }
    used_ = used;
    for (std::size_t u = 0; u < types_; ++u) {
      auto& sums = sums_.emplace_back(static_cast<std::size_t>(chain.layers) + 1, 0);
      for (std::size_t l = 0; l < static_cast<std::size_t>(chain.layers); ++l)
        sums[l + 1] = sums[l] + chain.seconds[u][l];
      fits_.emplace_back((static_cast<std::size_t>(chain.layers) + 1) * (static_cast<std::size_t>(chain.layers) + 1),
                         kUnknown);
    }
  }

  TypedPartition run() {
    TypedPartition result;
    result.period = min_period(result.states);
    if (result.period < kNever) result.stages = fewest_stages(result.period);
    return result;
  }

 private:
  std::size_t state(int layer, std::size_t used, std::size_t type) const {
    return (static_cast<std::size_t>(layer) * used_ + used) * types_ + type;
  }
  std::size_t states() const { return (static_cast<std::size_t>(chain_.layers) + 1) * used_ * types_; }
  int taken(std::size_t used, std::size_t type) const {
    return static_cast<int>(used / radix_[type]) % (chain_.counts[type] + 1);
  }
  bool has_free(std::size_t used, std::size_t type) const { return taken(used, type) < chain_.counts[type]; }
  double seconds(std::size_t type, int first, int last) const { return sums_[type][last] - sums_[type][first]; }
  double transfer(std::size_t from, std::size_t to, int cut) const {
    return chain_.bytes[cut] / chain_.bandwidth[from][to];
  }
  bool fits(std::size_t type, int first, int last) {
    if (!chain_.fits) return true;
    char& known = fits_[type][static_cast<std::size_t>(first) * (static_cast<std::size_t>(chain_.layers) + 1) +
                              static_cast<std::size_t>(last)];
    if (known == kUnknown) known = chain_.fits(static_cast<int>(type), first, last) ? kYes : kNo;
    return known == kYes;
  }

  // visit(used with this stage, next type or none at the end, seconds of the step): for every way to go on from a state
  // with a stage up to `last`.
  template <class Visit>
  void for_each_step(int first, std::size_t used, std::size_t type, int last, Visit visit) {
    const double compute = seconds(type, first, last);
    const std::size_t with = used + radix_[type];
    if (last == chain_.layers) return visit(with, std::optional<std::size_t>(), compute);
    for (std::size_t next = 0; next < types_; ++next)
      if (has_free(with, next)) visit(with, std::optional(next), std::max(compute, transfer(type, next, last)));
  }

  double min_period(std::int64_t& reached) {
    std::vector<double> longest(states(), kNever);
    for (std::size_t u = 0; u < types_; ++u)
      if (chain_.counts[u] > 0) longest[state(0, 0, u)] = 0;
    double best = kNever;
    for (int i = 0; i < chain_.layers; ++i)
      for (std::size_t used = 0; used < used_; ++used)
        for (std::size_t u = 0; u < types_; ++u) {
          const double so_far = longest[state(i, used, u)];
          if (so_far == kNever || so_far >= best) continue;
          ++reached;
          for (int j = i + 1; j <= chain_.layers; ++j) {
            if (seconds(u, i, j) >= best) break;  // only longer from here on
            if (!fits(u, i, j)) continue;
            for_each_step(i, used, u, j, [&](std::size_t with, std::optional<std::size_t> next, double step) {
              const double value = std::max(so_far, step);
              double& known = next ? longest[state(j, with, *next)] : best;
              known = std::min(known, value);
            });
          }
        }
    return best;
  }

  // What the rest of a plan takes, among those of no longer period.
  struct Rest {
    int stages = std::numeric_limits<int>::max();
    double bytes = kNever;
    int last = 0;          // of the next stage
    std::size_t next = 0;  // state after it
    friend bool operator<(const Rest& a, const Rest& b) {
      return std::tie(a.stages, a.bytes) < std::tie(b.stages, b.bytes);
    }
  };

  // From the last layer to the first, so that of equal plans the first stages have the lower types: they are tried in
  // that order, and the first that is best stays.
  std::vector<TypedStage> fewest_stages(double period) {
    const double limit = period * (1 + 1e-12);
    std::vector<Rest> rests(states());
    for (int i = chain_.layers; i-- > 0;)
      for (std::size_t used = 0; used < used_; ++used)
        for (std::size_t u = 0; u < types_; ++u) {
          if (!has_free(used, u)) continue;
          Rest& best = rests[state(i, used, u)];
          for (int j = chain_.layers; j > i; --j) {
            if (seconds(u, i, j) > limit || !fits(u, i, j)) continue;
            for_each_step(i, used, u, j, [&](std::size_t with, std::optional<std::size_t> next, double step) {
              if (step > limit) return;
              Rest rest{1, 0, j, 0};
              if (next) {
                rest.next = state(j, with, *next);
                const Rest& after = rests[rest.next];
                if (after.bytes == kNever) return;
                rest.stages += after.stages;
                rest.bytes = chain_.bytes[j] + after.bytes;
              }
              if (rest < best || (!(best < rest) && rest.last < chain_.layers && best.last < chain_.layers &&
                                  rest.next % types_ < best.next % types_))
                best = rest;
            });
          }
        }
    std::size_t at = state(0, 0, 0);
    for (std::size_t u = 1; u < types_; ++u)
      if (rests[state(0, 0, u)] < rests[at]) at = state(0, 0, u);
    std::vector<TypedStage> stages;
    for (int first = 0; first < chain_.layers;) {
      const Rest& rest = rests[at];
      stages.push_back({static_cast<int>(at % types_), first, rest.last});
      first = rest.last;
      at = rest.next;
    }
    return stages;
  }

  static constexpr char kUnknown = 2, kYes = 1, kNo = 0;
  const TypedChain& chain_;
  std::size_t types_, used_ = 1;
  std::vector<std::size_t> radix_;         // of every type in the number that says how many are used
  std::vector<std::vector<double>> sums_;  // [type][layer]: seconds of the layers before
  std::vector<std::vector<char>> fits_;    // [type][first, last]
};

}  // namespace

TypedPartition partition_over_types(const TypedChain& chain) { return Search(chain).run(); }

double period_of(const TypedChain& chain, const std::vector<TypedStage>& stages) {
  double period = 0;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const TypedStage& stage = stages[k];
    const auto& seconds = chain.seconds[stage.type];
    double compute = 0;
    for (int l = stage.first; l < stage.last; ++l) compute += seconds[l];
    period = std::max(period, compute);
    if (k + 1 < stages.size())
      period = std::max(period, chain.bytes[stage.last] / chain.bandwidth[stage.type][stages[k + 1].type]);
  }
  return period;
}

bool fits_with_buffers(double memory, double layers, const std::vector<double>& bytes, int first, int last,
                       const StageBuffers& buffers) {
  const double input = bytes[first], output = bytes[last];
  return memory > layers + (first > 0 ? buffers.in * input : 0) + buffers.out * output + input + output;
}

}  // namespace sluice
