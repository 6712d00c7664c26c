// See compare_columns.h.
#include "results/compare_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/quantities.h"

namespace sluice {
namespace {

constexpr const char* kNone = "-";

std::string rate(double value) { return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value); }

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
template <class Text>
std::string spread_cell(const std::optional<Spread>& spread, Text text) {
  if (!spread) return kNone;
  const std::string low = text(spread->min), high = text(spread->max);
  const std::string middle = text(spread->median);
  return low == high ? middle : middle + " (" + low + ".." + high + ")";
}

std::string seconds(double value) { return to_text(Seconds(value)); }

std::string time_cell(const ComparisonRow& row, const std::optional<Spread>& time) {
  if (!time) {
    if (row.reached > 0 || (!row.final_metric && row.diverged == 0)) return kNone;
    return row.attempts > 1 ? fmt::format("not reached 0/{}", row.attempts) : "not reached";
  }
  std::string text = spread_cell(time, seconds);
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
};

const std::vector<Column>& all_columns() {
  using Row = const ComparisonRow&;
  using In = const Context&;
  static const std::vector<Column> columns = {
      // With its options where there is no column for them: they are part of what was run.
      {.name = "system",
       .heading = "system",
       .right = false,
       .cell =
           [](Row row, In in) {
             const auto& chosen = in.options.columns;
             return chosen.empty() || std::ranges::count(chosen, "options") > 0 ? row.system : row.label;
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
      {.name = "throughput",
       .heading = "samples/s",
       .cell = [](Row row, In) { return spread_cell(row.throughput, rate); },
       .value = [](Row row) { return middle(row.throughput); }},
      {.name = "interval",
       .heading = "95 % interval",
       .cell = [](Row row,
                  In) { return row.interval ? rate(row.interval->low) + " .. " + rate(row.interval->high) : kNone; },
       .value = [](Row row) { return row.interval ? std::optional(row.interval->low) : std::nullopt; }},
      {.name = "ratio",
       .heading = "ratio",
       .cell = [](Row row, In) { return ratio_cell(row); },
       .value = [](Row row) { return row.throughput_ratio; }},
      {.name = "latency",
       .heading = "latency",
       .cell = [](Row row, In) { return spread_cell(row.latency, seconds); },
       .value = [](Row row) { return middle(row.latency); }},
      {.name = "latency_95",
       .heading = "95th percentile",
       .cell = [](Row row, In) { return spread_cell(row.latency_95, seconds); },
       .value = [](Row row) { return middle(row.latency_95); }},
      {.name = "p_value",
       .heading = "p",
       .cell = [](Row row, In) { return row.p_value ? fmt::format("{:.3g}", *row.p_value) : kNone; },
       .value = [](Row row) { return row.p_value; }},
      {.name = "peak",
       .heading = "peak/rank",
       .cell =
           [](Row row, In in) {
             const bool memory = in.options.metric == CompareMetric::memory;
             return with_ratio(bytes_cell(row.measured_peaks), row.memory_ratio, memory && !row.measured_peaks.empty());
           },
       .value = [](Row row) { return largest(row.measured_peaks); }},
      {.name = "predicted",
       .heading = "predicted",
       .cell =
           [](Row row, In in) {
             const bool memory = in.options.metric == CompareMetric::memory;
             return with_ratio(bytes_cell(row.predicted_peaks), row.memory_ratio, memory && row.measured_peaks.empty());
           },
       .value = [](Row row) { return largest(row.predicted_peaks); }},
      {.name = "bubble",
       .heading = "bubble",
       .usual = false,
       .cell = [](Row row,
                  In) { return spread_cell(row.bubble, [](double v) { return fmt::format("{:.1f} %", 100 * v); }); },
       .value = [](Row row) { return middle(row.bubble); }},
      {.name = "sent_bytes",
       .heading = "sent/rank",
       .usual = false,
       .cell =
           [](Row row, In) {
             return spread_cell(row.sent_bytes, [](double v) { return to_text(Bytes(static_cast<std::int64_t>(v))); });
           },
       .value = [](Row row) { return middle(row.sent_bytes); }},
      {.name = "time_to_accuracy",
       .heading = "time to target",
       .cell =
           [](Row row, In in) {
             return with_ratio(time_cell(row, row.time_to_accuracy), row.time_ratio,
                               in.options.metric == CompareMetric::time_to_accuracy);
           },
       .value = [](Row row) { return middle(row.time_to_accuracy); },
       .shown = [](const Comparison& c) { return c.target.has_value(); },
       .heading_of =
           [](const Comparison& c) {
             return c.target ? fmt::format("time to {} {:g}", c.metric, *c.target) : std::string("time to target");
           }},
      // Usual where draining makes a difference: in asynchronous systems.
      {.name = "time_without_drain",
       .heading = "without drain",
       .cell = [](Row row, In) { return spread_cell(row.time_without_drain, seconds); },
       .value = [](Row row) { return middle(row.time_without_drain); },
       .shown =
           [](const Comparison& c) {
             return c.target && std::ranges::any_of(c.rows, [](Row row) {
                      return row.time_without_drain && row.time_without_drain->median < row.time_to_accuracy->median;
                    });
           }},
      {.name = "final_metric",
       .heading = "final metric",
       .cell = [](Row row,
                  In) { return spread_cell(row.final_metric, [](double v) { return fmt::format("{:.4g}", v); }); },
       .value = [](Row row) { return middle(row.final_metric); },
       .heading_of = [](const Comparison& c) { return "final " + c.metric; }},
      {.name = "outcome", .heading = "outcome", .right = false, .cell = [](Row row, In) { return outcome_cell(row); }}};
  return columns;
}

const Column& column_named(const std::string& name) { return *std::ranges::find(all_columns(), name, &Column::name); }

// The column that a metric sorts by is shown with it.
bool is_of_metric(const Column& column, CompareMetric metric) {
  return (metric == CompareMetric::bubble && column.name == "bubble") ||
         (metric == CompareMetric::sent_bytes && column.name == "sent_bytes");
}

}  // namespace

std::vector<std::string> compare_column_names() {
  std::vector<std::string> names;
  for (const Column& column : all_columns()) names.push_back(column.name);
  return names;
}

void check_compare_columns(const std::vector<std::string>& names, const std::string& where) {
  const std::vector<std::string> known = compare_column_names();
  for (const std::string& name : names)
    if (std::ranges::count(known, name) == 0)
      throw InputError(where, "unknown column '" + name + "'", suggestion(name, known));
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
  for (const std::string& name : options.columns) add(column_named(name), true);
  if (!options.columns.empty()) return table;
  for (const Column& column : all_columns())
    if (is_of_metric(column, options.metric) || (column.usual && (!column.shown || column.shown(comparison))))
      add(column, false);
  return table;
}

bool comes_first(const ComparisonRow& a, const ComparisonRow& b, const Comparison& comparison,
                 const std::string& sort) {
  const bool falling = sort.starts_with('-');
  const Column& column = column_named(sort.substr(falling ? 1 : 0));
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
