// Learning curves as small multiples: one panel a comparison, one line a system (the median over its seeds) in a band
// from the smallest to the largest.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "plots/chart_template.h"
#include "plots/charts.h"
#include "plots/curve_steps.h"
#include "plots/interference_bands.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/statistics.h"
#include "results/system_style.h"

namespace sluice {
namespace {

bool is_evaluated(std::span<const Comparison> comparisons) {
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows)
      for (const Record& record : row.records)
        for (const CurvePoint& point : record.curve)
          if (point.metric) return true;
  return false;
}

// A loss for every update of a long run is more than a line can show: every k-th is kept.
constexpr std::size_t kMaxPoints = 250;

constexpr double kFlat = 1e-3;  // curves that all stay within this share of their smallest value are not drawn

struct Lines {
  Json values = Json::array();
  std::vector<std::string> labels, systems;  // of the legend, in the order of drawing
};

Lines lines_of(const Comparison& c, bool evaluated, double divisor) {
  Lines lines;
  for (const ComparisonRow* row : drawing_order(c)) {
    const std::vector<CurveStep> steps = curve_steps(*row, evaluated);
    if (steps.empty()) continue;
    lines.labels.push_back(title_of(*row));
    lines.systems.push_back(row->system);
    const std::size_t every = steps.size() / kMaxPoints + 1;
    for (std::size_t k = 0; k < steps.size(); k += every) {
      const CurveStep& step = steps[k];
      Json value = {{"label", lines.labels.back()},
                    {"seeds", step.values.size()},
                    {"updates", step.step},
                    {"seconds", median(step.seconds) / divisor},
                    {"value", median(step.values)}};
      if (step.values.size() > 1) {
        value["low"] = quantile(step.values, 0);
        value["high"] = quantile(step.values, 1);
      }
      lines.values.push_back(std::move(value));
    }
  }
  return lines;
}

// "pipedream 2/5 (the first at update 99)": what diverged in any of the panels.
std::string diverged_text(std::span<const Comparison> comparisons) {
  std::string text;
  int more = 0;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow* row : drawing_order(c)) {
      if (row->diverged == 0) continue;
      if (text.size() > 90) {
        ++more;
        continue;
      }
      const std::string panel = comparisons.size() > 1 ? panel_title(c, comparisons) + ": " : "";
      text += fmt::format("{}{}{} {}/{}", text.empty() ? "Diverged: " : "; ", panel, title_of(*row), row->diverged,
                          row->records.size());
    }
  if (more > 0) text += fmt::format("; and {} more", more);
  return text;
}

}  // namespace

std::vector<CurveStep> curve_steps(const ComparisonRow& row, bool evaluated) {
  std::map<std::int64_t, CurveStep> steps;
  std::size_t seeds = 0;
  for (const Record& record : row.records) {
    if (!has_metrics(record) && record.outcome != RecordOutcome::diverged) continue;
    ++seeds;
    for (const CurvePoint& point : record.curve) {
      const auto value = evaluated ? point.metric : point.loss;
      if (!value || !std::isfinite(*value)) continue;
      CurveStep& step = steps[point.step];
      step.step = point.step;
      step.seconds.push_back(point.seconds);
      step.values.push_back(*value);
    }
  }
  std::vector<CurveStep> result;
  for (auto& [number, step] : steps)
    if (2 * step.values.size() > seeds) result.push_back(std::move(step));
  return result;
}

