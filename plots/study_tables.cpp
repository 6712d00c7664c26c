// See study_tables.h.
#include "plots/study_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "plots/style.h"
#include "results/metrics.h"
#include "results/plan_facts.h"
#include "results/statistics.h"

namespace sluice {
namespace {

void flatten(const Json& value, const std::string& name, std::map<std::string, std::string>& into) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, into);
  } else if (!value.is_array()) {
    into[name] = value.is_string() ? value.get<std::string>() : value.dump();
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

std::string value_text(StudyMetric metric, double value) {
  switch (metric) {
    case StudyMetric::throughput:
    case StudyMetric::states:
      return figure_text(value);
    case StudyMetric::micro_batches:
    case StudyMetric::moves:
      return fmt::format("{:g}", value);
    case StudyMetric::peak_memory:
      return to_text(Bytes(static_cast<std::int64_t>(value)));
    case StudyMetric::sent_messages:
    case StudyMetric::sent_gathers:
    case StudyMetric::sent_reductions:
    case StudyMetric::moved_bytes:
      return value == 0 ? "0" : to_text(Bytes(static_cast<std::int64_t>(value)));
    case StudyMetric::search_end:
      return value > 0 ? "complete" : "capped";
    case StudyMetric::bubble:
      return fmt::format("{:.1f} %", 100 * value);
    case StudyMetric::period:
    case StudyMetric::planned_period:
    case StudyMetric::time_to_accuracy:
    case StudyMetric::run_seconds:
    case StudyMetric::regret:
    case StudyMetric::seconds_to_detect:
    case StudyMetric::seconds_to_recover:
    case StudyMetric::search_seconds:
      return to_text(Seconds(value));
    case StudyMetric::final_metric:  // an accuracy, or a perplexity
      return fmt::format("{:.{}f}", value, value < 10 ? 3 : 1);
    case StudyMetric::learning_rate:
      return fmt::format("{:g}", value);
  }
  return "?";
}

std::optional<Spread> single(const std::optional<double>& value) {
  return value ? std::optional(Spread{*value, *value, *value}) : std::nullopt;
}

double run_seconds(const Record& record) {
  return std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0);
}

// What an adaptive system's run records of its moves; none of a system that has no say in them.
std::optional<double> of_adaptation(StudyMetric metric, const Record& record) {
  const auto& adaptation = record.observed.adaptation;
  if (!adaptation) return std::nullopt;
  if (metric == StudyMetric::moves) return static_cast<double>(adaptation->changes.size());
  if (metric == StudyMetric::moved_bytes) return adaptation->moved_bytes;
  if (metric == StudyMetric::regret) {
    if (!adaptation->oracle_seconds) return std::nullopt;
    return run_seconds(record) - *adaptation->oracle_seconds;
  }
  std::optional<double> longest;
  for (const auto& answer : adaptation->answered)
    longest = std::max(longest.value_or(0),
                       metric == StudyMetric::seconds_to_detect ? answer.seconds_to_detect : answer.seconds_to_recover);
  return longest;
}

