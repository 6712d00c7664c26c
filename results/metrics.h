// What is derived from a record's raw samples when it is read. A run that crashed, did not fit or was rejected has no
// metrics, however far it came: part of a run compares with nothing. One that ran out of time has them, because what it
// measured until then is whole. One that diverged has none either, but it is a result: comparisons count it as a run
// that did not reach its target.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/record.h"
#include "results/statistics.h"

namespace sluice {

bool has_metrics(const Record& record);  // outcome "ok" or "timed_out"
bool is_result(const Record& record);    // "ok" or "diverged": nothing to run again

// Work over time: the samples of the steps of a window over the window's length. On the wall clock the window is all
// steps after the warm-up. On the virtual clock it is the steady state: whole periods of the steps between two drains
// (steady_window), or, of a run that is too short to show them, what observed.steady_update_seconds says; all steps
// after the warm-up where interference or moves of layers change the steps, or where nothing repeats.
struct Throughput {
  double samples_per_second = 0;
  std::optional<Interval> interval;  // 95 % (mean_interval); none on the virtual clock, and with fewer than 6 steps
  std::size_t steps = 0;             // of the window
  double median_step = 0;            // seconds, of all steps after the warm-up: a diagnostic, not a rate
};
std::optional<Throughput> throughput(const Record& record);
std::optional<double> samples_per_second(const Record& record);  // without an interval, which takes long to find
// Whether it is a run on the virtual clock that nothing disturbs and whose steps do not show a steady state.
bool lacks_steady_state(const Record& record);
// Seconds of an update of that many samples at that many samples a second.
double update_seconds(std::int64_t samples, double samples_per_second);
std::optional<double> update_seconds(const Record& record);  // at its throughput

// What a rate of samples is in tokens and FLOPs.
struct ModelRates {
  std::optional<double> tokens_per_second;  // of all devices together
  double tflops_per_device = 0;             // model FLOP, 1e12 a second
  std::optional<double> mfu;                // model FLOP utilisation: of the devices' peak at the run's precision
};
ModelRates model_rates(const ModelWork& work, double samples_per_second);
std::optional<ModelRates> model_rates(const Record& record);  // at its throughput
// "12,345 tokens/s, 123 TFLOP/s per device, MFU 39.4 %": what there is of them, TFLOP/s only where there is a peak.
std::string to_text(const ModelRates& rates);

bool is_inference(const Record& record);
// Of inference: seconds from a micro-batch's first forward to the end of its last one, over all of them but those of
// the warm-up's batches. nullopt: not inference, or no metrics.
struct Latency {
  double median = 0, percentile_95 = 0;
  friend bool operator==(const Latency&, const Latency&) = default;
};
std::optional<Latency> latency(const Record& record);

// Totals in bytes, rank by rank; empty where none were taken. Measured: on the wall clock. Predicted: next to it, and
// on the virtual clock all there is.
std::vector<std::int64_t> measured_peaks(const Record& record);
std::vector<std::int64_t> predicted_peaks(const Record& record);

// The largest over the ranks; measured if there is a measurement, else predicted.
std::optional<std::int64_t> peak_memory(const Record& record);

// The share of the ranks' time in a step in which they compute nothing; nullopt: not recorded.
std::optional<double> bubble_ratio(const Record& record);

// What ranks send in an update: activations and their gradients, gathered weights, reduced gradients.
enum class SentKind { messages, gathers, reductions };
inline constexpr SentKind kSentKinds[] = {SentKind::messages, SentKind::gathers, SentKind::reductions};
const char* to_text(SentKind kind);  // its name in a record
// Bytes that the rank sends that sends most of a kind; nullopt: not recorded.
std::optional<std::int64_t> max_sent(const Record& record, SentKind kind);
// The same of all kinds together.
std::optional<std::int64_t> max_sent(const Record& record);

const std::vector<std::int64_t>& bytes_of(const SentByRanks& sent, SentKind kind);  // of every rank

// What the workload's facts say; of a record without them "metric", higher is better, and the workload's name.
std::string metric_name(const Record& record);
bool lower_is_better(const Record& record);
std::string workload_title(const Record& record);
std::optional<double> target(const Record& record);

// "3 epochs", "30 updates", "30 batches" (inference); "" where the record does not say.
std::string duration_text(const Record& record);

// "sgd, learning rate 0.02, momentum 0.9"; "inference" where nothing is optimized. A tuned rate is "tuned", whatever
// was chosen, and without `with_rate` it is left out: texts are equal where runs may stand side by side.
std::string optimizer_text(const Record& record, bool with_rate = true);
std::optional<double> learning_rate(const Record& record);  // in force: a tuned one's choice

// Whether some rank computes with stale weights; where the record does not say (theory), whether the system's ranks do.
bool is_asynchronous(const Record& record);

// The first update of the last tenth, at least the last update.
std::int64_t first_closing_step(const Record& record);

// Mean training loss over the last tenth of the updates, since one batch's loss says little; nullopt if the curve does
// not end with a loss.
std::optional<double> closing_loss(const Record& record);

// Updates done when the metric first reaches the target; nullopt if it does not or there is none.
std::optional<std::int64_t> updates_to_target(const Record& record);

// Training seconds until the metric first reaches the target; nullopt if it does not or there is none.
std::optional<double> time_to_accuracy(const Record& record);

// The same with the pipe never emptied: an asynchronous system drains before an evaluation and fills again after it, so
// the first step of every segment takes the whole latency of the pipe; here every step takes what the others take on
// average, or, on the virtual clock without interference, what an update takes in the steady state. Equal to
// time_to_accuracy for a system whose every update is a flush. nullopt also where the steps are not all kept.
std::optional<double> time_to_accuracy_without_drain(const Record& record);

// The last and the best evaluation. A NaN never is the best.
std::optional<double> final_metric(const Record& record);
std::optional<double> best_metric(const Record& record);

// One record a case: the last that is a result, else the last. Order of first appearance. A store only grows, so a case
// that failed and was run again is in it twice.
std::vector<const Record*> latest_of(std::span<const Record> records);
std::vector<Record> latest(std::vector<Record> records);
// Cases with more than one result (ok or diverged), as when shards that overlap are merged: one sentence each, that
// latest() keeps the last. Results that differ in their timeline alone are one.
std::vector<std::string> repeated_results(std::span<const Record> records);

}  // namespace sluice
