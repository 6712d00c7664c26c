// Lines and points of a paper's figure: scaling, memory against throughput, memory over time, loss curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/model/cluster.h"
#include "plots/curve_steps.h"
#include "plots/figure_frame.h"
#include "plots/style.h"
#include "plots/timeline_ops.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {
namespace {

Json line_mark(const FigureRow& row) {
  Json mark = {{"type", "line"}, {"strokeWidth", 1.2}, {"color", row.color}, {"clip", true}};
  if (!row.dash.empty()) mark["strokeDash"] = row.dash;
  return mark;
}

Json point_mark(const FigureRow& row, double font) {
  return {{"type", "point"},    {"filled", true},    {"opacity", 1}, {"size", std::pow(0.65 * font, 2)},
          {"shape", row.shape}, {"color", row.color}};
}

Json layer(Json values, Json mark, Json x, Json y, Json y2 = nullptr) {
  Json encoding = {{"x", std::move(x)}, {"y", std::move(y)}};
  if (!y2.is_null()) encoding["y2"] = std::move(y2);
  return {{"data", {{"values", std::move(values)}}}, {"mark", std::move(mark)}, {"encoding", std::move(encoding)}};
}

double left_of(const FigureAxis& axis, double font) { return widest_tick(axis.ticks, font) + 1.6 * font + 6; }

// Bytes of a device's memory, of the cluster's smallest; none where the cluster is no file or says nothing of it.
std::optional<double> memory_limit(const Comparison& c, const FigureOptions& options) {
  try {
    const Cluster cluster = load_cluster(c.cluster, options.clusters);
    double least = std::numeric_limits<double>::infinity();
    for (const Device& device : cluster.devices) least = std::min(least, static_cast<double>(device.memory.value));
    return std::isfinite(least) ? std::optional(least) : std::nullopt;
  } catch (const InputError&) {  // "this machine", or a cluster of another checkout
    return std::nullopt;
  }
}

// The limit with its text inside the plot, by the axis ("x" or "y") that memory is on.
void add_limit(Json& layers, const std::string& along, const FigureAxis& axis, double limit, const std::string& text) {
  const bool upright = along == "x";
  // With the axis of the other layers: a default one would thin out its ticks.
  const Json at = {{"datum", limit}, {"type", "quantitative"}, {"axis", encoding("", axis)["axis"]}};
  layers.push_back(
      single_mark({{"type", "rule"}, {"strokeDash", Json::array({4, 2})}, {"strokeWidth", 0.8}, {"color", "#b3261e"}},
                  {{along, at}}));
  Json mark = {{"type", "text"}, {"text", text}, {"color", "#b3261e"}, {"align", "right"}};
  Json place = {{along, at}};
  if (upright) {
    mark.update({{"angle", 270}, {"baseline", "bottom"}, {"dy", -2}, {"y", 1}});
  } else {
    mark.update({{"baseline", "bottom"}, {"dy", -1.5}, {"x", {{"expr", "width"}}}});
  }
  layers.push_back(single_mark(std::move(mark), std::move(place)));
}

}  // namespace

