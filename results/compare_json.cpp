// Comparisons as JSON.

#include "harness/base/json.h"
#include "results/compare.h"
#include "results/fields.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

Json to_json(const std::optional<Spread>& s) {
  if (!s) return nullptr;
  return {{"min", s->min}, {"median", s->median}, {"max", s->max}};
}

Json to_json(const ComparisonRow& row) {
  Json seeds = Json::array(), digests = Json::array();
  for (const Record& record : row.records) {
    seeds.push_back(record.seed);
    digests.push_back(record.digest);
  }
  Json json = {{"system", row.system},
               {"options", options_json(row.records.front())},
               {"label", row.label},
               {"reference", row.reference},
               {"asynchronous", row.asynchronous},
               {"baseline", row.baseline},
               {"ranks", row.ranks},
               {"microbatches", row.microbatches},
               {"transport", row.records.front().transport},
               {"device", row.records.front().device},
               {"samples_per_update", row.samples_per_update},
               {"updates_per_epoch", row.updates_per_epoch},
               {"interval", row.interval ? Json{row.interval->low, row.interval->high} : Json(nullptr)},
               {"throughput_ratio", row.throughput_ratio},
               {"differs_from_baseline", row.differs},
               {"mann_whitney_p", row.p_value},
               {"measured_peak_bytes", row.measured_peaks},
               {"predicted_peak_bytes", row.predicted_peaks},
               {"memory_ratio", row.memory_ratio},
               {"time_ratio", row.time_ratio},
               {"reached", row.reached},
               {"attempts", row.attempts},
               {"misses_target", row.misses_target()},
               {"best_metric", row.best_metric},
               {"learning_rate", row.learning_rate},
               {"tuning", row.tuning ? sluice::to_json(*row.tuning) : Json(nullptr)},
               {"diverged", row.diverged},
               {"first_divergence", row.first_divergence},
               {"outcome", choice_name(row.outcome)},
               {"reason", row.reason},
               {"succeeded", row.succeeded},
               {"seeds", seeds},
               {"digests", digests}};
  for (const Field* metric : metrics()) json[metric->name] = to_json(row.figure(*metric));
  return json;
}

}  // namespace

Json to_json(std::span<const Comparison> comparisons) {
  Json result = Json::array();
  for (const Comparison& c : comparisons) {
    Json rows = Json::array();
    for (const ComparisonRow& row : c.rows) rows.push_back(to_json(row));
    Json verdicts = Json::array();
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
                      {"shared_options", c.options},
                      {"learning_rate_policy", c.tuned ? "tuned" : "equal"},
                      {"ranks", c.ranks},
                      {"batch", c.batch},
                      {"metric", c.metric},
                      {"metric_direction", c.lower_is_better ? "down" : "up"},
                      {"target", c.target},
                      {"baseline", c.baseline.empty() ? Json(nullptr) : Json(c.baseline)},
                      {"rows", std::move(rows)},
                      {"verdicts", std::move(verdicts)},
                      {"places", simulated_places(c, false)},
                      {"asynchronous_places", simulated_places(c, true)}});
  }
  return result;
}

}  // namespace sluice
