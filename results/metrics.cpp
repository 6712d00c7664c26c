// Metrics from raw samples: see metrics.h.
#include "results/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/json.h"
#include "harness/pipeline/system.h"
#include "results/steady_window.h"

namespace sluice {
namespace {

std::vector<std::int64_t> totals(const std::vector<MemorySplit>& splits) {
  std::vector<std::int64_t> result;
  for (const MemorySplit& split : splits) result.push_back(split.total);
  return result;
}

}  // namespace

bool has_metrics(const Record& record) {
  return record.outcome == RecordOutcome::ok || record.outcome == RecordOutcome::timed_out;
}

bool is_result(const Record& record) {
  return record.outcome == RecordOutcome::ok || record.outcome == RecordOutcome::diverged;
}

static std::size_t warmup_of(const Record& record) {
  return static_cast<std::size_t>(std::max(record.warmup_steps, 0));
}

// Updates by which the most stale rank is behind; 0: every update is a flush.
static std::size_t staleness_of(const Record& record) {
  int stale = 0;
  for (const auto& of_ranks : {record.theory ? record.theory->staleness : std::vector<int>{},
                               record.observed.staleness.value_or(std::vector<int>{})})
    for (const int updates : of_ranks) stale = std::max(stale, updates);
  return static_cast<std::size_t>(stale);
}

// The steps of the longest segment between two drains, without the warm-up and the last ones, which are faster because
// nothing follows them: as many as the run is stale.
static std::span<const double> undisturbed_steps(const Record& record) {
  const std::span<const double> all(record.step_seconds);
  const std::size_t tail = staleness_of(record);
  std::span<const double> longest;
  std::size_t begin = 0;
  const auto segment = [&](std::size_t end) {
    const std::size_t from = std::max(begin, warmup_of(record)), to = end > tail ? end - tail : 0;
    if (to > from && to - from > longest.size()) longest = all.subspan(from, to - from);
    begin = end;
  };
  for (const CurvePoint& point : record.curve)
    if (const auto end = static_cast<std::size_t>(std::max<std::int64_t>(point.step, 0));
        point.metric && end > begin && end < all.size())
      segment(end);
  segment(all.size());
  return longest;
}

static bool is_disturbed(const Record& record) {
  const auto& changes = record.observed.adaptation;
  return record.observed.interference || (changes && !changes->changes.empty());
}

static std::optional<SteadyWindow> steady_state(const Record& record) {
  return steady_window(undisturbed_steps(record), staleness_of(record) > 0 ? kMinSteps : 2);
}

bool lacks_steady_state(const Record& record) {
  return has_metrics(record) && record.clock == Clock::virtual_clock && !record.step_seconds.empty() &&
         !is_disturbed(record) && !steady_state(record);
}

// Those after the warm-up; on the wall clock without the last ones of a stale run, if two others are left.
static std::span<const double> counted_steps(const Record& record) {
  const std::span<const double> all(record.step_seconds);
  const std::size_t warmup = std::min(warmup_of(record), all.size());
  const std::size_t tail = record.clock == Clock::wall ? staleness_of(record) : 0;
  return all.subspan(warmup, all.size() - warmup - (all.size() >= warmup + tail + 2 ? tail : 0));
}

static std::optional<Throughput> without_interval(const Record& record) {
  const auto steps = counted_steps(record);
  if (!has_metrics(record) || steps.empty() || record.samples_per_step <= 0) return std::nullopt;
  const auto samples = static_cast<double>(record.samples_per_step);
  const auto over = [&](std::size_t count, double seconds) -> std::optional<Throughput> {
    if (!(seconds > 0) || !std::isfinite(seconds)) return std::nullopt;
    return Throughput{samples * static_cast<double>(count) / seconds, std::nullopt, count, median(steps)};
  };
  if (record.clock == Clock::virtual_clock && !is_disturbed(record)) {
    if (const auto& steady = record.observed.steady_update_seconds) return over(1, *steady);
    if (const auto window = steady_state(record)) return over(window->count, window->seconds);
  }
  return over(steps.size(), std::accumulate(steps.begin(), steps.end(), 0.0));
}

std::optional<Throughput> throughput(const Record& record) {
  std::optional<Throughput> result = without_interval(record);
  if (!result || record.clock == Clock::virtual_clock) return result;
  const auto samples = static_cast<double>(record.samples_per_step);
  if (const auto seconds = mean_interval(counted_steps(record)); seconds && seconds->low > 0)
    result->interval = Interval{samples / seconds->high, samples / seconds->low};
  return result;
}

std::optional<double> samples_per_second(const Record& record) {
  const auto rate = without_interval(record);
  return rate ? std::optional(rate->samples_per_second) : std::nullopt;
}

double update_seconds(std::int64_t samples, double samples_per_second) {
  return static_cast<double>(samples) / samples_per_second;
}

ModelRates model_rates(const ModelWork& work, double samples_per_second) {
  const double flops = samples_per_second * work.flop;
  ModelRates rates{.tflops_per_device = flops / work.devices / 1e12};
  if (work.tokens) rates.tokens_per_second = samples_per_second * static_cast<double>(*work.tokens);
  if (work.peak_flops && *work.peak_flops > 0) rates.mfu = flops / *work.peak_flops;
  return rates;
}

std::optional<ModelRates> model_rates(const Record& record) {
  const auto rate = samples_per_second(record);
  if (!rate || !record.work) return std::nullopt;
  return model_rates(*record.work, *rate);
}

std::string to_text(const ModelRates& rates) {
  std::string text;
  if (rates.tokens_per_second) text = fmt::format("{:.4g} tokens/s", *rates.tokens_per_second);
  if (rates.mfu)
    text += fmt::format("{}{:.3g} TFLOP/s per device, MFU {:.3g} %", text.empty() ? "" : ", ", rates.tflops_per_device,
                        100 * *rates.mfu);
  return text;
}

std::optional<double> update_seconds(const Record& record) {
  const std::optional<double> rate = samples_per_second(record);
  return rate ? std::optional(update_seconds(record.samples_per_step, *rate)) : std::nullopt;
}

bool is_inference(const Record& record) {
  const auto task = record.options.find("task");
  return task != record.options.end() && task->second == "inference";
}

std::optional<Latency> latency(const Record& record) {
  if (!has_metrics(record) || !record.observed.latency_seconds) return std::nullopt;
  const auto first = static_cast<std::size_t>(std::max(record.warmup_steps * record.microbatches, 0));
  if (first >= record.observed.latency_seconds->size()) return std::nullopt;
  const auto seconds = std::span(*record.observed.latency_seconds).subspan(first);
  return Latency{median(seconds), quantile(seconds, 0.95)};
}

std::vector<std::int64_t> measured_peaks(const Record& record) {
  if (!has_metrics(record) || record.clock != Clock::wall) return {};
  return totals(record.peak_bytes);
}

std::vector<std::int64_t> predicted_peaks(const Record& record) {
  if (!has_metrics(record)) return {};
  if (!record.predicted_peak_bytes.empty()) return totals(record.predicted_peak_bytes);
  return record.clock == Clock::virtual_clock ? totals(record.peak_bytes) : std::vector<std::int64_t>{};
}

std::optional<std::int64_t> peak_memory(const Record& record) {
  std::vector<std::int64_t> peaks = measured_peaks(record);
  if (peaks.empty()) peaks = predicted_peaks(record);
  if (peaks.empty()) return std::nullopt;
  return *std::max_element(peaks.begin(), peaks.end());
}

std::optional<double> bubble_ratio(const Record& record) { return record.observed.bubble_ratio; }

const char* to_text(SentKind kind) {
  static constexpr const char* kTexts[] = {"messages", "gathers", "reductions"};
  return kTexts[static_cast<std::size_t>(kind)];
}

const std::vector<std::int64_t>& bytes_of(const SentByRanks& sent, SentKind kind) {
  if (kind == SentKind::messages) return sent.messages;
  return kind == SentKind::gathers ? sent.gathers : sent.reductions;
}

std::optional<std::int64_t> max_sent(const Record& record, SentKind kind) {
  if (!record.observed.sent_bytes) return std::nullopt;
  std::int64_t most = 0;
  for (const std::int64_t bytes : bytes_of(*record.observed.sent_bytes, kind)) most = std::max(most, bytes);
  return most;
}

std::optional<std::int64_t> max_sent(const Record& record) {
  if (!record.observed.sent_bytes) return std::nullopt;
  std::vector<std::int64_t> of_ranks;
  for (const SentKind kind : kSentKinds) {
    std::size_t rank = 0;
    for (const std::int64_t bytes : bytes_of(*record.observed.sent_bytes, kind)) {
      of_ranks.resize(std::max(of_ranks.size(), rank + 1), 0);
      of_ranks[rank++] += bytes;
    }
  }
  return of_ranks.empty() ? std::nullopt : std::optional(*std::max_element(of_ranks.begin(), of_ranks.end()));
}

std::string metric_name(const Record& record) { return record.workload_facts.value_or(WorkloadFacts{}).metric; }

bool lower_is_better(const Record& record) {
  return record.workload_facts && record.workload_facts->metric_direction == MetricDirection::down;
}

std::optional<double> target(const Record& record) {
  return record.workload_facts ? record.workload_facts->target : std::nullopt;
}

std::string workload_title(const Record& record) {
  return record.workload_facts && !record.workload_facts->title.empty() ? record.workload_facts->title
                                                                        : record.workload;
}

std::string duration_text(const Record& record) {
  const auto text = [](std::int64_t n, const char* noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
  };
  if (!record.workload_facts) return "";
  if (const auto n = record.workload_facts->epochs; n > 0) return text(n, "epoch");
  if (const auto n = record.workload_facts->steps; n > 0)
    return is_inference(record) ? std::to_string(n) + (n == 1 ? " batch" : " batches") : text(n, "update");
  return "";
}

std::string optimizer_text(const Record& record, bool with_rate) {
  if (is_inference(record)) return "inference";
  const bool tuned = record.tuning.has_value();
  if (!record.optimizer) return tuned && with_rate ? "learning rate tuned" : "";
  std::string text = choice_name(record.optimizer->kind);
  const Json settings = to_json(*record.optimizer);
  for (const auto& [name, value] : settings.items()) {
    const bool is_rate = name == "learning_rate";
    if (name == "kind" || value == 0 || (is_rate && !with_rate)) continue;
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    text += (text.empty() ? "" : ", ") + words + " ";
    text += is_rate && tuned ? "tuned" : value.dump();
  }
  return text;
}

std::optional<double> learning_rate(const Record& record) {
  return record.optimizer ? std::optional(record.optimizer->learning_rate) : std::nullopt;
}

std::int64_t first_closing_step(const Record& record) {
  const std::int64_t steps = record.curve.empty() ? 0 : record.curve.back().step;
  return steps + 1 - std::max<std::int64_t>(steps / 10, 1);
}

std::optional<double> closing_loss(const Record& record) {
  if (record.curve.empty() || !record.curve.back().loss) return std::nullopt;
  double sum = 0;
  int points = 0;
  for (const CurvePoint& point : record.curve)
    if (point.step >= first_closing_step(record) && point.loss) sum += *point.loss, ++points;
  return sum / points;
}

// The first evaluation that reaches the target; null: none does, or there is no target.
static const CurvePoint* target_reached(const Record& record) {
  const std::optional<double> goal = target(record);
  if (!has_metrics(record) || !goal) return nullptr;
  const bool down = lower_is_better(record);
  for (const CurvePoint& point : record.curve)
    if (point.metric && (down ? *point.metric <= *goal : *point.metric >= *goal)) return &point;
  return nullptr;
}

std::optional<std::int64_t> updates_to_target(const Record& record) {
  const CurvePoint* point = target_reached(record);
  return point ? std::optional(point->step) : std::nullopt;
}

std::optional<double> time_to_accuracy(const Record& record) {
  const CurvePoint* point = target_reached(record);
  return point ? std::optional(point->seconds) : std::nullopt;
}

std::optional<double> time_or_miss(const Record& record) {
  if (const auto time = time_to_accuracy(record)) return time;
  const bool tried =
      record.outcome == RecordOutcome::diverged || (record.outcome == RecordOutcome::ok && final_metric(record));
  return tried ? std::optional(std::numeric_limits<double>::infinity()) : std::nullopt;
}

bool is_asynchronous(const Record& record) {
  if (record.theory) return std::ranges::any_of(record.theory->staleness, [](int updates) { return updates > 0; });
  const System* system = system_called(record.system);
  return system && !system->synchronous;
}

std::optional<double> time_to_accuracy_without_drain(const Record& record) {
  const std::optional<double> with = time_to_accuracy(record);
  if (!with) return std::nullopt;
  if (!is_asynchronous(record)) return with;
  double others = 0;  // seconds of the steps up to the target but the first of each segment
  std::size_t done = 0, counted = 0;
  for (const CurvePoint& point : record.curve) {
    if (!point.metric) continue;
    const auto end = static_cast<std::size_t>(point.step);
    if (end > record.step_seconds.size() || end <= done) return std::nullopt;
    for (std::size_t u = done + 1; u < end; ++u) others += record.step_seconds[u], ++counted;
    done = end;
    if (point.seconds >= *with) break;
  }
  if (counted == 0) return std::nullopt;
  std::optional<double> steady;
  if (record.clock == Clock::virtual_clock && !is_disturbed(record)) steady = update_seconds(record);
  return std::min(*with, static_cast<double>(done) * steady.value_or(others / static_cast<double>(counted)));
}

std::optional<double> final_metric(const Record& record) {
  if (!has_metrics(record)) return std::nullopt;
  for (auto point = record.curve.rbegin(); point != record.curve.rend(); ++point)
    if (point->metric) return point->metric;
  return std::nullopt;
}

std::optional<double> best_metric(const Record& record) {
  if (!has_metrics(record)) return std::nullopt;
  const bool down = lower_is_better(record);
  std::optional<double> best;
  for (const CurvePoint& point : record.curve) {
    if (!point.metric || std::isnan(*point.metric)) continue;
    if (!best || (down ? *point.metric < *best : *point.metric > *best)) best = point.metric;
  }
  return best;
}

// The timeline is left out: where a sweep keeps the best ones, a second record holds it.
static std::string without_timeline(const Record& record) {
  Json json = to_json(record);
  json.erase("timeline");
  return json.dump();
}

std::vector<std::string> repeated_results(std::span<const Record> records) {
  std::map<std::string_view, std::vector<const Record*>> results;  // by digest
  for (const Record& record : records)
    if (is_result(record) && !record.environment.validation) results[record.digest].push_back(&record);
  std::vector<std::string> sentences;
  for (const Record& record : records) {
    const auto found = results.find(record.digest);
    if (found == results.end() || found->second.size() == 1) continue;
    std::set<std::string> different;
    for (const Record* result : found->second) different.insert(without_timeline(*result));
    if (different.size() > 1)
      sentences.push_back(fmt::format("{} ({}, {}, seed {}) has {} results; the last one counts", record.digest,
                                      record.system, record.workload, record.seed, different.size()));
    results.erase(found);
  }
  return sentences;
}

static std::vector<const Record*> latest_of(std::span<const Record* const> records) {
  std::map<std::string_view, std::size_t> place;
  std::vector<const Record*> result;
  for (const Record* record : records) {
    const auto [found, added] = place.emplace(record->digest, result.size());
    if (added) {
      result.push_back(record);
    } else if (is_result(*record) || !is_result(*result[found->second])) {
      result[found->second] = record;
    }
  }
  return result;
}

std::vector<const Record*> latest_of(std::span<const Record> records) {
  std::vector<const Record*> all;
  for (const Record& record : records) all.push_back(&record);
  return latest_of(all);
}

std::vector<Record> latest(std::vector<Record> records) {
  std::vector<const Record*> kept, cases;
  for (const Record& record : records) (record.environment.validation ? kept : cases).push_back(&record);
  std::ranges::copy(latest_of(cases), std::back_inserter(kept));
  // Nearly always all, as they are: moving them takes the memory of a Record for each once more.
  if (kept.size() == records.size() && std::ranges::is_sorted(kept)) return records;
  std::vector<Record> result;
  result.reserve(kept.size());
  for (const Record* record : kept)
    result.push_back(std::move(records[static_cast<std::size_t>(record - records.data())]));
  return result;
}

}  // namespace sluice
