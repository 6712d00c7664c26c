// Tables whose cells are coloured: the divergence boundary (learning rates x systems), and, across workloads, the time
// to accuracy relative to the single device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/base/json.h"
#include "plots/charts.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/comparison_rows.h"

namespace sluice {
namespace {

constexpr const char* kGrey = "#eceff3";

Json cell_layers(const std::string& x_title, const std::vector<std::string>& columns,
                 const std::vector<std::string>& rows) {
  const Json x = {{"field", "column"},
                  {"type", "nominal"},
                  {"sort", string_array(columns)},
                  {"axis",
                   {{"title", x_title.empty() ? Json(nullptr) : Json(x_title)},
                    {"labelAngle", 0},
                    {"labelFontSize", 11},
                    // Long names run into one another in one line.
                    {"labelExpr", "split(replace(datum.label, '_', '_|'), '|')"},
                    {"ticks", false},
                    {"domain", false}}}};
  const Json y = {{"field", "row"},
                  {"type", "nominal"},
                  {"sort", string_array(rows)},
                  {"axis", {{"title", nullptr}, {"ticks", false}, {"domain", false}}}};
  const Json color = {{"field", "color"}, {"type", "nominal"}, {"scale", nullptr}};
  const Json ink = {{"field", "ink"}, {"type", "nominal"}, {"scale", nullptr}};
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rect"}, {"stroke", "white"}, {"strokeWidth", 2}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y},
                      {"color", color},
                      {"tooltip", Json::array({{{"field", "row"}, {"title", "system"}},
                                               {{"field", "column"}, {"title", x_title.empty() ? "workload" : x_title}},
                                               {{"field", "note"}}})}}}});
  layers.push_back({{"transform", Json::array({{{"filter", "datum.framed"}}})},
                    {"mark", {{"type", "rect"}, {"filled", false}, {"stroke", "#111"}, {"strokeWidth", 2.5}}},
                    {"encoding", {{"x", x}, {"y", y}}}});
  layers.push_back({{"mark", {{"type", "text"}, {"fontSize", 11}}},
                    {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "text"}}}, {"color", ink}}}});
  return layers;
}

std::string mixed(const int (&from)[3], const int (&to)[3], double share) {
  std::string text = "#";
  for (int i = 0; i < 3; ++i)
    text += fmt::format("{:02x}", static_cast<int>(std::lround(from[i] + share * (to[i] - from[i]))));
  return text;
}

constexpr int kWhite[3] = {255, 255, 255}, kBlue[3] = {49, 110, 178}, kRed[3] = {205, 92, 60};

}  // namespace

