// Estimate of a sweep's duration before it runs: from the speed in records of this machine, else from a few updates
// that are run for it, else from the layers' operations at a stated rate.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/profile_store.h"
#include "results/record.h"

namespace sluice {

// Rate of a core without a record: floating-point operations per second, and min seconds per op of a layer.
inline constexpr double kAssumedFlops = 2e10, kAssumedOverhead = 1e-5;
// For a case that trains nothing: planning, simulating, writing the record.
inline constexpr double kAssumedSecondsWithoutTraining = 0.5;

struct SweepTime {
  std::size_t wall_cases = 0, virtual_cases = 0;        // on CPUs
  std::size_t gpu_cases = 0;                            // GPU cases; not estimated
  double wall_seconds = 0;                              // one case after another
  double virtual_seconds = 0;                           // `jobs` at a time
  std::vector<std::string> measured, assumed, unknown;  // workloads: by records; by the rate above; without data here
};

// Processor seconds of a case on one core of this machine.
struct CaseWork {
  double seconds = 0;
  bool measured = false;  // by a record
};
// measured: seconds of one sample's forward and backward, by workload. nullopt: the case's data set is missing.
std::optional<CaseWork> work_of(const RunCase& c, const std::map<std::string, double>& measured);

// Seconds of one sample's training on one core, by workload: the median of single_device's records on this machine's
// wall clock.
std::map<std::string, double> seconds_per_sample(std::span<const Record> records);

// A workload whose six updates would take longer than this, at the rate above, is not run for an estimate.
inline constexpr double kLongestMeasurement = 30;  // seconds

// Trains every workload that the cases train on the CPU and that no record covers, on one core, for six updates.
// Returns their records, for seconds_per_sample, without workloads that do not run here or take too long. `say` is
// called with each before it begins.
std::vector<Record> measure_speeds(std::span<const RunCase> cases, std::span<const Record> records,
                                   ProfileStore& profiles, const std::function<void(const std::string& workload)>& say);

// jobs, cores: of this machine. Cases of synchronous systems that share a training on the same number of micro-batches
// count once (see shared_training.h); other shared trainings count for each case, so this is an upper estimate.
SweepTime sweep_time(std::span<const RunCase> cases, std::span<const Record> records, int jobs, int cores);

// Sentences, one per line.
std::string to_text(const SweepTime& time, int jobs);

}  // namespace sluice
