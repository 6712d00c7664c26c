// Target accuracies, derived from records: a target is 98 % of the median final metric of single-device training with
// seeds 1 to 3 and the workload's own epochs, batch and optimizer; for a metric that falls, the median divided by 0.98.
// Both are rounded to four decimals. results/reference/targets.jsonl has the records of all workloads.
#pragma once

#include <map>
#include <span>
#include <string>

#include "results/record.h"

namespace sluice {

struct Target {
  double single_device_value = 0, target = 0;
};

// By workload. Workloads without a finished single-device record for each of the three seeds are missing.
std::map<std::string, Target> measured_targets(std::span<const Record> records);

// Replaces the target in each record by its workload's; records of other workloads stay unchanged.
void set_targets(std::span<Record> records, const std::map<std::string, Target>& targets);

}  // namespace sluice
