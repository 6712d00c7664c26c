// Bars: throughput, time to accuracy, and memory by kind. Bars lie, so that names are read without
// turning the head, and the number stands at the end of each bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/core/units.h"
#include "plots/charts.h"
#include "plots/style.h"
#include "results/metrics.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr const char* kBad = "#b3261e";
constexpr int kBarStep = 26;

struct Bar {
  std::string label, system, text;
  std::optional<double> value;
  std::optional<double> low, high;  // whiskers
};

struct BarPanel {
  std::string title;
  std::vector<Bar> bars;
  std::optional<double> reference;  // where the dashed line stands
};

json panel_spec(const BarPanel& panel, const std::string& axis, double largest,
                const Palette& palette) {
  json values = json::array();
  std::vector<std::string> order;
  for (const Bar& bar : panel.bars) {
    json value = {{"label", bar.label},
                  {"system", bar.system},
                  {"text", bar.text},
                  {"color", palette.color(bar.system)},
                  {"ink", bar.value ? "#222" : kBad},
                  {"value", bar.value.value_or(0)},
                  {"end", bar.high.value_or(bar.value.value_or(0))}};
    if (bar.low && bar.high) value["low"] = *bar.low, value["high"] = *bar.high;
    values.push_back(std::move(value));
    order.push_back(bar.label);
  }
  const json x_scale = {{"domain", json::array({0, largest > 0 ? largest * 1.45 : 1})},
                        {"nice", false}};
  const json y = {{"field", "label"},
                  {"type", "nominal"},
                  {"sort", string_array(order)},
                  {"axis", {{"title", nullptr}, {"ticks", false}, {"domain", false}}}};
  const auto x = [&](const char* field) {
    return json{{"field", field},
                {"type", "quantitative"},
                {"scale", x_scale},
                {"axis", {{"title", axis}, {"tickCount", 5}, {"format", ",~r"}}}};
  };
  const json raw = {{"scale", nullptr}, {"type", "nominal"}};
  json color = raw, ink = raw;
  color["field"] = "color";
  ink["field"] = "ink";
  json layers = json::array();
  layers.push_back({{"mark", {{"type", "bar"}, {"height", {{"band", 0.68}}}}},
                    {"encoding",
                     {{"x", x("value")},
                      {"y", y},
                      {"color", color},
                      {"tooltip", json::array({{{"field", "label"}, {"title", "system"}},
                                               {{"field", "text"}, {"title", axis}}})}}}});
  if (panel.reference)
    layers.push_back(
        {{"mark", {{"type", "rule"}, {"strokeDash", json::array({4, 3})}, {"color", "#6f6f6f"}}},
         {"encoding", {{"x", {{"datum", *panel.reference}, {"type", "quantitative"}}}}}});
  const json has_interval = json::array({{{"filter", "isValid(datum.low)"}}});
  layers.push_back({{"transform", has_interval},
                    {"mark", {{"type", "rule"}, {"strokeWidth", 1.4}, {"color", "#111"}}},
                    {"encoding", {{"x", x("low")}, {"x2", {{"field", "high"}}}, {"y", y}}}});
  for (const char* end : {"low", "high"})
    layers.push_back(
        {{"transform", has_interval},
         {"mark", {{"type", "tick"}, {"size", 8}, {"thickness", 1.4}, {"color", "#111"}}},
         {"encoding", {{"x", x(end)}, {"y", y}}}});
  // Twice: a white outline first, so that grid and dashed line do not run through the letters.
  layers.push_back({{"mark",
                     {{"type", "text"},
                      {"align", "left"},
                      {"dx", 6},
                      {"stroke", "white"},
                      {"strokeWidth", 5},
                      {"strokeJoin", "round"}}},
                    {"encoding", {{"x", x("end")}, {"y", y}, {"text", {{"field", "text"}}}}}});
  layers.push_back(
      {{"mark", {{"type", "text"}, {"align", "left"}, {"dx", 6}}},
       {"encoding", {{"x", x("end")}, {"y", y}, {"text", {{"field", "text"}}}, {"color", ink}}}});
  json spec = {{"data", {{"values", std::move(values)}}},
               {"width", 390},
               {"height", {{"step", kBarStep}}},
               {"layer", std::move(layers)}};
  if (!panel.title.empty())
    spec["title"] = {{"text", panel.title}, {"fontSize", 13}, {"anchor", "start"}, {"offset", 6}};
  return spec;
}

Chart bar_chart(const std::string& name, const std::string& title,
                const std::vector<std::string>& subtitle, const std::vector<BarPanel>& panels,
                const std::string& axis, const Palette& palette, bool same_axis) {
  const auto largest = [](const BarPanel& panel) {
    double value = panel.reference.value_or(0);
    for (const Bar& bar : panel.bars)
      value = std::max({value, bar.value.value_or(0), bar.high.value_or(0)});
    return value;
  };
  double over_all = 0;
  for (const BarPanel& panel : panels) over_all = std::max(over_all, largest(panel));
  Chart chart{name, title, chart_frame(title, subtitle)};
  json& views = chart.spec["concat"] = json::array();
  for (const BarPanel& panel : panels)
    views.push_back(panel_spec(panel, axis, same_axis ? over_all : largest(panel), palette));
  chart.spec["columns"] = panels.size() > 1 ? 2 : 1;
  chart.spec["spacing"] = 28;
  return chart;
}

