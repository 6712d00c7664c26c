// Comparisons as tables: for a terminal, pages and papers, and flat.
#include <fmt/format.h>

#include "harness/base/markdown_text.h"
#include "harness/base/visible_text.h"
#include "results/compare.h"
#include "results/compare_columns.h"
#include "results/comparison_rows.h"
#include "results/fields.h"
#include "results/model_error.h"
#include "results/tell_apart.h"

namespace sluice {

static std::string table_text(const TextTable& table, TableForm form) {
  if (form == TableForm::text) return to_text(table);
  return form == TableForm::markdown ? to_markdown(table) : to_latex(table);
}

// A line of names from records; in LaTeX a comment.
static std::string line_text(const std::string& line, TableForm form) {
  if (form == TableForm::markdown) return markdown_line(line);
  return (form == TableForm::latex ? "% " : "") + visible(line);
}

std::string to_table(std::span<const Comparison> comparisons, const CompareOptions& options, TableForm form) {
  std::string text;
  for (const Comparison& c : comparisons) {
    if (!text.empty()) text += "\n";
    std::string heading = fmt::format("{} on {}: {}, {} rank{}, global batch {}", c.title, c.cluster, clock_text(c),
                                      c.ranks, c.ranks == 1 ? "" : "s", c.batch);
    for (const std::string& more : {c.duration, c.optimizer, c.options})
      if (!more.empty()) heading += ", " + more;
    text += line_text(heading, form) + "\n\n";
    text += table_text(compare_columns(c, options), form);
    if (form == TableForm::latex) continue;  // the legend is the paper's
    bool same = false, unknown = false, reference = false, missed = false;
    for (const ComparisonRow& row : c.rows) {
      missed |= row.misses_target();
      reference |= row.reference;
      if (!row.throughput_ratio || row.baseline) continue;
      same |= row.differs == false;
      unknown |= !row.differs;
    }
    text += "\n";
    const auto shown = [&](const std::string& name) {
      return form == TableForm::markdown ? markdown_text(name) : visible(name);
    };
    const auto base = std::ranges::find(c.rows, true, &ComparisonRow::baseline);
    const std::string base_title = base == c.rows.end() ? "" : shown(title_of(*base));
    if (!base_title.empty()) text += fmt::format("  ratio: to {}\n", base_title);
    if (same)
      text +=
          fmt::format("  ~  cannot be told apart from {}: {}\n", base_title,
                      c.clock == "wall" ? "the ranges of 5 or more seeds, or else the intervals of their steps, overlap"
                                        : "within " + model_error_text(model_error(c.cost_source)));
    if (missed && options.sort.empty()) text += "  behind the others: rows that miss the target in all their seeds\n";
    if (unknown) text += "  ?  too few steps for an interval, so nothing is said about a difference\n";
    if (const std::string places = places_text(c, title_of); !places.empty()) text += "  " + shown(places) + "\n";
    for (const Verdict& verdict : verdicts(c, title_of)) text += "  " + shown(to_text(verdict)) + "\n";
    const std::string baseline = options.baseline.empty() ? kReferenceSystem : options.baseline;
    if (base_title.empty())
      text += fmt::format("  no ratio: no run of {} with this workload, batch, clock and learning rate; add one\n",
                          shown(title_of(baseline, "")));
    if (!reference && baseline != kReferenceSystem)
      text += fmt::format("  no run of {} with this workload, batch, clock and learning rate; add one as a reference\n",
                          title_of(kReferenceSystem, ""));
  }
  return text.empty() ? "no records\n" : text;
}

FlatTable to_flat_table(std::span<const Comparison> comparisons) {
  FlatTable table;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows) {
      const bool first = table.rows.empty();
      std::vector<FlatCell>& cells = table.rows.emplace_back();
      const auto put = [&](const std::string& name, const auto& value) {
        if (first) table.columns.push_back(name);
        cells.push_back(flat(value));
      };
      const auto put_spread = [&](const std::string& name, const std::optional<Spread>& spread) {
        put(name, spread ? std::optional(spread->median) : std::nullopt);
        put(name + "_min", spread ? std::optional(spread->min) : std::nullopt);
        put(name + "_max", spread ? std::optional(spread->max) : std::nullopt);
      };
      put("workload", c.workload);
      put("cluster", c.cluster);
      put("clock", c.clock);
      put("cost_source", c.cost_source);
      put("duration", c.duration);
      put("optimizer", c.optimizer);
      put("shared_options", c.options);
      put("batch", c.batch);
      put("baseline", c.baseline);
      put("system", row.system);
      put("options", row.options);
      put("ranks", row.ranks);
      put("microbatches", row.microbatches);
      put("seeds", row.records.size());
      put("samples_per_update", row.samples_per_update);
      put("updates_per_epoch", row.updates_per_epoch);
      put("learning_rate", row.learning_rate);
      for (const Field* metric : metrics()) {
        put_spread(metric->column, row.figure(*metric));
        if (metric->name == "throughput") {
          put("interval_low", row.interval ? std::optional(row.interval->low) : std::nullopt);
          put("interval_high", row.interval ? std::optional(row.interval->high) : std::nullopt);
          put("ratio", row.throughput_ratio);
          put("differs", row.differs ? std::optional<std::string>(*row.differs ? "yes" : "no") : std::nullopt);
          put("mann_whitney_p", row.p_value);
        } else if (metric->name == "peak_memory") {
          put("memory_ratio", row.memory_ratio);
        } else if (metric->name == "time_to_accuracy_without_drain") {
          put("reached", row.reached);
          put("attempts", row.attempts);
        } else if (metric->name == "final_metric") {
          put("best_metric", row.best_metric);
        }
      }
      put("diverged", row.diverged);
      put("outcome", choice_name(row.outcome));
      put("reason", row.reason);
    }
  return table;
}

}  // namespace sluice
