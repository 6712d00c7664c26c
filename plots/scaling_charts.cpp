// How throughput grows: over the ranks of a section, and over the micro-batches of one rank count.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "harness/base/json.h"
#include "plots/chart_template.h"
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

// What the lines of all panels look like, and where they have points.
Json look_of(const std::vector<std::vector<Series>>& panels) {
  std::vector<std::string> labels, colors;
  Json dashes = Json::array();
  std::set<double> places;
  std::map<std::string, int> variants;  // rows of a system so far
  for (const std::vector<Series>& panel : panels)
    for (const Series& s : panel) {
      for (const Point& p : s.points) places.insert(p.x);
      if (std::ranges::count(labels, s.label) > 0) continue;
      labels.push_back(s.label);
      const SystemStyle style = system_style(s.system);
      colors.push_back(lighter(style.color, variants[s.system]++));
      dashes.push_back(style.dash.empty() ? Json::array({1, 0}) : Json(style.dash));
    }
  return {{"labels", labels},
          {"colors", colors},
          {"dashes", dashes},
          {"places", places},
          {"legend_columns", legend_columns(labels)}};
}

// `per`: what the rate is divided by at every x; nullptr: by nothing.
Json lines_panel(const std::vector<Series>& lines, const std::string& title, const std::string& y_title,
                 const std::string& format, double (*per)(double x), double divisor, std::optional<double> ideal) {
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
  Json diagonal;
  if (ideal) {
    for (const double at : {1.0, last}) diagonal.push_back({{"x", at}, {"value", per ? *ideal : *ideal * at}});
    // On a logarithmic axis a line through the origin is bent.
    if (!per) {
      double at = 1;
      while (at < last) {
        diagonal.push_back({{"x", at}, {"value", *ideal * at}});
        at *= 1.25;
      }
    }
  }
  return {{"heading", panel_heading(title)},
          {"values", std::move(values)},
          {"y_title", y_title},
          {"format", format},
          {"ideal", std::move(diagonal)}};
}

Chart lines_chart(const std::string& name, const std::string& title, const std::vector<std::string>& subtitle,
                  const std::string& axis, Json look, Json panels, int columns) {
  look.update({{"axis", axis}, {"panels", std::move(panels)}, {"columns", columns}});
  return {name, title, filled_chart("scaling", title, subtitle, std::move(look))};
}

}  // namespace

Chart rank_scaling_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons) {
  std::vector<Series> all;
  std::optional<double> single;
  const std::map<const ComparisonRow*, std::string> telling = options_across(comparisons);
  for (const Comparison& c : comparisons)  // of several learning rates the first: throughput is the same
    for (const ComparisonRow* row : drawing_order(c)) {
      if (!row->throughput) continue;
      if (row->reference) {
        if (!single) single = row->throughput->median;
      } else {
        add_point(all, title_of(row->system, telling.at(row)), *row, c.ranks);
      }
    }
  const std::vector<Series> lines = lines_of(std::move(all));
  if (lines.empty()) return {name, title, nullptr};
  std::vector<std::string> subtitle = {setting(comparisons)};
  if (single) subtitle.emplace_back("Dashed: as many times the single device as there are ranks");
  subtitle.emplace_back("Bands: smallest to largest of the seeds, where they differ");
  Json panels = Json::array({lines_panel(lines, "Throughput", "samples/s", ",~r", nullptr, 1, single)});
  if (single && *single > 0)
    panels.push_back(lines_panel(
        lines, "Of the single device's, per rank", "share", ".0%", [](double ranks) { return ranks; }, *single, 1.0));
  return lines_chart(name, title, subtitle, "ranks", look_of({lines}), std::move(panels), 2);
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
  Json views = Json::array();
  for (std::size_t i = 0; i < panels.size(); ++i)
    views.push_back(lines_panel(panels[i], titles[i], "samples/s", ",~r", nullptr, 1, std::nullopt));
  return lines_chart(name, title, {setting(comparisons), "The global batch stays: more micro-batches are smaller ones"},
                     "micro-batches of an update", look_of(panels), std::move(views), panels.size() > 1 ? 2 : 1);
}

}  // namespace sluice
