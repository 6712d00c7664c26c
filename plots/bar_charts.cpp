// Bars (throughput, time to accuracy) and dots (final metric), one panel a comparison: the medians over the seeds, with
// whiskers from the smallest to the largest. Bars lie, so that names are read without turning the head, and the number
// stands at the end of each bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "plots/chart_template.h"
#include "plots/charts.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/system_style.h"

namespace sluice {
namespace {

constexpr double kCharacter = 6.6;  // pixels

struct Bar {
  std::string label, system, text;
  std::optional<double> value;
  std::optional<double> low, high;  // whiskers
};

struct BarPanel {
  std::string title;
  std::vector<Bar> bars;
  std::optional<double> reference;  // where the dashed line stands
};

double end_of(const Bar& bar) { return std::max(bar.value.value_or(0), bar.high.value_or(0)); }

// The axis from `from` to where the text behind every bar still fits into the panel.
double axis_end(const std::vector<BarPanel>& panels, double from, double width) {
  double end = from;
  for (const BarPanel& panel : panels) {
    if (panel.reference) end = std::max(end, *panel.reference * 1.02);
    for (const Bar& bar : panel.bars) {
      if (!bar.value) continue;
      const double room = std::max(0.3, 1 - (kCharacter * static_cast<double>(letters(bar.text)) + 8) / width);
      end = std::max(end, from + (end_of(bar) - from) / room);
    }
  }
  return end > from ? end : from + 1;
}

Json panel_values(const BarPanel& panel, double from, double to, const std::string& axis, std::size_t heading_chars) {
  Json values = Json::array(), order = Json::array();
  for (const Bar& bar : panel.bars) {
    values.push_back({{"label", bar.label},
                      {"system", bar.system},
                      {"text", bar.text},
                      {"color", system_style(bar.system).color},
                      {"ink", bar.value ? "#333" : kLimitColor},
                      {"value", bar.value.value_or(from)},
                      {"drawn", bar.value.has_value()},
                      {"end", bar.value ? end_of(bar) : from}});
    if (bar.low && bar.high) values.back().update({{"low", *bar.low}, {"high", *bar.high}});
    order.push_back(bar.label);
  }
  const bool any = std::ranges::any_of(panel.bars, [](const Bar& bar) { return bar.value.has_value(); });
  return {{"heading", panel_heading(panel.title, heading_chars)},
          {"x_axis", any ? Json{{"title", axis}, {"tickCount", 5}, {"format", ",~r"}} : Json()},
          {"values", values},
          {"order", order},
          {"reference", panel.reference},
          {"domain", Json::array({from, to})}};
}

// Bars begin at 0; dots on an axis from `from`.
Chart bar_chart(const std::string& name, const std::string& title, const std::vector<std::string>& subtitle,
                const std::vector<BarPanel>& panels, const std::string& axis, bool same_axis,
                std::optional<double> from = {}) {
  std::size_t longest = 0;  // characters of a name
  for (const BarPanel& panel : panels)
    for (const Bar& bar : panel.bars) longest = std::max(longest, letters(bar.label));
  const PanelGrid grid = panel_grid(panels.size(), std::min(480.0, kCharacter * static_cast<double>(longest)), 390);
  const double begin = from.value_or(0);
  Json views = Json::array();
  for (const BarPanel& panel : panels)
    views.push_back(panel_values(panel, begin, axis_end(same_axis ? panels : std::vector{panel}, begin, grid.width),
                                 axis, grid.heading_chars));
  return {name, title,
          filled_chart("bars", title, subtitle,
                       {{"panels", views},
                        {"columns", grid.columns},
                        {"width", grid.width},
                        {"axis", axis},
                        {"dots", from.has_value()},
                        {"begins_at_zero", !from},
                        {"text_gap", from ? 10 : 6}})};
}

// What stands behind a bar whose row is not wholly ok.
std::string seeds_text(const ComparisonRow& row) {
  if (row.outcome == RecordOutcome::ok || row.records.size() < 2) return "";
  return fmt::format(", {}/{} ok", row.succeeded, row.records.size());
}

std::string tuned_text(const Comparison& c, const ComparisonRow& row) {
  return c.tuned && row.learning_rate ? fmt::format(" · rate {:g}", *row.learning_rate) : "";
}

bool one_workload(std::span<const Comparison> all) {
  return std::all_of(all.begin(), all.end(), [&](const Comparison& c) { return c.workload == all.front().workload; });
}

std::string setting_of(std::span<const Comparison> all) {
  if (one_workload(all)) return setting(all);
  const std::string options = shared_options(all);
  return clock_text(all.front()) + " · " + all.front().cluster + (options.empty() ? "" : " · " + options);
}

bool several_seeds(std::span<const Comparison> all) {
  for (const Comparison& c : all)
    for (const ComparisonRow& row : c.rows)
      if (row.succeeded > 1) return true;
  return false;
}

const char* over_seeds(std::span<const Comparison> all) {
  return several_seeds(all) ? "Median over seeds, whiskers from the smallest to the largest" : "";
}

std::string sentence(const std::string& first, const std::string& second) {
  return first.empty() ? second : second.empty() ? first : first + "; " + second;
}

}  // namespace

Chart throughput_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons) {
  std::vector<BarPanel> panels;
  bool intervals = false, same = false, spreads = false, any = false;
  std::string baseline;
  for (const Comparison& c : comparisons) {
    BarPanel panel{panel_title(c, comparisons), {}, std::nullopt};
    for (const ComparisonRow* row : drawing_order(c)) {
      Bar bar{title_of(*row), row->system, "", std::nullopt, std::nullopt, std::nullopt};
      if (row->throughput) {
        bar.value = row->throughput->median;
        any = true;
        bar.text = rate_text(*bar.value);
        if (row->throughput_ratio && !row->baseline) {
          const bool alike = row->differs == false;
          bar.text += fmt::format(" ({:.2f}×{})", *row->throughput_ratio, alike ? " ~" : "");
          same |= alike;
        }
        if (row->misses_target()) bar.text += ", misses the target";
        if (row->throughput->min < row->throughput->max) {
          bar.low = row->throughput->min, bar.high = row->throughput->max;
          spreads = true;
        } else if (row->interval) {
          bar.low = row->interval->low, bar.high = row->interval->high;
          intervals = true;
        }
        bar.text += row->records.size() > 1             ? seeds_text(*row)
                    : row->outcome != RecordOutcome::ok ? ", " + short_outcome(*row)
                                                        : "";
        if (row->reference) panel.reference = std::max(panel.reference.value_or(0), *bar.value);
      } else {
        bar.text = row->outcome == RecordOutcome::ok ? "no steps after the warm-up" : short_outcome(*row);
      }
      panel.bars.push_back(std::move(bar));
    }
    if (!c.baseline.empty()) baseline = baseline_title(c);
    panels.push_back(std::move(panel));
  }
  if (!any) return {name, title, nullptr};
  std::string how = "Median step after the warm-up";
  if (spreads) how += "; whiskers: smallest and largest of the seeds";
  if (intervals) how += std::string(spreads ? ", of one seed the" : "; whiskers:") + " 95 % interval";
  how += "; dashed: single device";
  std::vector<std::string> subtitle = {setting_of(comparisons), how};
  if (!baseline.empty())
    subtitle.push_back("×: relative to " + baseline + (same ? "; ~: cannot be told apart from it" : ""));
  return bar_chart(name, title, subtitle, panels, "samples/s", one_workload(comparisons));
}