Json scaling_figure(std::span<const Comparison> comparisons, const FigureOptions& options) {
  // Over the ranks, where these differ; else over the micro-batches.
  std::set<int> ranks;
  std::set<std::string> others;
  std::vector<const Comparison*> scaled;
  for (const Comparison& c : comparisons) {
    if (std::ranges::all_of(c.rows, &ComparisonRow::reference)) continue;
    scaled.push_back(&c);
    ranks.insert(c.ranks);
    others.insert(
        fmt::format("{}\n{}\n{}\n{}\n{}\n{}", c.workload, c.cluster, c.clock, c.cost_source, c.batch, c.optimizer));
  }
  if (others.size() > 1) only_comparison(comparisons, options);
  const bool over_ranks = ranks.size() > 1;
  struct Line {
    FigureRow row;
    std::map<double, Spread> points;
  };
  std::vector<Line> lines;
  const std::map<const ComparisonRow*, std::string> telling = options_across(comparisons);
  std::optional<double> single;
  double largest = 0;
  std::set<double> places;
  for (const Comparison* c : scaled)
    for (FigureRow row : figure_rows(*c, options, "throughput")) {
      if (!row.row->throughput) continue;
      if (row.row->reference) {
        if (over_ranks && !single) single = row.row->throughput->median;
        continue;
      }
      if (over_ranks) {
        row.label = figure_label(*row.row, telling.at(row.row), options);
      } else {
        row.label = label_without_microbatches(*row.row);
        if (const auto name = options.names.find(row.row->system); name != options.names.end())
          row.label = name->second;
      }
      auto line = std::ranges::find(lines, row.label, [](const Line& l) { return l.row.label; });
      if (line == lines.end()) line = lines.insert(lines.end(), {row, {}});
      line->points.emplace(over_ranks ? c->ranks : row.row->microbatches, *row.row->throughput);
    }
  std::erase_if(lines, [](const Line& line) { return line.points.size() < 2; });
  if (lines.empty())
    throw InputError("figure scaling", "no system has throughputs at two rank counts or two numbers of micro-batches",
                     "give the records of several, as of sluice run --ranks 2,4,8");
  std::vector<FigureRow> legend;
  for (const Line& line : lines) {
    legend.push_back(line.row);
    for (const auto& [at, rate] : line.points) {
      largest = std::max(largest, rate.max);
      places.insert(at);
    }
  }
  const double font = options.font_size;
  const FigureAxis y_axis = axis_to("samples/s", 0, largest, 4);
  const FigureFrame frame(options, left_of(y_axis, font), 3.4 * font, legend, LegendMark::line, 0.42 * options.width);
  FigureAxis x_axis{over_ranks ? "ranks" : "micro-batches",
                    *places.begin() * 0.92,
                    *places.rbegin() * 1.08,
                    {places.begin(), places.end()},
                    false};
  Json x = encoding("x", x_axis);
  x["scale"].update({{"type", "log"}, {"base", 2}});
  Json layers = Json::array();
  if (single) {
    Json ideal = Json::array();
    for (int k = 0; k <= 40; ++k) {
      const double at = x_axis.from * std::pow(x_axis.to / x_axis.from, k / 40.0);
      ideal.push_back({{"x", at}, {"value", at * *single}});
    }
    layers.push_back(layer(std::move(ideal),
                           {{"type", "line"},
                            {"clip", true},
                            {"strokeWidth", 0.8},
                            {"color", "#999"},
                            {"strokeDash", Json::array({3, 2})}},
                           x, encoding("value", y_axis)));
  }
  for (const Line& line : lines) {
    Json values = Json::array(), spreads = Json::array();
    for (const auto& [at, rate] : line.points) {
      values.push_back({{"x", at}, {"value", rate.median}});
      if (rate.min < rate.max) spreads.push_back({{"x", at}, {"value", rate.min}, {"high", rate.max}});
    }
    layers.push_back(layer(std::move(spreads), {{"type", "rule"}, {"strokeWidth", 0.8}, {"color", line.row.color}}, x,
                           encoding("value", y_axis), {{"field", "high"}}));
    layers.push_back(layer(values, line_mark(line.row), x, encoding("value", y_axis)));
    layers.push_back(layer(std::move(values), point_mark(line.row, font), x, encoding("value", y_axis)));
  }
  return frame.spec(std::move(layers));
}

