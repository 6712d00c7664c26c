// How long a sweep will take, before it runs: from the speed that records of this machine show, or that a few updates
// show which are run for it, and where neither is there from the layers' operations at a rate that is stated.
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

// Of a core, where no record tells: floating-point operations a second, and seconds an op of a layer takes at least.
inline constexpr double kAssumedFlops = 2e10, kAssumedOverhead = 1e-5;
// Of a case that trains nothing: planning, simulating, writing the record.
inline constexpr double kAssumedSecondsWithoutTraining = 0.5;

struct SweepTime {
  std::size_t wall_cases = 0, virtual_cases = 0;        // on CPUs
  std::size_t gpu_cases = 0;                            // in no other figure: how fast a GPU trains, no CPU tells
  double wall_seconds = 0;                              // one case after another
  double virtual_seconds = 0;                           // `jobs` at a time
  std::vector<std::string> measured, assumed, unknown;  // workloads: by records, by the rate above, no data here
};

// Processor seconds of a case on one core of this machine.
struct CaseWork {
  double seconds = 0;
  bool measured = false;  // by a record
};
// measured: seconds of a sample's forward and backward, by workload. nullopt: the case's data set is not here.
std::optional<CaseWork> work_of(const RunCase& c, const std::map<std::string, double>& measured);

// Seconds of one sample's training on one core, by workload: of the records of single_device on this machine's wall
// clock, the median.
std::map<std::string, double> seconds_per_sample(std::span<const Record> records);

// Six updates of a workload that take longer than this at the rate above are not run to estimate a sweep.
inline constexpr double kLongestMeasurement = 30;  // seconds

// Trains every workload that the cases train on the CPU and no record tells of, on one core, for six updates: their
// records, for seconds_per_sample. Of a workload that does not run here, or takes too long: none. `say` is told each
// before it begins.
std::vector<Record> measure_speeds(std::span<const RunCase> cases, std::span<const Record> records,
                                   ProfileStore& profiles, const std::function<void(const std::string& workload)>& say);

// jobs, cores: of this machine. Cases of synchronous systems that train alike on as many micro-batches count once (see
// shared_training.h); what others share counts for each of them, so that it is an upper estimate.
SweepTime sweep_time(std::span<const RunCase> cases, std::span<const Record> records, int jobs, int cores);

// Sentences, a line each.
std::string to_text(const SweepTime& time, int jobs);

}  // namespace sluice
