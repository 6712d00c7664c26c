// Tables whose cells are coloured: the divergence boundary (learning rates x systems), and, across workloads, the time
// to accuracy relative to the single device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/base/json.h"
#include "plots/chart_template.h"
#include "plots/charts.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/comparison_rows.h"

namespace sluice {
namespace {

constexpr const char* kGrey = "#eceff3";

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
  Json panels = Json::array();
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
    panels.push_back({{"heading", boundaries.size() > 1 ? panel_heading(ranks_text(b.ranks)) : Json()},
                      {"values", std::move(values)},
                      {"column_names", rates},
                      {"row_order", labels}});
  }
  return {
      name, title,
      filled_chart("cells", title,
                   {how,
                    "n/m: stable runs of all seeds. Framed: the largest rate that is stable, with all smaller ones, "
                    "for all seeds",
                    "Stable: no divergence, and the loss fell by a tenth or more (last tenth of the updates against "
                    "the first update)"},
                   {{"panels", std::move(panels)},
                    {"columns", boundaries.size() > 1 ? 2 : 1},
                    {"spacing", 28},
                    {"column_width", 58},
                    {"row_height", 30},
                    {"axis", "learning rate"},
                    {"column_kind", "learning rate"}})};
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
  subtitle.push_back(std::string("Median over seeds relative to the single device") +
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
  Json views = Json::array();
  for (const Panel& p : panels)
    views.push_back({{"heading", panel_heading(ranks_text(p.ranks) + (!both     ? ""
                                                                      : p.tuned ? ", tuned learning rates"
                                                                                : ", equal learning rate"))},
                     {"values", p.values},
                     {"column_names", workloads},
                     {"row_order", p.rows}});
  // Two panels side by side fill a page.
  const double step = std::clamp(455.0 / static_cast<double>(workloads.size()), 64.0, 112.0);
  return {name, title,
          filled_chart("cells", title, subtitle,
                       {{"panels", std::move(views)},
                        {"columns", both ? 2 : 1},
                        {"spacing", 24},
                        {"column_width", step},
                        {"row_height", 26},
                        {"axis", nullptr},
                        {"column_kind", "workload"}})};
}

}  // namespace sluice
