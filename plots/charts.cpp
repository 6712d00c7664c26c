// Learning curves, and the set of charts that a list of records gives.
#include "plots/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "plots/style.h"
#include "results/metrics.h"

namespace sluice {
namespace {

using nlohmann::json;

json curve_panel(const Comparison& c, const json& data, const json& color, const json& dash,
                 const std::string& view, const std::string& field, const std::string& x_title,
                 const std::string& y_title, bool with_target) {
  const json x = {{"field", field},
                  {"type", "quantitative"},
                  {"axis", {{"title", x_title}, {"tickCount", 6}, {"format", ",~r"}}}};
  const json y = {{"field", "value"},
                  {"type", "quantitative"},
                  {"scale", {{"zero", false}}},
                  {"axis", {{"title", y_title}}}};
  json layers = json::array();
  layers.push_back(
      {{"name", view},
       {"data", data},
       {"mark", {{"type", "line"}, {"strokeWidth", 2}, {"point", {{"size", 14}}}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"color", color},
         {"strokeDash", dash},
         {"detail", {{"field", "run"}, {"type", "nominal"}}},
         {"opacity", {{"condition", {{"param", "pick"}, {"value", 1}}}, {"value", 0.12}}},
         {"tooltip",
          json::array({{{"field", "label"}, {"title", "system"}},
                       {{"field", "seed"}},
                       {{"field", "updates"}},
                       {{"field", "seconds"}, {"format", ".4~g"}},
                       {{"field", "value"}, {"title", y_title}, {"format", ".4~g"}}})}}}});
  if (with_target && c.target) {
    const json goal = {{"datum", *c.target}, {"type", "quantitative"}};
    layers.push_back(
        {{"data", {{"values", json::array({json::object()})}}},
         {"mark", {{"type", "rule"}, {"strokeDash", json::array({5, 4})}, {"color", "#444"}}},
         {"encoding", {{"y", goal}}}});
    layers.push_back({{"data", {{"values", json::array({json::object()})}}},
                      {"mark",
                       {{"type", "text"},
                        {"align", "left"},
                        {"baseline", "bottom"},
                        {"dx", 4},
                        {"dy", -3},
                        {"color", "#444"},
                        {"text", fmt::format("target {:g}", *c.target)}}},
                      {"encoding", {{"y", goal}, {"x", {{"value", 0}}}}}});
  }
  return {{"width", 380}, {"height", 270}, {"layer", std::move(layers)}};
}

void add(std::vector<Chart>& charts, Chart chart) {
  if (!chart.spec.is_null()) charts.push_back(std::move(chart));
}

// Everything but the ranks.
auto section_key(const Comparison& c) {
  return std::tie(c.workload, c.cluster, c.clock, c.cost_source, c.batch);
}

}  // namespace

Chart curves_chart(const std::string& name, const Comparison& comparison, const Palette& palette) {
  bool evaluated = false;
  for (const ComparisonRow& row : comparison.rows)
    for (const Record& record : row.records)
      for (const CurvePoint& point : record.curve) evaluated |= point.metric.has_value();
  const std::string what = evaluated ? comparison.metric : "training loss";
  const std::string title = fmt::format("Learning curves ({}): {}, {}", what, comparison.title,
                                        ranks_text(comparison.ranks));
  json values = json::array();
  std::vector<std::string> labels, colors;
  std::map<std::string, int> variants;
  json dashes = json::array();
  static const std::vector<json> kDashes = {json::array({1, 0}), json::array({7, 3}),
                                            json::array({2, 2}), json::array({9, 3, 2, 3})};
  double longest = 0;
  for (const ComparisonRow& row : comparison.rows)
    for (const Record& record : row.records)
      for (const CurvePoint& point : record.curve) longest = std::max(longest, point.seconds);
  const Scale scale = time_scale(longest);
  bool diverged = false;
  for (const ComparisonRow* row : drawing_order(comparison)) {
    bool drawn = false;
    for (const Record& record : row->records) {
      if (!has_metrics(record)) continue;
      for (const CurvePoint& point : record.curve) {
        const auto value = evaluated ? point.metric : point.loss;
        if (!value) continue;
        drawn = true;
        if (!std::isfinite(*value)) {  // the line ends there, and the subtitle says so
          diverged = true;
          continue;
        }
        values.push_back({{"label", row->label},
                          {"run", record.digest},
                          {"seed", record.seed},
                          {"updates", point.step},
                          {"seconds", point.seconds / scale.divisor},
                          {"value", *value}});
      }
    }
    if (!drawn) continue;
    labels.push_back(row->label);
    colors.push_back(palette.color(row->system));
    dashes.push_back(kDashes[static_cast<std::size_t>(variants[row->system]++) % kDashes.size()]);
  }
  if (values.empty()) return {name, title, nullptr};
  const json data = {{"values", std::move(values)}};
  const json legend = {{"title", nullptr}, {"symbolType", "stroke"}, {"symbolStrokeWidth", 3}};
  const json color = {
      {"field", "label"},
      {"type", "nominal"},
      {"scale", {{"domain", string_array(labels)}, {"range", string_array(colors)}}},
      {"legend", legend}};
  const json dash = {{"field", "label"},
                     {"type", "nominal"},
                     {"scale", {{"domain", string_array(labels)}, {"range", dashes}}},
                     {"legend", legend}};
  std::string lines = "One line a run and seed; evaluation time excluded";
  if (diverged) lines += "; a run whose value stopped being a number ends early";
  Chart chart{name, title, chart_frame(title, {setting(comparison), lines})};
  chart.spec["params"] =
      json::array({{{"name", "pick"},
                    {"select", {{"type", "point"}, {"fields", json::array({"label"})}}},
                    {"bind", "legend"},
                    {"views", json::array({"over_time", "over_updates"})}}});
  chart.spec["hconcat"] =
      json::array({curve_panel(comparison, data, color, dash, "over_time", "seconds",
                               "training time [" + scale.unit + "]", what, evaluated),
                   curve_panel(comparison, data, color, dash, "over_updates", "updates", "updates",
                               what, evaluated)});
  chart.spec["spacing"] = 30;
  return chart;
}

