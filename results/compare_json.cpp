// Comparisons as JSON.
#include <nlohmann/json.hpp>

#include "results/compare.h"

namespace sluice {
namespace {

using nlohmann::json;

json to_json(const std::optional<Spread>& s) {
  if (!s) return nullptr;
  return {{"min", s->min}, {"median", s->median}, {"max", s->max}};
}

template <class T>
json maybe(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const ComparisonRow& row) {
  json seeds = json::array(), digests = json::array();
  for (const Record& record : row.records) {
    seeds.push_back(record.seed);
    digests.push_back(record.digest);
  }
  return {{"system", row.system},
          {"options", row.records.front().options},
          {"label", row.label},
          {"reference", row.reference},
          {"baseline", row.baseline},
          {"ranks", row.ranks},
          {"microbatches", row.microbatches},
          {"transport", row.records.front().transport},
          {"device", row.records.front().device},
          {"samples_per_update", row.samples_per_update},
          {"updates_per_epoch", row.updates_per_epoch},
          {"throughput", to_json(row.throughput)},
          {"interval", row.interval ? json{row.interval->low, row.interval->high} : json(nullptr)},
          {"throughput_ratio", maybe(row.throughput_ratio)},
          {"differs_from_baseline", maybe(row.differs)},
          {"measured_peak_bytes", row.measured_peaks},
          {"predicted_peak_bytes", row.predicted_peaks},
          {"memory_ratio", maybe(row.memory_ratio)},
          {"peak_memory", to_json(row.peak_memory)},
          {"time_to_accuracy", to_json(row.time_to_accuracy)},
          {"time_to_accuracy_without_drain", to_json(row.time_without_drain)},
          {"time_ratio", maybe(row.time_ratio)},
          {"reached", row.reached},
          {"attempts", row.attempts},
          {"final_metric", to_json(row.final_metric)},
          {"best_metric", maybe(row.best_metric)},
          {"learning_rate", maybe(row.learning_rate)},
          {"tuning", row.tuning.empty() ? json(nullptr) : row.tuning},
          {"diverged", row.diverged},
          {"first_divergence", maybe(row.first_divergence)},
          {"outcome", row.outcome},
          {"reason", row.reason},
          {"succeeded", row.succeeded},
          {"seeds", seeds},
          {"digests", digests}};
}

}  // namespace

json to_json(std::span<const Comparison> comparisons) {
  json result = json::array();
  for (const Comparison& c : comparisons) {
    json rows = json::array();
    for (const ComparisonRow& row : c.rows) rows.push_back(to_json(row));
    json verdicts = json::array();
    for (const Verdict& v : c.verdicts)
      verdicts.push_back({{"metric", v.metric},
                          {"cannot_be_told_apart", v.alike},
                          {"apart_from_all", v.apart},
                          {"too_few_seeds", v.too_few_seeds}});
    result.push_back({{"workload", c.workload},
                      {"title", c.title},
                      {"cluster", c.cluster},
                      {"clock", c.clock},
                      {"cost_source", c.cost_source},
                      {"duration", c.duration},
                      {"optimizer", c.optimizer},
                      {"learning_rate_policy", c.tuned ? "tuned" : "equal"},
                      {"ranks", c.ranks},
                      {"batch", c.batch},
                      {"metric", c.metric},
                      {"metric_direction", c.lower_is_better ? "down" : "up"},
                      {"target", maybe(c.target)},
                      {"baseline", c.baseline.empty() ? json(nullptr) : json(c.baseline)},
                      {"rows", std::move(rows)},
                      {"verdicts", std::move(verdicts)}});
  }
  return result;
}

}  // namespace sluice
