// Charts for systems that trade memory for communication: throughput against peak memory with the points that no other
// beats in both, and what a rank sends in an update, by kind, beside the bubble. Drawn where some rows shard their
// stages or run several pipelines beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "plots/charts.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {
namespace {

bool shards_or_replicates(const ComparisonRow& row) {
  const Record& record = row.records.front();
  return most_sent(record, SentKind::gathers).value_or(0) > 0 || record.options.contains("data_parallel");
}

bool worth_drawing(const Comparison& comparison) {
  return std::any_of(comparison.rows.begin(), comparison.rows.end(), shards_or_replicates);
}

}  // namespace

Chart memory_throughput_chart(const std::string& name, const Comparison& comparison) {
  const std::string title =
      fmt::format("Throughput against peak memory: {}, {}", comparison.title, ranks_text(comparison.ranks));
  std::vector<const ComparisonRow*> drawn;
  for (const ComparisonRow* row : drawing_order(comparison))
    if (row->throughput && row->peak_memory && !row->reference) drawn.push_back(row);
  if (drawn.size() < 3) return {name, title, nullptr};
  double largest = 0;
  for (const ComparisonRow* row : drawn) largest = std::max(largest, row->peak_memory.value().median);
  const Scale scale = byte_scale(largest);
  const auto beaten = [&](const ComparisonRow& row) {
    return row.misses_target() || std::any_of(drawn.begin(), drawn.end(), [&](const ComparisonRow* other) {
             if (other->misses_target()) return false;
             const bool as_good = other->throughput->median >= row.throughput->median &&
                                  other->peak_memory->median <= row.peak_memory->median;
             const bool better = other->throughput->median > row.throughput->median ||
                                 other->peak_memory->median < row.peak_memory->median;
             return as_good && better;
           });
  };
  Json values = Json::array();
  std::vector<std::string> systems, colors, shapes;
  double fastest = 0;
  for (const ComparisonRow* row : drawn) {
    const SystemStyle style = system_style(row->system);
    if (std::find(systems.begin(), systems.end(), style.title) == systems.end()) {
      systems.push_back(style.title);
      colors.push_back(style.color);
      shapes.push_back(vega_shape(style.marker));
    }
    fastest = std::max(fastest, row->throughput.value().median);
    values.push_back({{"system", style.title},
                      {"label", title_of(*row)},
                      {"options", row->options.empty() ? style.title : row->options},
                      {"memory", row->peak_memory.value().median / scale.divisor},
                      {"throughput", row->throughput.value().median},
                      {"front", !beaten(*row)}});
  }
  const Json x = {{"field", "memory"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", Json::array({0, largest / scale.divisor * 1.08})}}},
                  {"axis", {{"title", "peak memory of the fullest rank, " + scale.unit}}}};
  const Json y = {{"field", "throughput"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", Json::array({0, fastest * 1.12})}}},
                  {"axis", {{"title", "samples/s"}}}};
  const Json front = Json::array({{{"filter", "datum.front"}}});
  const auto by_system = [&](Json range) {
    return Json{{"field", "system"},
                {"type", "nominal"},
                {"scale", {{"domain", string_array(systems)}, {"range", std::move(range)}}},
                {"legend", {{"title", nullptr}, {"orient", "bottom"}, {"columns", legend_columns(systems)}}}};
  };
  Json layers = Json::array();
  layers.push_back({{"transform", front},
                    {"mark", {{"type", "line"}, {"interpolate", "step-after"}, {"color", "#999"}}},
                    {"encoding", {{"x", x}, {"y", y}}}});
  layers.push_back(
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 80}, {"opacity", 0.9}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"color", by_system(string_array(colors))},
         {"shape", by_system(string_array(shapes))},
         {"tooltip", Json::array({{{"field", "label"}, {"title", "system"}},
                                  {{"field", "memory"}, {"title", scale.unit}, {"format", ".3~g"}},
                                  {{"field", "throughput"}, {"title", "samples/s"}, {"format", ".4~g"}}})}}}});
  // The points of the front are named from left to right by their numbers, listed in the subtitle.
  std::vector<std::pair<double, const ComparisonRow*>> named;
  for (const ComparisonRow* row : drawn)
    if (!beaten(*row)) named.emplace_back(row->peak_memory.value().median, row);
  std::sort(named.begin(), named.end());
  Json numbers = Json::array();
  const bool missed = std::ranges::any_of(drawn, &ComparisonRow::misses_target);
  std::vector<std::string> subtitle = {
      setting(comparison), std::string("Pareto front: what no other point beats in both") +
                               (missed ? ", without systems that miss the target in all seeds" : "") + ". Its points:"};
  for (std::size_t k = 0; k < named.size(); ++k) {
    const ComparisonRow& row = *named[k].second;
    numbers.push_back({{"memory", row.peak_memory.value().median / scale.divisor},
                       {"throughput", row.throughput.value().median},
                       {"text", std::to_string(k + 1)}});
    subtitle.push_back(shortened(fmt::format("{}  {}: {}, {} samples/s", k + 1, title_of(row),
                                             to_text(Bytes(static_cast<std::int64_t>(row.peak_memory.value().median))),
                                             rate_text(row.throughput.value().median)),
                                 110));
  }
  layers.push_back({{"data", {{"values", std::move(numbers)}}},
                    {"mark", {{"type", "text"}, {"dy", -11}, {"fontSize", 12}}},
                    {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}});
  Chart chart{name, title, chart_frame(title, subtitle)};
  chart.spec["data"] = {{"values", std::move(values)}};
  chart.spec["width"] = 620;
  chart.spec["height"] = 340;
  chart.spec["layer"] = std::move(layers);
  return chart;
}

