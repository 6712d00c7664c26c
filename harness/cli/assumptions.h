// What simulated figures assume where another assumption could change which system is first.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/evaluated_plan.h"

namespace sluice {

struct Assumption {
  std::string about;  // "overlap", "collectives", "precision", "optimizer", "costs"
  std::string text;
};

// Of a plan, and of all plans that its request makes comparable with it, except for overlap, which depends on replicas.
std::vector<Assumption> assumptions_of(const EvaluatedPlan& plan);

// Where the costs of its layers come from.
std::string costs_text(const EvaluatedPlan& plan);

// gradient_buckets: RunCase::gradient_buckets of plans with replicas.
Assumption overlap_of(Bytes gradient_buckets);

}  // namespace sluice
