// Metrics that are derived from a record's raw samples when it is read. A run that crashed, did not fit or was rejected
// has no metrics, because a part of a run is not comparable. A run that timed out has them, because its measurements
// until then are complete. A run that diverged has none either, but it is a result: comparisons count it as a run that
// did not reach its target.
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
bool is_result(const Record& record);    // "ok" or "diverged": not run again

// Throughput: the samples of the steps in a window / the window's length. On the wall clock the window is all steps
// after the warm-up. On the virtual clock it is the steady state: whole periods of the steps between two drains
// (steady_window) or, for a run that is too short to show them, observed.steady_update_seconds. It is all steps after
// the warm-up if interference or moves of layers change the steps, or if nothing repeats.
struct Throughput {
  double samples_per_second = 0;
  std::optional<Interval> interval;  // 95 % (mean_interval); none on the virtual clock, and with fewer than 6 steps
  std::size_t steps = 0;             // of the window
  double median_step = 0;            // seconds, of all steps after the warm-up: a diagnostic, not a rate
};
std::optional<Throughput> throughput(const Record& record);
std::optional<double> samples_per_second(const Record& record);  // without an interval, which takes long to compute
// Whether it is a run on the virtual clock without interference whose steps do not show a steady state.
bool lacks_steady_state(const Record& record);
// Seconds per update with that many samples, at that many samples per second.
double update_seconds(std::int64_t samples, double samples_per_second);
std::optional<double> update_seconds(const Record& record);  // at its throughput

// A rate of samples in tokens and FLOPs.
struct ModelRates {
  std::optional<double> tokens_per_second;  // over all devices
  double tflops_per_device = 0;             // model FLOP, 1e12 per second
  std::optional<double> mfu;                // model FLOP utilisation: of the devices' peak at the run's precision
};
ModelRates model_rates(const ModelWork& work, double samples_per_second);
std::optional<ModelRates> model_rates(const Record& record);  // at its throughput
// "12,345 tokens/s, 123 TFLOP/s per device, MFU 39.4 %": the known ones, TFLOP/s only with a known peak.
std::string to_text(const ModelRates& rates);

bool is_inference(const Record& record);
// For inference: seconds from the start of a micro-batch's first forward to the end of its last one, over all
// micro-batches after the warm-up's batches. nullopt: not inference, or no metrics.
struct Latency {
  double median = 0, percentile_95 = 0;
  friend bool operator==(const Latency&, const Latency&) = default;
};
std::optional<Latency> latency(const Record& record);

// Totals in bytes, per rank; empty if there are none. Measured: on the wall clock. Predicted: on both clocks.
std::vector<std::int64_t> measured_peaks(const Record& record);
std::vector<std::int64_t> predicted_peaks(const Record& record);

// Max over the ranks; measured if there is a measurement, else predicted.
std::optional<std::int64_t> peak_memory(const Record& record);

// Share of the ranks' time in a step without compute; nullopt: not recorded.
std::optional<double> bubble_ratio(const Record& record);

// What ranks send in an update: activations and their gradients, gathered weights, reduced gradients.
enum class SentKind { messages, gathers, reductions };
inline constexpr SentKind kSentKinds[] = {SentKind::messages, SentKind::gathers, SentKind::reductions};
const char* to_text(SentKind kind);  // its name in a record
// Max over the ranks of the bytes of a kind that a rank sends; nullopt: not recorded.
std::optional<std::int64_t> max_sent(const Record& record, SentKind kind);
// The same over all kinds together.
std::optional<std::int64_t> max_sent(const Record& record);

const std::vector<std::int64_t>& bytes_of(const SentByRanks& sent, SentKind kind);  // per rank

// From the workload's facts; for a record without them: "metric", higher is better, and the workload's name.
std::string metric_name(const Record& record);
bool lower_is_better(const Record& record);
std::string workload_title(const Record& record);
std::optional<double> target(const Record& record);

// "3 epochs", "30 updates", "30 batches" (inference); "" if not recorded.
std::string duration_text(const Record& record);

// "sgd, learning rate 0.02, momentum 0.9"; "inference" without an optimizer. A tuned rate is "tuned", for any choice,
// and without `with_rate` it is left out: runs with equal texts may be compared.
std::string optimizer_text(const Record& record, bool with_rate = true);
std::optional<double> learning_rate(const Record& record);  // used in the run; with tuning, the chosen one

// Whether some rank computes with stale weights; if the record has no theory, whether the system's ranks do.
bool is_asynchronous(const Record& record);

// The first update of the last tenth, which has at least one update.
std::int64_t first_closing_step(const Record& record);

// Mean training loss over the last tenth of the updates, because the loss of one batch is noisy; nullopt if the curve
// does not end with a loss.
std::optional<double> closing_loss(const Record& record);

// Updates done when the metric first reaches the target; nullopt if it never does or there is no target.
std::optional<std::int64_t> updates_to_target(const Record& record);

// Training seconds until the metric first reaches the target; nullopt if it never does or there is no target.
std::optional<double> time_to_accuracy(const Record& record);

// The same for comparisons over seeds: infinite for a run that diverged or ended without reaching the target, so worse
// than every time; nullopt for other runs.
std::optional<double> time_or_miss(const Record& record);

// time_to_accuracy without draining the pipe. An asynchronous system drains before an evaluation and fills again after
// it, so the first step of every segment takes the whole latency of the pipe. Here every step takes the mean of the
// others or, on the virtual clock without interference, the seconds of an update in the steady state. Equal to
// time_to_accuracy for systems that flush at every update. nullopt also if not all steps are kept.
std::optional<double> time_to_accuracy_without_drain(const Record& record);

// The last and the best evaluation. NaN is never the best.
std::optional<double> final_metric(const Record& record);
std::optional<double> best_metric(const Record& record);

// One record per case: the last result, else the last record. In the order of first appearance. A store only grows, so
// a case that failed and was run again is in it twice.
std::vector<const Record*> latest_of(std::span<const Record> records);
// The same, after all rounds of a validation, each of which counts.
std::vector<Record> latest(std::vector<Record> records);
// Cases with more than one result (ok or diverged), as after merging shards that overlap: one sentence each, which says
// that latest() keeps the last. Results that differ only in their timeline count as one.
std::vector<std::string> repeated_results(std::span<const Record> records);

}  // namespace sluice