Chart stable_rate_chart(const std::string& name, const std::string& title, std::span<const StableRates> boundaries) {
  if (boundaries.empty()) return {name, title, nullptr};
  const StableRates& first = boundaries.front();
  std::string how = fmt::format("{} clock · {} · global batch {}", first.clock, first.cluster, first.batch);
  for (const std::string& more : {first.duration, first.optimizer, first.options})
    if (!more.empty()) how += " · " + more;
  Chart chart{name, title,
              chart_frame(title, {how,
                                  "n/m: stable runs of all seeds. Framed: the largest rate that is stable, "
                                  "with all smaller ones, for all seeds",
                                  "Stable: no divergence, and the loss fell by a tenth or more (last tenth "
                                  "of the updates against the first update)"})};
  Json& views = chart.spec["concat"] = Json::array();
  for (const StableRates& b : boundaries) {
    Json values = Json::array();
    std::vector<std::string> rates, labels;
    for (const double rate : b.rates) rates.push_back(fmt::format("{:g}", rate));
    for (const StableRateRow& row : b.rows) {
      labels.push_back(title_of(row));
      for (std::size_t k = 0; k < rates.size(); ++k) {
        const auto of = [&](Stability s) { return std::count(row.runs[k].begin(), row.runs[k].end(), s); };
        const auto stable = of(Stability::stable),
                   known = static_cast<std::ptrdiff_t>(row.runs[k].size()) - of(Stability::unknown);
        const double share = known > 0 ? static_cast<double>(stable) / static_cast<double>(known) : 0;
        std::string note = fmt::format("{} stable, {} diverged, {} without progress, {} not run", stable,
                                       of(Stability::diverged), of(Stability::no_progress), of(Stability::unknown));
        if (known == 0 && !row.reason.empty()) note += " (" + row.reason + ")";
        values.push_back({{"row", title_of(row)},
                          {"column", rates[k]},
                          {"text", known > 0 ? fmt::format("{}/{}", stable, row.runs[k].size()) : "–"},
                          {"note", note},
                          {"framed", row.largest == b.rates[k]},
                          {"ink", share > 0.7 ? "#fff" : "#222"},
                          {"color", known == 0   ? kGrey
                                    : share == 0 ? mixed(kWhite, kRed, 0.45)
                                                 : mixed(kWhite, kBlue, 0.15 + 0.85 * share)}});
      }
    }
    Json spec = {{"data", {{"values", std::move(values)}}},
                 {"width", {{"step", 58}}},
                 {"height", {{"step", 30}}},
                 {"layer", cell_layers("learning rate", rates, labels)}};
    if (boundaries.size() > 1) spec["title"] = panel_heading(ranks_text(b.ranks));
    views.push_back(std::move(spec));
  }
  chart.spec["columns"] = boundaries.size() > 1 ? 2 : 1;
  chart.spec["spacing"] = 28;
  return chart;
}

// What a cell of the overview says of a row, and how good it is: below 1 is worse than the single device, above 1
// better; none: nothing to compare.
struct OverviewCell {
  std::string text, note;
  std::optional<double> gain;
  bool missed = false;  // the target
};

static OverviewCell time_cell(const ComparisonRow& row) {
  OverviewCell cell;
  if (row.time_ratio) {
    cell.text = fmt::format("{:.2f}×", *row.time_ratio);
    if (row.reached < row.attempts) cell.text += fmt::format(" {}/{}", row.reached, row.attempts);
    cell.note = fmt::format("{:.4g} s", row.time_to_accuracy.value().median);
    cell.gain = 1 / *row.time_ratio;
  } else if (row.reached > 0) {
    cell.text = fmt::format("{}/{}", row.reached, row.attempts);
    cell.note = "the single device did not reach the target";
  } else {
    cell.text = row.attempts > 1 ? fmt::format("0/{}", row.attempts) : "not reached";
    if (row.diverged > 0) cell.note = fmt::format("{} diverged", row.diverged);
    cell.missed = true;
  }
  return cell;
}

static OverviewCell throughput_cell(const ComparisonRow& row) {
  if (!row.throughput_ratio) return {.text = "–", .note = short_outcome(row), .gain = {}};
  OverviewCell cell{.text = fmt::format("{:.2f}×", *row.throughput_ratio),
                    .note = rate_text(row.throughput.value().median) + " samples/s",
                    .gain = row.throughput_ratio};
  if (row.misses_target())
    cell.missed = true, cell.gain = std::nullopt, cell.note += ", misses the target in all seeds";
  return cell;
}

