// Planners side by side: what each minimised, how long it searched, and what the common simulator (on the wall clock:
// the run) makes of its plan. As a table, and as a chart of search time against the plan's time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "plots/chart_template.h"
#include "plots/charts.h"
#include "plots/report.h"
#include "plots/report_tables.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/plan_facts.h"
#include "results/system_style.h"

namespace sluice {
namespace {

struct PlannedRow {
  const ComparisonRow* row;
  PlanFacts facts;
  std::optional<double> update_seconds;
};

// Empty unless some planner did search: balanced chains alone are no comparison of planners.
std::vector<PlannedRow> planned_rows(const Comparison& c) {
  std::vector<PlannedRow> rows;
  for (const ComparisonRow& row : c.rows) {
    const auto facts = plan_facts(row.records.front());
    if (!facts || row.reference) continue;
    PlannedRow& planned = rows.emplace_back(PlannedRow{&row, *facts, std::nullopt});
    if (row.throughput && row.throughput->median > 0)
      planned.update_seconds = update_seconds(row.samples_per_update, row.throughput->median);
  }
  const bool searched = std::ranges::any_of(rows, [](const PlannedRow& p) { return p.facts.searched; });
  if (!searched) rows.clear();
  std::ranges::stable_sort(rows, [](const PlannedRow& a, const PlannedRow& b) {
    return a.update_seconds.value_or(1e300) < b.update_seconds.value_or(1e300);
  });
  return rows;
}

std::string objective_text(const PlanFacts& facts) {
  return to_text(Seconds(facts.objective)) + "<br><small>" + escape_html(facts.objective_name) + "</small>";
}

const char* update_head(const Comparison& c) {
  return c.clock == "virtual" ? "simulated<br>update" : "measured<br>update";
}

}  // namespace

std::string planner_table(const Comparison& c) {
  const std::vector<PlannedRow> rows = planned_rows(c);
  if (rows.empty()) return "";
  std::string html = fmt::format(
      "<div "
      "class=\"scroll\"><table class=\"sort\"><thead><tr><th>planner</th><th>micro-<br>batches</th><th>{}</th>"
      "<th>objective</th><th>search<br>time</th><th>states<br>visited</th><th>stages</th>"
      "<th>depth</th><th>peak/rank</th><th class=\"text\">search</th></tr></thead><tbody>\n",
      update_head(c));
  for (const auto& [row, facts, update_seconds] : rows) {
    const std::string system = fmt::format("<td><span class=\"swatch\" style=\"background:{}\"></span>{}</td>",
                                           system_style(row->system).color, breakable_name(title_of(*row)));
    std::string outcome = !facts.searched ? "no search: balanced" : facts.complete ? "complete" : "capped: best so far";
    if (row->outcome != RecordOutcome::ok) outcome = short_outcome(*row);
    html += fmt::format(
        "<tr>{}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td class=\"text{}\">{}</td></tr>\n",
        system, row->microbatches, update_seconds ? to_text(Seconds(*update_seconds)) : "–", objective_text(facts),
        to_text(Seconds(facts.search_seconds)), facts.states, facts.stages, facts.depth,
        row->peak_memory ? to_text(Bytes(static_cast<std::int64_t>(row->peak_memory.value().median))) : "–",
        row->outcome == RecordOutcome::ok && facts.complete ? "" : " bad", escape_html(outcome));
  }
  return html + "</tbody></table></div>\n";
}

Chart planner_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons) {
  // One colour a planner in all panels: its system's own, unless variants of that must be told apart.
  std::map<std::string, std::string> color_of;  // by label without micro-batches: a planner is one line of the legend
  for (const Comparison& c : comparisons)
    for (const PlannedRow& p : planned_rows(c))
      if (p.facts.searched && p.update_seconds)
        color_of[label_without_microbatches(*p.row)] = system_style(p.row->system).color;
  std::vector<std::string> labels, colors;
  for (const auto& [label, color] : color_of) {
    labels.push_back(label);
    colors.push_back(color);
  }
  Json colours = {{"domain", labels}};
  if (std::set(colors.begin(), colors.end()).size() == colors.size())
    colours["range"] = colors;
  else
    colours["scheme"] = "tableau20";
  Json views = Json::array();
  for (const Comparison& c : comparisons) {
    Json values = Json::array();
    double largest = 0;
    for (const PlannedRow& p : planned_rows(c))
      if (p.facts.searched && p.update_seconds) largest = std::max(largest, *p.update_seconds);
    const Scale scale = time_scale(largest);
    for (const auto& [row, facts, update_seconds] : planned_rows(c)) {
      if (!facts.searched || !update_seconds) continue;
      const std::string label = label_without_microbatches(*row);
      values.push_back(
          {{"planner", label},
           {"search_seconds", std::max(facts.search_seconds, 1e-6)},
           {"update_time", *update_seconds / scale.divisor},
           {"text", to_text(Seconds(*update_seconds)) + " after a search of " + to_text(Seconds(facts.search_seconds))},
           {"micro-batches", row->microbatches},
           {"depth", facts.depth},
           {"states", facts.states},
           {"ended", facts.complete ? "complete" : "capped"}});
    }
    if (values.size() < 2) continue;  // nothing to compare
    views.push_back({{"heading", comparisons.size() > 1 ? panel_title(c, comparisons) : ""},
                     {"values", std::move(values)},
                     {"y_title", "time of an update, " + scale.unit}});
  }
  if (views.empty()) return {name, title, nullptr};
  const PanelGrid grid = panel_grid(views.size(), 60, 390);
  for (Json& view : views) view["heading"] = panel_heading(view["heading"].get<std::string>(), grid.heading_chars);
  return {name, title,
          filled_chart("planners", title,
                       {setting(comparisons), "Lower left is better; a triangle is a search that a cap ended"},
                       {{"panels", std::move(views)},
                        {"columns", grid.columns},
                        {"width", grid.width},
                        {"colors", std::move(colours)},
                        {"legend_columns", legend_columns(labels)}})};
}

}  // namespace sluice
