// The timeline of one system: a row a rank, a rectangle an op, its micro-batch in it where it fits.
//
//   rank 0  [0][1][2][3]            [0 ][1 ][2 ][3 ]      blue F, green B (teal I, yellow W),
//   rank 1     [0][1][2][3][0 ][1 ][2 ][3 ]               grey is idle
//
// What moves data (gathers, reductions) is a strip along the row's foot; an overlapped pair shares the row, one above
// the other.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "plots/charts.h"
#include "plots/style.h"
#include "results/metrics.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr double kWidth = 900, kRow = 26;

struct Part {
  std::string kind;  // a name of kKinds
  std::string micro;
  int stage = -1;
};

// "5I2" -> I of micro-batch 2 in stage 5; "step..." -> step; what else there is moves data.
Part read_part(const std::string& op) {
  const auto digits = [&op](std::size_t from) {
    std::size_t end = from;
    while (end < op.size() && std::isdigit(static_cast<unsigned char>(op[end]))) ++end;
    return end;
  };
  const std::size_t kind = digits(0);
  if (kind > 0 && kind < 9 && kind < op.size()) {
    const std::size_t end = digits(kind + 1);
    const bool compute = std::string("FBIWR").find(op[kind]) != std::string::npos;
    if (compute && end == op.size() && end > kind + 1)
      return {std::string(1, op[kind]), op.substr(kind + 1), std::stoi(op.substr(0, kind))};
  }
  std::string lower = op;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto says = [&](const char* word) { return lower.find(word) != std::string::npos; };
  return {says("step")     ? "optimizer step"
          : says("reduce") ? "reduction"
          : says("gather") ? "gather"
                           : "communication",
          "", -1};
}

bool moves_data(const Part& part) {
  return part.kind == "gather" || part.kind == "reduction" || part.kind == "communication";
}

// "(5F1;2B0)", two ops that overlap, are two parts.
std::vector<Part> read_parts(const std::string& op) {
  const std::size_t middle = op.find(';');
  if (!op.starts_with('(') || !op.ends_with(')') || middle == std::string::npos) return {read_part(op)};
  return {read_part(op.substr(1, middle - 1)), read_part(op.substr(middle + 1, op.size() - middle - 2))};
}

struct Kind {
  const char *name, *color, *ink;
};
constexpr Kind kKinds[] = {{"F", "#4c78a8", "white"},
                           {"B", "#54a24b", "white"},
                           {"I", "#72b7b2", "#111"},
                           {"W", "#f2c14e", "#111"},
                           {"R", "#9ecae9", "#111"},
                           {"gather", "#e45756", "white"},
                           {"reduction", "#b279a2", "white"},
                           {"communication", "#9d755d", "white"},
                           {"optimizer step", "#555555", "white"},
                           {"idle", "#ececec", "#111"}};

