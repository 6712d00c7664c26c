#include "harness/plan/make_plan.h"

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

static PlannedPipeline plan_of(const System& system, const Problem& problem, const Options& options) {
  const int devices = count_of(problem.cluster.devices);
  if (problem.devices > devices)
    throw InputError(system.name,
                     std::to_string(problem.devices) + " ranks on a cluster of " + std::to_string(devices) + " devices",
                     "use fewer ranks or a larger cluster");
  if (system.require) system.require(problem.devices, problem.microbatches, options);
  if (system.plan && !(system.searches_stages && !problem.first_layers.empty())) return system.plan(problem, options);
  if (!system.chunks) return balanced_chain(problem, problem.devices, system.name);
  return chunked_chain(problem, system.chunks(options), system.chunk_placement, system.name);
}

PlannedPipeline make_plan(const System& system, const Problem& problem, const Options& options) {
  PlannedPipeline planned = plan_of(system, problem, options);
  // Inference keeps no keys and values from one op to the next, so its sequences stay whole.
  if (system.sequence && !problem.inference) planned.plan.sequence = system.sequence(options);
  return planned;
}

}  // namespace sluice
