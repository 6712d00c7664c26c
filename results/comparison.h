// A comparison: the rows of one experiment, each over its seeds and in relation to a baseline. compare.h makes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/record.h"
#include "results/statistics.h"

namespace sluice {

inline constexpr const char* kReferenceSystem = "single_device";

struct Field;

inline constexpr const char* kStableRateMetric = "largest_stable_rate";  // see stability.h
inline constexpr const char* kStalenessCostMetric = "staleness_cost";    // see staleness_cost.h

struct CompareOptions {
  std::string baseline;                   // a system; empty: single_device
  std::string metric = "throughput";      // of metrics() (fields.h): sorts the rows, best first
  std::vector<std::string> columns = {};  // of the table, by name (compare_columns.h); empty: the default ones
  std::string sort = {};                  // a column that sorts the rows instead; "-name": descending
};

struct ComparisonRow {
  std::vector<Record> records;  // one per seed, in order of seed
  std::string system;
  std::string options;        // those that differ from the table's other rows: "recompute=all variant=h1"; often empty
  std::string label;          // system and options
  bool reference = false;     // single_device: always listed first, for any rank count
  bool asynchronous = false;  // some of its weights are stale
  bool baseline = false;
  int ranks = 0, microbatches = 0;
  std::int64_t samples_per_update = 0, updates_per_epoch = 0;

  std::map<const Field*, Spread> figures;                  // over the seeds, of metrics() (fields.h), as the next ones
  std::optional<Spread> figure(const Field& field) const;  // of any numeric field
  std::optional<Spread> throughput;                        // samples/s
  std::optional<Spread> latency, latency_95;  // seconds per micro-batch: median and 95th percentile; inference
  // 95 % interval of the throughput. From 6 seeds on: of their median; below: the hull of the intervals of every seed's
  // steps. None on the virtual clock, which is exact.
  std::optional<Interval> interval;
  std::optional<double> throughput_ratio, memory_ratio, time_ratio;  // to the baseline
  // Whether the throughput differs from the baseline's: the intervals do not overlap; on the virtual clock: by more
  // than the model's error (model_error.h). nullopt: too few values for an interval, or no baseline.
  std::optional<bool> differs;
  // Mann-Whitney test of the seeds' throughputs against the baseline's; wall clock, from two seeds each on.
  std::optional<double> p_value;
  std::vector<std::int64_t> measured_peaks, predicted_peaks;  // bytes, per rank, max over the seeds

  std::optional<Spread> peak_memory;         // bytes, max over the ranks of each seed
  std::optional<Spread> bubble;              // ratio
  std::optional<Spread> sent_bytes;          // max over the ranks, per update, of all kinds
  std::optional<Spread> time_to_accuracy;    // seconds, of the seeds that reached it
  std::optional<Spread> time_without_drain;  // the same without draining the pipe (metrics.h)
  int reached = 0;                           // number of seeds that reached it
  int attempts = 0;                          // seeds that ended ok, diverged or out of time
  std::optional<Spread> final_metric;
  std::optional<double> best_metric;
  std::optional<double> learning_rate;           // with tuning, the chosen one; none: not recorded
  std::optional<Tuning> tuning;                  // of the first seed; all seeds have the same
  RecordOutcome outcome = RecordOutcome::ok;     // ok if all seeds are; else the first other outcome
  std::string reason;                            // of that outcome; "" for ok
  int succeeded = 0;                             // seeds that are ok
  int diverged = 0;                              // seeds that diverged
  std::optional<std::int64_t> first_divergence;  // the earliest update of them

  // It has a target, and no seed reached it: it never wins, however fast it is.
  bool misses_target() const;
};

// Groups of systems that a metric does not separate; tell_apart.h has the rule.
struct Verdict {
  std::string metric;                           // "final accuracy"
  std::vector<std::vector<std::string>> alike;  // labels; every two of a set overlap
  std::vector<std::string> too_few_seeds;       // labels without a verdict
  std::vector<std::string> apart;               // labels that overlap with no other
};

struct Comparison {
  std::string workload, title, cluster, clock, cost_source;
  std::string duration;   // "3 epochs", "30 updates"; "" if the records do not say
  std::string optimizer;  // "sgd, learning rate 0.02", "sgd, learning rate tuned"; or ""
  std::string options;    // shared by all rows and not their systems' defaults: "recompute=all"; often empty
  bool tuned = false;     // true: every system at its own best learning rate
  int ranks = 0;
  std::int64_t batch = 0;
  std::string metric = "metric";  // the evaluation metric's name
  bool lower_is_better = false;
  std::optional<double> target;
  std::string baseline;  // "" if it has no row here
  std::vector<ComparisonRow> rows;
  std::vector<Verdict> verdicts;  // on throughput (wall clock), time to accuracy, final metric
};

}  // namespace sluice