ChartSet make_charts(std::span<const Record> records) {
  const Palette palette(records);
  ChartSet set;
  std::set<std::string> ids;
  std::vector<Comparison> comparisons = compare(records);
  std::stable_sort(comparisons.begin(), comparisons.end(),
                   [](const Comparison& a, const Comparison& b) {
                     return std::tuple_cat(section_key(a), std::tie(a.ranks)) <
                            std::tuple_cat(section_key(b), std::tie(b.ranks));
                   });
  for (Comparison& c : comparisons) {
    if (set.sections.empty() ||
        section_key(set.sections.back().comparisons.front()) != section_key(c)) {
      std::string id = slug(c.workload + " " + c.clock + " " + c.cost_source);
      if (ids.contains(id)) id = slug(id + " " + c.cluster + " b" + std::to_string(c.batch));
      for (int n = 2; !ids.insert(id).second; ++n) id = slug(id + " " + std::to_string(n));
      set.sections.push_back({id, fmt::format("{}: {}", c.title, clock_text(c)), {}, {}});
    }
    set.sections.back().comparisons.push_back(std::move(c));
  }

  for (ChartSection& section : set.sections) {
    const Comparison& first = section.comparisons.front();
    add(section.charts, throughput_chart("throughput-" + section.id, "Throughput: " + first.title,
                                         section.comparisons, palette));
    add(section.charts,
        time_to_accuracy_chart("time-to-accuracy-" + section.id, "Time to accuracy: " + first.title,
                               section.comparisons, palette));
    bool reference_drawn = false;
    for (const Comparison& c : section.comparisons) {
      const std::string suffix = fmt::format("{}-r{}", section.id, c.ranks);
      add(section.charts, memory_chart("memory-" + suffix, c));
      add(section.charts, curves_chart("curves-" + suffix, c, palette));
      for (const ComparisonRow* row : drawing_order(c)) {
        if (row->reference && reference_drawn) continue;  // the same run in every rank count
        reference_drawn |= row->reference;
        add(section.charts, timeline_chart("timeline-" + suffix + "-" + slug(row->label), c, *row));
      }
    }
  }

  // Across workloads: what is alike in clock, costs and cluster.
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<Comparison>> across;
  for (const ChartSection& section : set.sections)
    for (const Comparison& c : section.comparisons)
      across[{c.clock, c.cost_source, c.cluster}].push_back(c);
  for (const auto& [key, members] : across) {
    const bool several = std::any_of(members.begin(), members.end(), [&](const Comparison& c) {
      return c.workload != members.front().workload;
    });
    if (!several) continue;
    const std::string name =
        slug("overview " + std::get<0>(key) + " " + std::get<1>(key) + " " + std::get<2>(key));
    add(set.overview, throughput_chart(name, "Throughput by workload", members, palette));
  }
  return set;
}

}  // namespace sluice
