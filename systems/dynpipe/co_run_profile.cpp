#include "systems/dynpipe/co_run_profile.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>

#include "systems/dynpipe/co_run_rows.h"

namespace sluice {

std::vector<CoRunLoad> co_run_loads(int cores) {
  std::vector<CoRunLoad> loads;
  for (const bool own_core : {true, false}) {
    if (cores < (own_core ? 1 : 2)) continue;
    for (const Resource resource : {Resource::compute, Resource::memory, Resource::allocation})
      for (const double slowdown : {1.25, 1.5, 2.0, 3.0}) loads.push_back({resource, slowdown, own_core});
  }
  return loads;
}

CoRunFile co_run_file(const CoRunProblem& problem) {
  constexpr int kPairs = 24;
  const ForestRows published = problem.published.empty() ? ForestRows{} : read_forest_rows(problem.published);
  const std::vector<CoRunLoad> loads = co_run_loads(problem.cores);
  const CoRunSamples samples = problem.measure(loads);
  const LayerGroupGraph graph = layer_groups(problem.costs);
  const double alone = std::accumulate(samples.alone.begin(), samples.alone.end(), 0.0);
  std::vector<ForestRows> parts;  // per load
  ForestRows rows;
  std::string told;
  const auto tell = [&]<class... T>(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(told), format, std::forward<T>(values)...);
  };
  Json described = Json::array();
  for (std::size_t l = 0; l < loads.size(); ++l) {
    const auto& [resource, share, own_core] = loads[l];
    const std::vector<double>& contended = samples.contended[l];
    // Of the whole model's forwards and backwards.
    const double slowdown = std::accumulate(contended.begin(), contended.end(), 0.0) / alone;
    const ForestRows& part = parts.emplace_back(co_run_rows(graph, {samples.alone, contended}, kPairs, l));
    rows = joined_rows(rows, part);
    described.push_back({{"resource", choice_name(resource)},
                         {"share_for_slowdown", share},
                         {"core", own_core ? "own" : "other"},
                         {"slowdown", slowdown},
                         {"rows", part.y.size()}});
    tell("{} on {} core, as much as {:.3g}x takes: {:.3g} times slower\n", choice_name(resource),
         own_core ? "the rank's" : "another", share, slowdown);
  }
  tell("{} rows of {} loads", rows.y.size(), loads.size());
  if (!published.y.empty()) tell(", {} published rows", published.y.size());
  tell("\n");
  CoRunFile file{.json = co_run_json(rows), .told = {}};
  file.json["loads"] = std::move(described);
  if (const auto error = hold_out_loads(parts, published, slowdown_forest_options())) {
    tell(
        "the forest of {} loads on the other {}: mean squared error {:.3g}, mean absolute error {:.3g}; mean squared "
        "error of the rows' mean {:.3g}, of the slowdown that was seen {:.3g}\n",
        error->learned, error->held_out, error->error.mean_squared, error->error.mean_absolute,
        error->error.mean_squared_of_mean, error->mean_squared_of_seen);
    file.json["held_out"] = {{"loads_learned", error->learned},
                             {"loads_held_out", error->held_out},
                             {"mean_squared_error", error->error.mean_squared},
                             {"mean_absolute_error", error->error.mean_absolute},
                             {"mean_squared_error_of_mean", error->error.mean_squared_of_mean},
                             {"mean_squared_error_of_seen", error->mean_squared_of_seen}};
  }
  file.told = std::move(told);
  return file;
}

}  // namespace sluice
