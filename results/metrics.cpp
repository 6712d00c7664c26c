// Metrics from raw samples: see metrics.h.
#include "results/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace sluice {
namespace {

std::vector<std::int64_t> totals(const std::vector<MemorySplit>& splits) {
  std::vector<std::int64_t> result;
  for (const MemorySplit& split : splits) result.push_back(split.total);
  return result;
}

std::string text_fact(const Record& record, const char* name, const std::string& otherwise) {
  const auto fact = record.workload_facts.find(name);
  return fact != record.workload_facts.end() && fact->is_string() ? fact->get<std::string>()
                                                                  : otherwise;
}

}  // namespace

bool has_metrics(const Record& record) {
  return record.outcome == "ok" || record.outcome == "timed_out";
}

std::optional<Throughput> throughput(const Record& record) {
  const auto warmup = static_cast<std::size_t>(std::max(record.warmup_steps, 0));
  if (!has_metrics(record) || record.step_seconds.size() <= warmup || record.samples_per_step <= 0)
    return std::nullopt;
  const auto steps = std::span(record.step_seconds).subspan(warmup);
  const double middle = median(steps);
  if (!(middle > 0) || !std::isfinite(middle)) return std::nullopt;
  const auto samples = static_cast<double>(record.samples_per_step);
  Throughput result{samples / middle, std::nullopt, steps.size()};
  if (const auto seconds = median_interval(steps); seconds && seconds->low > 0)
    result.interval = Interval{samples / seconds->high, samples / seconds->low};
  return result;
}

std::vector<std::int64_t> measured_peaks(const Record& record) {
  if (!has_metrics(record) || record.clock != "wall") return {};
  return totals(record.peak_bytes);
}

std::vector<std::int64_t> predicted_peaks(const Record& record) {
  if (!has_metrics(record)) return {};
  if (!record.predicted_peak_bytes.empty()) return totals(record.predicted_peak_bytes);
  return record.clock == "virtual" ? totals(record.peak_bytes) : std::vector<std::int64_t>{};
}

std::optional<std::int64_t> peak_memory(const Record& record) {
  std::vector<std::int64_t> peaks = measured_peaks(record);
  if (peaks.empty()) peaks = predicted_peaks(record);
  if (peaks.empty()) return std::nullopt;
  return *std::max_element(peaks.begin(), peaks.end());
}

std::string metric_name(const Record& record) { return text_fact(record, "metric", "metric"); }

bool lower_is_better(const Record& record) {
  return text_fact(record, "metric_direction", "up") == "down";
}

std::optional<double> target(const Record& record) {
  const auto fact = record.workload_facts.find("target");
  if (fact == record.workload_facts.end() || !fact->is_number()) return std::nullopt;
  return fact->get<double>();
}

std::optional<double> time_to_accuracy(const Record& record) {
  const std::optional<double> goal = target(record);
  if (!has_metrics(record) || !goal) return std::nullopt;
  const bool down = lower_is_better(record);
  for (const CurvePoint& point : record.curve)
    if (point.metric && (down ? *point.metric <= *goal : *point.metric >= *goal))
      return point.seconds;
  return std::nullopt;
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

std::vector<Record> latest(std::span<const Record> records) {
  std::map<std::string, std::size_t> place;
  std::vector<Record> result;
  for (const Record& record : records) {
    const auto [found, added] = place.emplace(record.digest, result.size());
    if (added) {
      result.push_back(record);
    } else if (record.outcome == "ok" || result[found->second].outcome != "ok") {
      result[found->second] = record;
    }
  }
  return result;
}

}  // namespace sluice