Chart curves_chart(const std::string& name, std::span<const Comparison> comparisons, CurveAxis axis) {
  const Comparison& first = comparisons.front();
  const bool evaluated = is_evaluated(comparisons);
  const std::string what = evaluated ? first.metric : "training loss";
  std::string title = what;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  title += axis == CurveAxis::time ? " over time" : " over updates";
  if (std::ranges::all_of(comparisons, [&](const Comparison& c) { return c.title == first.title; }))
    title += ": " + first.title;
  if (comparisons.size() == 1) title += ", " + panel_title(first, comparisons);
  double longest = 0;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows)
      for (const Record& record : row.records)
        for (const CurvePoint& point : record.curve) longest = std::max(longest, point.seconds);
  const Scale scale = time_scale(longest);

  std::vector<std::string> labels, colors;
  std::map<std::string, int> variants;  // rows of a system so far
  Json dashes = Json::array();
  std::vector<std::pair<const Comparison*, Lines>> panels;
  std::vector<double> all_values;
  bool bands = false;
  for (const Comparison& c : comparisons) {
    Lines lines = lines_of(c, evaluated, scale.divisor);
    if (lines.values.empty()) continue;
    for (const Json& value : lines.values) {
      bands |= value.contains("low");
      for (const char* field : {"value", "low", "high"})
        if (value.contains(field)) all_values.push_back(value[field].get<double>());
    }
    for (std::size_t i = 0; i < lines.labels.size(); ++i) {
      if (std::count(labels.begin(), labels.end(), lines.labels[i]) > 0) continue;
      labels.push_back(lines.labels[i]);
      const SystemStyle style = system_style(lines.systems[i]);
      colors.push_back(lighter(style.color, variants[lines.systems[i]]++));
      dashes.push_back(style.dash.empty() ? Json::array({1, 0}) : Json(style.dash));
    }
    panels.emplace_back(&c, std::move(lines));
  }
  if (panels.empty()) return {name, title, nullptr};
  double low = quantile(all_values, 0);
  // Nothing was learned, and nothing is to be seen.
  if (quantile(all_values, 1) - low <= kFlat * std::abs(low)) return {name, title, nullptr};
  // A loss on its way to infinity would press all others flat: it leaves the frame at the top.
  double high = evaluated ? quantile(all_values, 1) : std::min(quantile(all_values, 1), 2 * quantile(all_values, 0.9));
  if (evaluated && first.target) {
    low = std::min(low, *first.target);
    high = std::max(high, *first.target);
  }
  const double margin = 0.04 * std::max(high - low, 1e-9);
  const bool over_time = axis == CurveAxis::time;

  std::string how = bands ? "Line: median over seeds, while most of them run; band: smallest to largest" : "One seed";
  if (over_time) how += "; evaluation time excluded, draining included";
  std::vector<std::string> subtitle = {setting(comparisons), how};
  if (const std::string diverged = diverged_text(comparisons); !diverged.empty())
    subtitle.push_back(shortened(diverged, 150));
  const PanelGrid grid = panel_grid(panels.size(), 60, panels.size() == 1 ? 620 : 410);
  Json views = Json::array();
  for (const auto& [c, lines] : panels) {
    const bool has_target = evaluated && c->target;
    // The rows of a comparison ran under the same interference: it is one of its settings.
    const bool has_records = !c->rows.empty() && !c->rows.front().records.empty();
    views.push_back(
        {{"heading", panel_heading(panels.size() > 1 ? panel_title(*c, comparisons) : "", grid.heading_chars)},
         {"values", lines.values},
         {"slowed", over_time && has_records
                        ? interference_bands(c->rows.front().records.front(), longest, scale.divisor)
                        : Json()},
         {"target", has_target ? Json(*c->target) : Json()},
         {"target_text", has_target ? fmt::format("target {:g}", *c->target) : ""},
         {"layer_name", views.empty() ? Json("lines") : Json()}});
  }
  return {name, title,
          filled_chart("curves", title, subtitle,
                       {{"panels", std::move(views)},
                        {"columns", grid.columns},
                        {"width", grid.width},
                        {"height", panels.size() == 1 ? 300 : 210},
                        {"x_field", over_time ? "seconds" : "updates"},
                        {"x_title", over_time ? "training time [" + scale.unit + "]" : "updates"},
                        {"y_title", what},
                        {"domain", Json::array({low - margin, high + margin})},
                        {"labels", labels},
                        {"colors", colors},
                        {"dashes", dashes},
                        {"legend_columns", legend_columns(labels)}})};
}

}  // namespace sluice
