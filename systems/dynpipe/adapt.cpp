#include "systems/dynpipe/adapt.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "harness/base/error.h"
#include "harness/plan/layer_groups.h"
#include "systems/dynpipe/co_run_rows.h"

namespace sluice {

namespace {

// Bytes of a range of groups.
struct RangeBytes {
  double lasting = 0;     // weights, gradients and the optimizer's state; a checkpoint holds it without the gradients
  double parameters = 0;  // of one version of the weights
  double kept = 0;        // of one micro-batch in flight
};

RangeBytes range_bytes(const Problem& problem, const LayerGroupGraph& graph, int first, int last) {
  RangeBytes bytes;
  for (int g = first; g < last; ++g) {
    bytes.parameters += graph.groups[g].parameters;
    bytes.kept += graph.groups[g].kept;
  }
  bytes.lasting = 2 * bytes.parameters;
  if (problem.footprint) {
    const Problem::Footprint f = problem.footprint(layers_of(graph, first, last));
    bytes.lasting = static_cast<double>(f.always.value);
    bytes.kept = static_cast<double>(f.per_micro_batch.value) +
                 static_cast<double>(f.per_sample.value) * static_cast<double>(problem.costs.micro_batch);
  }
  return bytes;
}

double latency_between(const Cluster& cluster, DeviceId a, DeviceId b) {
  double latency = 0;
  for (const Hop& hop : path(cluster, a, b)) latency += hop.link.latency.value;
  return latency;
}

double seconds_per_byte_between(const Cluster& cluster, DeviceId a, DeviceId b) {
  double slowest = 0;
  for (const Hop& hop : path(cluster, a, b)) slowest = std::max(slowest, 1 / hop.link.bandwidth);
  return slowest;
}

// Stages under PipeDream's weight stashing: stage s keeps S - s versions, and as many micro-batches in flight.
bool fits_in_memory(const RangeBytes& range, int stages, int stage, const Device& device) {
  const double in_flight = stages - stage;
  const double bytes = range.lasting + (in_flight - 1) * range.parameters + in_flight * range.kept;
  return bytes <= static_cast<double>(device.memory.value);
}

CoRunStage co_run_stage(const DynPipeChain& chain, int first, int last) {
  const auto sum = [&](const std::vector<double>& values) {
    return std::accumulate(values.begin() + first, values.begin() + last, 0.0);
  };
  return {.seconds = sum(chain.seconds), .parameters = sum(chain.parameters), .layers = last - first};
}

int first_of(const Cuts& cuts, int stage) { return stage == 0 ? 0 : cuts[static_cast<std::size_t>(stage) - 1]; }
int end_of(const Cuts& cuts, int stage, int layers) {
  return static_cast<std::size_t>(stage) == cuts.size() ? layers : cuts[stage];
}

// What the run has shown, combined.
struct Seen {
  std::vector<DeviceHistory> devices;
  std::vector<double> slowdown;  // now, of every device; the mean of the confirming windows
  int plans = 0;                 // changes of plan so far
  int windows = 0;               // under the plan that runs
};

std::vector<double> mean_of(std::span<const std::vector<double>> windows) {
  std::vector<double> mean(windows.front().size(), 0);
  for (const auto& window : windows)
    for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += window[d] / static_cast<double>(windows.size());
  return mean;
}

Seen look_back(const Observations& observations, const Problem& problem, const DynPipeChain& chain,
               const DetectorOptions& detector, int confirm) {
  Seen seen;
  seen.plans = static_cast<int>(observations.plans.size()) - 1;
  std::vector<Cuts> cuts;
  for (const Plan& plan : observations.plans) cuts.push_back(cuts_of(problem, plan));
  std::vector<std::vector<double>> all;  // slowdowns by window
  for (const ObservedWindow& window : observations.windows)
    all.push_back(slowdowns_in(window, chain, cuts[window.plan]));
  const auto calibration = static_cast<std::size_t>(detector.calibration);
  if (all.size() <= calibration) return seen;
  const std::vector<double> undisturbed = all[calibration];
  for (auto& window : all)
    for (std::size_t d = 0; d < window.size(); ++d)
      if (undisturbed[d] > 0) window[d] /= undisturbed[d];
  std::size_t first = all.size();  // window of the plan that runs
  while (first > 0 && observations.windows[first - 1].plan + 1 == observations.plans.size()) --first;
  seen.windows = static_cast<int>(all.size() - first);
  seen.devices.resize(chain.speed.size());
  // What the plan was chosen for: the windows before it.
  const std::size_t known = std::min<std::size_t>(first, static_cast<std::size_t>(confirm));
  if (first > 0) {
    const std::vector<double> assumed = mean_of(std::span(all).subspan(first - known, known));
    for (std::size_t d = 0; d < assumed.size(); ++d) seen.devices[d].assumed = std::max(1.0, assumed[d]);
  }
  for (std::size_t w = std::max(first, seen.plans == 0 ? calibration : first); w < all.size(); ++w)
    for (std::size_t d = 0; d < all[w].size(); ++d) seen.devices[d].slowdown.push_back(all[w][d]);
  const std::size_t newest = std::min<std::size_t>(all.size() - first, static_cast<std::size_t>(confirm));
  if (newest > 0) {
    seen.slowdown = mean_of(std::span(all).last(newest));
    for (double& slowdown : seen.slowdown) slowdown = std::max(1.0, slowdown);
  }
  return seen;
}

}  // namespace

DynPipeChain chain_of(const Problem& problem, double lambda) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  DynPipeChain chain;
  chain.lambda = lambda;
  for (const LayerGroup& group : graph.groups) {
    chain.seconds.push_back(group.seconds());
    chain.parameters.push_back(group.parameters);
    chain.weight.push_back(group.parameters);
  }
  chain.bytes = bytes_over_cuts(graph);
  for (int s = 0; s < problem.devices; ++s) {
    chain.speed.push_back(problem.cluster.devices[s].speed);
    if (s == 0) continue;
    chain.latency.push_back(latency_between(problem.cluster, DeviceId(s - 1), DeviceId(s)));
    chain.seconds_per_byte.push_back(seconds_per_byte_between(problem.cluster, DeviceId(s - 1), DeviceId(s)));
  }
  if (chain.stages() > chain.layers())
    throw InputError("dynpipe",
                     std::to_string(chain.stages()) + " stages for a model of " + std::to_string(chain.layers()) +
                         " cuttable layers",
                     "use at most " + std::to_string(chain.layers()) + " ranks");
  // A search asks for the same range once for every stage, and again and again.
  const auto known = std::make_shared<std::unordered_map<std::int64_t, RangeBytes>>();
  chain.fits = [&problem, graph, known, stages = chain.stages()](int first, int last, int stage) {
    const auto [range, fresh] = known->try_emplace(first * (std::ssize(graph.groups) + 1) + last);
    if (fresh) range->second = range_bytes(problem, graph, first, last);
    return fits_in_memory(range->second, stages, stage, problem.cluster.devices[stage]);
  };
  return chain;
}

