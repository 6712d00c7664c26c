// The cost of staleness: the additional updates that a training with staleness needs to its target, as a line: updates
// = updates without staleness x (1 + lambda x mean staleness). DynPipe's objective uses this lambda.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

class Json;

// lambda, in 1 / update, from the updates to a target of two trainings: without staleness, and with `staleness`. At
// least 0; 0 if nothing can be fitted.
double fitted_lambda(double updates_without, double updates_with, double staleness);

// Observed delay of a run's gradients in updates: the mean over the ranks, weighted by the bytes of their weights
// (equal weights if a record keeps only the fullest rank's memory). nullopt: not recorded.
std::optional<double> mean_staleness(const Record& record);

// A system with late gradients, over the seeds for which it and the single device both reached the target.
struct StalenessCost {
  std::string label;
  int ranks = 0;
  double staleness = 0;             // updates
  int seeds = 0;                    // for which both reached it
  Spread updates, without, lambda;  // updates to the target, those of the single device; without seeds: 0
};

struct StalenessCosts {
  std::string title, cluster, clock, optimizer, metric;
  std::int64_t batch = 0;
  double target = 0;
  std::vector<StalenessCost> rows;  // by ascending staleness
};

// One for each comparison with a target, a single device and a system with staleness.
std::vector<StalenessCosts> staleness_costs(std::span<const Comparison> comparisons);

std::string to_table(std::span<const StalenessCosts> costs);
Json to_json(std::span<const StalenessCosts> costs);

}  // namespace sluice
