// See pivot.h.
#include "results/pivot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "results/compare_columns.h"
#include "results/fields.h"
#include "results/system_style.h"

namespace sluice {
namespace {

// A setting of a row for people; none where its system has no such option.
std::optional<std::string> pivot_key(const Comparison& c, const ComparisonRow& row, const std::string& setting) {
  const Record& record = row.records.front();
  if (setting == "system") return system_style(row.system).title;
  if (setting == "workload") return c.title;
  if (setting == "options") return row.options;
  if (const auto option = record.options.find(setting); option != record.options.end()) return option->second;
  const Field* field = find_field(setting);
  if (!field || field->kind != FieldKind::setting || field->column.empty()) return std::nullopt;
  const FlatCell cell = field->get(record);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  const auto* text = std::get_if<std::string>(&cell);
  return text ? std::optional(*text) : std::nullopt;
}

std::string pivot_heading(const std::string& setting) {
  std::string heading = setting == "microbatches" ? "micro-batches" : setting;
  std::ranges::replace(heading, '_', ' ');
  return heading;
}

std::string pivot_run_text(const Comparison& c, const ComparisonRow& row) {
  return fmt::format("{} ({} on {}, {} ranks, batch {}{}{})", row.label, c.workload, c.cluster, row.ranks, c.batch,
                     c.optimizer.empty() ? "" : ", ", c.optimizer);
}

struct PivotMeasure {
  double divisor = 1;
  std::string unit;
};

PivotMeasure pivot_measure(Unit unit, double largest) {
  const auto scaled = [&](std::initializer_list<std::pair<double, const char*>> units) {
    for (const auto& [divisor, name] : units)
      if (largest >= divisor) return PivotMeasure{divisor, name};
    return PivotMeasure{(units.end() - 1)->first, (units.end() - 1)->second};
  };
  if (unit == Unit::share) return {0.01, "%"};
  if (unit == Unit::seconds) return scaled({{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}});
  if (unit == Unit::bytes) return scaled({{double(1 << 30), "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}});
  return {1, unit_name(unit)};
}

int decimals_of(const std::vector<double>& values) {
  double least = 0, most = 0;
  for (const double value : values) {
    if (value == 0) continue;
    least = least == 0 ? std::abs(value) : std::min(least, std::abs(value));
    most = std::max(most, std::abs(value));
  }
  if (least == 0) return 0;
  const auto power = [](double value) { return static_cast<int>(std::floor(std::log10(value))); };
  return std::clamp(std::min(2 - power(least), 4 - power(most)), 0, 6);
}

std::size_t place_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

// By their numbers where all are numbers; else as they came.
std::vector<std::size_t> sorted_places(const std::vector<std::string>& names) {
  std::vector<std::size_t> places(names.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  if (std::ranges::all_of(names, [](const std::string& name) { return number_in(name).has_value(); }))
    std::ranges::stable_sort(places, {}, [&](std::size_t i) { return number_in(names[i]).value(); });
  return places;
}

}  // namespace

PivotTable pivot(std::span<const Comparison> comparisons, const PivotOptions& options) {
  const Field& metric = compare_metric(options.metric);
  struct Found {
    const Comparison* comparison = nullptr;
    const ComparisonRow* row = nullptr;
    std::optional<double> value;
  };
  PivotTable table{pivot_heading(options.rows), pivot_heading(options.columns)};
  std::map<std::pair<std::size_t, std::size_t>, Found> cells;
  double largest = 0;
  bool any_row = false, any_column = false;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows) {
      const auto own_row = pivot_key(c, row, options.rows), own_column = pivot_key(c, row, options.columns);
      any_row |= own_row.has_value();
      any_column |= own_column.has_value();
      if (!own_row || !own_column) continue;
      const std::size_t i = place_in(table.rows, *own_row), j = place_in(table.columns, *own_column);
      const auto [place, is_new] = cells.try_emplace({i, j}, Found{&c, &row, middle(row.figure(metric))});
      // The single device's runs stand in every comparison that they are the reference of.
      if (!is_new && place->second.row->records.front().digest != row.records.front().digest)
        throw InputError(
            "--pivot",
            fmt::format("two runs share the cell {}, {}: {} and {}", *own_row, *own_column,
                        pivot_run_text(*place->second.comparison, *place->second.row), pivot_run_text(c, row)),
            "choose one with --filter, or pivot over what they differ in");
      if (place->second.value) largest = std::max(largest, std::abs(*place->second.value));
    }
  for (const auto& [setting, any] : {std::pair{options.rows, any_row}, std::pair{options.columns, any_column}})
    if (!any)
      throw InputError("--pivot", "no run has a setting '" + setting + "'",
                       "give two of system, workload, cluster, ranks, batch, microbatches, or options of systems");
  const PivotMeasure measure = pivot_measure(metric.unit, largest);
  table.unit = measure.unit;
  const std::string in_unit = measure.unit.empty() ? "" : " in " + measure.unit;
  table.measure = metric.heading == measure.unit ? measure.unit : metric.heading + in_unit;
  const std::vector<std::size_t> row_places = sorted_places(table.rows), places = sorted_places(table.columns);
  table.cells.assign(table.rows.size(), std::vector<PivotTable::Cell>(table.columns.size()));
  for (std::size_t j = 0; j < places.size(); ++j) {
    std::vector<double> values;
    std::optional<double> best;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const auto found = cells.find({row_places[i], places[j]});
      if (found == cells.end() || !found->second.value) continue;
      const double value = *found->second.value / measure.divisor;
      values.push_back(value);
      const bool higher = higher_is_better(metric, found->second.row->records.front());
      if (!best || (higher ? value > *best : value < *best)) best = value;
    }
    const int decimals = decimals_of(values);
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const auto found = cells.find({row_places[i], places[j]});
      if (found == cells.end()) continue;
      PivotTable::Cell& cell = table.cells[i][j];
      if (found->second.value) {
        cell = {fmt::format("{:.{}f}", *found->second.value / measure.divisor, decimals), true, false};
        cell.best = cell.text == fmt::format("{:.{}f}", *best, decimals);
      } else {
        const RecordOutcome outcome = found->second.row->outcome;
        cell.text = outcome == RecordOutcome::ok              ? "none"
                    : outcome == RecordOutcome::out_of_memory ? "OOM"
                                                              : pivot_heading(choice_name(outcome));
      }
    }
  }
  const auto sort = [](std::vector<std::string>& names, const std::vector<std::size_t>& by) {
    std::vector<std::string> sorted;
    for (const std::size_t place : by) sorted.push_back(names[place]);
    names = std::move(sorted);
  };
  sort(table.rows, row_places);
  sort(table.columns, places);
  return table;
}

TextTable to_text_table(const PivotTable& table) {
  TextTable text;
  text.rows = table.rows.size();
  text.columns.push_back({table.row_heading, false, table.rows});
  for (std::size_t j = 0; j < table.columns.size(); ++j) {
    TextTable::Column column{table.columns[j], true, {}};
    for (const auto& row : table.cells) column.cells.push_back(row[j].text);
    text.columns.push_back(std::move(column));
  }
  return text;
}

std::string to_latex(const PivotTable& table, const PivotOptions& options) {
  std::string kinds = "l", heads = latex_text(table.row_heading);
  for (std::size_t j = 0; j < table.columns.size(); ++j) {
    std::size_t whole = 1, decimals = 0;
    for (const auto& row : table.cells) {
      if (!row[j].is_number) continue;
      const std::size_t point = std::min(row[j].text.find('.'), row[j].text.size());
      whole = std::max(whole, point);
      decimals = row[j].text.size() - std::min(point + 1, row[j].text.size());
    }
    kinds += fmt::format("S[table-format={}.{}{}]", whole, decimals, options.bold ? ",detect-weight" : "");
    heads += " & {" + latex_text(table.columns[j]) + "}";
  }
  const std::string over = latex_text(table.measure + ", by " + table.column_heading);
  std::string text = "% \\usepackage{booktabs,siunitx}\n";
  const bool floats = !options.caption.empty() || !options.label.empty();
  if (floats) text += "\\begin{table}\n\\centering\n";
  if (!options.caption.empty()) text += "\\caption{" + latex_text(options.caption) + "}\n";
  if (!options.label.empty()) text += "\\label{" + options.label + "}\n";
  text += fmt::format(
      "\\begin{{tabular}}{{{}}}\n\\toprule\n & \\multicolumn{{{}}}{{c}}{{{}}} \\\\\n\\cmidrule(l){{2-{}}}\n", kinds,
      table.columns.size(), over, table.columns.size() + 1);
  text += heads + " \\\\\n\\midrule\n";
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    std::string line = latex_text(table.rows[i]);
    for (const PivotTable::Cell& cell : table.cells[i])
      line += " & " + (cell.text.empty()           ? std::string("{--}")
                       : !cell.is_number           ? "{" + latex_text(cell.text) + "}"
                       : cell.best && options.bold ? "\\bfseries " + cell.text
                                                   : cell.text);
    text += line + " \\\\\n";
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  return floats ? text + "\\end{table}\n" : text;
}

}  // namespace sluice
