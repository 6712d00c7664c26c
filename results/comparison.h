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
  std::string sort = {};                  // a column that sorts the rows instead; "-name": falling
};

struct ComparisonRow {
  std::vector<Record> records;  // one a seed, in order of seed
  std::string system;
  std::string options;        // what the table's other rows do not share: "recompute=all variant=h1"; often empty
  std::string label;          // system and options
  bool reference = false;     // single_device: always listed, first, whatever its rank count
  bool asynchronous = false;  // some of its weights are stale
  bool baseline = false;
  int ranks = 0, microbatches = 0;
  std::int64_t samples_per_update = 0, updates_per_epoch = 0;

  std::map<const Field*, Spread> figures;                  // over the seeds, of metrics() (fields.h); the next ones too
  std::optional<Spread> figure(const Field& field) const;  // of any field with a number
  std::optional<Spread> throughput;                        // samples/s
  std::optional<Spread> latency, latency_95;  // seconds of a micro-batch: median and 95th percentile; inference
  // 95 % interval of the throughput. From 6 seeds on: of their median; below: what holds the interval of every seed's
  // steps. None on the virtual clock, which is exact.
  std::optional<Interval> interval;
  std::optional<double> throughput_ratio, memory_ratio, time_ratio;  // to the baseline
  // Whether the throughput differs from the baseline's: the intervals are apart; on the virtual clock by more than the
  // model's error (model_error.h). nullopt: too few values for an interval, or no baseline.
  std::optional<bool> differs;
  // Mann and Whitney's test of the seeds' throughputs against the baseline's; wall clock, from two seeds each on.
  std::optional<double> p_value;
  std::vector<std::int64_t> measured_peaks, predicted_peaks;  // bytes, per rank, largest of the seeds

  std::optional<Spread> peak_memory;         // bytes, largest rank of each seed
  std::optional<Spread> bubble;              // ratio
  std::optional<Spread> sent_bytes;          // that the rank sends in an update that sends most, of all kinds
  std::optional<Spread> time_to_accuracy;    // seconds, of the seeds that reached it
  std::optional<Spread> time_without_drain;  // the same with the pipe never emptied (metrics.h)
  int reached = 0;                           // how many did
  int attempts = 0;                          // that could have: ok, diverged or out of time
  std::optional<Spread> final_metric;
  std::optional<double> best_metric;
  std::optional<double> learning_rate;           // where it was tuned, the chosen one; none: not recorded
  std::optional<Tuning> tuning;                  // of the first seed: it is that of all
  RecordOutcome outcome = RecordOutcome::ok;     // ok if all seeds are; else the first other one
  std::string reason;                            // of that one; "" for ok
  int succeeded = 0;                             // seeds that are ok
  int diverged = 0;                              // seeds that diverged
  std::optional<std::int64_t> first_divergence;  // the earliest update of them

  // Its quality was measured against a target, and no seed reached it: it is no winner, however fast.
  bool misses_target() const;
};

// Which systems a metric does not tell apart; tell_apart.h has the rule.
struct Verdict {
  std::string metric;                           // "final accuracy"
  std::vector<std::vector<std::string>> alike;  // labels; every two of a set overlap
  std::vector<std::string> too_few_seeds;       // labels of which nothing is said
  std::vector<std::string> apart;               // labels that overlap with no other
};

struct Comparison {
  std::string workload, title, cluster, clock, cost_source;
  std::string duration;   // "3 epochs", "30 updates"; "" if the records do not say
  std::string optimizer;  // "sgd, learning rate 0.02", "sgd, learning rate tuned"; or ""
  std::string options;    // that all rows share and that are not their systems' defaults: "recompute=all"; often empty
  bool tuned = false;     // every system at its own best learning rate
  int ranks = 0;
  std::int64_t batch = 0;
  std::string metric = "metric";  // the evaluation metric's name
  bool lower_is_better = false;
  std::optional<double> target;
  std::string baseline;  // "" if no row of the baseline is here
  std::vector<ComparisonRow> rows;
  std::vector<Verdict> verdicts;  // on throughput (wall clock), time to accuracy, final metric
};

}  // namespace sluice
