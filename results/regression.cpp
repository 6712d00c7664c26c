#include "results/regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "harness/base/quantities.h"
#include "results/compare.h"
#include "results/comparison_rows.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

using Key = std::tuple<std::string, std::string, std::string, std::string, std::int64_t, int, std::string, std::string,
                       std::string, std::string, int>;

struct Found {
  const Comparison* comparison;
  const ComparisonRow* row;
};

// All rows by what identifies them. A reference that stands in several comparisons is taken once.
std::map<Key, Found> rows_of(const std::vector<Comparison>& comparisons) {
  std::map<Key, Found> rows;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows) {
      const Record& first = row.records.front();
      rows.try_emplace({c.workload, first.cluster, c.clock, c.cost_source, c.batch, row.ranks, c.duration, c.optimizer,
                        row.system, options_json(first).dump(), row.microbatches},
                       Found{&c, &row});
    }
  return rows;
}

class Comparer {
 public:
  Comparer(double tolerance, std::vector<RegressionRow>& rows) : tolerance_(tolerance), rows_(rows) {}

  void compare(const Found& before, const Found& after) {
    const ComparisonRow &old = *before.row, &now = *after.row;
    compare_outcomes(before, after);
    compare_throughput(before, after);
    add(after, "peak bytes", middle(old.peak_memory), middle(now.peak_memory), false);
    add(after, "bubble", middle(old.bubble), middle(now.bubble), false, after.comparison->clock == "wall");
    add(after, "sent bytes", middle(old.sent_bytes), middle(now.sent_bytes), false);
    add(after, "final " + after.comparison->metric, middle(old.final_metric), middle(now.final_metric),
        !after.comparison->lower_is_better, seeds_overlap(old.final_metric, now.final_metric, old, now));
  }

  RegressionRow row_of(const Found& found, const std::string& metric) const {
    const std::string& shared = found.comparison->options;
    const std::string label = title_of(*found.row) + (shared.empty() ? "" : " " + shared);
    return {found.comparison->workload, found.comparison->clock, label, found.row->ranks, metric};
  }

 private:
  // chance: whether the difference may be chance, so that nothing is said.
  void add(const Found& found, const std::string& metric, std::optional<double> before, std::optional<double> after,
           bool higher_is_better, bool chance = false, const std::string& note = "") {
    if (!before && !after) return;
    RegressionRow row = row_of(found, metric);
    row.before = before;
    row.after = after;
    row.note = note;
    if (!before || !after) {
      row.change = after ? Change::fresh : Change::missing;
    } else {
      const double change = (*after - *before) / (*before != 0 ? std::abs(*before) : 1);
      const bool large = std::abs(change) > tolerance_ + 1e-9;
      if (large && chance && row.note.empty()) row.note = "may be chance";
      if (large && !chance) row.change = (change > 0) == higher_is_better ? Change::better : Change::worse;
    }
    rows_.push_back(std::move(row));
  }

  static bool seeds_overlap(const std::optional<Spread>& a, const std::optional<Spread>& b, const ComparisonRow& old,
                            const ComparisonRow& now) {
    if (!a || !b) return false;
    if (old.records.size() == 1 && now.records.size() == 1) return false;  // the same seed: the same training
    return a->min <= b->max && b->min <= a->max;
  }

  void compare_throughput(const Found& before, const Found& after) {
    const ComparisonRow &old = *before.row, &now = *after.row;
    bool chance = false;
    std::string note;
    if (after.comparison->clock == "wall" && old.throughput && now.throughput) {
      if (enough_seeds(old) && enough_seeds(now)) {
        chance = now.throughput->min <= old.throughput->max && old.throughput->min <= now.throughput->max;
        if (chance) note = "the ranges of the seeds overlap";
      } else if (old.interval && now.interval) {
        chance = overlap(*old.interval, *now.interval);
        if (chance) note = "the 95 % intervals overlap";
      } else {
        chance = true;
        note = "too few steps to say";
      }
    }
    add(after, "samples/s", middle(old.throughput), middle(now.throughput), true, chance, note);
  }