Json pareto_figure(const Comparison& comparison, const FigureOptions& options) {
  std::vector<FigureRow> rows = figure_rows(comparison, options, "throughput");
  std::erase_if(rows, [](const FigureRow& r) { return !r.row->throughput || !r.row->peak_memory; });
  if (rows.empty())
    throw InputError("figure pareto", "no record has both a throughput and peak_bytes of its ranks",
                     "run on the virtual clock, or with a build that measures memory");
  double memory = 0, rate = 0;
  std::vector<FigureRow> legend;  // one entry a system: its settings are points of one look
  for (FigureRow& r : rows) {
    const auto first = std::ranges::find(legend, r.row->system, [](const FigureRow& l) { return l.row->system; });
    if (first == legend.end()) {
      legend.push_back(r);
    } else {
      const auto name = options.names.find(r.row->system);
      first->label = name == options.names.end() ? system_style(r.row->system).title : name->second;
      r.color = first->color;
    }
    memory = std::max(memory, r.row->peak_memory->median);
    rate = std::max(rate, r.row->throughput->median);
  }
  const std::optional<double> limit = memory_limit(comparison, options);
  if (limit) memory = std::max(memory, *limit);
  const Scale scale = byte_scale(memory);
  const double font = options.font_size;
  const FigureAxis y_axis = axis_to("samples/s", 0, rate * 1.03, 4);
  const FigureFrame frame(options, left_of(y_axis, font), 3.4 * font, legend, LegendMark::point, 0.5 * options.width);
  const FigureAxis x_axis = axis_to("peak memory of the fullest rank (" + scale.unit + ")", 0, memory / scale.divisor,
                                    static_cast<int>(frame.plot_width() / (5 * font)));
  const Json x = encoding("x", x_axis), y = encoding("value", y_axis);
  Json layers = Json::array(), front = Json::array();
  std::vector<std::pair<double, double>> points;
  for (const FigureRow& r : rows)
    points.emplace_back(r.row->peak_memory->median / scale.divisor, r.row->throughput->median);
  std::vector<std::pair<double, double>> sorted = points;
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  double best = -1;
  for (const auto& [at, value] : sorted)
    if (value > best) front.push_back({{"x", at}, {"value", best = value}});
  layers.push_back(layer(std::move(front),
                         {{"type", "line"}, {"interpolate", "step-after"}, {"strokeWidth", 0.8}, {"color", "#999"}}, x,
                         y));
  for (std::size_t k = 0; k < rows.size(); ++k)
    layers.push_back(layer(Json::array({{{"x", points[k].first}, {"value", points[k].second}}}),
                           point_mark(rows[k], font * 1.2), x, y));
  if (limit)
    add_limit(layers, "x", x_axis, *limit / scale.divisor,
              fmt::format("limit {:.3g} {}", *limit / scale.divisor, scale.unit));
  return frame.spec(std::move(layers));
}

Json memory_figure(const Comparison& comparison, const FigureOptions& options) {
  // Of the rank that needs most: what it always holds, and its share of the activations while they are held.
  struct Line {
    FigureRow row;
    std::vector<std::pair<double, double>> points;  // seconds, bytes
  };
  struct Held {
    FigureRow row;
    std::vector<HeldPoint> points;
    MemorySplit peak;
  };
  std::vector<Held> of_rows;
  std::vector<const Record*> records;
  for (const FigureRow& row : figure_rows(comparison, options, "peak_memory")) {
    const auto found = std::ranges::find_if(row.row->records, [](const Record& r) {
      return has_metrics(r) && !r.timeline.empty() && !r.peak_bytes.empty();
    });
    if (found == row.row->records.end()) continue;
    const std::vector<std::vector<HeldPoint>> held = held_over_time(*found);
    const auto fullest = static_cast<std::size_t>(std::ranges::max_element(found->peak_bytes, {}, &MemorySplit::total) -
                                                  found->peak_bytes.begin());
    if (fullest >= held.size() || held[fullest].empty()) continue;
    of_rows.push_back({row, held[fullest], found->peak_bytes[fullest]});
    records.push_back(&*found);
  }
  const std::vector<TimeSpan> spans = comparable_spans(records);
  std::vector<Line> lines;
  double longest = 0, largest = 0;
  for (std::size_t k = 0; k < of_rows.size(); ++k) {
    const auto& [row, held, peak] = of_rows[k];
    const TimeSpan& span = spans[k];
    int most = 0;
    for (const HeldPoint& p : held) most = std::max(most, p.held);
    const auto always = static_cast<double>(peak.total - peak.activations);
    Line line{row, {{0, always}}};
    for (const HeldPoint& p : held)
      if (p.seconds <= span.end)
        line.points.emplace_back(p.seconds - span.begin,
                                 always + static_cast<double>(peak.activations) * p.held / std::max(most, 1));
    line.points.emplace_back(span.seconds(), line.points.back().second);
    longest = std::max(longest, span.seconds());
    for (const auto& [at, bytes] : line.points) largest = std::max(largest, bytes);
    lines.push_back(std::move(line));
  }
  if (lines.empty())
    throw InputError("figure memory",
                     "no record has both a timeline with backwards and peak_bytes of every rank (reference records are "
                     "kept without timelines)",
                     "run the cases with sluice run --timelines best, and give the records");
  const Scale scale = byte_scale(largest), time = time_scale(longest);
  const double font = options.font_size;
  const std::optional<double> limit = memory_limit(comparison, options);
  const bool near = limit && *limit < 2.5 * largest;  // a limit far above would press the lines flat
  const FigureAxis y_axis = axis_to("memory (" + scale.unit + ")", 0,
                                    (near ? std::max(largest, *limit + 0.08 * largest) : largest) / scale.divisor, 4);
  std::vector<FigureRow> legend;
  for (const Line& line : lines) legend.push_back(line.row);
  const FigureFrame frame(options, left_of(y_axis, font), 3.4 * font, legend, LegendMark::line, 0.45 * options.width);
  const FigureAxis x_axis{"time (" + time.unit + ")", 0, longest / time.divisor,
                          round_ticks(0, longest / time.divisor, 5), false};
  Json layers = Json::array();
  for (const Line& line : lines) {
    Json values = Json::array(), samples = Json::array();
    const std::size_t every = line.points.size() / 6 + 1;
    for (std::size_t k = 0; k < line.points.size(); ++k) {
      const Json value = {{"x", line.points[k].first / time.divisor}, {"value", line.points[k].second / scale.divisor}};
      values.push_back(value);
      if (k % every == every / 2) samples.push_back(value);
    }
    Json mark = line_mark(line.row);
    mark["interpolate"] = "step-after";
    layers.push_back(layer(std::move(values), std::move(mark), encoding("x", x_axis), encoding("value", y_axis)));
    layers.push_back(
        layer(std::move(samples), point_mark(line.row, font), encoding("x", x_axis), encoding("value", y_axis)));
  }
  if (near)
    add_limit(layers, "y", y_axis, *limit / scale.divisor,
              fmt::format("limit {:.3g} {}", *limit / scale.divisor, scale.unit));
  return frame.spec(std::move(layers));
}