Chart time_to_accuracy_chart(const std::string& name, const std::string& title,
                             std::span<const Comparison> comparisons) {
  double largest = 0;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows)
      if (row.time_to_accuracy) largest = std::max(largest, row.time_to_accuracy->max);
  const Scale scale = time_scale(largest);
  std::vector<BarPanel> panels;
  std::string goal;
  for (const Comparison& c : comparisons) {
    const bool trained = std::any_of(c.rows.begin(), c.rows.end(), [](const ComparisonRow& row) {
      return row.best_metric.has_value() || row.diverged > 0;
    });
    if (!c.target || !trained) continue;
    goal = fmt::format("{} {} {:g}", c.metric, c.lower_is_better ? "≤" : "≥", *c.target);
    BarPanel panel{panel_title(c, comparisons), {}, std::nullopt};
    for (const ComparisonRow* row : drawing_order(c)) {
      Bar bar{title_of(*row), row->system, "", std::nullopt, std::nullopt, std::nullopt};
      if (row->time_to_accuracy) {
        const Spread& time = *row->time_to_accuracy;
        bar.value = time.median / scale.divisor;
        bar.text = fmt::format("{:.3g} {}", *bar.value, scale.unit);
        if (row->time_ratio && !row->baseline) bar.text += fmt::format(" ({:.2f}×)", *row->time_ratio);
        if (row->reached < row->attempts) bar.text += fmt::format(" {}/{}", row->reached, row->attempts);
        bar.text += tuned_text(c, *row);
        if (time.min < time.max) bar.low = time.min / scale.divisor, bar.high = time.max / scale.divisor;
        if (row->reference) panel.reference = std::min(panel.reference.value_or(*bar.value), *bar.value);
      } else if (row->best_metric) {
        bar.text = fmt::format("not reached: best {} {:.4g}, target {:g}", c.metric, *row->best_metric, *c.target);
        if (row->attempts > 1) bar.text = fmt::format("0/{} reached it, best {:.4g}", row->attempts, *row->best_metric);
        bar.text += tuned_text(c, *row);
      } else {
        bar.text = row->outcome == RecordOutcome::ok ? "not evaluated" : short_outcome(*row);
      }
      panel.bars.push_back(std::move(bar));
    }
    panels.push_back(std::move(panel));
  }
  if (panels.empty()) return {name, title, nullptr};
  std::vector<std::string> subtitle = {
      setting_of(comparisons),
      "Training time until " + goal + ", draining included, evaluation excluded; dashed: single device"};
  if (several_seeds(comparisons))
    subtitle.push_back(sentence(over_seeds(comparisons), "4/5: seeds that reached it, of all"));
  return bar_chart(name, title, subtitle, panels, "time to target [" + scale.unit + "]", one_workload(comparisons));
}

