// What staleness costs: how many more updates a training needs to its target than one without, a line through the two:
// updates = updates without staleness x (1 + lambda x mean staleness). DynPipe's objective takes the lambda of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

class Json;

// lambda, in 1 / update, from the updates to a target of two trainings: without staleness, and with `staleness`. Not
// negative; 0 where nothing can be fitted.
double fitted_lambda(double updates_without, double updates_with, double staleness);

// Updates by which the gradients of a run were late, as observed: the mean over the ranks, each counted by the bytes of
// its weights (all alike where a record keeps only the fullest rank's memory). nullopt: not recorded.
std::optional<double> mean_staleness(const Record& record);

// A system whose gradients are late, over the seeds under which it and the single device both reached the target.
struct StalenessCost {
  std::string label;
  int ranks = 0;
  double staleness = 0;             // updates
  int seeds = 0;                    // that both reached it under
  Spread updates, without, lambda;  // updates to the target, those of the single device; of no seed: 0
};

struct StalenessCosts {
  std::string title, cluster, clock, optimizer, metric;
  std::int64_t batch = 0;
  double target = 0;
  std::vector<StalenessCost> rows;  // by rising staleness
};

// One for each comparison that has a target, a single device and a system with staleness.
std::vector<StalenessCosts> staleness_costs(std::span<const Comparison> comparisons);

std::string to_table(std::span<const StalenessCosts> costs);
Json to_json(std::span<const StalenessCosts> costs);

}  // namespace sluice