  void compare_outcomes(const Found& before, const Found& after) {
    const auto rank = [](const ComparisonRow& row) { return row.outcome == RecordOutcome::ok; };
    if (before.row->outcome == after.row->outcome) return;
    RegressionRow row = row_of(after, "outcome");
    row.note = choice_name(before.row->outcome) + ", now " + choice_name(after.row->outcome) +
               (after.row->reason.empty() ? "" : ": ") + after.row->reason;
    row.change = rank(*after.row) ? Change::better : rank(*before.row) ? Change::worse : Change::same;
    rows_.push_back(std::move(row));
  }

  double tolerance_;
  std::vector<RegressionRow>& rows_;
};

std::string value_text(const RegressionRow& row, const std::optional<double>& value) {
  if (!value) return "-";
  if (row.metric.ends_with("bytes")) return to_text(Bytes(static_cast<std::int64_t>(*value)));
  if (row.metric == "bubble") return fmt::format("{:.2f} %", 100 * *value);
  return fmt::format("{:.5g}", *value);
}

}  // namespace

const char* to_text(Change change) {
  static constexpr const char* kTexts[] = {"same", "better", "WORSE", "MISSING", "new"};
  return kTexts[static_cast<std::size_t>(change)];
}

std::vector<RegressionRow> regressions(std::span<const Record> before, std::span<const Record> after,
                                       double tolerance) {
  const std::vector<Comparison> old_comparisons = compare(before), new_comparisons = compare(after);
  const std::map<Key, Found> old_rows = rows_of(old_comparisons), new_rows = rows_of(new_comparisons);
  std::vector<RegressionRow> rows;
  Comparer comparer(tolerance, rows);
  for (const auto& [key, old] : old_rows) {
    if (const auto now = new_rows.find(key); now != new_rows.end()) {
      comparer.compare(old, now->second);
    } else {
      rows.push_back(comparer.row_of(old, "outcome"));
      rows.back().change = Change::missing;
      rows.back().note = "no such run in the new records";
    }
  }
  for (const auto& [key, now] : new_rows) {
    if (old_rows.contains(key)) continue;
    rows.push_back(comparer.row_of(now, "outcome"));
    rows.back().change = Change::fresh;
  }
  return rows;
}

bool has_regression(const std::vector<RegressionRow>& rows) {
  return std::ranges::any_of(
      rows, [](const RegressionRow& row) { return row.change == Change::worse || row.change == Change::missing; });
}

TextTable regression_table(const std::vector<RegressionRow>& rows, bool with_same) {
  TextTable table;
  table.columns = {{"workload", false}, {"clock", false}, {"run", false}, {"ranks"},   {"metric", false},
                   {"before"},          {"after"},        {"change"},     {"", false}, {"note", false}};
  for (const RegressionRow& row : rows) {
    if (!with_same && row.change == Change::same) continue;
    ++table.rows;
    const bool both = row.before && row.after && *row.before != 0;
    const std::string change =
        both ? fmt::format("{:+.2f} %", 100 * (row.after.value() - *row.before) / std::abs(*row.before)) : "-";
    const std::string cells[] = {row.workload,
                                 row.clock,
                                 row.label,
                                 std::to_string(row.ranks),
                                 row.metric,
                                 value_text(row, row.before),
                                 value_text(row, row.after),
                                 change,
                                 to_text(row.change),
                                 row.note};
    for (std::size_t i = 0; i < table.columns.size(); ++i) table.columns[i].cells.push_back(cells[i]);
  }
  return table;
}

FlatTable regression_flat_table(const std::vector<RegressionRow>& rows) {
  FlatTable table{{"workload", "clock", "run", "ranks", "metric", "before", "after", "change", "note"}, {}};
  for (const RegressionRow& row : rows)
    table.rows.push_back({flat(row.workload), flat(row.clock), flat(row.label), flat(row.ranks), flat(row.metric),
                          flat(row.before), flat(row.after), flat(to_text(row.change)), flat(row.note)});
  return table;
}

}  // namespace sluice