Plan plan_of(const Problem& problem, const DynPipeChoice& choice) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  const int groups = static_cast<int>(graph.groups.size());
  Plan plan{.micro_batch = problem.costs.micro_batch};
  for (int s = 0; s <= static_cast<int>(choice.cuts.size()); ++s)
    plan.stages.push_back({.layers = layers_of(graph, first_of(choice.cuts, s), end_of(choice.cuts, s, groups)),
                           .devices = {DeviceId(s)}});
  plan.search = {.objective = choice.cost.objective,
                 .objective_name = "seconds per mini-batch, times 1 + lambda * mean staleness",
                 .states = choice.states,
                 .complete = choice.complete};
  return plan;
}

Cuts cuts_of(const Problem& problem, const Plan& plan) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  Cuts cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    const int first = plan.stages[s].layers.front();
    const auto group =
        std::ranges::find_if(graph.groups, [&](const LayerGroup& g) { return g.layers.front() >= first; });
    cuts.push_back(static_cast<int>(group - graph.groups.begin()));
  }
  return cuts;
}

Cuts cuts_before(const Problem& problem, const std::vector<int>& first_layers) {
  if (first_layers.size() + 1 != static_cast<std::size_t>(problem.devices))
    throw InputError("moves",
                     "a move names the first layers of " + std::to_string(first_layers.size()) +
                         " stages; after the first the pipeline has " + std::to_string(problem.devices - 1),
                     "give one for each");
  const LayerGroupGraph graph = layer_groups(problem.costs);
  Cuts cuts;
  for (const int layer : first_layers) {
    const auto group =
        std::ranges::find_if(graph.groups, [&](const LayerGroup& g) { return g.layers.front() == layer; });
    const auto cut = static_cast<int>(group - graph.groups.begin());
    if (group == graph.groups.end() || cut <= (cuts.empty() ? 0 : cuts.back())) {
      std::string possible;
      for (std::size_t g = 1; g < graph.groups.size(); ++g)
        possible += (g > 1 ? ", " : "") + std::to_string(graph.groups[g].layers.front());
      throw InputError("moves", "no stage can begin with layer " + std::to_string(layer) + " there",
                       "stages from the second on begin, ascending, with " + possible);
    }
    cuts.push_back(cut);
  }
  return cuts;
}

