// The timeline of one system: a row a rank, a rectangle an op, its micro-batch in it where it fits.
//
//   rank 0  [0][1][2][3]            [0 ][1 ][2 ][3 ]      blue F, green B (teal I, yellow W),
//   rank 1     [0][1][2][3][0 ][1 ][2 ][3 ]               grey is idle
//
// What moves data (gathers, reductions, the messages that a rank sends) has a lane of its own below the rank's compute;
// an overlapped pair shares the row, one above the other. A black line runs through the critical path. Where ops of a
// stage read several weight versions, the number of the version stands below the micro-batch.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "plots/charts.h"
#include "plots/interference_bands.h"
#include "plots/style.h"
#include "plots/timeline_ops.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"

namespace sluice {
namespace {

constexpr double kWidth = 900, kRow = 26, kTallRow = 36;  // pixels
constexpr double kLane = 0.7;  // of a row with a lane: above it compute, below it what moves data

// Idle share of the ranks while the timeline lasts: 1 - compute / (ranks * span).
double idle_share(const Record& record, int ranks, double begin, double end) {
  std::map<int, std::vector<std::pair<double, double>>> busy;
  for (const TimelineOp& op : record.timeline)
    if (!moves_data(read_parts(op.op).front())) busy[op.rank].emplace_back(op.start, op.end);
  double total = 0;
  for (auto& [rank, spans] : busy) {
    std::sort(spans.begin(), spans.end());
    double until = begin;
    for (const auto& [start, stop] : spans) {  // ops that overlap count once
      total += std::max(0.0, stop - std::max(start, until));
      until = std::max(until, stop);
    }
  }
  return 1 - total / (ranks * (end - begin));
}

// "F of micro-batch 3 in stage 2; rank 1; 1.2 ms, from 3.4 ms to 4.6 ms; ...": a line of a tooltip each.
std::string details(const TimelineOp& op, const TimelinePart& part, bool is_critical) {
  std::string text = part.stage >= 0
                         ? fmt::format("{} of micro-batch {} in stage {}", part.kind, part.micro, part.stage)
                         : fmt::format("{} ({})", op.to ? "message" : part.kind, op.op);
  text += fmt::format("; {}; {}, from {} to {}",
                      op.to ? fmt::format("from rank {} to rank {}", op.rank, *op.to) : fmt::format("rank {}", op.rank),
                      to_text(Seconds(op.end - op.start)), to_text(Seconds(op.start)), to_text(Seconds(op.end)));
  if (op.version) text += fmt::format("; reads weight version {}", *op.version);
  return is_critical ? text + "; on the critical path" : text;
}

// From the end of every op of the path to the start of the next, and along the ops between.
Json critical_line(const Record& record, const std::vector<std::size_t>& path, double begin, double divisor,
                   double foot, Json x, Json y) {
  Json points = Json::array();
  for (const std::size_t k : path) {
    const TimelineOp& op = record.timeline[k];
    const double height = moves_data(read_parts(op.op).front()) ? kLane + 0.13 : foot - 0.03;
    for (const double at : {op.start, op.end})
      points.push_back({{"order", points.size()}, {"at", (at - begin) / divisor}, {"height", op.rank + height}});
  }
  x["field"] = "at";
  y["field"] = "height";
  return {{"data", {{"values", std::move(points)}}},
          {"mark", {{"type", "line"}, {"color", "#111"}, {"strokeWidth", 1.6}, {"aria", false}}},
          {"encoding", {{"x", x}, {"y", y}, {"order", {{"field", "order"}, {"type", "quantitative"}}}}}};
}

}  // namespace

Chart timeline_chart(const std::string& name, const Comparison& comparison, const ComparisonRow& row) {
  const auto found = std::find_if(row.records.begin(), row.records.end(),
                                  [](const Record& r) { return has_metrics(r) && !r.timeline.empty(); });
  if (found == row.records.end()) return {name, row.label, nullptr};
  const Record& record = *found;

  double begin = record.timeline.front().start, end = record.timeline.front().end;
  int ranks = record.ranks;
  std::map<int, std::set<int>> stages;  // of a rank, so that its chunks get shades
  for (const TimelineOp& op : record.timeline) {
    begin = std::min(begin, op.start);
    end = std::max(end, op.end);
    ranks = std::max(ranks, op.rank + 1);
    for (const TimelinePart& part : read_parts(op.op))
      if (part.stage >= 0) stages[op.rank].insert(part.stage);
  }
  if (!(end > begin)) return {name, row.label, nullptr};
  const Scale scale = time_scale(end - begin);

  const bool lanes =
      std::ranges::any_of(record.timeline, [](const TimelineOp& op) { return moves_data(read_parts(op.op).front()); });
  const bool versions =
      std::ranges::any_of(record.timeline, [](const TimelineOp& op) { return op.version.has_value(); });
  const double foot = lanes ? kLane : 0.94;  // of the compute, in its row
  const std::vector<std::size_t> path = critical_path(record);
  const std::set<std::size_t> critical(path.begin(), path.end());

  Json idle = Json::array(), ops = Json::array(), moves = Json::array();  // moves on top
  for (int rank = 0; rank < ranks; ++rank)
    idle.push_back({{"kind", "idle"},
                    {"start", 0},
                    {"end", (end - begin) / scale.divisor},
                    {"top", rank + 0.06},
                    {"bottom", rank + foot}});
  std::set<std::string> used = {"idle"};
  for (std::size_t place = 0; place < record.timeline.size(); ++place) {
    const TimelineOp& op = record.timeline[place];
    const std::vector<TimelinePart> parts = read_parts(op.op);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const TimelinePart& part = parts[i];
      used.insert(part.kind);
      double top = op.rank + 0.06, bottom = op.rank + foot;
      if (parts.size() == 2) (i == 0 ? bottom : top) = op.rank + (0.06 + foot) / 2;
      if (moves_data(part)) top = op.rank + kLane + 0.03, bottom = op.rank + 0.94;
      double shade = 1;
      if (part.stage >= 0) {
        const auto& own = stages[op.rank];
        const auto chunk = std::distance(own.begin(), own.find(part.stage));
        shade = std::max(0.5, 1 - 0.25 * static_cast<double>(chunk));
      }
      const double pixels = (op.end - op.start) / (end - begin) * kWidth;
      const bool fits = !part.micro.empty() && pixels >= 6.5 * static_cast<double>(part.micro.size()) + 2;
      const OpLook& kind = op_kind(part.kind);
      Json& layer = moves_data(part) ? moves : ops;
      layer.push_back({{"kind", part.kind},
                       {"op", op.op},
                       {"note", details(op, part, critical.contains(place))},
                       {"text", fits ? part.micro : ""},
                       {"version", fits && op.version ? fmt::format("v{}", *op.version) : ""},
                       {"ink", shade < 0.8 ? "#111" : kind.ink},
                       {"shade", shade},
                       {"start", (op.start - begin) / scale.divisor},
                       {"end", (op.end - begin) / scale.divisor},
                       {"top", top},
                       {"bottom", bottom}});
    }
  }
  for (const Json& move : moves) ops.push_back(move);
  std::vector<std::string> names, colors;
  for (const OpLook& kind : kOpKinds)
    if (used.contains(kind.name)) names.emplace_back(kind.name), colors.emplace_back(kind.color);

