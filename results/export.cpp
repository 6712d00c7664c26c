// CSV: see export.h.
#include "results/export.h"

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <string_view>

#include "results/metrics.h"

namespace sluice {
namespace {

std::string csv_quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

std::string cell(const std::string& text) { return csv_quoted(text); }
std::string cell(const char* text) { return csv_quoted(text); }
std::string cell(const nlohmann::json& value) { return csv_quoted(value.dump()); }
template <class Number>
requires std::is_arithmetic_v<Number> std::string cell(Number value) {
  return fmt::format("{}", value);  // the shortest text that reads back to the same number
}
template <class T>
std::string cell(const std::optional<T>& value) {
  return value ? cell(*value) : "";
}

template <class... Cells>
void line(std::string& csv, const Cells&... cells) {
  std::string_view separator;
  for (const std::string& text : std::initializer_list<std::string>{cell(cells)...}) {
    csv += separator;
    csv += text;
    separator = ",";
  }
  csv += '\n';
}

std::string per_rank(const std::vector<std::int64_t>& peaks) {
  std::string text;
  for (const std::int64_t peak : peaks) text += (text.empty() ? "" : " ") + std::to_string(peak);
  return text;
}

}  // namespace

std::string records_csv(std::span<const Record> records) {
  std::string csv;
  line(csv, "digest", "system", "options", "workload", "cluster", "clock", "cost_source", "transport", "device",
       "ranks", "batch", "microbatches", "seed", "purpose", "learning_rate", "tuned", "outcome", "reason",
       "diverged_at", "failed_rank", "steps", "warmup_steps", "samples_per_step", "updates_per_epoch",
       "samples_per_second", "samples_per_second_low", "samples_per_second_high", "peak_bytes",
       "measured_peak_bytes_per_rank", "predicted_peak_bytes_per_rank", "metric", "target", "seconds_to_target",
       "seconds_to_target_without_drain", "final_metric", "best_metric", "planning_seconds");
  for (const Record& r : records) {
    const auto rate = throughput(r);
    std::optional<double> middle, low, high;
    if (rate) middle = rate->samples_per_second;
    if (rate && rate->interval) low = rate->interval->low, high = rate->interval->high;
    line(csv, r.digest, r.system, r.options, r.workload, r.cluster, r.clock, r.cost_source, r.transport, r.device,
         r.ranks, r.batch, r.microbatches, r.seed, r.purpose, learning_rate(r), r.tuning.empty() ? "no" : "yes",
         r.outcome, r.reason, r.diverged_at, r.failed_rank, r.step_seconds.size(), r.warmup_steps, r.samples_per_step,
         r.updates_per_epoch, middle, low, high, peak_memory(r), per_rank(measured_peaks(r)),
         per_rank(predicted_peaks(r)), metric_name(r), target(r), time_to_accuracy(r),
         time_to_accuracy_without_drain(r), final_metric(r), best_metric(r), r.planning_seconds);
  }
  return csv;
}

std::string curves_csv(std::span<const Record> records) {
  std::string csv;
  line(csv, "digest", "system", "options", "workload", "cluster", "clock", "ranks", "batch", "seed", "step", "seconds",
       "loss", "metric_name", "metric");
  for (const Record& r : records)
    for (const CurvePoint& point : r.curve)
      line(csv, r.digest, r.system, r.options, r.workload, r.cluster, r.clock, r.ranks, r.batch, r.seed, point.step,
           point.seconds, point.loss, metric_name(r), point.metric);
  return csv;
}

}  // namespace sluice
