#include "systems/dynpipe/co_run_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/splitmix64.h"

namespace sluice {

namespace {

constexpr const char* kSeenSlowdown = "seen_slowdown";

int drawn_below(std::uint64_t& random, int n) {
  return static_cast<int>(next_splitmix64(random) % static_cast<std::uint64_t>(n));
}

// A range of groups and what it takes.
struct MeasuredStage {
  CoRunStage stage;
  double slowdown = 1;
};

MeasuredStage measured_stage(const LayerGroupGraph& graph, const CoRunSeconds& seconds, int first, int last) {
  MeasuredStage result{.stage = {.layers = last - first}};
  double contended = 0;
  for (int g = first; g < last; ++g) {
    result.stage.parameters += graph.groups[g].parameters;
    for (const int l : graph.groups[g].layers) {
      result.stage.seconds += seconds.alone.at(l);
      contended += seconds.contended.at(l);
    }
  }
  if (result.stage.seconds > 0) result.slowdown = contended / result.stage.seconds;
  return result;
}

}  // namespace

std::map<std::string, double> co_run_features(const CoRunStage& asked, const CoRunStage& seen, double seen_slowdown) {
  return {{"seconds", asked.seconds},     {"parameters", asked.parameters},     {"layers", asked.layers},
          {"seen_seconds", seen.seconds}, {"seen_parameters", seen.parameters}, {"seen_layers", seen.layers},
          {kSeenSlowdown, seen_slowdown}};
}

ForestRows co_run_rows(const LayerGroupGraph& graph, const CoRunSeconds& seconds, int pairs, std::uint64_t seed) {
  const int groups = static_cast<int>(graph.groups.size());
  ForestRows rows;
  for (const auto& [name, value] : co_run_features({}, {}, 1)) rows.features.push_back(name);
  const auto draw = [&] {
    const int a = drawn_below(seed, groups), b = drawn_below(seed, groups);
    return measured_stage(graph, seconds, std::min(a, b), std::max(a, b) + 1);
  };
  for (int k = 0; k < pairs && groups > 0; ++k) {
    const MeasuredStage asked = draw(), seen = draw();
    if (asked.stage.seconds <= 0 || seen.stage.seconds <= 0 || asked.slowdown <= 0 || seen.slowdown <= 0) continue;
    std::vector<double>& x = rows.x.emplace_back();
    for (const auto& [name, value] : co_run_features(asked.stage, seen.stage, seen.slowdown)) x.push_back(value);
    rows.y.push_back(asked.slowdown);
  }
  return rows;
}

Json co_run_json(const ForestRows& rows) {
  Json list = Json::array();
  for (std::size_t r = 0; r < rows.y.size(); ++r) {
    Json features = Json::object();
    for (std::size_t f = 0; f < rows.features.size(); ++f) features[rows.features[f]] = rows.x[r][f];
    list.push_back({{"features", std::move(features)}, {"slowdown", rows.y[r]}});
  }
  return {{"schema", "sluice/co_run/1"}, {"rows", std::move(list)}};
}

std::optional<HeldOutLoads> hold_out_loads(std::span<const ForestRows> parts, const ForestRows& besides,
                                           const ForestOptions& options) {
  if (parts.size() < 2) return std::nullopt;
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t random = options.seed;
  for (std::size_t k = order.size(); k > 1; --k)
    std::swap(order[k - 1], order[static_cast<std::size_t>(drawn_below(random, static_cast<int>(k)))]);
  HeldOutLoads result;
  result.learned = std::max<std::size_t>(1, parts.size() * 7 / 10);
  result.held_out = parts.size() - result.learned;
  ForestSplit split{.train = besides, .held_out = {}};
  for (std::size_t k = 0; k < order.size(); ++k) {
    ForestRows& into = k < result.learned ? split.train : split.held_out;
    into = joined_rows(into, parts[order[k]]);
  }
  if (split.train.y.empty() || split.held_out.y.empty()) return std::nullopt;
  // The features of the rows that are learned from, in their order.
  split.held_out = joined_rows({.features = split.train.features, .x = {}, .y = {}}, split.held_out);
  result.error = error_on(Forest(split.train, options), split);
  const auto seen = std::ranges::find(split.held_out.features, kSeenSlowdown) - split.held_out.features.begin();
  for (std::size_t r = 0; r < split.held_out.y.size(); ++r)
    result.mean_squared_of_seen +=
        std::pow(split.held_out.x[r].at(static_cast<std::size_t>(seen)) - split.held_out.y[r], 2) /
        static_cast<double>(split.held_out.y.size());
  return result;
}

}  // namespace sluice