  const double bubble = bubble_ratio(record).value_or(idle_share(record, ranks, begin, end));
  std::string title =
      fmt::format("Timeline of {}, {}: bubble {:.1f} %", title_of(row), ranks_text(row.ranks), 100 * bubble);
  if (const auto promised = record.theory ? record.theory->bubble_ratio : std::nullopt)
    title += fmt::format(" (theory {:.1f} %)", 100 * *promised);
  std::vector<std::string> subtitle = {
      comparison.title + " · " + setting(comparison) +
      fmt::format(" · {} micro-batch{}", row.microbatches, row.microbatches == 1 ? "" : "es")};
  if (path.size() > 1) {
    double running = 0;
    for (const std::size_t k : path) running += record.timeline[k].end - record.timeline[k].start;
    const double length = record.timeline[path.back()].end - record.timeline[path.front()].start;
    subtitle.push_back(
        fmt::format("Black line: the critical path, {} ops; between them {:.1f} % of its time passes waiting",
                    path.size(), 100 * std::max(0.0, 1 - running / length)));
  }
  if (versions) subtitle.emplace_back("v: the weight version that an op reads");
  Chart chart{name, title, chart_frame(title, subtitle), ChartTopic::timelines, record.digest};

  const Json x = {{"field", "start"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", Json::array({0, (end - begin) / scale.divisor})}, {"nice", false}}},
                  {"axis", {{"title", "time [" + scale.unit + "]"}, {"grid", false}, {"tickCount", 10}}}};
  Json places = Json::array();
  for (int rank = 0; rank < ranks; ++rank) places.push_back(rank + 0.5);
  const Json y = {{"field", "top"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", Json::array({0, ranks})}, {"reverse", true}, {"nice", false}}},
                  {"axis",
                   {{"title", nullptr},
                    {"values", places},
                    {"labelExpr", "'rank ' + (datum.value - 0.5)"},
                    {"labelOverlap", false},
                    {"grid", false},
                    {"ticks", false},
                    {"domain", false}}}};
  const Json x2 = {{"field", "end"}}, y2 = {{"field", "bottom"}};
  const Json color = {
      {"field", "kind"},
      {"type", "nominal"},
      {"scale", {{"domain", string_array(names)}, {"range", string_array(colors)}}},
      {"legend", {{"title", nullptr}, {"orient", "bottom"}, {"columns", names.size()}, {"symbolType", "square"}}}};
  Json layers = Json::array();
  layers.push_back({{"data", {{"values", std::move(idle)}}},
                    {"mark", {{"type", "rect"}}},
                    {"encoding", {{"x", x}, {"x2", x2}, {"y", y}, {"y2", y2}, {"color", color}}}});
  // A slowed device is shaded over its own row; device d runs rank d unless the plan orders them otherwise.
  Json slowed = Json::array();
  for (const BandSpan& span : interference_spans(record, begin, end))
    if (span.resource != "link" && span.device < ranks)
      slowed.push_back({{"start", span.start / scale.divisor},
                        {"end", span.end / scale.divisor},
                        {"top", span.device},
                        {"bottom", span.device + 1}});
  if (!slowed.empty())
    layers.push_back({{"data", {{"values", std::move(slowed)}}},
                      {"mark", {{"type", "rect"}, {"color", "#b22222"}, {"opacity", 0.15}}},
                      {"encoding", {{"x", x}, {"x2", x2}, {"y", y}, {"y2", y2}}}});
  const Json data = {{"values", std::move(ops)}};
  layers.push_back({{"data", data},
                    {"mark", {{"type", "rect"}, {"stroke", "white"}, {"strokeWidth", 0.5}}},
                    {"encoding",
                     {{"x", x},
                      {"x2", x2},
                      {"y", y},
                      {"y2", y2},
                      {"color", color},
                      {"opacity", {{"field", "shade"}, {"type", "quantitative"}, {"scale", nullptr}}},
                      {"description", {{"field", "note"}, {"type", "nominal"}}},
                      {"tooltip", {{"field", "note"}, {"type", "nominal"}}}}}});
  if (path.size() > 1) layers.push_back(critical_line(record, path, begin, scale.divisor, foot, x, y));
  Json middle = x, centre = y;  // with their axes: layers that differ in these would merge them
  middle["field"] = "middle";
  centre["field"] = "centre";
  const auto add_texts = [&](const char* field, int size, double down) {
    const std::string place = fmt::format("(datum.top + datum.bottom) / 2 + {}", down);
    layers.push_back({{"data", data},
                      {"transform", Json::array({{{"filter", std::string("datum.") + field + " != ''"}},
                                                 {{"calculate", "(datum.start + datum.end) / 2"}, {"as", "middle"}},
                                                 {{"calculate", place}, {"as", "centre"}}})},
                      {"mark", {{"type", "text"}, {"fontSize", size}, {"baseline", "middle"}}},
                      {"encoding",
                       {{"x", middle},
                        {"y", centre},
                        {"text", {{"field", field}}},
                        {"color", {{"field", "ink"}, {"type", "nominal"}, {"scale", nullptr}}}}}});
  };
  add_texts("text", 10, versions ? -0.14 : 0);
  if (versions) add_texts("version", 8, 0.16);
  chart.spec["width"] = kWidth;
  chart.spec["height"] = ranks * (lanes || versions ? kTallRow : kRow);
  chart.spec["layer"] = std::move(layers);
  return chart;
}

}  // namespace sluice
