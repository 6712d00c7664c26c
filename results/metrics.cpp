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
  return fact != record.workload_facts.end() && fact->is_string() ? fact->get<std::string>() : otherwise;
}

}  // namespace

bool has_metrics(const Record& record) { return record.outcome == "ok" || record.outcome == "timed_out"; }

bool is_result(const Record& record) { return record.outcome == "ok" || record.outcome == "diverged"; }

std::optional<Throughput> throughput(const Record& record) {
  const auto warmup = static_cast<std::size_t>(std::max(record.warmup_steps, 0));
  if (!has_metrics(record) || record.step_seconds.size() <= warmup || record.samples_per_step <= 0) return std::nullopt;
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

std::optional<double> bubble_ratio(const Record& record) {
  const auto ratio = record.observed.find("bubble_ratio");
  if (ratio == record.observed.end() || !ratio->is_number()) return std::nullopt;
  return ratio->get<double>();
}

const char* to_text(SentKind kind) {
  switch (kind) {
    case SentKind::messages:
      return "messages";
    case SentKind::gathers:
      return "gathers";
    case SentKind::reductions:
      return "reductions";
  }
  return "?";
}

std::optional<std::int64_t> most_sent(const Record& record, SentKind kind) {
  const auto sent = record.observed.find("sent_bytes");
  if (sent == record.observed.end() || !sent->contains(to_text(kind))) return std::nullopt;
  std::int64_t most = 0;
  for (const nlohmann::json& bytes : sent->at(to_text(kind))) most = std::max(most, bytes.get<std::int64_t>());
  return most;
}

std::string metric_name(const Record& record) { return text_fact(record, "metric", "metric"); }

bool lower_is_better(const Record& record) { return text_fact(record, "metric_direction", "up") == "down"; }

std::optional<double> target(const Record& record) {
  const auto fact = record.workload_facts.find("target");
  if (fact == record.workload_facts.end() || !fact->is_number()) return std::nullopt;
  return fact->get<double>();
}

std::string duration_text(const Record& record) {
  const auto count = [&](const char* name) {
    const auto fact = record.workload_facts.find(name);
    return fact != record.workload_facts.end() && fact->is_number_integer() ? fact->get<std::int64_t>() : 0;
  };
  const auto text = [](std::int64_t n, const char* noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
  };
  if (const auto n = count("epochs"); n > 0) return text(n, "epoch");
  if (const auto n = count("steps"); n > 0) return text(n, "update");
  return "";
}

std::string optimizer_text(const Record& record, bool with_rate) {
  const bool tuned = !record.tuning.empty();
  const auto optimizer = record.options.find("optimizer");
  if (optimizer == record.options.end() || !optimizer->is_object())
    return tuned && with_rate ? "learning rate tuned" : "";
  std::string text = optimizer->value("kind", "");
  for (const auto& [name, value] : optimizer->items()) {
    const bool is_rate = name == "learning_rate";
    if (name == "kind" || value == 0 || (is_rate && !with_rate)) continue;
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    text += (text.empty() ? "" : ", ") + words + " ";
    text += is_rate && tuned ? "tuned" : value.is_string() ? value.get<std::string>() : value.dump();
  }
  return text;
}

std::optional<double> learning_rate(const Record& record) {
  const auto optimizer = record.options.find("optimizer");
  if (optimizer == record.options.end() || !optimizer->is_object()) return std::nullopt;
  const auto rate = optimizer->find("learning_rate");
  if (rate == optimizer->end() || !rate->is_number()) return std::nullopt;
  return rate->get<double>();
}

std::optional<double> time_to_accuracy(const Record& record) {
  const std::optional<double> goal = target(record);
  if (!has_metrics(record) || !goal) return std::nullopt;
  const bool down = lower_is_better(record);
  for (const CurvePoint& point : record.curve)
    if (point.metric && (down ? *point.metric <= *goal : *point.metric >= *goal)) return point.seconds;
  return std::nullopt;
}

std::optional<double> time_to_accuracy_without_drain(const Record& record) {
  const std::optional<double> with = time_to_accuracy(record);
  if (!with) return std::nullopt;
  const auto staleness = record.theory.find("staleness");
  const auto stale = [](const nlohmann::json& s) { return s.is_number() && s.get<double>() > 0; };
  const bool asynchronous =
      staleness != record.theory.end() &&
      (staleness->is_array() ? std::any_of(staleness->begin(), staleness->end(), stale) : stale(*staleness));
  if (!asynchronous) return with;
  std::vector<double> first_steps, others;  // up to the target
  std::size_t done = 0;
  for (const CurvePoint& point : record.curve) {
    if (!point.metric) continue;
    const auto end = static_cast<std::size_t>(point.step);
    if (end > record.step_seconds.size() || end <= done) return std::nullopt;
    first_steps.push_back(record.step_seconds[done]);
    others.insert(others.end(), record.step_seconds.begin() + static_cast<std::ptrdiff_t>(done + 1),
                  record.step_seconds.begin() + static_cast<std::ptrdiff_t>(end));
    done = end;
    if (point.seconds >= *with) break;
  }
  if (others.empty()) return std::nullopt;
  double extra = 0;
  const double step = median(others);
  for (const double first : first_steps) extra += std::max(0.0, first - step);
  return *with - extra;
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

std::vector<std::string> repeated_results(std::span<const Record> records) {
  std::map<std::string, int> results;  // by digest
  for (const Record& record : records)
    if (is_result(record)) ++results[record.digest];
  std::vector<std::string> sentences;
  for (const Record& record : latest(records))
    if (const int n = results[record.digest]; n > 1)
      sentences.push_back(record.digest + " (" + record.system + ", " + record.workload + ", seed " +
                          std::to_string(record.seed) + ") has " + std::to_string(n) + " results; the last one counts");
  return sentences;
}

std::vector<Record> latest(std::span<const Record> records) {
  std::map<std::string, std::size_t> place;
  std::vector<Record> result;
  for (const Record& record : records) {
    const auto [found, added] = place.emplace(record.digest, result.size());
    if (added) {
      result.push_back(record);
    } else if (is_result(record) || !is_result(result[found->second])) {
      result[found->second] = record;
    }
  }
  return result;
}

}  // namespace sluice
