#include "harness/plan/make_plan.h"

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/base/thread_seconds.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

// The whole model on all devices.
Plan plain_data_parallelism(const Problem& problem, const System& system) {
  Plan plan = balanced_chain(problem, 1, system.name);
  for (int d = 1; d < problem.devices; ++d) plan.stages.front().devices.emplace_back(d);
  plan.search.states = 0;
  plan.search.objective_name = "slowest stage: plain data parallelism, which its search did not keep";
  return plan;
}

// The most replicas that a stage may have: each takes a micro-batch of an update, and systems that update after every
// micro-batch cut theirs for them.
int most_replicas(const System& system, const Problem& problem) {
  const bool cuts = !system.synchronous && !system.accumulates;
  return cuts ? problem.devices : std::min(problem.devices, problem.microbatches);
}

// No limit, then the powers of two below the most replicas.
std::vector<int> replica_limits(const Problem& problem, int most) {
  std::vector<int> limits = {problem.max_replicas};
  int limit = 1;
  while (2 * limit < most) limit *= 2;
  for (; limit >= 1 && most > 1; limit /= 2) limits.push_back(limit);
  return limits;
}

std::vector<PlannedPipeline> candidates_of(const System& system, Problem problem, const Options& options,
                                           bool simulated) {
  const bool replicates = system.replicates && system.replicates(options) && !problem.inference;
  const double begin = thread_seconds();
  const double seconds =
      options.values().contains("search_seconds") ? options.integer("search_seconds") : problem.search_seconds;
  std::vector<PlannedPipeline> all;
  std::optional<InputError> rejected;
  const int most = most_replicas(system, problem);
  for (const int limit : simulated&& replicates ? replica_limits(problem, most) : std::vector{problem.max_replicas}) {
    problem.max_replicas = limit;
    problem.search_seconds = std::max(0.0, seconds - (thread_seconds() - begin));
    if (!all.empty() && problem.search_seconds <= 0) {
      for (PlannedPipeline& found : all) found.plan.search.complete = false;
      break;
    }
    try {
      for (PlannedPipeline& found : system.candidates(problem, options)) all.push_back(std::move(found));
    } catch (const InputError& error) {
      if (!rejected) rejected = error;
    }
  }
  if (all.empty()) throw *rejected;
  if (simulated && replicates && problem.devices <= most) all.emplace_back(plain_data_parallelism(problem, system));
  return all;
}

bool same_decisions(const PlannedPipeline& a, const PlannedPipeline& b) {
  return a.order == b.order && a.plan.micro_batch == b.plan.micro_batch &&
         a.plan.imposed_edges == b.plan.imposed_edges &&
         std::ranges::equal(a.plan.stages, b.plan.stages, [](const PlanStage& x, const PlanStage& y) {
           return x.layers == y.layers && x.devices == y.devices && x.microbatches_per_op == y.microbatches_per_op &&
                  x.tensor == y.tensor && x.recompute == y.recompute && x.variants == y.variants &&
                  x.weight_gradient_device == y.weight_gradient_device && x.passed_channels == y.passed_channels;
         });
}

PlannedPipeline planned(const System& system, const Problem& problem, const Options& options) {
  const bool simulated = options.values().contains("rank") && options.text("rank") == "simulated";
  if (simulated && !problem.simulate)
    throw InputError(system.name, "there is no simulator to ask here", "use rank=objective");
  std::vector<PlannedPipeline> all = candidates_of(system, problem, options, simulated);
  std::vector<PlannedPipeline*> different;
  SearchReport report;
  for (PlannedPipeline& found : all) {
    report.states += found.plan.search.states;
    report.complete = report.complete && found.plan.search.complete;
    if (std::ranges::none_of(different, [&](const PlannedPipeline* known) { return same_decisions(*known, found); }))
      different.push_back(&found);
  }
  PlannedPipeline* best = nullptr;
  double least = 0;
  for (PlannedPipeline* found : different) {
    const double value =
        simulated && different.size() > 1 ? problem.simulate(*found).value : found->plan.search.objective;
    if (!best || value < least) best = found, least = value;
  }
  if (simulated) best->plan.search.states = report.states;
  best->plan.search.complete = report.complete;
  return std::move(*best);
}

PlannedPipeline plan_of(const System& system, const Problem& problem, const Options& options) {
  const int devices = count_of(problem.cluster.devices);
  if (problem.devices > devices)
    throw InputError(system.name,
                     std::to_string(problem.devices) + " ranks on a cluster of " + std::to_string(devices) + " devices",
                     "use fewer ranks or a larger cluster");
  if (system.require) system.require(problem.devices, problem.microbatches, options);
  if (system.candidates && problem.first_layers.empty()) return planned(system, problem, options);
  if (system.plan) return system.plan(problem, options);
  if (!system.chunks) return balanced_chain(problem, problem.devices, system.name);
  return chunked_chain(problem, system.chunks(options), system.chunk_placement, system.name);
}

}  // namespace

PlannedPipeline make_plan(const System& system, const Problem& problem, const Options& options) {
  PlannedPipeline planned = plan_of(system, problem, options);
  // Inference keeps no keys and values from one op to the next, so its sequences stay whole.
  if (system.sequence && !problem.inference) planned.plan.sequence = system.sequence(options);
  return planned;
}

}  // namespace sluice