std::optional<Spread> value_of(StudyMetric metric, const ComparisonRow& row) {
  const Record& record = row.records.front();
  const auto sent = [&](SentKind kind) {
    const auto most = most_sent(record, kind);
    return single(most ? std::optional(static_cast<double>(*most)) : std::nullopt);
  };
  switch (metric) {
    case StudyMetric::throughput:
      return row.throughput;
    case StudyMetric::period: {
      if (!row.throughput) return std::nullopt;
      const auto samples = static_cast<double>(record.batch) / record.microbatches;
      const Spread& rate = *row.throughput;  // the fastest run has the least period
      return Spread{.min = samples / rate.max, .median = samples / rate.median, .max = samples / rate.min};
    }
    case StudyMetric::planned_period: {
      const auto facts = plan_facts(record);
      const bool is_period = facts && facts->objective_name.find("seconds a micro-batch") != std::string::npos;
      return single(is_period ? std::optional(facts->objective) : std::nullopt);
    }
    case StudyMetric::micro_batches:
      return single(row.microbatches);
    case StudyMetric::peak_memory:
      return row.peak_memory;
    case StudyMetric::bubble:
      return single(bubble_ratio(record));
    case StudyMetric::sent_messages:
      return sent(SentKind::messages);
    case StudyMetric::sent_gathers:
      return sent(SentKind::gathers);
    case StudyMetric::sent_reductions:
      return sent(SentKind::reductions);
    case StudyMetric::time_to_accuracy:
      return row.time_to_accuracy;
    case StudyMetric::final_metric:
      return row.final_metric;
    case StudyMetric::learning_rate:
      return single(learning_rate(record));
    case StudyMetric::run_seconds:
      return single(run_seconds(record));
    case StudyMetric::regret:
    case StudyMetric::moves:
    case StudyMetric::moved_bytes:
    case StudyMetric::seconds_to_detect:
    case StudyMetric::seconds_to_recover:
      return single(of_adaptation(metric, record));
    case StudyMetric::search_seconds: {
      const auto facts = plan_facts(record);
      return single(facts ? std::optional(facts->search_seconds) : std::nullopt);
    }
    case StudyMetric::search_end: {
      const auto facts = plan_facts(record);
      return single(facts ? std::optional(facts->complete ? 1.0 : 0.0) : std::nullopt);
    }
    case StudyMetric::states: {
      const auto facts = plan_facts(record);
      return single(facts ? std::optional(static_cast<double>(facts->states)) : std::nullopt);
    }
  }
  return std::nullopt;
}

bool more_is_better(StudyMetric metric, const ComparisonRow& row) {
  if (metric == StudyMetric::throughput) return true;
  return metric == StudyMetric::final_metric && !lower_is_better(row.records.front());
}

std::string spread_text(StudyMetric metric, const ComparisonRow& row, const Spread& spread) {
  std::string text = value_text(metric, spread.median);
  if (spread.min < spread.max)
    text += " (" + value_text(metric, spread.min) + ".." + value_text(metric, spread.max) + ")";
  if (metric == StudyMetric::time_to_accuracy && row.reached < row.attempts)
    text += fmt::format(" {}/{}", row.reached, row.attempts);
  return text;
}

// `over` wins where both name a field.
Conditions joined(Conditions base, const Conditions& over) {
  for (const auto& [name, values] : over) base[name] = values;
  return base;
}

// Of the metrics that seeds have each for themselves.
std::optional<double> seed_value(StudyMetric metric, const Record& record) {
  switch (metric) {
    case StudyMetric::throughput: {
      const auto rate = throughput(record);
      return rate ? std::optional(rate->samples_per_second) : std::nullopt;
    }
    case StudyMetric::time_to_accuracy:
      return time_to_accuracy(record);
    case StudyMetric::final_metric:
      return final_metric(record);
    default:
      return std::nullopt;
  }
}

FilledCell chosen_cell(const StudyTable& table, const TableColumn& column, const Conditions& of_line,
                       std::span<const StudyRun> runs) {
  const Conditions where = joined(joined(table.where, of_line), column.where);
  const StudyRun* best = nullptr;
  std::pair<bool, double> best_value;  // one that reaches the target in no seed is the last choice
  std::string outcome = "-";
  for (const StudyRun& run : runs) {
    if (!matches(run, where)) continue;
    if (const auto value = value_of(table.best_by, run.row)) {
      const std::pair placed(run.row.misses_target(),
                             more_is_better(table.best_by, run.row) ? -value->median : value->median);
      if (best && placed >= best_value) continue;
      best = &run;
      best_value = placed;
    } else if (outcome == "-" || run.row.outcome == RecordOutcome::out_of_memory) {  // says most where several differ
      outcome = run.row.outcome == RecordOutcome::ok ? "not recorded" : choice_name(run.row.outcome);
      std::ranges::replace(outcome, '_', ' ');
    }
  }
  if (!best) return {outcome, std::nullopt};
  const auto value = value_of(column.metric, best->row);
  if (!value) return {"-", std::nullopt};
  FilledCell cell{spread_text(column.metric, best->row, *value), value->median};
  for (const Record& record : best->row.records)
    if (const auto own = seed_value(column.metric, record)) cell.by_seed[record.seed] = *own;
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
    return field != run.fields.end() && std::ranges::count(condition.second, field->second) > 0;
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
