// Bars of a paper's figure: throughput, bubbles, time to accuracy. Of one experiment they lie, with their values at
// their ends; of several that differ in one thing they stand in groups.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/base/error.h"
#include "plots/chart_template.h"
#include "plots/figure_frame.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/fields.h"

namespace sluice {
namespace {

struct Measure {
  const char* field;
  std::string axis;
  double divisor = 1;
};

Measure measure_of(std::span<const Comparison> comparisons, const FigureOptions& options) {
  if (options.kind == "throughput") return {"throughput", "samples/s"};
  if (options.kind == "bubbles") return {"bubble", "idle time (%)", 0.01};
  double largest = 0;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows)
      if (row.time_to_accuracy) largest = std::max(largest, row.time_to_accuracy->max);
  const Scale scale = time_scale(largest);
  const Comparison& c = comparisons.front();
  const char* const sign = c.lower_is_better ? "≤" : "≥";
  const std::string goal = c.target ? fmt::format("{} {} {:g}", c.metric, sign, *c.target) : std::string("target");
  return {"time_to_accuracy", "time to " + goal + " (" + scale.unit + ")", scale.divisor};
}

std::string no_value(const ComparisonRow& row) {
  return row.outcome == RecordOutcome::ok ? "not reached" : outcome_words(row.outcome);
}

Json lying_bars(const std::vector<FigureRow>& rows, const Measure& measure, const FigureOptions& options) {
  const Field& field = *find_field(measure.field);
  const double font = options.font_size;
  double left = 0, largest = 0, widest = 0;
  for (const FigureRow& row : rows) {
    left = std::max(left, text_width(row.label, font) + 4);
    if (const auto value = row.row->figure(field)) largest = std::max(largest, value->max / measure.divisor);
  }
  std::vector<std::pair<double, std::string>> ends;
  for (const FigureRow& row : rows)
    if (const auto value = row.row->figure(field)) {
      ends.emplace_back(value->max / measure.divisor, rate_text(value->median / measure.divisor));
      widest = std::max(widest, text_width(ends.back().second, font));
    }
  const double below = 3 * font;
  const FigureFrame frame(options, left, below, {}, LegendMark::square, static_cast<double>(rows.size()) * 1.5 * font,
                          static_cast<double>(rows.size()) * 1.1 * font);
  double to = largest;  // the text of the longest bar fits into the plot
  for (const auto& [end, text] : ends)
    to = std::max(to, end / std::max(0.2, 1 - (text_width(text, font) + 5) / frame.plot_width()));
  FigureAxis axis{measure.axis, 0, to, round_ticks(0, to, static_cast<int>(frame.plot_width() / (6 * font)))};
  Json bars = Json::array(), order = Json::array(), whiskers = Json::array(), texts = Json::array();
  for (const FigureRow& row : rows) {
    order.push_back(row.label);
    const auto value = row.row->figure(field);
    if (!value) {
      texts.push_back({{"label", row.label}, {"value", 0}, {"text", no_value(*row.row)}, {"color", "#b3261e"}});
      continue;
    }
    const double median = value->median / measure.divisor;
    bars.push_back({{"label", row.label}, {"value", median}, {"color", row.color}});
    texts.push_back({{"label", row.label},
                     {"value", value->max / measure.divisor},
                     {"text", rate_text(median)},
                     {"color", "#111"}});
    if (value->min < value->max)
      whiskers.push_back(
          {{"label", row.label}, {"value", value->min / measure.divisor}, {"high", value->max / measure.divisor}});
  }
  return frame.spec(filled_chart("figure_bars", {{"axis", encoding("value", axis)},
                                                 {"order", std::move(order)},
                                                 {"bars", std::move(bars)},
                                                 {"whiskers", std::move(whiskers)},
                                                 {"texts", std::move(texts)}})["layer"]);
}

// What tells an experiment from the others of the figure: "4 ranks", or the title of its workload, or both.
std::vector<std::string> group_labels(std::span<const Comparison> all, const FigureOptions& options) {
  const auto same = [&](auto member) {
    return std::ranges::all_of(all, [&](const Comparison& c) { return c.*member == all.front().*member; });
  };
  std::vector<std::string> labels;
  for (const Comparison& c : all) {
    std::vector<std::string> parts;
    if (!same(&Comparison::title)) parts.push_back(c.title);
    if (!same(&Comparison::cluster)) parts.push_back(c.cluster);
    if (!same(&Comparison::batch)) parts.push_back(fmt::format("batch {}", c.batch));
    if (!same(&Comparison::ranks)) parts.push_back(ranks_text(c.ranks));
    if (!same(&Comparison::optimizer)) parts.push_back(c.optimizer);
    labels.push_back(fmt::format("{}", fmt::join(parts, ", ")));
  }
  if (std::set<std::string>(labels.begin(), labels.end()).size() < labels.size()) only_comparison(all, options);
  return labels;
}

Json standing_bars(std::span<const Comparison> all, const Measure& measure, const FigureOptions& options) {
  const Field& field = *find_field(measure.field);
  const double font = options.font_size;
  if (options.kind == "throughput" &&
      std::ranges::any_of(all, [&](const Comparison& c) { return c.workload != all.front().workload; }))
    only_comparison(all, options);  // samples of two models are not on one axis
  const std::vector<std::string> groups = group_labels(all, options);
  std::vector<FigureRow> legend;
  Json bars = Json::array(), whiskers = Json::array();
  double largest = 0;
  for (std::size_t k = 0; k < all.size(); ++k)
    for (const FigureRow& row : figure_rows(all[k], options, measure.field)) {
      const auto value = row.row->figure(field);
      if (!value) continue;
      if (std::ranges::count(legend, row.label, &FigureRow::label) == 0) legend.push_back(row);
      largest = std::max(largest, value->max / measure.divisor);
      bars.push_back({{"group", groups[k]},
                      {"label", row.label},
                      {"value", value->median / measure.divisor},
                      {"color", std::ranges::find(legend, row.label, &FigureRow::label)->color},
                      {"shape", std::ranges::find(legend, row.label, &FigureRow::label)->shape}});
      if (value->min < value->max)
        whiskers.push_back({{"group", groups[k]},
                            {"label", row.label},
                            {"value", value->min / measure.divisor},
                            {"high", value->max / measure.divisor}});
    }
  const FigureAxis axis = axis_to(measure.axis, 0, largest, 4);
  const double left = widest_tick(axis.ticks, font) + 1.6 * font + 6;
  const FigureFrame frame(options, left, 1.7 * font, legend, LegendMark::point, 0.4 * options.width);
  double widest = 0;
  for (const std::string& group : groups) widest = std::max(widest, text_width(group, font));
  if (widest + font > frame.plot_width() / static_cast<double>(groups.size())) only_comparison(all, options);
  Json labels = Json::array();
  for (const FigureRow& row : legend) labels.push_back(row.label);
  const double bar = 0.8 * frame.plot_width() / static_cast<double>(groups.size() * legend.size());  // points wide
  return frame.spec(filled_chart("figure_groups", {{"axis", encoding("value", axis)},
                                                   {"groups", groups},
                                                   {"labels", std::move(labels)},
                                                   {"bars", std::move(bars)},
                                                   {"marker_size", std::pow(std::min(0.6 * font, 0.7 * bar), 2)},
                                                   {"foot", -0.55 * font},
                                                   {"whiskers", std::move(whiskers)}})["layer"]);
}

}  // namespace

