// See study_tables.h.
#include "plots/study_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "harness/base/json.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/statistics.h"

namespace sluice {
namespace {

void flatten(const Json& value, const std::string& name, std::map<std::string, std::string>& into) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, into);
  } else if (!value.is_array()) {
    into[name] = value.text();
  }
}

std::map<std::string, std::string> fields_of(const Record& record) {
  std::map<std::string, std::string> fields;
  flatten(to_json(record), "", fields);
  return fields;
}

// A number as a table shows it: three significant digits, from 1,000 on four.
std::string figure_text(double value) {
  if (std::abs(value) < 1) return fmt::format("{:.3g}", value);
  if (std::abs(value) < 1000) return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 3);
  return rate_text(std::round(value / unit) * unit);
}

std::string value_text(const Field& metric, double value) {
  if (metric.unit == Unit::rate || metric.unit == Unit::token_rate || metric.unit == Unit::tflops ||
      metric.unit == Unit::states)
    return figure_text(value);
  if (metric.unit == Unit::metric) return fmt::format("{:.{}f}", value, value < 10 ? 3 : 1);  // or a perplexity
  if (metric.unit == Unit::bytes && value == 0) return "0";
  return to_text(metric.unit, value);
}

std::string spread_text(const Field& metric, const ComparisonRow& row, const Spread& spread) {
  std::string text = value_text(metric, spread.median);
  if (spread.min < spread.max)
    text += " (" + value_text(metric, spread.min) + ".." + value_text(metric, spread.max) + ")";
  if (metric.name == "time_to_accuracy" && row.reached < row.attempts)
    text += fmt::format(" {}/{}", row.reached, row.attempts);
  return text;
}

// `over` wins where both name a field.
Conditions joined(Conditions base, const Conditions& over) {
  for (const auto& [name, values] : over) base[name] = values;
  return base;
}

FilledCell chosen_cell(const StudyTable& table, const TableColumn& column, const Conditions& of_line,
                       std::span<const StudyRun> runs) {
  const Conditions of_cell = joined(table.where, of_line), where = joined(of_cell, column.where);
  const Conditions or_where = column.or_where ? joined(of_cell, *column.or_where) : where;
  const StudyRun* best = nullptr;
  std::pair<bool, double> best_value;  // one that reaches the target in no seed is the last choice
  std::string outcome = "-";
  for (const StudyRun& run : runs) {
    if (!matches(run, where) && !matches(run, or_where)) continue;
    if (const auto value = run.row.figure(*table.best_by)) {
      const bool higher = higher_is_better(*table.best_by, run.row.records.front());
      const std::pair placed(run.row.misses_target(), higher ? -value->median : value->median);
      if (best && placed >= best_value) continue;
      best = &run;
      best_value = placed;
    } else if (outcome == "-" || run.row.outcome == RecordOutcome::out_of_memory) {  // says most where several differ
      outcome = run.row.outcome == RecordOutcome::ok ? "not recorded" : outcome_words(run.row.outcome);
    }
  }
  if (!best) return {outcome, std::nullopt};
  const auto value = best->row.figure(*column.metric);
  if (!value) return {"-", std::nullopt};
  FilledCell cell{spread_text(*column.metric, best->row, *value), value->median};
  for (const Record& record : best->row.records)
    if (const auto own = column.metric->value(record)) cell.by_seed[record.seed] = *own;
  return cell;
}

// The text follows in mark_differences().
FilledCell difference_cell(const StudyTable& table, const TableColumn& column, const FilledLine& line) {
  const FilledCell& from = line.cells.at(column_index(table, column.minuend));
  const FilledCell& what = line.cells.at(column_index(table, column.subtrahend));
  FilledCell cell{"-", std::nullopt};
  for (const auto& [seed, value] : from.by_seed)
    if (const auto other = what.by_seed.find(seed); other != what.by_seed.end())
      cell.by_seed[seed] = value - other->second;
  return cell;
}

// "+0.0056 (-0.0059..+0.0171)": three significant digits of the largest number, at most four decimals.
std::string difference_text(const PairedDifference& d) {
  const double largest = std::max(std::abs(d.interval.low), std::abs(d.interval.high));
  const int decimals = largest > 0 ? std::clamp(2 - static_cast<int>(std::floor(std::log10(largest))), 0, 4) : 0;
  const double unit = std::pow(10.0, -decimals);
  const auto rounded = [&](double value) { return std::round(value / unit) * unit + 0.0; };  // never "-0"
  return fmt::format("{:+.{}f} ({:+.{}f}..{:+.{}f})", rounded(d.mean), decimals, rounded(d.interval.low), decimals,
                     rounded(d.interval.high), decimals);
}

// The texts of all differences, whose tests are one family. Runs that are equal in every seed are no test.
void mark_differences(FilledTable& table) {
  std::vector<std::pair<FilledCell*, PairedDifference>> tested;
  std::vector<double> p_values;
  for (FilledLine& line : table.lines)
    for (std::size_t c = 0; c < line.cells.size(); ++c) {
      if (table.description.columns[c].minuend.empty()) continue;
      std::vector<double> differences;
      for (const auto& [seed, difference] : line.cells[c].by_seed) differences.push_back(difference);
      const auto paired = paired_difference(differences);
      if (paired && *paired == PairedDifference{}) {
        line.cells[c].text = "the same";
      } else if (paired) {
        tested.emplace_back(&line.cells[c], *paired);
        p_values.push_back(paired->p_value);
      }
    }
  const std::vector<double> adjusted = holm(p_values);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    auto& [cell, paired] = tested[i];
    cell->value = paired.mean;
    cell->text = difference_text(paired) + (adjusted[i] < 0.05 ? "*" : "");
  }
}

