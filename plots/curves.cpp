// Learning curves as small multiples: one panel a comparison, one line a system (the median over its seeds) in a band
// from the smallest to the largest.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/base/json.h"
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

struct Frame {
  std::string x_field, x_title, y_title;
  double low = 0, high = 1;  // of the values, in all panels
  Json color, dash;
  double width = 0, height = 0;
  double longest = 0, divisor = 1;  // seconds of the longest run, and in a unit of the axis
};

Json curve_panel(const Comparison& c, const std::string& title, const Json& values, const Frame& frame,
                 bool with_target, bool named) {
  const Json x = {{"field", frame.x_field},
                  {"type", "quantitative"},
                  {"axis", {{"title", frame.x_title}, {"tickCount", 6}, {"format", ",~r"}}}};
  const auto y = [&](const char* field) {
    return Json{{"field", field},
                {"type", "quantitative"},
                {"scale", {{"domain", Json::array({frame.low, frame.high})}, {"nice", false}}},
                {"axis", {{"title", frame.y_title}, {"tickCount", 5}}}};
  };
  const Json opacity = {{"condition", {{"param", "pick"}, {"value", 1}}}, {"value", 0.1}};
  Json band_opacity = opacity;
  band_opacity["condition"]["value"] = 0.16;
  band_opacity["value"] = 0.02;
  Json layers = Json::array();
  // The rows of a comparison ran under the same interference: it is one of its settings.
  if (frame.x_field == "seconds" && !c.rows.empty() && !c.rows.front().records.empty())
    if (Json bands = interference_bands(c.rows.front().records.front(), frame.longest, frame.divisor, x);
        !bands.is_null())
      layers.push_back(std::move(bands));
  layers.push_back(
      {{"transform", Json::array({{{"filter", "isValid(datum.low)"}}})},
       {"mark", {{"type", "area"}, {"clip", true}}},
       {"encoding",
        {{"x", x}, {"y", y("low")}, {"y2", {{"field", "high"}}}, {"color", frame.color}, {"opacity", band_opacity}}}});
  Json line = {{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"clip", true}, {"point", {{"size", 12}}}}},
               {"encoding",
                {{"x", x},
                 {"y", y("value")},
                 {"color", frame.color},
                 {"strokeDash", frame.dash},
                 {"opacity", opacity},
                 {"tooltip", Json::array({{{"field", "label"}, {"title", "system"}},
                                          {{"field", "seeds"}},
                                          {{"field", "updates"}},
                                          {{"field", "seconds"}, {"format", ".4~g"}},
                                          {{"field", "value"}, {"title", frame.y_title}, {"format", ".4~g"}},
                                          {{"field", "low"}, {"format", ".4~g"}},
                                          {{"field", "high"}, {"format", ".4~g"}}})}}}};
  if (named) line["name"] = "lines";
  layers.push_back(std::move(line));
  if (with_target && c.target) {
    const Json goal = {{"datum", *c.target}, {"type", "quantitative"}};
    const Json nothing = {{"values", Json::array({Json::object()})}};
    layers.push_back({{"data", nothing},
                      {"mark", {{"type", "rule"}, {"strokeDash", Json::array({5, 4})}, {"color", "#444"}}},
                      {"encoding", {{"y", goal}}}});
    layers.push_back({{"data", nothing},
                      {"mark",
                       {{"type", "text"},
                        {"align", "left"},  // outside the panel: in it, curves run
                        {"baseline", "middle"},
                        {"dx", 5},
                        {"color", "#444"},
                        {"text", fmt::format("target {:g}", *c.target)}}},
                      {"encoding", {{"y", goal}, {"x", {{"value", frame.width}}}}}});
  }
  Json spec = {
      {"data", {{"values", values}}}, {"width", frame.width}, {"height", frame.height}, {"layer", std::move(layers)}};
  if (!title.empty()) spec["title"] = panel_heading(title);
  return spec;
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
  title += fmt::format(" over {}: {}", axis == CurveAxis::time ? "time" : "updates", first.title);
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
  Frame frame;
  frame.low = std::numeric_limits<double>::infinity();
  frame.high = -frame.low;
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
  frame.low = quantile(all_values, 0);
  // A loss on its way to infinity would press all others flat: it leaves the frame at the top.
  // Nothing was learned, and nothing is to be seen.
  if (quantile(all_values, 1) - frame.low <= kFlat * std::abs(frame.low)) return {name, title, nullptr};
  frame.high = evaluated ? quantile(all_values, 1) : std::min(quantile(all_values, 1), 2 * quantile(all_values, 0.9));
  if (evaluated && first.target) {
    frame.low = std::min(frame.low, *first.target);
    frame.high = std::max(frame.high, *first.target);
  }
  const double margin = 0.04 * std::max(frame.high - frame.low, 1e-9);
  frame.low -= margin;
  frame.high += margin;
  frame.x_field = axis == CurveAxis::time ? "seconds" : "updates";
  frame.x_title = axis == CurveAxis::time ? "training time [" + scale.unit + "]" : "updates";
  frame.y_title = what;
  frame.longest = longest;
  frame.divisor = scale.divisor;
  const std::size_t columns = panel_columns(comparisons);
  frame.width = panels.size() == 1 ? 620 : 410;
  frame.height = panels.size() == 1 ? 300 : 210;
  const Json legend = {{"title", nullptr},       {"symbolType", "stroke"},
                       {"symbolStrokeWidth", 3}, {"symbolOpacity", 1},  // not that of the bands
                       {"orient", "bottom"},     {"columns", legend_columns(labels)}};
  frame.color = {{"field", "label"},
                 {"type", "nominal"},
                 {"scale", {{"domain", string_array(labels)}, {"range", string_array(colors)}}},
                 {"legend", legend}};
  frame.dash = {{"field", "label"},
                {"type", "nominal"},
                {"scale", {{"domain", string_array(labels)}, {"range", dashes}}},
                {"legend", legend}};

  std::string how = bands ? "Line: median over seeds, while most of them run; band: smallest to largest" : "One seed";
  if (axis == CurveAxis::time) how += "; evaluation time excluded, draining included";
  std::vector<std::string> subtitle = {setting(comparisons), how};
  if (const std::string diverged = diverged_text(comparisons); !diverged.empty())
    subtitle.push_back(shortened(diverged, 150));
  Chart chart{name, title, chart_frame(title, subtitle)};
  chart.spec["params"] = Json::array({{{"name", "pick"},
                                       {"select", {{"type", "point"}, {"fields", Json::array({"label"})}}},
                                       {"bind", "legend"},
                                       {"views", Json::array({"lines"})}}});
  Json& views = chart.spec["concat"] = Json::array();
  for (const auto& [c, lines] : panels)
    views.push_back(curve_panel(*c, panels.size() > 1 ? panel_title(*c, comparisons) : "", lines.values, frame,
                                evaluated, views.empty()));
  chart.spec["columns"] = columns;
  chart.spec["spacing"] = 24;
  return chart;
}

}  // namespace sluice