std::optional<double> number(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

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
    for (const Part& part : read_parts(op.op))
      if (part.stage >= 0) stages[op.rank].insert(part.stage);
  }
  if (!(end > begin)) return {name, row.label, nullptr};
  const Scale scale = time_scale(end - begin);

  json idle = json::array(), ops = json::array(), moves = json::array();  // moves on top
  for (int rank = 0; rank < ranks; ++rank)
    idle.push_back({{"kind", "idle"},
                    {"start", 0},
                    {"end", (end - begin) / scale.divisor},
                    {"top", rank + 0.06},
                    {"bottom", rank + 0.94}});
  std::set<std::string> used = {"idle"};
  for (const TimelineOp& op : record.timeline) {
    const std::vector<Part> parts = read_parts(op.op);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      used.insert(part.kind);
      // Overlapped pairs share the row; what moves data runs beside the compute, along its foot.
      double top = op.rank + 0.06, bottom = op.rank + 0.94;
      if (parts.size() == 2) (i == 0 ? bottom : top) = op.rank + 0.5;
      if (moves_data(part)) top = op.rank + 0.76;
      double shade = 1;
      if (part.stage >= 0) {
        const auto& own = stages[op.rank];
        const auto chunk = std::distance(own.begin(), own.find(part.stage));
        shade = std::max(0.5, 1 - 0.25 * static_cast<double>(chunk));
      }
      const double pixels = (op.end - op.start) / (end - begin) * kWidth;
      const bool fits = !part.micro.empty() && pixels >= 6.5 * static_cast<double>(part.micro.size()) + 2;
      const auto* kind =
          std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return part.kind == k.name; });
      json& layer = moves_data(part) ? moves : ops;
      layer.push_back({{"kind", part.kind},
                       {"op", op.op},
                       {"rank", op.rank},
                       {"micro", part.micro},
                       {"text", fits ? part.micro : ""},
                       {"ink", shade < 0.8 ? "#111" : kind->ink},
                       {"shade", shade},
                       {"start", (op.start - begin) / scale.divisor},
                       {"end", (op.end - begin) / scale.divisor},
                       {"top", top},
                       {"bottom", bottom}});
    }
  }
  ops.insert(ops.end(), moves.begin(), moves.end());
  std::vector<std::string> names, colors;
  for (const Kind& kind : kKinds)
    if (used.contains(kind.name)) names.emplace_back(kind.name), colors.emplace_back(kind.color);

  const double bubble = bubble_ratio(record).value_or(idle_share(record, ranks, begin, end));
  std::string title =
      fmt::format("Timeline of {}, {}: bubble {:.1f} %", row.label, ranks_text(row.ranks), 100 * bubble);
  if (const auto promised = number(record.theory, "bubble"))
    title += fmt::format(" (theory {:.1f} %)", 100 * *promised);
  Chart chart{
      name, title,
      chart_frame(title, {comparison.title + " · " + setting(comparison) +
                          fmt::format(" · {} micro-batch{}", row.microbatches, row.microbatches == 1 ? "" : "es")}),
      ChartKind::timeline};

  const json x = {{"field", "start"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", json::array({0, (end - begin) / scale.divisor})}, {"nice", false}}},
                  {"axis", {{"title", "time [" + scale.unit + "]"}, {"grid", false}, {"tickCount", 10}}}};
  json places = json::array();
  for (int rank = 0; rank < ranks; ++rank) places.push_back(rank + 0.5);
  const json y = {{"field", "top"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", json::array({0, ranks})}, {"reverse", true}, {"nice", false}}},
                  {"axis",
                   {{"title", nullptr},
                    {"values", places},
                    {"labelExpr", "'rank ' + (datum.value - 0.5)"},
                    {"labelOverlap", false},
                    {"grid", false},
                    {"ticks", false},
                    {"domain", false}}}};
  const json x2 = {{"field", "end"}}, y2 = {{"field", "bottom"}};
  const json color = {
      {"field", "kind"},
      {"type", "nominal"},
      {"scale", {{"domain", string_array(names)}, {"range", string_array(colors)}}},
      {"legend", {{"title", nullptr}, {"orient", "bottom"}, {"columns", names.size()}, {"symbolType", "square"}}}};
  json layers = json::array();
  layers.push_back({{"data", {{"values", std::move(idle)}}},
                    {"mark", {{"type", "rect"}}},
                    {"encoding", {{"x", x}, {"x2", x2}, {"y", y}, {"y2", y2}, {"color", color}}}});
  const json data = {{"values", std::move(ops)}};
  layers.push_back({{"data", data},
                    {"mark", {{"type", "rect"}, {"stroke", "white"}, {"strokeWidth", 0.5}}},
                    {"encoding",
                     {{"x", x},
                      {"x2", x2},
                      {"y", y},
                      {"y2", y2},
                      {"color", color},
                      {"opacity", {{"field", "shade"}, {"type", "quantitative"}, {"scale", nullptr}}},
                      {"tooltip", json::array({{{"field", "op"}},
                                               {{"field", "rank"}},
                                               {{"field", "start"}, {"format", ".5~g"}},
                                               {{"field", "end"}, {"format", ".5~g"}}})}}}});
  json middle = x, centre = y;  // with their axes: layers that differ in these would merge them
  middle["field"] = "middle";
  centre["field"] = "centre";
  layers.push_back({{"data", data},
                    {"transform", json::array({{{"filter", "datum.text != ''"}},
                                               {{"calculate", "(datum.start + datum.end) / 2"}, {"as", "middle"}},
                                               {{"calculate", "(datum.top + datum.bottom) / 2"}, {"as", "centre"}}})},
                    {"mark", {{"type", "text"}, {"fontSize", 10}, {"baseline", "middle"}}},
                    {"encoding",
                     {{"x", middle},
                      {"y", centre},
                      {"text", {{"field", "text"}}},
                      {"color", {{"field", "ink"}, {"type", "nominal"}, {"scale", nullptr}}}}}});
  chart.spec["width"] = kWidth;
  chart.spec["height"] = ranks * kRow;
  chart.spec["layer"] = std::move(layers);
  return chart;
}

}  // namespace sluice