FilledCell ratio_cell(const StudyTable& table, const TableColumn& column, const FilledLine& line) {
  const auto above = line.cells.at(column_index(table, column.numerator)).value;
  const auto below = line.cells.at(column_index(table, column.denominator)).value;
  if (!above || !below || *below == 0) return {"-", std::nullopt};
  return {fmt::format("{:.2f}", *above / *below), *above / *below};
}

// One line for every combination of the axes' entries from `axis` on.
void add_lines(const StudyTable& table, std::size_t axis, const std::vector<std::string>& titles,
               const Conditions& where, std::span<const StudyRun> runs, std::vector<FilledLine>& lines) {
  if (axis < table.axes.size()) {
    for (const NamedConditions& entry : table.axes[axis].entries) {
      std::vector<std::string> longer = titles;
      longer.push_back(entry.title);
      add_lines(table, axis + 1, longer, joined(where, entry.where), runs, lines);
    }
    return;
  }
  FilledLine line{titles, {}};
  for (const TableColumn& column : table.columns)
    line.cells.push_back(!column.minuend.empty()     ? difference_cell(table, column, line)
                         : !column.numerator.empty() ? ratio_cell(table, column, line)
                                                     : chosen_cell(table, column, where, runs));
  lines.push_back(std::move(line));
}

bool is_asked_for(const TableFigure& figure, const StudyTable& table, const FilledLine& line) {
  for (std::size_t i = 0; i < table.axes.size(); ++i) {
    const auto titles = figure.lines.find(table.axes[i].heading);
    if (titles != figure.lines.end() && std::ranges::count(titles->second, line.titles[i]) == 0) return false;
  }
  return true;
}

// The titles of a line in which it differs from others of these.
std::string telling_titles(const FilledLine& line, const std::vector<const FilledLine*>& lines) {
  std::string text;
  for (std::size_t i = 0; i < line.titles.size(); ++i) {
    const auto has_same = [&](const FilledLine* other) { return other->titles[i] == line.titles[i]; };
    if (!std::ranges::all_of(lines, has_same)) text += (text.empty() ? "" : ", ") + line.titles[i];
  }
  return text;
}

}  // namespace

std::vector<StudyRun> study_runs(std::span<const Record> records) {
  std::vector<StudyRun> runs;
  std::set<std::string> seen;  // a single-device run stands in every comparison that it is measured against
  for (Comparison& comparison : compare(records))
    for (ComparisonRow& row : comparison.rows) {
      if (!seen.insert(row.records.front().digest).second) continue;
      std::map<std::string, std::string> fields = fields_of(row.records.front());
      fields["rate"] = comparison.tuned ? "tuned" : "given";
      runs.push_back({std::move(row), std::move(fields)});
    }
  return runs;
}

bool matches(const StudyRun& run, const Conditions& where) {
  return std::ranges::all_of(where, [&](const auto& condition) {
    const auto field = run.fields.find(condition.first);
    return std::ranges::count(condition.second, field == run.fields.end() ? "null" : field->second) > 0;
  });
}

FilledTable fill(const StudyTable& table, std::span<const StudyRun> runs) {
  FilledTable filled{table, {}};
  add_lines(table, 0, {}, {}, runs, filled.lines);
  mark_differences(filled);
  return filled;
}

std::size_t column_index(const StudyTable& table, const std::string& heading) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].heading == heading) return i;
  throw std::out_of_range("no column " + heading);
}

std::string found_text(const TableFigure& figure, const FilledTable& table) {
  const std::size_t column = column_index(table.description, figure.column);
  std::vector<const FilledLine*> lines;
  for (const FilledLine& line : table.lines)
    if (is_asked_for(figure, table.description, line) && line.cells[column].value) lines.push_back(&line);
  if (lines.empty()) return "-";
  const auto less = [&](const FilledLine* a, const FilledLine* b) {
    return *a->cells[column].value < *b->cells[column].value;
  };
  const auto text = [&](const FilledLine* line) {
    const std::string titles = telling_titles(*line, lines);
    return line->cells[column].text + (titles.empty() ? "" : " (" + titles + ")");
  };
  const FilledLine* least = *std::ranges::min_element(lines, less);
  const FilledLine* most = *std::ranges::max_element(lines, less);
  switch (figure.take) {
    case TableFigure::Take::largest:
      return text(most);
    case TableFigure::Take::smallest:
      return text(least);
    case TableFigure::Take::range:
      return least == most || least->cells[column].text == most->cells[column].text ? most->cells[column].text
                                                                                    : text(least) + " to " + text(most);
    case TableFigure::Take::all: {
      std::string all;
      for (const FilledLine* line : lines) all += (all.empty() ? "" : ", ") + text(line);
      return all;
    }
    case TableFigure::Take::above: {
      const auto above = std::ranges::count_if(
          lines, [&](const FilledLine* line) { return *line->cells[column].value > figure.than; });
      return fmt::format("{} of {}", above, lines.size());
    }
  }
  return "-";
}

}  // namespace sluice
