// See compare_columns.h.
#include "results/compare_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/quantities.h"
#include "results/comparison_rows.h"
#include "results/fields.h"

namespace sluice {
namespace {

constexpr const char* kNone = "-";

std::string rate(double value) { return to_text(Unit::rate, value); }

std::string times(const std::optional<double>& ratio) { return ratio ? fmt::format("{:.2f}x", *ratio) : ""; }

std::string ratio_cell(const ComparisonRow& row) {
  if (!row.throughput_ratio) return kNone;
  if (row.baseline) return "1.00x  ";
  const char* mark = !row.differs ? "?" : *row.differs ? " " : "~";
  return fmt::format("{:.2f}x {}", *row.throughput_ratio, mark);
}

std::string bytes_cell(const std::vector<std::int64_t>& peaks) {
  if (peaks.empty()) return kNone;
  return to_text(Bytes(*std::max_element(peaks.begin(), peaks.end())));
}

// The median, and the smallest and largest where seeds differ.
std::string spread_cell(const std::optional<Spread>& spread, Unit unit) {
  if (!spread) return kNone;
  const std::string low = to_text(unit, spread->min), high = to_text(unit, spread->max);
  const std::string middle = to_text(unit, spread->median);
  return low == high ? middle : middle + " (" + low + ".." + high + ")";
}

std::string time_cell(const ComparisonRow& row, const std::optional<Spread>& time) {
  if (!time) {
    if (row.reached > 0 || (!row.final_metric && row.diverged == 0)) return kNone;
    return row.attempts > 1 ? fmt::format("not reached 0/{}", row.attempts) : "not reached";
  }
  std::string text = spread_cell(time, Unit::seconds);
  if (row.reached < row.attempts) text += fmt::format(" {}/{}", row.reached, row.attempts);
  return text;
}

std::string outcome_cell(const ComparisonRow& row) {
  if (row.outcome == RecordOutcome::ok) return "ok";
  std::string reason = row.reason.substr(0, row.reason.find('\n'));
  if (reason.size() > 60) {
    std::size_t cut = 57;  // not inside a UTF-8 character
    while (cut > 0 && (static_cast<unsigned char>(reason[cut]) & 0xC0) == 0x80) --cut;
    reason = reason.substr(0, cut) + "...";
  }
  std::string text = choice_name(row.outcome);
  if (row.records.size() > 1) text = fmt::format("{}/{} ok, {}", row.succeeded, row.records.size(), text);
  if (row.outcome == RecordOutcome::diverged && row.diverged > 1)
    return fmt::format("{}/{} ok, {} diverged, the first at update {}", row.succeeded, row.records.size(), row.diverged,
                       row.first_divergence.value_or(0));
  if (row.outcome == RecordOutcome::diverged) return text + " " + reason;
  return reason.empty() ? text : text + ": " + reason;
}

std::string with_ratio(std::string cell, const std::optional<double>& ratio, bool wanted) {
  return wanted && ratio ? cell + " (" + times(ratio) + ")" : cell;
}

std::optional<double> largest(const std::vector<std::int64_t>& values) {
  if (values.empty()) return std::nullopt;
  return static_cast<double>(*std::ranges::max_element(values));
}

struct Context {
  const Comparison& comparison;
  const CompareOptions& options;
};

struct Column {
  std::string name, heading;
  bool usual = true;  // shown where no columns are asked for, unless empty
  bool right = true;  // numbers are set to the right, words to the left
  std::function<std::string(const ComparisonRow&, const Context&)> cell;
  std::function<std::optional<double>(const ComparisonRow&)> value = {};  // to sort by; none: by the cell's text
  bool (*shown)(const Comparison&) = nullptr;                             // whether it is usual in this comparison
  std::string (*heading_of)(const Comparison&) = nullptr;
  std::string metric = {};  // of fields.h, whose figures it shows; it is shown where rows are sorted by it
};

Column of_metric(const std::string& name, bool usual = true) {
  const Field& field = *find_field(name);
  return {
      .name = field.name,
      .heading = field.heading,
      .usual = usual,
      .cell = [&field](const ComparisonRow& row, const Context&) { return spread_cell(row.figure(field), field.unit); },
      .value = [&field](const ComparisonRow& row) { return middle(row.figure(field)); },
      .metric = field.name};
}

Column shown_where(bool (*shown)(const Comparison&), Column column) {
  column.shown = shown;
  return column;
}

Column headed(std::string (*heading_of)(const Comparison&), Column column) {
  column.heading_of = heading_of;
  return column;
}

std::vector<Column> made_columns() {
  using Row = const ComparisonRow&;
  using In = const Context&;
  std::vector<Column> columns = {
      // With its options where there is no column for them: they are part of what was run.
      {.name = "system",
       .heading = "system",
       .right = false,
       .cell =
           [](Row row, In in) {
             const auto& chosen = in.options.columns;
             const bool apart = chosen.empty() || std::ranges::count(chosen, "options") > 0;
             return apart ? title_of(row.system, "") : title_of(row);
           }},
      {.name = "options", .heading = "options", .right = false, .cell = [](Row row, In) { return row.options; }},
      {.name = "ranks",
       .heading = "ranks",
       .cell = [](Row row, In) { return std::to_string(row.ranks); },
       .value = [](Row row) { return std::optional<double>(row.ranks); }},
      {.name = "microbatches",
       .heading = "micro-batches",
       .cell = [](Row row, In) { return std::to_string(row.microbatches); },
       .value = [](Row row) { return std::optional<double>(row.microbatches); }},
      {.name = "seeds",
       .heading = "seeds",
       .cell = [](Row row, In) { return std::to_string(row.records.size()); },
       .value = [](Row row) { return std::optional(static_cast<double>(row.records.size())); },
       .shown =
           [](const Comparison& c) {
             return std::ranges::any_of(c.rows, [](Row row) { return row.records.size() > 1; });
           }},
      {.name = "samples_per_update",
       .heading = "samples/update",
       .cell = [](Row row, In) { return std::to_string(row.samples_per_update); },
       .value = [](Row row) { return std::optional(static_cast<double>(row.samples_per_update)); }},
      {.name = "updates_per_epoch",
       .heading = "updates/epoch",
       .cell = [](Row row, In) { return row.updates_per_epoch > 0 ? std::to_string(row.updates_per_epoch) : kNone; },
       .value = [](Row row) { return std::optional(static_cast<double>(row.updates_per_epoch)); }},
      {.name = "learning_rate",
       .heading = "tuned rate",
       .cell = [](Row row, In) { return row.learning_rate ? fmt::format("{:g}", *row.learning_rate) : kNone; },
       .value = [](Row row) { return row.learning_rate; },
       .shown = [](const Comparison& c) { return c.tuned; }},
      of_metric("throughput"),
      {.name = "interval",
       .heading = "95 % interval",
       .cell = [](Row row,
                  In) { return row.interval ? rate(row.interval->low) + " .. " + rate(row.interval->high) : kNone; },
       .value = [](Row row) { return row.interval ? std::optional(row.interval->low) : std::nullopt; }},
      {.name = "ratio",
       .heading = "ratio",
       .cell = [](Row row, In) { return ratio_cell(row); },
       .value = [](Row row) { return row.throughput_ratio; }},
      of_metric("tokens_per_second"),
      of_metric("mfu"),
      of_metric("latency"),
      of_metric("latency_95"),
      {.name = "p_value",
       .heading = "p",
       .cell = [](Row row, In) { return row.p_value ? fmt::format("{:.3g}", *row.p_value) : kNone; },
       .value = [](Row row) { return row.p_value; }},
      {.name = "peak",
       .heading = "peak/rank",
       .cell =
           [](Row row, In in) {
             const bool memory = find_field(in.options.metric)->name == "peak_memory";
             return with_ratio(bytes_cell(row.measured_peaks), row.memory_ratio, memory && !row.measured_peaks.empty());
           },
       .value = [](Row row) { return largest(row.measured_peaks); },
       .metric = "peak_memory"},
      {.name = "predicted",
       .heading = "predicted",
       .cell =
           [](Row row, In in) {
             const bool memory = find_field(in.options.metric)->name == "peak_memory";
             return with_ratio(bytes_cell(row.predicted_peaks), row.memory_ratio, memory && row.measured_peaks.empty());
           },
       .value = [](Row row) { return largest(row.predicted_peaks); },
       .metric = "peak_memory"},
      of_metric("bubble", false),
      of_metric("sent_bytes", false),
      {.name = "time_to_accuracy",
       .heading = "time to target",
       .cell =
           [](Row row, In in) {
             return with_ratio(time_cell(row, row.time_to_accuracy), row.time_ratio,
                               in.options.metric == "time_to_accuracy");
           },
       .value = [](Row row) { return middle(row.time_to_accuracy); },
       .shown = [](const Comparison& c) { return c.target.has_value(); },
       .heading_of =
           [](const Comparison& c) {
             return c.target ? fmt::format("time to {} {:g}", c.metric, *c.target) : std::string("time to target");
           },
       .metric = "time_to_accuracy"},
      // Usual where draining makes a difference: in asynchronous systems.
      shown_where(
          [](const Comparison& c) {
            return c.target && std::ranges::any_of(c.rows, [](Row row) {
                     return row.time_without_drain && row.time_without_drain->median < row.time_to_accuracy->median;
                   });
          },
          of_metric("time_to_accuracy_without_drain")),
      headed([](const Comparison& c) { return "final " + c.metric; }, of_metric("final_metric")),
      {.name = "outcome", .heading = "outcome", .right = false, .cell = [](Row row, In) { return outcome_cell(row); }}};
  for (const Field* metric : metrics())
    if (std::ranges::count(columns, metric->name, &Column::name) == 0)
      columns.push_back(of_metric(metric->name, false));
  return columns;
}

const std::vector<Column>& all_columns() {
  static const std::vector<Column> columns = made_columns();
  return columns;
}

// "time_without_drain", as it was called, is a column too. Throws InputError at `where`.
const Column& column_named(const std::string& name, const std::string& where) {
  const Field* field = find_field(name);
  for (const Column& column : all_columns())
    if (column.name == name || (field && column.name == field->name)) return column;
  throw InputError(where, "unknown column '" + name + "'", suggestion(name, compare_column_names()));
}

}  // namespace

std::vector<std::string> compare_metric_names() {
  std::vector<std::string> names;
  for (const Field* metric : metrics()) names.push_back(metric->name);
  names.insert(names.end(), {kStableRateMetric, kStalenessCostMetric});
  return names;
}

const Field& compare_metric(const std::string& name) {
  const Field* field = find_field(name);
  if (!field || field->better == Better::none)
    throw InputError("--metric", "unknown metric '" + name + "'", suggestion(name, compare_metric_names()));
  return *field;
}

std::vector<std::string> compare_column_names() {
  std::vector<std::string> names;
  for (const Column& column : all_columns()) names.push_back(column.name);
  return names;
}

void check_compare_columns(const std::vector<std::string>& names, const std::string& where) {
  for (const std::string& name : names) column_named(name, where);
}

TextTable compare_columns(const Comparison& comparison, const CompareOptions& options) {
  TextTable table;
  table.rows = comparison.rows.size();
  const auto add = [&](const Column& column, bool even_if_empty) {
    TextTable::Column made{column.heading_of ? column.heading_of(comparison) : column.heading, column.right, {}};
    for (const ComparisonRow& row : comparison.rows) made.cells.push_back(column.cell(row, {comparison, options}));
    const bool empty = std::ranges::all_of(made.cells, [](const auto& cell) { return cell.empty() || cell == kNone; });
    if (even_if_empty || !empty) table.columns.push_back(std::move(made));
  };
  for (const std::string& name : options.columns) add(column_named(name, "--columns"), true);
  if (!options.columns.empty()) return table;
  const std::string& sorted_by = compare_metric(options.metric).name;
  const bool is_shown = std::ranges::any_of(
      all_columns(), [&](const Column& column) { return column.usual && column.metric == sorted_by; });
  for (const Column& column : all_columns())
    if ((column.metric == sorted_by && !is_shown) || (column.usual && (!column.shown || column.shown(comparison))))
      add(column, false);
  return table;
}

bool comes_first(const ComparisonRow& a, const ComparisonRow& b, const Comparison& comparison,
                 const std::string& sort) {
  const bool falling = sort.starts_with('-');
  const Column& column = column_named(sort.substr(falling ? 1 : 0), "--sort");
  const CompareOptions none;
  if (!column.value) {
    const std::string x = column.cell(a, {comparison, none}), y = column.cell(b, {comparison, none});
    return falling ? y < x : x < y;
  }
  constexpr double last = std::numeric_limits<double>::infinity();
  const auto place = [&](const ComparisonRow& row) {
    const std::optional<double> value = column.value(row);
    return value ? (falling ? -*value : *value) : last;
  };
  return place(a) < place(b);
}

}  // namespace sluice
