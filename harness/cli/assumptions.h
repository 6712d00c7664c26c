// Assumptions of simulated figures that can change which system is first.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/evaluated_plan.h"

namespace sluice {

struct Assumption {
  std::string about;  // "overlap", "collectives", "precision", "optimizer", "costs"
  std::string text;
};

// Of a plan, and of all plans of its request that are compared with it, except for overlap, which depends on replicas.
std::vector<Assumption> assumptions_of(const EvaluatedPlan& plan);

// The source of the costs of its layers.
std::string costs_text(const EvaluatedPlan& plan);

// gradient_buckets: RunCase::gradient_buckets of plans with replicas.
Assumption overlap_of(Bytes gradient_buckets);

}  // namespace sluice