Json loss_figure(const Comparison& comparison, const FigureOptions& options) {
  struct Line {
    FigureRow row;
    std::vector<CurveStep> steps;
  };
  std::vector<Line> lines;
  std::vector<double> values;
  double last = 0;
  for (const FigureRow& row : figure_rows(comparison, options, "final_metric")) {
    Line line{row, curve_steps(*row.row, false)};
    if (line.steps.empty()) continue;
    for (const CurveStep& step : line.steps)
      for (const double value : step.values) values.push_back(value);
    last = std::max(last, static_cast<double>(line.steps.back().step));
    lines.push_back(std::move(line));
  }
  if (lines.empty())
    throw InputError("figure loss", "no record has a loss in its curve", "give records of runs that train");
  // The first updates and a loss on its way to infinity would press all others flat.
  const double low = quantile(values, 0);
  const double high = std::min(quantile(values, 1), low + 1.6 * (quantile(values, 0.97) - low) + 1e-12);
  const double font = options.font_size;
  const double from = low - 0.04 * (high - low);
  const FigureAxis y_axis{"training loss", from, high, round_ticks(from, high, 4)};
  std::vector<FigureRow> legend;
  for (const Line& line : lines) legend.push_back(line.row);
  const FigureFrame frame(options, left_of(y_axis, font), 3.4 * font, legend, LegendMark::line, 0.45 * options.width);
  const FigureAxis x_axis{"updates", 0, last, round_ticks(0, last, 5), false};
  Json layers = Json::array(), bands = Json::array();
  constexpr std::size_t kMaxPoints = 120, kSamples = 6;
  for (const Line& line : lines) {
    Json medians = Json::array(), band = Json::array(), samples = Json::array();
    const std::size_t every = line.steps.size() / kMaxPoints + 1, mark_every = line.steps.size() / kSamples + 1;
    for (std::size_t k = 0; k < line.steps.size(); ++k) {
      const CurveStep& step = line.steps[k];
      const Json value = {{"x", step.step}, {"value", median(step.values)}};
      if (k % mark_every == mark_every / 2) samples.push_back(value);
      if (k % every != 0) continue;
      medians.push_back(value);
      if (step.values.size() > 1)
        band.push_back({{"x", step.step}, {"value", quantile(step.values, 0)}, {"high", quantile(step.values, 1)}});
    }
    bands.push_back(layer(std::move(band),
                          {{"type", "area"}, {"clip", true}, {"opacity", 0.2}, {"color", line.row.color}},
                          encoding("x", x_axis), encoding("value", y_axis), {{"field", "high"}}));
    layers.push_back(layer(std::move(medians), line_mark(line.row), encoding("x", x_axis), encoding("value", y_axis)));
    layers.push_back(
        layer(std::move(samples), point_mark(line.row, font), encoding("x", x_axis), encoding("value", y_axis)));
  }
  for (Json& drawn : layers) bands.push_back(std::move(drawn));
  return frame.spec(std::move(bands));
}

}  // namespace sluice
