// The search for a record's plan, for comparisons of planners.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "results/record.h"

namespace sluice {

struct PlanFacts {
  std::string objective_name;  // what the planner minimised
  double objective = 0;        // mostly seconds
  double search_seconds = 0;
  std::int64_t states = 0;  // visited
  int stages = 0;
  int depth = 0;         // stages on the longest path
  bool searched = true;  // false: the plan only balances the slowest of a fixed number of stages
  bool complete = true;  // false: a limit ended the search, and this was the best plan so far
};

// nullopt for a record without a plan: rejected, or older than stored plans.
std::optional<PlanFacts> plan_facts(const Record& record);

}  // namespace sluice
