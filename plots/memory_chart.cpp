// Peak memory: stacked by kind, a bar a rank, a panel a system, with the limit of the devices where some system goes
// beyond it; and what activations weigh over time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "plots/chart_template.h"
#include "plots/charts.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "plots/timeline_ops.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"

namespace sluice {
namespace {

constexpr int kWidth = 230;           // pixels, of a panel over time
constexpr std::size_t kMaxLines = 8;  // ranks of a panel: of more, the first, the last and some between
// All with a contrast of 3 and more on white and on the dark page.
constexpr const char* kRankColors[kMaxLines] = {"#2667ff", "#1c87bd", "#158f8b", "#169149",
                                                "#658c15", "#9c7a17", "#c7641e", "#f03524"};

// Of the points within each `step` seconds the highest alone, and the last one.
std::vector<HeldPoint> thinned(const std::vector<HeldPoint>& points, double step) {
  std::vector<HeldPoint> kept;
  for (const HeldPoint& point : points) {
    const bool same = !kept.empty() && std::floor(kept.back().seconds / step) == std::floor(point.seconds / step);
    if (!same)
      kept.push_back(point);
    else if (point.held > kept.back().held)
      kept.back() = point;
  }
  if (!points.empty()) kept.push_back(points.back());
  return kept;
}

const Record* heaviest(const ComparisonRow& row) {
  const Record* result = nullptr;
  for (const Record& record : row.records) {
    if (record.peak_bytes.empty() || !peak_memory(record)) continue;
    if (!result || peak_memory(record).value() > peak_memory(*result).value()) result = &record;
  }
  return result;
}

// Above one of the small panels in a row: each text in lines that the panel has room for.
std::vector<std::string> small_heading(const std::vector<std::string>& texts) {
  constexpr std::size_t kCharacters = 38;
  std::vector<std::string> lines;
  for (const std::string& text : texts)
    for (const std::string& line : wrapped(text, kCharacters)) lines.push_back(line);
  return lines;
}

// Three or four panels in a row, whichever leaves fewer places empty.
std::size_t small_columns(std::size_t panels) {
  const auto empty = [&](std::size_t columns) { return (columns - panels % columns) % columns; };
  return panels <= 4 ? panels : empty(3) < empty(4) ? 3 : 4;
}

struct MemoryPanel {
  const ComparisonRow* row;
  const Record* record;
  bool fits;
};

// What fits; and of each system of which nothing does, the row that is nearest to the limit.
std::vector<MemoryPanel> memory_panels(const Comparison& comparison) {
  std::map<std::string, const ComparisonRow*> nearest;
  std::set<std::string> fitting;
  const std::vector<const ComparisonRow*> rows = drawing_order(comparison);
  for (const ComparisonRow* row : rows) {
    if (heaviest(*row)) fitting.insert(row->system);
    const ComparisonRow*& other = nearest[row->system];
    if (needed_memory(*row) && (!other || *needed_memory(*row) < *needed_memory(*other))) other = row;
  }
  std::vector<MemoryPanel> panels;
  for (const ComparisonRow* row : rows) {
    if (const Record* record = heaviest(*row))
      panels.push_back({row, record, true});
    else if (!fitting.contains(row->system) && nearest[row->system] == row)
      panels.push_back({row, &row->records.front(), false});
  }
  return panels;
}

}  // namespace

Chart memory_chart(const std::string& name, const Comparison& comparison) {
  std::vector<std::pair<const char*, std::int64_t MemorySplit::*>> kinds = {
      {"weights", &MemorySplit::weights},         {"weight versions", &MemorySplit::versions},
      {"gradients", &MemorySplit::gradients},     {"optimizer", &MemorySplit::optimizer},
      {"activations", &MemorySplit::activations}, {"buffers", &MemorySplit::buffers}};
  const std::string title = fmt::format("Peak memory per rank: {}, {}", comparison.title, ranks_text(comparison.ranks));
  const std::vector<MemoryPanel> panels = memory_panels(comparison);
  const std::optional<double> limit = exceeded_memory(comparison);
  double largest = limit.value_or(0);
  bool marked = false, on_host = false, any = false, beyond = false;
  for (const auto& [row, record, fits] : panels) {
    any |= fits;
    for (const MemorySplit& split : record->peak_bytes) {
      // The axis reaches a little beyond the limit: what needs many times as much would press the others flat.
      const double total = static_cast<double>(split.total + split.host);
      beyond |= !fits && total > 1.5 * limit.value_or(total);
      largest = std::max(largest, fits ? total : std::min(total, 1.5 * limit.value_or(total)));
      on_host |= split.host > 0;
    }
    for (const MemorySplit& split : record->predicted_peak_bytes)
      largest = std::max(largest, static_cast<double>(split.total)), marked = true;
  }
  std::size_t absent = comparison.rows.size() - panels.size();
  if (!any || largest <= 0) return {name, title, nullptr};
  if (on_host) kinds.emplace_back("in the host's memory", &MemorySplit::host);
  const Scale scale = byte_scale(largest);
  const bool wall = comparison.clock == "wall";
  std::vector<std::string> subtitle = {
      setting(comparison), std::string("Bars: ") +
                               (wall ? "measured; the prediction leaves out buffers (messages, scratch)"
                                     : "predicted by the simulator, without buffers (messages, scratch)") +
                               (marked ? "; black mark: predicted" : "") +
                               (on_host ? "; behind the bars: in the host's memory, not part of the total" : "")};
  if (limit)
    subtitle.push_back("Dashed: the devices' limit, " + to_text(Bytes(static_cast<std::int64_t>(*limit))) +
                       (beyond ? "; bars far beyond it leave the frame" : ""));
  if (absent > 0)
    subtitle.push_back(absent == 1 ? "1 more row has no peak or is out of memory"
                                   : fmt::format("{} more rows have no peak or are out of memory", absent));
  std::vector<std::string> names, colors = {"#4c78a8", "#9ecae9", "#f58518", "#b279a2", "#54a24b", "#bab0ac"};
  if (on_host) colors.emplace_back("#ead7b5");
  for (const auto& kind : kinds) names.emplace_back(kind.first);
  Json views = Json::array();
  for (const auto& [row, record, fits] : panels) {
    Json stacked = Json::array(), predicted = Json::array();
    for (std::size_t rank = 0; rank < record->peak_bytes.size(); ++rank) {
      const MemorySplit& split = record->peak_bytes[rank];
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        if (kind > 0 && split.*kinds[kind].second == 0) continue;  // nothing to see; a rank keeps its row
        stacked.push_back({{"rank", rank},
                           {"kind", kinds[kind].first},
                           {"order", kind},
                           {"total", to_text(Bytes(split.total))},
                           {"size", static_cast<double>(split.*kinds[kind].second) / scale.divisor}});
      }
    }
    for (std::size_t rank = 0; rank < record->predicted_peak_bytes.size(); ++rank)
      predicted.push_back(
          {{"rank", rank}, {"size", static_cast<double>(record->predicted_peak_bytes[rank].total) / scale.divisor}});
    const std::string peak = fits ? to_text(Bytes(peak_memory(*record).value())) : short_outcome(*row);
    views.push_back({{"heading", small_heading({title_of(*row), peak})},
                     {"heading_color", fits ? Json() : Json(kLimitColor)},
                     {"stacked", std::move(stacked)},
                     {"predicted", predicted.empty() ? Json() : std::move(predicted)}});
  }
  return {name, title,
          filled_chart("memory", title, subtitle,
                       {{"columns", small_columns(panels.size())},
                        {"panels", std::move(views)},
                        {"kinds", names},
                        {"colors", colors},
                        {"unit", scale.unit},
                        {"domain", Json::array({0, largest / scale.divisor * 1.06})},
                        {"limit", limit ? Json(*limit / scale.divisor) : Json()},
                        {"limit_color", kLimitColor}})};
}

