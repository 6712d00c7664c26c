#include "results/staleness_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "results/flat_table.h"
#include "results/metrics.h"

namespace sluice {

namespace {

Spread spread_of_values(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [low, high] = std::ranges::minmax(values);
  return {low, median(values), high};
}

StalenessCost cost_of_row(const ComparisonRow& row, const ComparisonRow& fresh, double staleness) {
  StalenessCost cost{.label = row.label, .ranks = row.ranks, .staleness = staleness};
  std::vector<double> updates, without, lambdas;
  for (const Record& record : row.records)
    for (const Record& other : fresh.records) {
      if (other.seed != record.seed) continue;
      const auto late = updates_to_target(record), fresh_updates = updates_to_target(other);
      if (!late || !fresh_updates) continue;
      updates.push_back(static_cast<double>(*late));
      without.push_back(static_cast<double>(*fresh_updates));
      lambdas.push_back(fitted_lambda(without.back(), updates.back(), staleness));
    }
  cost.seeds = static_cast<int>(lambdas.size());
  cost.updates = spread_of_values(updates);
  cost.without = spread_of_values(without);
  cost.lambda = spread_of_values(lambdas);
  return cost;
}

std::string spread_text(const Spread& spread) {
  if (spread.min == spread.max) return fmt::format("{:.3g}", spread.median);
  return fmt::format("{:.3g} ({:.3g} .. {:.3g})", spread.median, spread.min, spread.max);
}

std::string updates_text(const Spread& spread) {
  if (spread.min == spread.max) return fmt::format("{:.0f}", spread.median);
  return fmt::format("{:.0f} ({:.0f} .. {:.0f})", spread.median, spread.min, spread.max);
}

}  // namespace

double fitted_lambda(double updates_without, double updates_with, double staleness) {
  if (!(staleness > 0) || !(updates_without > 0)) return 0;
  return std::max(0.0, (updates_with / updates_without - 1) / staleness);
}

std::optional<double> mean_staleness(const Record& record) {
  if (!record.observed.staleness) return std::nullopt;
  const std::vector<int>& late = *record.observed.staleness;
  const auto& bytes = record.peak_bytes.size() == late.size() ? record.peak_bytes : record.predicted_peak_bytes;
  double sum = 0, all = 0;
  for (std::size_t r = 0; r < late.size(); ++r) {
    const double weight = bytes.size() == late.size() ? static_cast<double>(bytes[r].weights) : 1;
    sum += weight * late[r];
    all += weight;
  }
  return all > 0 ? std::optional(sum / all) : std::nullopt;
}

std::vector<StalenessCosts> staleness_costs(std::span<const Comparison> comparisons) {
  std::vector<StalenessCosts> result;
  for (const Comparison& c : comparisons) {
    const auto fresh = std::ranges::find(c.rows, true, &ComparisonRow::reference);
    if (!c.target || fresh == c.rows.end()) continue;
    StalenessCosts costs{c.title, c.cluster, c.clock, c.optimizer, c.metric, c.batch, *c.target, {}};
    for (const ComparisonRow& row : c.rows) {
      if (row.records.empty()) continue;
      const std::optional<double> staleness = mean_staleness(row.records.front());
      if (staleness && *staleness > 0) costs.rows.push_back(cost_of_row(row, *fresh, *staleness));
    }
    std::ranges::stable_sort(costs.rows, {}, &StalenessCost::staleness);
    if (!costs.rows.empty()) result.push_back(std::move(costs));
  }
  return result;
}

std::string to_table(std::span<const StalenessCosts> costs) {
  std::string text;
  for (const StalenessCosts& c : costs) {
    if (!text.empty()) text += "\n";
    text += fmt::format("What staleness costs: {} on {}, {} clock, global batch {}{}, {} {:g}\n\n", visible(c.title),
                        visible(c.cluster), c.clock, c.batch, c.optimizer.empty() ? "" : ", " + visible(c.optimizer),
                        visible(c.metric), c.target);
    TextTable table{.columns = {{"system", false, {}},
                                {"ranks", true, {}},
                                {"mean staleness", true, {}},
                                {"updates to the target", true, {}},
                                {"without staleness", true, {}},
                                {"lambda", true, {}},
                                {"seeds", true, {}}},
                    .rows = c.rows.size()};
    for (const StalenessCost& row : c.rows) {
      const bool fitted = row.seeds > 0;
      const std::string cells[] = {visible(row.label),
                                   std::to_string(row.ranks),
                                   fmt::format("{:.3g}", row.staleness),
                                   fitted ? updates_text(row.updates) : "not reached",
                                   fitted ? updates_text(row.without) : "",
                                   fitted ? spread_text(row.lambda) : "",
                                   std::to_string(row.seeds)};
      for (std::size_t k = 0; k < table.columns.size(); ++k) table.columns[k].cells.push_back(cells[k]);
    }
    text += to_text(table);
    text +=
        "\n  lambda: (updates / updates without staleness - 1) / mean staleness, at least 0; the median over the "
        "seeds\n"
        "  under which both reached the target, and the range. dynpipe takes it in thousandths: --set lambda=200 is "
        "0.2.\n";
  }
  return text.empty() ? "staleness_cost: no workload with a target has runs of single_device and of a system with "
                        "stale weights; run single_device and an asynchronous system with the same seeds\n"
                      : text;
}

Json to_json(std::span<const StalenessCosts> costs) {
  const auto spread = [](const Spread& s) { return Json{{"min", s.min}, {"median", s.median}, {"max", s.max}}; };
  Json result = Json::array();
  for (const StalenessCosts& c : costs) {
    Json rows = Json::array();
    for (const StalenessCost& row : c.rows) {
      const bool fitted = row.seeds > 0;
      rows.push_back({{"label", row.label},
                      {"ranks", row.ranks},
                      {"mean_staleness", row.staleness},
                      {"seeds", row.seeds},
                      {"updates", fitted ? spread(row.updates) : Json(nullptr)},
                      {"updates_without", fitted ? spread(row.without) : Json(nullptr)},
                      {"lambda", fitted ? spread(row.lambda) : Json(nullptr)}});
    }
    result.push_back({{"title", c.title},
                      {"cluster", c.cluster},
                      {"clock", c.clock},
                      {"optimizer", c.optimizer},
                      {"batch", c.batch},
                      {"metric", c.metric},
                      {"target", c.target},
                      {"rows", std::move(rows)}});
  }
  return result;
}

}  // namespace sluice
