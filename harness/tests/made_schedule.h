// Schedules as systems make them, for the tests that hold them against published ones.
#pragma once

#include <map>
#include <string>

#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/sim/latency_cluster.h"

namespace sluice {

using Given = std::map<std::string, std::string>;

// A system's order for a chain of equal stages, placed by its own plan.
struct Made {
  UniformChain chain;
  Schedule schedule;
};

inline Made make(const std::string& name, int ranks, int microbatches, const Given& given = {}) {
  const System& system = find_system(name, "test");
  const Options options = resolve_options(system.options, given, "test");
  const StageCost one{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  Made made{uniform_chain(system, options, latency_cluster(ranks, Seconds(0)), ranks, microbatches, one), {}};
  made.schedule = system.schedule(made.chain.problem, options);
  return made;
}

}  // namespace sluice