Chart memory_over_time_chart(const std::string& name, const Comparison& comparison) {
  const std::string title =
      fmt::format("Activations over time: {}, {}", comparison.title, ranks_text(comparison.ranks));
  struct Panel {
    const ComparisonRow* row;
    const Record* record;
    std::vector<std::vector<HeldPoint>> held;
    std::vector<double> weight;  // bytes of what is held, a micro-batch, per rank; 0: not recorded
  };
  std::vector<Panel> panels;
  bool bytes = true;
  double max_bytes = 0, longest = 0;
  int max_held = 0;
  for (const ComparisonRow* row : drawing_order(comparison)) {
    if (row->reference) continue;
    for (const Record& record : row->records) {
      if (!has_metrics(record) || record.timeline.empty()) continue;
      Panel panel{row, &record, held_over_time(record), {}};
      if (panel.held.empty()) continue;
      for (std::size_t rank = 0; rank < panel.held.size(); ++rank) {
        int most = 0;
        for (const HeldPoint& point : panel.held[rank]) most = std::max(most, point.held);
        const std::int64_t peak = rank < record.peak_bytes.size() ? record.peak_bytes[rank].activations : 0;
        panel.weight.push_back(most > 0 ? static_cast<double>(peak) / most : 0);
        bytes = bytes && (most == 0 || peak > 0);
        max_bytes = std::max(max_bytes, static_cast<double>(peak));
        max_held = std::max(max_held, most);
      }
      for (const TimelineOp& op : record.timeline) longest = std::max(longest, op.end);
      panels.push_back(std::move(panel));
      break;
    }
  }
  if (panels.empty() || max_held == 0 || !(longest > 0)) return {name, title, nullptr};
  const Scale scale = bytes ? byte_scale(max_bytes) : Scale{1, "micro-batches"};
  const Scale time = time_scale(longest);
  Json views = Json::array();
  std::size_t most_lines = 1;
  for (const Panel& panel : panels) {
    Json values = Json::array();
    const std::size_t ranks = panel.held.size(), lines = std::min(ranks, kMaxLines);
    most_lines = std::max(most_lines, lines);
    for (std::size_t line = 0; line < lines; ++line) {
      const std::size_t rank = lines < ranks ? line * (ranks - 1) / (lines - 1) : line;
      const double weight = bytes ? panel.weight[rank] : 1;
      for (const HeldPoint& point : thinned(panel.held[rank], 2 * longest / kWidth))
        values.push_back({{"rank", rank},
                          {"time", point.seconds / time.divisor},
                          {"held", static_cast<double>(point.held) * weight / scale.divisor}});
    }
    views.push_back({{"heading", small_heading({title_of(*panel.row)})}, {"values", std::move(values)}});
  }
  std::vector<std::string> colors;  // as far apart as they are
  for (std::size_t line = 0; line < most_lines; ++line)
    colors.emplace_back(kRankColors[most_lines > 1 ? line * (kMaxLines - 1) / (most_lines - 1) : 0]);
  return {name, title,
          filled_chart(
              "memory_over_time", title,
              {setting(comparison), bytes ? "What waits for its backward. On a rank each micro-batch counts the same: "
                                            "the activations' peak over the most that are held"
                                          : "Micro-batches that wait for their backward, counted a stage"},
              {{"columns", small_columns(panels.size())},
               {"panels", std::move(views)},
               {"heading_color", nullptr},
               {"width", kWidth},
               {"x_title", "time [" + time.unit + "]"},
               {"unit", scale.unit},
               {"domain", Json::array({0, bytes ? max_bytes / scale.divisor : static_cast<double>(max_held)})},
               {"colors", colors}})};
}

}  // namespace sluice
