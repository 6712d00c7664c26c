#include "results/targets.h"

#include <cmath>

#include "results/metrics.h"
#include "results/statistics.h"

namespace sluice {

constexpr std::uint64_t kSeeds = 3;
constexpr double kShare = 0.98;

static double rounded(double value) { return std::round(value * 1e4) / 1e4; }

std::map<std::string, Target> measured_targets(std::span<const Record> records) {
  struct Seeds {
    std::map<std::uint64_t, double> finals;
    bool lower = false;
  };
  std::map<std::string, Seeds> workloads;
  for (const Record& record : records) {
    if (record.system != "single_device" || record.outcome != RecordOutcome::ok || record.seed > kSeeds) continue;
    if (const auto value = final_metric(record)) {
      workloads[record.workload].finals[record.seed] = *value;
      workloads[record.workload].lower = lower_is_better(record);
    }
  }
  std::map<std::string, Target> targets;
  for (const auto& [workload, seeds] : workloads) {
    if (seeds.finals.size() != kSeeds) continue;
    std::vector<double> finals;
    for (const auto& [seed, value] : seeds.finals) finals.push_back(value);
    const double value = rounded(median(finals));
    targets[workload] = {value, rounded(seeds.lower ? value / kShare : value * kShare)};
  }
  return targets;
}

void set_targets(std::span<Record> records, const std::map<std::string, Target>& targets) {
  for (Record& record : records) {
    const auto found = targets.find(record.workload);
    if (found == targets.end() || !record.workload_facts) continue;
    record.workload_facts->single_device_value = found->second.single_device_value;
    record.workload_facts->target = found->second.target;
  }
}

}  // namespace sluice
