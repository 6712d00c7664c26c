// The comparison as a terminal table. Columns that would be empty in every row are left out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/quantities.h"
#include "results/compare.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

constexpr const char* kNone = "-";

struct Column {
  std::string name;
  bool right = true;  // numbers are set to the right, words to the left
  std::vector<std::string> cells;
};

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
  if (row.outcome == "ok") return "ok";
  std::string reason = row.reason.substr(0, row.reason.find('\n'));
  if (reason.size() > 60) {
    std::size_t cut = 57;  // not inside a UTF-8 character
    while (cut > 0 && (static_cast<unsigned char>(reason[cut]) & 0xC0) == 0x80) --cut;
    reason = reason.substr(0, cut) + "...";
  }
  std::string text = row.outcome;
  if (row.records.size() > 1) text = fmt::format("{}/{} ok, {}", row.succeeded, row.records.size(), text);
  if (row.outcome == "diverged" && row.diverged > 1)
    return fmt::format("{}/{} ok, {} diverged, the first at update {}", row.succeeded, row.records.size(), row.diverged,
                       row.first_divergence.value_or(0));
  if (row.outcome == "diverged") return text + " " + reason;
  return reason.empty() ? text : text + ": " + reason;
}

std::string with_ratio(std::string cell, const std::optional<double>& ratio, bool wanted) {
  return wanted && ratio ? cell + " (" + times(ratio) + ")" : cell;
}

std::vector<Column> columns(const Comparison& comparison, const CompareOptions& options) {
  std::vector<Column> table;
  const auto add = [&table](const std::string& name, bool right, auto cell_of, const auto& rows) {
    Column column{name, right, {}};
    for (const ComparisonRow& row : rows) column.cells.push_back(cell_of(row));
    const bool empty = std::all_of(column.cells.begin(), column.cells.end(),
                                   [](const auto& cell) { return cell.empty() || cell == kNone; });
    if (!empty) table.push_back(std::move(column));
  };
  const auto& rows = comparison.rows;
  add(
      "system", false, [](const auto& row) { return row.system; }, rows);
  add(
      "options", false, [](const auto& row) { return row.options; }, rows);
  add(
      "ranks", true, [](const auto& row) { return std::to_string(row.ranks); }, rows);
  add(
      "micro-batches", true, [](const auto& row) { return std::to_string(row.microbatches); }, rows);
  if (std::ranges::any_of(rows, [](const auto& row) { return row.records.size() > 1; }))
    add(
        "seeds", true, [](const auto& row) { return std::to_string(row.records.size()); }, rows);
  add(
      "samples/update", true, [](const auto& row) { return std::to_string(row.samples_per_update); }, rows);
  add(
      "updates/epoch", true,
      [](const auto& row) { return row.updates_per_epoch > 0 ? std::to_string(row.updates_per_epoch) : kNone; }, rows);
  if (comparison.tuned)
    add(
        "tuned rate", true,
        [](const auto& row) { return row.learning_rate ? fmt::format("{:g}", *row.learning_rate) : kNone; }, rows);
  add(
      "samples/s", true, [](const auto& row) { return spread_cell(row.throughput, rate); }, rows);
  add(
      "95 % interval", true,
      [](const auto& row) {
        return row.interval ? rate(row.interval->low) + " .. " + rate(row.interval->high) : kNone;
      },
      rows);
  add("ratio", true, ratio_cell, rows);
  const bool memory = options.metric == CompareMetric::memory;
  add(
      "peak/rank", true,
      [&](const auto& row) {
        return with_ratio(bytes_cell(row.measured_peaks), row.memory_ratio, memory && !row.measured_peaks.empty());
      },
      rows);
  add(
      "predicted", true,
      [&](const auto& row) {
        return with_ratio(bytes_cell(row.predicted_peaks), row.memory_ratio, memory && row.measured_peaks.empty());
      },
      rows);
  if (comparison.target)
    add(
        fmt::format("time to {} {:g}", comparison.metric, *comparison.target), true,
        [&](const auto& row) {
          return with_ratio(time_cell(row, row.time_to_accuracy), row.time_ratio,
                            options.metric == CompareMetric::time_to_accuracy);
        },
        rows);
  // Where draining makes a difference: in asynchronous systems.
  const bool drains = std::ranges::any_of(rows, [](const auto& row) {
    return row.time_without_drain && row.time_without_drain->median < row.time_to_accuracy->median;
  });
  if (comparison.target && drains)
    add(
        "without drain", true, [](const auto& row) { return spread_cell(row.time_without_drain, seconds); }, rows);
  add(
      "final " + comparison.metric, true,
      [](const auto& row) { return spread_cell(row.final_metric, [](double v) { return fmt::format("{:.4g}", v); }); },
      rows);
  add("outcome", false, outcome_cell, rows);
  return table;
}

// Characters as a terminal shows them: UTF-8 continuation bytes take no column.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string render(const std::vector<Column>& table, std::size_t rows) {
  std::vector<std::string> lines(rows + 2);
  for (const Column& column : table) {
    std::size_t wide = width(column.name);
    for (const std::string& cell : column.cells) wide = std::max(wide, width(cell));
    const auto put = [&](std::string& line, const std::string& cell) {
      const std::string pad(wide - width(cell), ' ');
      if (!line.empty()) line += "  ";
      line += column.right ? pad + cell : cell + pad;
    };
    put(lines[0], column.name);
    put(lines[1], std::string(wide, '-'));
    for (std::size_t i = 0; i < rows; ++i) put(lines[i + 2], column.cells[i]);
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string to_table(std::span<const Comparison> comparisons, const CompareOptions& options) {
  std::string text;
  for (const Comparison& c : comparisons) {
    if (!text.empty()) text += "\n";
    text += fmt::format("{} on {}: {}, {} rank{}, global batch {}", c.title, c.cluster, clock_text(c), c.ranks,
                        c.ranks == 1 ? "" : "s", c.batch);
    for (const std::string& more : {c.duration, c.optimizer})
      if (!more.empty()) text += ", " + more;
    text += "\n\n";
    text += render(columns(c, options), c.rows.size());
    bool same = false, unknown = false, reference = false;
    for (const ComparisonRow& row : c.rows) {
      reference |= row.reference;
      if (!row.throughput_ratio || row.baseline) continue;
      same |= row.differs == false;
      unknown |= !row.differs;
    }
    text += "\n";
    if (!c.baseline.empty()) text += fmt::format("  ratio: to {}\n", c.baseline);
    if (same)
      text += fmt::format("  ~  cannot be told apart from {}: {}\n", c.baseline,
                          c.clock == "wall" ? "the ranges of 5 or more seeds, or else the intervals "
                                              "of their steps, overlap"
                                            : "equal");
    if (unknown) text += "  ?  too few steps for an interval, so nothing is said about a difference\n";
    for (const Verdict& verdict : c.verdicts) text += "  " + to_text(verdict) + "\n";
    if (c.baseline.empty())
      text +=
          "  no ratio: the baseline has no run with this workload, batch, clock and "
          "learning rate\n";
    if (!reference)
      text += fmt::format(
          "  no {} run like these (workload, batch, clock, learning rate): add one as a "
          "reference\n",
          kReferenceSystem);
  }
  return text.empty() ? "no records\n" : text;
}

}  // namespace sluice