std::string failure_text(const ComparisonRow& row) {
  std::string outcome = row.outcome;
  std::replace(outcome.begin(), outcome.end(), '_', ' ');
  return shortened(row.reason.empty() ? outcome : outcome + ": " + row.reason, 62);
}

// Panels of one workload are told apart by their ranks, those of several by both.
std::string panel_title(const Comparison& c, std::span<const Comparison> all) {
  const bool one_workload = std::all_of(all.begin(), all.end(), [&](const Comparison& other) {
    return other.workload == c.workload && other.batch == c.batch;
  });
  if (one_workload) return ranks_text(c.ranks);
  return fmt::format("{}, {}, batch {}", c.title, ranks_text(c.ranks), c.batch);
}

bool one_workload(std::span<const Comparison> all) {
  return std::all_of(all.begin(), all.end(),
                     [&](const Comparison& c) { return c.workload == all.front().workload; });
}

std::string setting_of(std::span<const Comparison> all) {
  if (one_workload(all)) return setting(all.front());
  return clock_text(all.front()) + " · " + all.front().cluster;
}

}  // namespace

Chart throughput_chart(const std::string& name, const std::string& title,
                       std::span<const Comparison> comparisons, const Palette& palette) {
  std::vector<BarPanel> panels;
  bool whiskers = false, same = false;
  std::string baseline;
  for (const Comparison& c : comparisons) {
    BarPanel panel{panel_title(c, comparisons), {}, std::nullopt};
    for (const ComparisonRow* row : drawing_order(c)) {
      Bar bar{row->label, row->system, "", std::nullopt, std::nullopt, std::nullopt};
      if (row->throughput) {
        bar.value = row->throughput->median;
        bar.text = rate_text(*bar.value);
        if (row->throughput_ratio && !row->baseline) {
          const bool alike = row->differs == false && c.clock == "wall";
          bar.text += fmt::format(" ({:.2f}×{})", *row->throughput_ratio, alike ? " ~" : "");
          same |= alike;
        }
        if (row->interval) bar.low = row->interval->low, bar.high = row->interval->high;
        if (row->outcome != "ok") bar.text += ", " + failure_text(*row);
        if (row->reference) panel.reference = std::max(panel.reference.value_or(0), *bar.value);
        whiskers |= row->interval.has_value();
      } else {
        bar.text = row->outcome == "ok" ? "no steps after the warm-up" : failure_text(*row);
      }
      panel.bars.push_back(std::move(bar));
    }
    if (!c.baseline.empty()) baseline = c.baseline;
    panels.push_back(std::move(panel));
  }
  if (panels.empty()) return {name, title, nullptr};
  std::string how = "Median step after the warm-up";
  if (whiskers) how += "; whiskers: 95 % interval";
  how += "; dashed: single_device";
  std::vector<std::string> subtitle = {setting_of(comparisons), how};
  if (!baseline.empty())
    subtitle.push_back("×: relative to " + baseline +
                       (same ? "; ~: cannot be told apart from it" : ""));
  return bar_chart(name, title, subtitle, panels, "samples/s", palette, one_workload(comparisons));
}

Chart time_to_accuracy_chart(const std::string& name, const std::string& title,
                             std::span<const Comparison> comparisons, const Palette& palette) {
  double largest = 0;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows)
      if (row.time_to_accuracy) largest = std::max(largest, row.time_to_accuracy->max);
  const Scale scale = time_scale(largest);
  std::vector<BarPanel> panels;
  std::string goal;
  for (const Comparison& c : comparisons) {
    const bool trained = std::any_of(c.rows.begin(), c.rows.end(), [](const ComparisonRow& row) {
      return row.best_metric.has_value();
    });
    if (!c.target || !trained) continue;
    goal = fmt::format("{} {} {:g}", c.metric, c.lower_is_better ? "≤" : "≥", *c.target);
    BarPanel panel{panel_title(c, comparisons), {}, std::nullopt};
    for (const ComparisonRow* row : drawing_order(c)) {
      Bar bar{row->label, row->system, "", std::nullopt, std::nullopt, std::nullopt};
      if (row->time_to_accuracy) {
        const Spread& time = *row->time_to_accuracy;
        bar.value = time.median / scale.divisor;
        bar.text = fmt::format("{:.3g} {}", *bar.value, scale.unit);
        if (row->time_ratio && !row->baseline)
          bar.text += fmt::format(" ({:.2f}×)", *row->time_ratio);
        if (row->reached < static_cast<int>(row->records.size()))
          bar.text += fmt::format(", {} of {} reached it", row->reached, row->records.size());
        if (time.min < time.max)
          bar.low = time.min / scale.divisor, bar.high = time.max / scale.divisor;
        if (row->reference)
          panel.reference = std::min(panel.reference.value_or(*bar.value), *bar.value);
      } else if (row->best_metric) {
        bar.text = fmt::format("not reached: best {} {:.4g}, target {:g}", c.metric,
                               *row->best_metric, *c.target);
      } else {
        bar.text = row->outcome == "ok" ? "not evaluated" : failure_text(*row);
      }
      panel.bars.push_back(std::move(bar));
    }
    panels.push_back(std::move(panel));
  }
  if (panels.empty()) return {name, title, nullptr};
  return bar_chart(name, title,
                   {setting_of(comparisons),
                    "Training time until " + goal + ", evaluation excluded; dashed: single_device"},
                   panels, "time to target [" + scale.unit + "]", palette,
                   one_workload(comparisons));
}

}  // namespace sluice
