// How throughput grows: over the ranks of a section, and over the micro-batches of one rank count.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "harness/base/json.h"
#include "plots/charts.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/system_style.h"

namespace sluice {
namespace {

struct Point {
  double x = 0;
  Spread rate;
};

// The points of one label, by rising x.
struct Series {
  std::string label, system;
  std::vector<Point> points;
};

void add_point(std::vector<Series>& all, const std::string& label, const ComparisonRow& row, double x) {
  auto series = std::ranges::find(all, label, &Series::label);
  if (series == all.end()) {
    all.push_back({label, row.system, {}});
    series = all.end() - 1;
  }
  if (std::ranges::count(series->points, x, &Point::x) == 0) series->points.push_back({x, row.throughput.value()});
}

// Without those of a single point, of which nothing can be seen.
std::vector<Series> lines_of(std::vector<Series> all) {
  std::erase_if(all, [](const Series& s) { return s.points.size() < 2; });
  for (Series& s : all) std::ranges::sort(s.points, {}, &Point::x);
  return all;
}

struct Look {
  Json x_axis;  // "values", "title"
  std::vector<std::string> labels, colors;
  Json dashes = Json::array();
};

Look look_of(const std::vector<std::vector<Series>>& panels, const std::string& x_title) {
  Look look;
  std::set<double> places;
  std::map<std::string, int> variants;  // rows of a system so far
  for (const std::vector<Series>& panel : panels)
    for (const Series& s : panel) {
      for (const Point& p : s.points) places.insert(p.x);
      if (std::ranges::count(look.labels, s.label) > 0) continue;
      look.labels.push_back(s.label);
      const SystemStyle style = system_style(s.system);
      look.colors.push_back(lighter(style.color, variants[s.system]++));
      look.dashes.push_back(style.dash.empty() ? Json::array({1, 0}) : Json(style.dash));
    }
  Json values = Json::array();
  for (const double place : places) values.push_back(place);
  look.x_axis = {{"title", x_title}, {"values", std::move(values)}, {"format", "d"}, {"labelOverlap", "greedy"}};
  return look;
}

// `per`: what the rate is divided by at every x; nullptr: by nothing.
Json lines_panel(const std::vector<Series>& lines, const Look& look, const std::string& title,
                 const std::string& y_title, const std::string& format, double (*per)(double x), double divisor,
                 std::optional<double> ideal) {
  Json values = Json::array();
  double last = 1;
  for (const Series& s : lines)
    for (const Point& p : s.points) {
      const double by = divisor * (per ? per(p.x) : 1);
      last = std::max(last, p.x);
      Json value = {{"label", s.label}, {"x", p.x}, {"value", p.rate.median / by}};
      if (p.rate.min < p.rate.max) value["low"] = p.rate.min / by, value["high"] = p.rate.max / by;
      values.push_back(std::move(value));
    }
  const Json x = {{"field", "x"},
                  {"type", "quantitative"},
                  {"scale", {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", 12}}},
                  {"axis", look.x_axis}};
  const auto y = [&](const char* field) {
    return Json{{"field", field}, {"type", "quantitative"}, {"axis", {{"title", y_title}, {"format", format}}}};
  };
  const Json legend = {{"title", nullptr},
                       {"symbolType", "stroke"},
                       {"symbolStrokeWidth", 3},
                       {"orient", "bottom"},
                       {"columns", legend_columns(look.labels)}};
  const auto by_label = [&](Json range) {
    return Json{{"field", "label"},
                {"type", "nominal"},
                {"scale", {{"domain", string_array(look.labels)}, {"range", std::move(range)}}},
                {"legend", legend}};
  };
  const Json color = by_label(string_array(look.colors)), dash = by_label(look.dashes);
  Json layers = Json::array();
  if (ideal) {
    Json diagonal = Json::array();
    for (const double at : {1.0, last}) diagonal.push_back({{"x", at}, {"value", per ? *ideal : *ideal * at}});
    // On a logarithmic axis a line through the origin is bent.
    if (!per) {
      double at = 1;
      while (at < last) {
        diagonal.push_back({{"x", at}, {"value", *ideal * at}});
        at *= 1.25;
      }
    }
    layers.push_back({{"data", {{"values", std::move(diagonal)}}},
                      {"mark", {{"type", "line"}, {"strokeDash", Json::array({4, 3})}, {"color", "#6f6f6f"}}},
                      {"encoding", {{"x", x}, {"y", y("value")}}}});
  }
  layers.push_back({{"transform", Json::array({{{"filter", "isValid(datum.low)"}}})},
                    {"mark", {{"type", "area"}, {"opacity", 0.18}}},
                    {"encoding", {{"x", x}, {"y", y("low")}, {"y2", {{"field", "high"}}}, {"color", color}}}});
  layers.push_back({{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"point", {{"size", 40}}}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y("value")},
                      {"color", color},
                      {"strokeDash", dash},
                      {"tooltip", Json::array({{{"field", "label"}, {"title", "system"}},
                                               {{"field", "x"}, {"title", look.x_axis["title"]}},
                                               {{"field", "value"}, {"title", y_title}, {"format", ".4~g"}}})}}}});
  Json spec = {
      {"data", {{"values", std::move(values)}}}, {"width", 390}, {"height", 250}, {"layer", std::move(layers)}};
  if (!title.empty()) spec["title"] = panel_heading(title);
  return spec;
}

}  // namespace