std::vector<double> slowdowns_in(const ObservedWindow& window, const DynPipeChain& chain, const Cuts& cuts) {
  const DynPipeCost undisturbed = cost_of(chain, cuts, {});
  std::vector<double> slowdowns;
  for (std::size_t s = 0; s < undisturbed.stage.size(); ++s) {
    const double expected = undisturbed.stage[s] * static_cast<double>(window.updates);
    slowdowns.push_back(expected > 0 && s < window.compute.size() ? window.compute[s] / expected : 1.0);
  }
  return slowdowns;
}

Move move_between(const Problem& problem, const DynPipeChain& chain, const Cuts& from, const Cuts& to, double period) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  std::map<std::pair<int, int>, double> over;  // bytes from device to device
  int old_stage = 0, new_stage = 0;
  Move move;
  for (int g = 0; g < chain.layers(); ++g) {
    while (g >= end_of(from, old_stage, chain.layers())) ++old_stage;
    while (g >= end_of(to, new_stage, chain.layers())) ++new_stage;
    if (old_stage == new_stage) continue;
    const double bytes = range_bytes(problem, graph, g, g + 1).lasting - chain.parameters[g];
    over[{old_stage, new_stage}] += bytes;
    move.bytes += bytes;
  }
  double longest = 0;
  for (const auto& [ends, bytes] : over)
    longest = std::max(
        longest, latency_between(problem.cluster, DeviceId(ends.first), DeviceId(ends.second)) +
                     bytes * seconds_per_byte_between(problem.cluster, DeviceId(ends.first), DeviceId(ends.second)));
  move.seconds = longest + (chain.stages() - 1) * period;
  return move;
}

std::optional<Plan> adapted_plan(const Observations& observations, const Problem& problem,
                                 const AdaptOptions& options) {
  const DynPipeChain chain = chain_of(problem, options.lambda);
  if (chain.stages() < 2 || observations.windows.empty()) return std::nullopt;
  // Each change makes the next one need longer evidence, so that a device that flaps faster than the windows see is
  // left alone.
  const int changes = static_cast<int>(observations.plans.size()) - 1;
  const int confirm =
      options.weighs_cost ? std::min(options.detector.confirm << std::min(changes, 4), 32) : options.detector.confirm;
  const Seen seen = look_back(observations, problem, chain, options.detector, options.detector.confirm);
  if (seen.slowdown.empty() || !has_changed(seen.devices, options.detector, confirm)) return std::nullopt;
  const Cuts current = cuts_of(problem, observations.plans.back());
  const Slowdowns slowdowns = [&](int stage, int first, int last) {
    const double measured = seen.slowdown[stage];
    if (!options.forest || measured == 1) return options.detector.code ? banded(measured) : measured;
    const CoRunStage seen_stage = co_run_stage(chain, first_of(current, stage), end_of(current, stage, chain.layers()));
    const auto features = co_run_features(co_run_stage(chain, first, last), seen_stage, measured);
    return std::max(1.0, options.forest->predict(features));
  };
  const DynPipeCost old = cost_of(chain, current, slowdowns);
  const DynPipeChoice choice = best_candidate(chain, current, slowdowns, options.candidates);
  if (choice.cuts.empty() || choice.cuts == current || choice.cost.objective >= old.objective) return std::nullopt;
  if (options.weighs_cost) {
    // The state is expected to last as long again as it has been seen to, and no longer than the run.
    const double seen_updates = static_cast<double>(confirm) * options.detector.window * 4;
    const double updates = std::min(static_cast<double>(observations.updates_left), seen_updates);
    const Move move = move_between(problem, chain, current, choice.cuts, old.period);
    if ((old.objective - choice.cost.objective) * updates <= move.seconds) return std::nullopt;
  }
  return plan_of(problem, choice);
}

}  // namespace sluice