Chart communication_chart(const std::string& name, const Comparison& comparison) {
  const std::string title =
      fmt::format("What a rank sends in an update: {}, {}", comparison.title, ranks_text(comparison.ranks));
  if (!worth_drawing(comparison)) return {name, title, nullptr};
  double largest = 0;
  for (const ComparisonRow& row : comparison.rows) {
    double sum = 0;
    for (const SentKind kind : kSentKinds) sum += static_cast<double>(most_sent(row.records.front(), kind).value_or(0));
    largest = std::max(largest, sum);
  }
  if (largest <= 0) return {name, title, nullptr};
  const Scale scale = byte_scale(largest);
  Json values = Json::array(), texts = Json::array();
  std::vector<std::string> order, kinds;
  for (const SentKind kind : kSentKinds) kinds.emplace_back(to_text(kind));
  for (const ComparisonRow* row : drawing_order(comparison)) {
    const Record& record = row->records.front();
    if (row->reference || !most_sent(record, SentKind::messages)) continue;
    order.push_back(title_of(*row));
    double sum = 0;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const double size = static_cast<double>(most_sent(record, kSentKinds[k]).value_or(0)) / scale.divisor;
      sum += size;
      values.push_back({{"label", title_of(*row)}, {"kind", kinds[k]}, {"order", k}, {"size", size}});
    }
    const auto bubble = bubble_ratio(record);
    const std::string text = bubble ? fmt::format("bubble {:.1f} %", 100 * *bubble) : choice_name(row->outcome);
    texts.push_back({{"label", title_of(*row)}, {"size", sum}, {"text", text}});
  }
  const Json y = {{"field", "label"},
                  {"type", "nominal"},
                  {"sort", string_array(order)},
                  {"axis", {{"title", nullptr}, {"ticks", false}, {"domain", false}, {"labelLimit", 480}}}};
  const Json x = {{"field", "size"},
                  {"type", "quantitative"},
                  {"scale", {{"domain", Json::array({0, largest / scale.divisor * 1.3})}}},
                  {"axis", {{"title", scale.unit}, {"tickCount", 5}, {"format", ",~r"}}}};
  Json stacked = x;
  stacked["stack"] = "zero";
  Chart chart{name, title,
              chart_frame(title, {setting(comparison),
                                  "The rank that sends most of a kind: activations and their "
                                  "gradients, weights, gradients of weights. Counted, not measured"})};
  chart.spec["width"] = 520;
  chart.spec["height"] = {{"step", 20}};
  chart.spec["layer"] = Json::array(
      {{{"data", {{"values", std::move(values)}}},
        {"mark", {{"type", "bar"}, {"height", {{"band", 0.72}}}}},
        {"encoding",
         {{"x", stacked},
          {"y", y},
          {"order", {{"field", "order"}, {"type", "quantitative"}}},
          {"color",
           {{"field", "kind"},
            {"type", "nominal"},
            {"scale", {{"domain", string_array(kinds)}, {"range", Json::array({"#4c78a8", "#f58518", "#54a24b"})}}},
            {"legend", {{"title", nullptr}, {"orient", "bottom"}}}}},
          {"tooltip", Json::array({{{"field", "label"}, {"title", "system"}},
                                   {{"field", "kind"}},
                                   {{"field", "size"}, {"title", scale.unit}}})}}}},
       {{"data", {{"values", std::move(texts)}}},
        {"mark", {{"type", "text"}, {"align", "left"}, {"dx", 6}, {"fontSize", 11}}},
        {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}}});
  return chart;
}

}  // namespace sluice
