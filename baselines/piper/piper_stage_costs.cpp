#include "baselines/piper/piper_stage_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/plan/search.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxStageSums = 2'000'000;  // 64 MB
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

PiperStageCosts::PiperStageCosts(const PiperModel& model, const DownSets& sets, const PiperOptions& options,
                                 int max_sum)
    : model_(model), sets_(sets), options_(options), max_sum_(static_cast<std::uint64_t>(max_sum)) {
  make_degrees(max_sum);
  sum_up();
}

void PiperStageCosts::make_degrees(int max_sum) {
  first_of_mode_.push_back(0);
  for (std::size_t t = 0; t < model_.modes.size(); ++t) {
    const int most = options_.devices / model_.modes[t].tensor;
    for (int d = 1; d <= std::min(most, max_sum); ++d) {
      if (options_.microbatches % d != 0 || d > options_.max_data) continue;
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
    first_of_mode_.push_back(degrees_.size());
  }
}

void PiperStageCosts::sum_up() {
  const std::size_t n = model_.graph.groups.size(), modes = model_.modes.size();
  border_.resize(sets_.count());
  missing_.assign(modes, std::vector<int>(sets_.count()));
  least_work_.assign(sets_.count(), 0);
  min_memory_.assign(modes, std::vector<std::vector<double>>(max_sum_ + 1));
  for (Degrees& d : degrees_) d.sums.resize(sets_.count());
  const std::size_t pairs = sets_.count() * sets_.count();
  if (sets_.count() < kMaxStageSums / sets_.count() + 1 && pairs * degrees_.size() <= kMaxStageSums)
    stage_sums_.assign(pairs * degrees_.size(), {.seconds = kUnknown});
  std::vector<double> min_work(n, kNever);  // per group, device-seconds
  for (std::size_t g = 0; g < n; ++g)
    for (std::size_t t = 0; t < modes; ++t)
      for (const PiperChoice& c : model_.choices[t][g])
        min_work[g] = std::min(min_work[g], c.seconds * model_.modes[t].tensor);
  for (std::size_t s = 0; s < sets_.count(); ++s) {
    const int set = static_cast<int>(s);
    for (std::size_t g = 0; g < n; ++g) {
      if (!sets_.contains(set, static_cast<int>(g))) continue;
      if (min_work[g] < kNever) least_work_[s] += min_work[g];
      for (std::size_t t = 0; t < modes; ++t) missing_[t][s] += model_.choices[t][g].empty();
      for (Degrees& d : degrees_) {
        if (d.seconds[g].empty()) continue;
        const auto l = static_cast<std::size_t>(d.fastest[g]);
        const PiperChoice& c = model_.choices[d.mode][g][l];
        d.sums[s].seconds += d.seconds[g][l];
        d.sums[s].in_flight += c.in_flight;
        d.sums[s].always += c.always;
      }
    }
    for (std::size_t e = 0; e < model_.graph.edges.size(); ++e)
      if (!sets_.contains(set, model_.graph.edges[e].from) && sets_.contains(set, model_.graph.edges[e].to))
        border_[s].push_back(static_cast<int>(e));
  }
}

void PiperStageCosts::find_cuts(int set, int rest, std::size_t mode) {
  if (cut_set_ == set && cut_rest_ == rest && cut_mode_ == mode) return;
  cut_set_ = set;
  cut_rest_ = rest;
  cut_mode_ = mode;
  for (CutGroup& cut : cuts_) spare_.push_back(std::move(cut.bytes));
  cuts_.clear();
  std::vector<int> incoming;
  for (const int e : border_[set]) {
    const int to = model_.graph.edges[e].to;
    if (sets_.contains(rest, to)) continue;
    add_cut(to, e, mode, /*incoming=*/true);
    if (model_.modes[mode].recompute) incoming.push_back(e);
  }
  received_ = received_bytes(model_, incoming);
  for (const int e : border_[rest]) {
    const int from = model_.graph.edges[e].from;
    if (sets_.contains(set, from)) add_cut(from, e, mode, /*incoming=*/false);
  }
}

void PiperStageCosts::add_cut(int group, int edge, std::size_t mode, bool incoming) {
  const auto g = static_cast<std::size_t>(group);
  const auto& choices = model_.choices[mode][g];
  auto found = std::ranges::find(cuts_, group, &CutGroup::group);
  if (found == cuts_.end()) {
    cuts_.push_back({group, {}});
    found = cuts_.end() - 1;
    if (!spare_.empty()) {
      found->bytes = std::move(spare_.back());
      spare_.pop_back();
    }
    found->bytes.assign(choices.size(), 0.0);
  }
  const auto& edges = incoming ? model_.in_edges[g] : model_.out_edges[g];
  const auto place = static_cast<std::size_t>(std::ranges::find(edges, edge) - edges.begin());
  for (std::size_t l = 0; l < choices.size(); ++l)
    found->bytes[l] +=
        2 * (model_.graph.edges[edge].bytes + (incoming ? choices[l].in_sync : choices[l].out_sync)[place]);
}

// The stage's sums; its cuts have been found.
PiperStageCosts::Degrees::Sum PiperStageCosts::sum_of(int set, int rest, const Degrees& d) const {
  const Degrees::Sum& all = d.sums[set];
  const Degrees::Sum& less = d.sums[rest];
  Degrees::Sum sum{all.seconds - less.seconds, all.in_flight - less.in_flight, all.always - less.always, received_};
  for (const CutGroup& cut : cuts_) {
    const auto g = static_cast<std::size_t>(cut.group);
    const auto fastest = static_cast<std::size_t>(d.fastest[g]);
    std::size_t best = 0;
    double best_seconds = kNever;
    for (std::size_t l = 0; l < cut.bytes.size(); ++l) {
      const double s = d.seconds[g][l] + cut.bytes[l] / d.data / options_.bandwidth;
      if (s < best_seconds) best_seconds = s, best = l;
    }
    sum.seconds += best_seconds - d.seconds[g][fastest];
    const auto& choices = model_.choices[d.mode][g];
    sum.in_flight += choices[best].in_flight - choices[fastest].in_flight;
    sum.always += choices[best].always - choices[fastest].always;
  }
  return sum;
}

PiperStageCosts::Degrees::Sum PiperStageCosts::stage_sum(int set, int rest, std::size_t number) {
  const Degrees& d = degrees_[number];
  if (stage_sums_.empty()) {
    find_cuts(set, rest, d.mode);
    return sum_of(set, rest, d);
  }
  const std::size_t pair = static_cast<std::size_t>(set) * sets_.count() + static_cast<std::size_t>(rest);
  Degrees::Sum& known = stage_sums_[pair * degrees_.size() + number];
  if (!std::isnan(known.seconds)) return known;
  find_cuts(set, rest, d.mode);
  return known = sum_of(set, rest, d);
}

double PiperStageCosts::seconds(int set, int rest, std::size_t number, int y, double limit) {
  const Degrees& d = degrees_[number];
  const Degrees::Sum sum = stage_sum(set, rest, number);
  ++evaluated_;
  const double memory = options_.memory - sum.received * y;
  if (sum.in_flight * y + sum.always <= memory || sum.seconds > limit) return sum.seconds;
  const std::vector<double>& least = min_memory(d.mode, y);
  if (least[set] - least[rest] > memory * (1 + 1e-12)) return kNever;
  const std::uint64_t key =
      ((static_cast<std::uint64_t>(set) * sets_.count() + static_cast<std::uint64_t>(rest)) * degrees_.size() +
       number) *
          (max_sum_ + 1) +
      static_cast<std::uint64_t>(y);
  const auto known = solved_.find(key);
  if (known != solved_.end()) return known->second;
  const auto solution = choose(set, rest, number, y);
  return solved_[key] = solution ? solution->seconds : kNever;
}

// Per set: bytes with y micro-batches in flight if every group runs in its smallest choice.
const std::vector<double>& PiperStageCosts::min_memory(std::size_t mode, int y) {
  std::vector<double>& least = min_memory_[mode][y];
  if (!least.empty()) return least;
  least.resize(sets_.count());
  std::vector<double> of_group;
  for (const auto& choices : model_.choices[mode]) {
    double bytes = choices.empty() ? 0 : kNever;  // a group without a choice is rejected elsewhere
    for (const PiperChoice& c : choices) bytes = std::min(bytes, c.in_flight * y + c.always);
    of_group.push_back(bytes);
  }
  for (const int set : sets_.by_size)
    for (int g = 0; g < static_cast<int>(of_group.size()); ++g)
      if (sets_.contains(set, g)) least[set] += of_group[g];
  return least;
}

std::vector<int> PiperStageCosts::groups_between(int set, int rest) const {
  std::vector<int> groups;
  for (int g = 0; g < static_cast<int>(model_.graph.groups.size()); ++g)
    if (sets_.contains(set, g) && !sets_.contains(rest, g)) groups.push_back(g);
  return groups;
}

std::optional<KnapsackResult> PiperStageCosts::choose(int set, int rest, std::size_t number, int y) {
  const Degrees& d = degrees_[number];
  find_cuts(set, rest, d.mode);
  std::vector<std::vector<KnapsackChoice>> items;
  for (const int group : groups_between(set, rest)) {
    const auto g = static_cast<std::size_t>(group);
    const auto cut = std::ranges::find(cuts_, group, &CutGroup::group);
    auto& item = items.emplace_back();
    for (std::size_t l = 0; l < d.seconds[g].size(); ++l) {
      const PiperChoice& c = model_.choices[d.mode][g][l];
      const double bytes = cut == cuts_.end() ? 0 : cut->bytes[l];
      item.push_back({d.seconds[g][l] + bytes / d.data / options_.bandwidth, c.in_flight * y + c.always});
    }
  }
  const double memory = options_.memory - received_ * y;
  if (!options_.exact_knapsack) return greedy_knapsack(items, memory);
  auto result = exact_knapsack(items, memory);
  if (result && !result->complete) complete_ = false;
  return result;
}

PiperStage PiperStageCosts::stage(int set, int rest, std::size_t number, int degree_sum, bool with_layers) {
  const Degrees& d = degrees_[number];
  const int y = (degree_sum + d.data - 1) / d.data;
  PiperStage stage{.data = d.data,
                   .tensor = model_.modes[d.mode].tensor,
                   .recompute = model_.modes[d.mode].recompute,
                   .seconds = seconds(set, rest, number, y, kNever)};
  if (!with_layers) return stage;
  const auto chosen = choose(set, rest, number, y);
  const std::vector<int> groups = groups_between(set, rest);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto g = static_cast<std::size_t>(groups[i]);
    for (const int layer : model_.graph.groups[g].layers) {
      stage.layers.push_back(layer);
      stage.variants.push_back(model_.choices[d.mode][g][chosen.value().chosen[i]].variant);
    }
  }
  return stage;
}

}  // namespace sluice