Json bar_figure(std::span<const Comparison> comparisons, const FigureOptions& options) {
  const Measure measure = measure_of(comparisons, options);
  const Field& field = *find_field(measure.field);
  std::vector<Comparison> with_values;  // runs on one device alone are the reference of the others
  for (const Comparison& c : comparisons)
    if (std::ranges::any_of(c.rows, [&](const ComparisonRow& row) {
          return row.figure(field).has_value() && (comparisons.size() == 1 || !row.reference);
        }))
      with_values.push_back(c);
  const bool references = std::ranges::any_of(comparisons, [&](const Comparison& c) {
    return std::ranges::any_of(c.rows, [&](const ComparisonRow& row) { return row.figure(field).has_value(); });
  });
  if (with_values.empty() && references)
    throw InputError("figure " + options.kind,
                     "of several experiments, only runs on one device have a value: they are what others are compared "
                     "with",
                     "add records of other systems, or choose one experiment: --filter workload=NAME");
  if (with_values.empty())
    throw InputError("figure " + options.kind,
                     options.kind == "throughput" ? "no record has a step after the warm-up"
                     : options.kind == "bubbles"  ? "no record has observed.bubble_ratio"
                                                  : "no run reaches a target: workload_facts.target and evaluations in "
                                                    "curve are needed",
                     options.kind == "time-to-accuracy" ? "run a workload that trains, with a target" : "");
  if (with_values.size() == 1)
    return lying_bars(figure_rows(with_values.front(), options, measure.field), measure, options);
  return standing_bars(with_values, measure, options);
}

}  // namespace sluice
