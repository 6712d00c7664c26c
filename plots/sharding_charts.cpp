// Charts for systems that trade memory for communication: throughput against peak memory with the points that no other
// beats in both, and what a rank sends in an update, by kind, next to the bubble. Drawn where some rows shard their
// stages or run several pipelines in parallel.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "harness/base/visible_text.h"
#include "plots/chart_template.h"
#include "plots/charts.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {
namespace {

bool shards_or_replicates(const ComparisonRow& row) {
  const Record& record = row.records.front();
  return max_sent(record, SentKind::gathers).value_or(0) > 0 || record.options.contains("data_parallel");
}

bool worth_drawing(const Comparison& comparison) {
  return std::any_of(comparison.rows.begin(), comparison.rows.end(), shards_or_replicates);
}

constexpr double kParetoWidth = 620, kParetoHeight = 340;  // pixels, of the plot

struct Pixel {
  double x = 0, y = 0;
};

// Where the numbers of the points of a front stand: near their points, off other points and each other.
std::vector<Pixel> number_places(const std::vector<Pixel>& fronts, const std::vector<Pixel>& points) {
  constexpr double kWide = 15, kHigh = 13, kPoint = 5;  // pixels: a number of two digits, half a point's mark
  std::vector<Pixel> places;
  for (const Pixel& front : fronts) {
    const auto collisions = [&](const Pixel& at) {
      auto count = std::ranges::count_if(places, [&](const Pixel& other) {
        return std::abs(other.x - at.x) < kWide && std::abs(other.y - at.y) < kHigh;
      });
      count *= 100;  // a number over a number is worse than one over a point
      return count + std::ranges::count_if(points, [&](const Pixel& point) {
               return std::abs(point.x - at.x) < kWide / 2 + kPoint && std::abs(point.y - at.y) < kHigh / 2 + kPoint;
             });
    };
    std::optional<Pixel> best;
    for (const double away : {13.0, 22.0, 34.0, 48.0, 64.0})
      for (const auto& [dx, dy] : {std::pair(0.0, -1.0),
                                   {-0.8, -0.8},
                                   {0.8, -0.8},
                                   {-1.0, 0.0},
                                   {1.0, 0.0},
                                   {-0.8, 0.8},
                                   {0.8, 0.8},
                                   {0.0, 1.0}}) {
        const Pixel at{std::clamp(front.x + away * dx, 0.0, kParetoWidth),
                       std::clamp(front.y + away * dy, 0.0, kParetoHeight - 8)};
        if (!best || collisions(at) < collisions(*best)) best = at;
      }
    places.push_back(best.value());
  }
  return places;
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
  // Of the devices, where some row did not fit; one far beyond all points would press them together.
  double limit = exceeded_memory(comparison).value_or(0);
  if (limit > 2.5 * largest) limit = 0;
  const double x_end = std::max(largest, limit) / scale.divisor * 1.08;
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
  const double y_end = fastest * 1.12;
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
    subtitle.push_back(shortened(fmt::format("{}  {}: {}, {} samples/s", k + 1, title_of(row),
                                             to_text(Bytes(static_cast<std::int64_t>(row.peak_memory.value().median))),
                                             rate_text(row.throughput.value().median)),
                                 110));
  }
  std::vector<Pixel> points, fronts;
  const auto pixel = [&](const ComparisonRow& row) {
    return Pixel{row.peak_memory.value().median / scale.divisor / x_end * kParetoWidth,
                 kParetoHeight * (1 - row.throughput.value().median / y_end)};
  };
  for (const ComparisonRow* row : drawn) points.push_back(pixel(*row));
  for (const auto& [bytes, row] : named) fronts.push_back(pixel(*row));
  const std::vector<Pixel> places = number_places(fronts, points);
  for (std::size_t k = 0; k < places.size(); ++k)
    numbers.push_back({{"memory", places[k].x / kParetoWidth * x_end},
                       {"throughput", (1 - places[k].y / kParetoHeight) * y_end},
                       {"text", std::to_string(k + 1)}});
  return {name, title,
          filled_chart("pareto", title, subtitle,
                       {{"values", std::move(values)},
                        {"numbers", std::move(numbers)},
                        {"width", kParetoWidth},
                        {"height", kParetoHeight},
                        {"x_domain", Json::array({0, x_end})},
                        {"y_domain", Json::array({0, y_end})},
                        {"x_title", "peak memory of the fullest rank, " + scale.unit},
                        {"unit", scale.unit},
                        {"limit", limit > 0 ? Json(limit / scale.divisor) : Json()},
                        {"limit_text", "limit " + to_text(Bytes(static_cast<std::int64_t>(limit)))},
                        {"limit_text_y", kParetoHeight - 14},
                        {"limit_color", kLimitColor},
                        {"systems", systems},
                        {"colors", colors},
                        {"shapes", shapes},
                        {"legend_columns", legend_columns(systems)}})};
}

Chart communication_chart(const std::string& name, const Comparison& comparison) {
  const std::string title =
      fmt::format("What a rank sends in an update: {}, {}", comparison.title, ranks_text(comparison.ranks));
  if (!worth_drawing(comparison)) return {name, title, nullptr};
  double largest = 0;
  for (const ComparisonRow& row : comparison.rows) {
    double sum = 0;
    for (const SentKind kind : kSentKinds) sum += static_cast<double>(max_sent(row.records.front(), kind).value_or(0));
    largest = std::max(largest, sum);
  }
  if (largest <= 0) return {name, title, nullptr};
  const Scale scale = byte_scale(largest);
  Json values = Json::array(), texts = Json::array();
  std::vector<std::string> order, kinds;
  for (const SentKind kind : kSentKinds) kinds.emplace_back(to_text(kind));
  for (const ComparisonRow* row : drawing_order(comparison)) {
    const Record& record = row->records.front();
    if (row->reference || !max_sent(record, SentKind::messages)) continue;
    order.push_back(title_of(*row));
    double sum = 0;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const double size = static_cast<double>(max_sent(record, kSentKinds[k]).value_or(0)) / scale.divisor;
      sum += size;
      values.push_back({{"label", title_of(*row)}, {"kind", kinds[k]}, {"order", k}, {"size", size}});
    }
    const auto bubble = bubble_ratio(record);
    const std::string text = bubble ? fmt::format("bubble {:.1f} %", 100 * *bubble) : short_outcome(*row);
    texts.push_back({{"label", title_of(*row)}, {"size", sum}, {"text", text}});
  }
  return {name, title,
          filled_chart("communication", title,
                       {setting(comparison),
                        "The rank that sends most of a kind: activations and their gradients, weights, gradients of "
                        "weights. Counted, not measured"},
                       {{"values", std::move(values)},
                        {"texts", std::move(texts)},
                        {"order", order},
                        {"kinds", kinds},
                        {"unit", scale.unit},
                        {"domain", Json::array({0, largest / scale.divisor * 1.3})}})};
}

}  // namespace sluice
