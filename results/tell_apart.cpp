#include "results/tell_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "results/metrics.h"
#include "results/model_error.h"

namespace sluice {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  std::string label;
  double low, high;
};

// Of intervals, every largest set that overlaps in pairs has a point in common, and one such point is the low end of
// one of them.
std::vector<std::vector<Range>> largest_overlapping_sets(const std::vector<Range>& ranges) {
  std::vector<std::vector<Range>> sets;
  for (const Range& at : ranges) {  // by rising low end
    std::vector<Range> holding;
    for (const Range& r : ranges)
      if (r.low <= at.low && at.low <= r.high) holding.push_back(r);
    const auto inside = [](const std::vector<Range>& small, const std::vector<Range>& large) {
      return std::ranges::all_of(small,
                                 [&](const Range& r) { return std::ranges::count(large, r.label, &Range::label) > 0; });
    };
    if (std::ranges::any_of(sets, [&](const auto& set) { return inside(holding, set); })) continue;
    std::erase_if(sets, [&](const auto& set) { return inside(set, holding); });
    sets.push_back(std::move(holding));
  }
  return sets;
}

std::string joined(const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) text += (text.empty() ? "" : ", ") + label;
  return text;
}

}  // namespace

Verdict tell_apart(const std::string& metric, std::span<const SeedValues> systems) {
  Verdict verdict{.metric = metric};
  std::vector<Range> ranges;
  for (const SeedValues& system : systems) {
    if (system.values.size() < kSeedsToTell) {
      verdict.too_few_seeds.push_back(system.label + " (" + std::to_string(system.values.size()) + ")");
      continue;
    }
    const auto [low, high] = std::ranges::minmax(system.values);
    ranges.push_back({system.label, low, high});
  }
  std::ranges::stable_sort(ranges, {}, &Range::low);
  for (const auto& set : largest_overlapping_sets(ranges)) {
    std::vector<std::string> labels;
    for (const Range& r : set) labels.push_back(r.label);
    if (set.size() == 1) {
      verdict.apart.push_back(labels.front());
    } else {
      verdict.alike.push_back(std::move(labels));
    }
  }
  return verdict;
}

std::vector<std::vector<std::string>> simulated_places(const Comparison& comparison, bool asynchronous, RowName name) {
  if (comparison.clock != "virtual") return {};
  std::vector<const ComparisonRow*> rows, fastest;
  for (const ComparisonRow& row : comparison.rows)
    if (row.throughput && row.asynchronous == asynchronous && !row.misses_target()) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater(), [](const auto* row) { return row->throughput->median; });
  std::vector<double> rates;
  for (const ComparisonRow* row : rows) {
    if (std::ranges::count(fastest, row->system, &ComparisonRow::system) > 0) continue;
    fastest.push_back(row);
    rates.push_back(row->throughput.value().median);
  }
  const std::vector<int> place_of = shared_places(rates, model_error(comparison.cost_source));
  std::vector<std::vector<std::string>> places;
  for (std::size_t i = 0; i < fastest.size(); ++i) {
    if (i == 0 || place_of[i] != place_of[i - 1]) places.emplace_back();
    places.back().push_back(name(*fastest[i]));
  }
  return places;
}

std::string places_text(const Comparison& comparison, RowName name) {
  std::string text;
  bool several = false;
  for (const bool asynchronous : {false, true}) {
    int place = 1;
    std::string part;
    for (const auto& labels : simulated_places(comparison, asynchronous, name)) {
      part += fmt::format("{}{}. {}", part.empty() ? "" : "; ", place, joined(labels));
      place += static_cast<int>(labels.size());
    }
    several |= place > 2;
    if (!part.empty()) text += (text.empty() ? "" : "; ") + std::string(asynchronous ? "asynchronous: " : "") + part;
  }
  if (!several) return "";
  return "throughput, places shared within " + model_error_text(model_error(comparison.cost_source)) + ": " + text;
}

std::vector<Verdict> verdicts(const Comparison& comparison, RowName name) {
  using Value = std::function<std::optional<double>(const Record&)>;
  std::vector<Verdict> result;
  const auto add_verdict = [&](const std::string& metric, const Value& value) {
    std::vector<SeedValues> systems;
    bool any = false;  // a number: without one there is nothing to compare
    for (const ComparisonRow& row : comparison.rows) {
      SeedValues values{name(row), {}};
      for (const Record& record : row.records)
        if (const auto v = value(record)) values.values.push_back(*v);
      for (const double v : values.values) any |= std::abs(v) < kInfinity;
      if (!values.values.empty()) systems.push_back(std::move(values));
    }
    if (any && systems.size() > 1) result.push_back(tell_apart(metric, systems));
  };
  if (comparison.clock == "wall")
    add_verdict("throughput", [](const Record& r) -> std::optional<double> {
      const auto t = throughput(r);
      return t ? std::optional(t->samples_per_second) : std::nullopt;
    });
  if (comparison.target) add_verdict("time to " + comparison.metric, time_or_miss);
  const double worst = comparison.lower_is_better ? kInfinity : -kInfinity;
  add_verdict("final " + comparison.metric, [&](const Record& r) -> std::optional<double> {
    if (r.outcome == RecordOutcome::diverged) return worst;
    return r.outcome == RecordOutcome::ok ? final_metric(r) : std::nullopt;
  });
  return result;
}

bool enough_seeds(const ComparisonRow& row) {
  const auto seeds = std::ranges::count_if(row.records, [](const Record& r) { return throughput(r).has_value(); });
  return seeds >= static_cast<std::ptrdiff_t>(kSeedsToTell);
}

std::string to_text(const Verdict& verdict) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (std::size_t i = 0; i < verdict.alike.size(); ++i)
    add((i == 0 ? "cannot be told apart: " : "nor: ") + joined(verdict.alike[i]));
  if (verdict.alike.empty() && verdict.apart.size() > 1) add("all told apart: " + joined(verdict.apart));
  if (!verdict.alike.empty() && !verdict.apart.empty()) add("apart from all others: " + joined(verdict.apart));
  if (verdict.alike.empty() && verdict.apart.empty())
    return verdict.metric + ": too few seeds to say which differ (" + std::to_string(kSeedsToTell) + " needed)";
  if (!verdict.too_few_seeds.empty())
    add("too few seeds to say (" + std::to_string(kSeedsToTell) + " needed): " + joined(verdict.too_few_seeds));
  return verdict.metric + ": " + text;
}

}  // namespace sluice