Chart overview_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                     bool time) {
  // A panel for each rank count and way to set the learning rate, a column a workload.
  struct Panel {
    int ranks;
    bool tuned;
    Json values = Json::array();
    std::set<std::string> rows;
    std::set<std::pair<std::string, std::string>> filled;
  };
  std::vector<Panel> panels;
  std::vector<std::string> workloads;
  bool any = false;
  for (const Comparison& c : comparisons) {
    if (time && !c.target) continue;
    auto panel = std::find_if(panels.begin(), panels.end(),
                              [&](const Panel& p) { return p.ranks == c.ranks && p.tuned == c.tuned; });
    if (panel == panels.end()) {
      panels.push_back({.ranks = c.ranks, .tuned = c.tuned});
      panel = panels.end() - 1;
    }
    if (std::count(workloads.begin(), workloads.end(), c.workload) == 0) workloads.push_back(c.workload);
    for (const ComparisonRow& row : c.rows) {
      if (row.reference || row.attempts == 0) continue;
      // Of several rates that all share, the first.
      if (!panel->filled.emplace(title_of(row), c.workload).second) continue;
      const OverviewCell cell = time ? time_cell(row) : throughput_cell(row);
      // Not on the scale, where it would look like a little slower.
      std::string color = cell.missed ? "#c4c4c4" : kGrey;
      bool dark = false;
      if (cell.gain) {
        any = true;
        // Four times as good or as bad is the deepest colour.
        const double depth = std::clamp(std::abs(std::log2(*cell.gain)) / 2, 0.0, 1.0);
        dark = depth > 0.7;
        color = mixed(kWhite, *cell.gain > 1 ? kBlue : kRed, 0.08 + 0.92 * depth);
      }
      panel->rows.insert(title_of(row));
      panel->values.push_back({{"row", title_of(row)},
                               {"column", c.workload},
                               {"text", cell.text},
                               {"note", cell.note},
                               {"framed", false},
                               {"ink", dark ? "#fff" : "#222"},
                               {"color", color}});
    }
  }
  if (!any || workloads.size() < 2) return {name, title, nullptr};
  std::stable_sort(panels.begin(), panels.end(), [](const Panel& a, const Panel& b) {
    return std::pair(a.ranks, a.tuned) < std::pair(b.ranks, b.tuned);
  });
  bool both = false;
  for (const Panel& p : panels) both |= p.tuned != panels.front().tuned;
  std::vector<std::string> subtitle = {clock_text(comparisons.front()) + " · " + comparisons.front().cluster};
  subtitle.push_back(std::string("Median over seeds relative to single_device") +
                     (both ? " with its learning rate set in the same way" : "") +
                     (time ? ": below 1× (blue) is faster" : ": above 1× (blue) is faster"));
  const bool several = std::any_of(comparisons.begin(), comparisons.end(), [](const auto& c) {
    return std::any_of(c.rows.begin(), c.rows.end(), [](const auto& row) { return row.attempts > 1; });
  });
  if (time && several) subtitle.push_back("4/5: seeds that reached the target, of all; grey: none did");
  const bool missed = std::ranges::any_of(
      comparisons, [](const auto& c) { return std::ranges::any_of(c.rows, &ComparisonRow::misses_target); });
  if (!time && missed) subtitle.push_back("Grey: misses the target in all seeds");
  if (const std::string options = shared_options(comparisons); !options.empty()) {
    subtitle.front() += " · " + options;
  } else {
    for (const Comparison& c : comparisons)
      if (const std::string own = options_text(c); !own.empty()) subtitle.push_back(c.title + ": " + own);
  }
  Chart chart{name, title, chart_frame(title, subtitle)};
  Json& views = chart.spec["concat"] = Json::array();
  // Two panels side by side fill a page.
  const double step = std::clamp(455.0 / static_cast<double>(workloads.size()), 64.0, 112.0);
  for (const Panel& p : panels) {
    Json spec = {{"data", {{"values", p.values}}},
                 {"width", {{"step", step}}},
                 {"height", {{"step", 26}}},
                 {"layer", cell_layers("", workloads, {p.rows.begin(), p.rows.end()})}};
    spec["title"] = panel_heading(ranks_text(p.ranks) + (!both     ? ""
                                                         : p.tuned ? ", tuned learning rates"
                                                                   : ", equal learning rate"));
    views.push_back(std::move(spec));
  }
  chart.spec["columns"] = both ? 2 : 1;
  chart.spec["spacing"] = 24;
  return chart;
}

}  // namespace sluice
