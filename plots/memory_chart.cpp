// Peak memory: stacked by kind, a bar a rank, a panel a system.
#include <fmt/format.h>

#include <algorithm>

#include "harness/base/quantities.h"
#include "plots/charts.h"
#include "plots/style.h"
#include "results/metrics.h"

namespace sluice {
namespace {

using nlohmann::json;

const Record* heaviest(const ComparisonRow& row) {
  const Record* result = nullptr;
  for (const Record& record : row.records) {
    if (record.peak_bytes.empty() || !peak_memory(record)) continue;
    if (!result || *peak_memory(record) > *peak_memory(*result)) result = &record;
  }
  return result;
}

}  // namespace

Chart memory_chart(const std::string& name, const Comparison& comparison) {
  const std::vector<std::pair<const char*, std::int64_t MemorySplit::*>> kinds = {
      {"weights", &MemorySplit::weights},         {"weight versions", &MemorySplit::versions},
      {"gradients", &MemorySplit::gradients},     {"optimizer", &MemorySplit::optimizer},
      {"activations", &MemorySplit::activations}, {"buffers", &MemorySplit::buffers}};
  const std::string title = fmt::format("Peak memory per rank: {}, {}", comparison.title, ranks_text(comparison.ranks));
  double largest = 0;
  std::string absent;
  bool marked = false;
  for (const ComparisonRow* row : drawing_order(comparison)) {
    if (const Record* record = heaviest(*row)) {
      for (const MemorySplit& split : record->peak_bytes) largest = std::max(largest, static_cast<double>(split.total));
      for (const MemorySplit& split : record->predicted_peak_bytes)
        largest = std::max(largest, static_cast<double>(split.total)), marked = true;
    } else {
      absent += (absent.empty() ? "" : ", ") + row->label;
      if (row->outcome != "ok") absent += " (" + row->outcome + ")";
    }
  }
  if (largest <= 0) return {name, title, nullptr};
  const Scale scale = byte_scale(largest);
  const bool wall = comparison.clock == "wall";
  std::vector<std::string> subtitle = {setting(comparison),
                                       std::string("Bars: ") +
                                           (wall ? "measured; the prediction leaves out buffers (messages, scratch)"
                                                 : "predicted by the simulator, without buffers (messages, scratch)") +
                                           (marked ? "; black mark: predicted" : "")};
  if (!absent.empty()) subtitle.push_back(shortened("Without a figure: " + absent, 130));
  Chart chart{name, title, chart_frame(title, subtitle)};
  std::vector<std::string> names, colors = {"#4c78a8", "#9ecae9", "#f58518", "#b279a2", "#54a24b", "#bab0ac"};
  for (const auto& kind : kinds) names.emplace_back(kind.first);
  json& views = chart.spec["concat"] = json::array();
  for (const ComparisonRow* row : drawing_order(comparison)) {
    const Record* record = heaviest(*row);
    if (!record) continue;
    json stacked = json::array(), predicted = json::array();
    for (std::size_t rank = 0; rank < record->peak_bytes.size(); ++rank) {
      const MemorySplit& split = record->peak_bytes[rank];
      for (std::size_t kind = 0; kind < kinds.size(); ++kind)
        stacked.push_back({{"rank", rank},
                           {"kind", kinds[kind].first},
                           {"order", kind},
                           {"total", to_text(Bytes(split.total))},
                           {"size", static_cast<double>(split.*kinds[kind].second) / scale.divisor}});
    }
    for (std::size_t rank = 0; rank < record->predicted_peak_bytes.size(); ++rank)
      predicted.push_back(
          {{"rank", rank}, {"size", static_cast<double>(record->predicted_peak_bytes[rank].total) / scale.divisor}});
    const json y = {
        {"field", "rank"},
        {"type", "ordinal"},
        {"axis", {{"title", nullptr}, {"labelExpr", "'rank ' + datum.label"}, {"ticks", false}, {"domain", false}}}};
    const auto x = [&](const json& stack) {
      return json{{"field", "size"},
                  {"type", "quantitative"},
                  {"stack", stack},
                  {"scale", {{"domain", json::array({0, largest / scale.divisor * 1.06})}, {"nice", false}}},
                  {"axis", {{"title", scale.unit}, {"tickCount", 5}, {"format", ",~r"}}}};
    };
    json layers = json::array();
    layers.push_back({{"data", {{"values", std::move(stacked)}}},
                      {"mark", {{"type", "bar"}, {"height", {{"band", 0.74}}}}},
                      {"encoding",
                       {{"x", x("zero")},
                        {"y", y},
                        {"order", {{"field", "order"}, {"type", "quantitative"}}},
                        {"color",
                         {{"field", "kind"},
                          {"type", "nominal"},
                          {"scale", {{"domain", string_array(names)}, {"range", string_array(colors)}}},
                          {"legend", {{"title", nullptr}, {"orient", "bottom"}, {"columns", 6}}}}},
                        {"tooltip", json::array({{{"field", "rank"}},
                                                 {{"field", "kind"}},
                                                 {{"field", "size"}, {"title", scale.unit}, {"format", ".4~g"}},
                                                 {{"field", "total"}, {"title", "of"}}})}}}});
    if (!predicted.empty())
      layers.push_back({{"data", {{"values", std::move(predicted)}}},
                        {"mark", {{"type", "tick"}, {"thickness", 2.5}, {"color", "#000"}}},
                        {"encoding", {{"x", x(nullptr)}, {"y", y}}}});
    views.push_back({{"title",
                      {{"text", fmt::format("{}: {}", row->label, to_text(Bytes(*peak_memory(*record))))},
                       {"fontSize", 12},
                       {"anchor", "start"},
                       {"limit", 300},
                       {"offset", 4}}},
                     {"width", 230},
                     {"height", {{"step", 18}}},
                     {"layer", std::move(layers)}});
  }
  chart.spec["columns"] = 3;
  chart.spec["spacing"] = 22;
  return chart;
}

}  // namespace sluice