Chart rank_scaling_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons) {
  std::vector<Series> all;
  std::optional<double> single;
  for (const Comparison& c : comparisons)  // of several learning rates the first: throughput is the same
    for (const ComparisonRow* row : drawing_order(c)) {
      if (!row->throughput) continue;
      if (row->reference) {
        if (!single) single = row->throughput->median;
      } else {
        add_point(all, title_of(*row), *row, c.ranks);
      }
    }
  const std::vector<Series> lines = lines_of(std::move(all));
  if (lines.empty()) return {name, title, nullptr};
  const Look look = look_of({lines}, "ranks");
  std::vector<std::string> subtitle = {setting(comparisons)};
  if (single) subtitle.emplace_back("Dashed: as many times the single device as there are ranks");
  subtitle.emplace_back("Bands: smallest to largest of the seeds, where they differ");
  Chart chart{name, title, chart_frame(title, subtitle)};
  Json& views = chart.spec["concat"] = Json::array();
  views.push_back(lines_panel(lines, look, "Throughput", "samples/s", ",~r", nullptr, 1, single));
  if (single && *single > 0)
    views.push_back(lines_panel(
        lines, look, "Of the single device's, per rank", "share", ".0%", [](double ranks) { return ranks; }, *single,
        1.0));
  chart.spec["columns"] = 2;
  chart.spec["spacing"] = 28;
  return chart;
}

Chart microbatch_scaling_chart(const std::string& name, const std::string& title,
                               std::span<const Comparison> comparisons) {
  std::vector<std::vector<Series>> panels;
  std::vector<std::string> titles;
  std::set<int> drawn;
  for (const Comparison& c : comparisons) {
    if (!drawn.insert(c.ranks).second) continue;
    std::vector<Series> all;
    for (const ComparisonRow* row : drawing_order(c))
      if (row->throughput && !row->reference) add_point(all, label_without_microbatches(*row), *row, row->microbatches);
    std::vector<Series> lines = lines_of(std::move(all));
    if (lines.empty()) continue;
    panels.push_back(std::move(lines));
    titles.push_back(ranks_text(c.ranks));
  }
  if (panels.empty()) return {name, title, nullptr};
  const Look look = look_of(panels, "micro-batches of an update");
  Chart chart{
      name, title,
      chart_frame(title, {setting(comparisons), "The global batch stays: more micro-batches are smaller ones"})};
  Json& views = chart.spec["concat"] = Json::array();
  for (std::size_t i = 0; i < panels.size(); ++i)
    views.push_back(lines_panel(panels[i], look, titles[i], "samples/s", ",~r", nullptr, 1, std::nullopt));
  chart.spec["columns"] = panels.size() > 1 ? 2 : 1;
  chart.spec["spacing"] = 28;
  return chart;
}

}  // namespace sluice