Chart final_metric_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::vector<BarPanel> panels;
  for (const Comparison& c : comparisons) {
    BarPanel panel{panel_title(c, comparisons), {}, std::nullopt};
    for (const ComparisonRow* row : drawing_order(c)) {
      Bar bar{title_of(*row), row->system, "", std::nullopt, std::nullopt, std::nullopt};
      if (row->final_metric && std::isfinite(row->final_metric->median)) {
        const Spread& metric = *row->final_metric;
        bar.value = metric.median;
        bar.text = fmt::format("{:.4g}", metric.median) + seeds_text(*row) + tuned_text(c, *row);
        if (metric.min < metric.max) bar.low = metric.min, bar.high = metric.max;
        if (row->reference) panel.reference = metric.median;
        low = std::min(low, metric.min);
        high = std::max(high, metric.max);
      } else {
        bar.text = row->outcome == RecordOutcome::ok ? "not evaluated" : short_outcome(*row);
      }
      panel.bars.push_back(std::move(bar));
    }
    panels.push_back(std::move(panel));
  }
  if (panels.empty() || !(low <= high)) return {name, title, nullptr};
  const double from = low - 0.06 * std::max(high - low, 1e-3 * std::abs(high));
  return bar_chart(name, title,
                   {setting_of(comparisons),
                    sentence(over_seeds(comparisons), "the axis does not begin at 0; dashed: single device")},
                   panels, "final " + comparisons.front().metric, /*same_axis=*/true, from);
}

}  // namespace sluice
