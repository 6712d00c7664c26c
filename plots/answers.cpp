// See answers.h.
#include "plots/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/base/quantities.h"
#include "plots/style.h"
#include "results/compare.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

constexpr double kAsFast = 1 - 1e-6;  // of the fastest's rate

using Rows = std::vector<const ComparisonRow*>;

// "5 and 5 seeds".
std::string seeds_text(int a, int b) { return fmt::format("{} and {} seeds", a, b); }

bool touches(const Spread& a, const Spread& b) { return a.min <= b.max && b.min <= a.max; }

// "gpipe, dapple and 3 more".
std::string listed(const std::vector<std::string>& labels) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(labels.size(), most); ++i) text += (i == 0 ? "" : ", ") + labels[i];
  return labels.size() > most ? text + fmt::format(" and {} more", labels.size() - most) : text;
}

std::string sure_of_throughput(const Comparison& c, const Rows& ranked) {
  const ComparisonRow& first = *ranked[0];
  if (c.clock == "virtual") return "exact: the simulation has no noise";
  std::vector<std::string> alike, unknown;
  bool by_seeds = true;
  for (const ComparisonRow* other : Rows(ranked.begin() + 1, ranked.end())) {
    if (enough_seeds(first) && enough_seeds(*other)) {
      if (touches(first.throughput.value(), other->throughput.value())) alike.push_back(other->label);
    } else if (first.interval && other->interval) {
      by_seeds = false;
      if (overlap(*first.interval, *other->interval)) alike.push_back(other->label);
    } else {
      unknown.push_back(other->label);
    }
  }
  if (!alike.empty()) return "not sure: cannot be told apart from " + listed(alike);
  if (!unknown.empty()) return "not known: too few steps and seeds to compare with " + listed(unknown);
  return by_seeds ? "sure: the ranges of five or more seeds do not touch"
                  : "likely: the 95 % intervals of the steps do not touch, but there are few seeds";
}

std::string sure_of_time(const ComparisonRow& first, const ComparisonRow& second) {
  constexpr int enough = static_cast<int>(kSeedsToTell);
  const std::string seeds = seeds_text(first.attempts, second.attempts);
  if (first.attempts < enough || second.attempts < enough) return "not known: " + seeds + " are too few";
  if (first.reached < first.attempts)
    return fmt::format("not sure: {} of its {} seeds missed the target", first.attempts - first.reached,
                       first.attempts);
  if (touches(first.time_to_accuracy.value(), second.time_to_accuracy.value()))
    return "not sure: cannot be told apart from " + second.label;
  return "sure: the ranges of " + seeds + " do not touch";
}

Win fastest_of(const Comparison& c) {
  Rows ranked;
  for (const ComparisonRow& row : c.rows)
    if (row.throughput) ranked.push_back(&row);
  std::ranges::stable_sort(ranked,
                           [](const auto* a, const auto* b) { return a->throughput->median > b->throughput->median; });
  if (ranked.empty()) return {};
  const double best = ranked[0]->throughput.value().median;
  Win win{ranked[0], rate_text(best) + " samples/s", "", ""};
  if (ranked.size() == 1) return win;
  const double next = ranked[1]->throughput.value().median;
  std::vector<std::string> equal;
  for (const ComparisonRow* row : Rows(ranked.begin() + 1, ranked.end()))
    if (row->throughput.value().median >= best * kAsFast) equal.push_back(row->label);
  win.lead = !equal.empty() ? "as fast: " + listed(equal)
             : next > 0     ? fmt::format("{:.2g} % ahead of {}", 100 * (best / next - 1), ranked[1]->label)
                            : "";
  win.sure = sure_of_throughput(c, ranked);
  return win;
}

Win soonest_of(const Comparison& c) {
  Rows ranked;
  for (const ComparisonRow& row : c.rows)
    if (row.time_to_accuracy && row.attempts > 0) ranked.push_back(&row);
  const auto missed = [](const ComparisonRow& row) {
    return static_cast<double>(row.attempts - row.reached) / row.attempts;
  };
  // One that missed the target with half of its seeds is no winner by those that reached it.
  std::ranges::stable_sort(ranked, [&](const auto* a, const auto* b) {
    return std::pair(missed(*a) > 0.5, a->time_to_accuracy->median) <
           std::pair(missed(*b) > 0.5, b->time_to_accuracy->median);
  });
  if (ranked.empty()) return {};
  const ComparisonRow& first = *ranked[0];
  Win win{&first, to_text(Seconds(first.time_to_accuracy.value().median)), "", ""};
  if (ranked.size() == 1) return win;
  win.lead =
      fmt::format("{:.2f}× the time: {}",
                  ranked[1]->time_to_accuracy.value().median / first.time_to_accuracy.value().median, ranked[1]->label);
  win.sure = sure_of_time(first, *ranked[1]);
  return win;
}

Win leanest_of(const Comparison& c) {
  Rows ranked;
  for (const ComparisonRow& row : c.rows)
    if (row.peak_memory && row.throughput) ranked.push_back(&row);
  std::ranges::stable_sort(
      ranked, [](const auto* a, const auto* b) { return a->peak_memory->median < b->peak_memory->median; });
  if (ranked.empty()) return {};
  const ComparisonRow& first = *ranked[0];
  return {&first, to_text(Bytes(static_cast<std::int64_t>(first.peak_memory.value().median))), "", ""};
}

std::vector<Unfinished> unfinished_of(const Comparison& c) {
  std::vector<Unfinished> groups;
  for (const ComparisonRow& row : c.rows) {
    if (row.outcome == RecordOutcome::ok) continue;
    std::string outcome = choice_name(row.outcome);
    std::ranges::replace(outcome, '_', ' ');
    auto group = std::ranges::find(groups, outcome, &Unfinished::outcome);
    if (group == groups.end()) {
      groups.push_back({outcome, {}, row.reason});
      group = groups.end() - 1;
    }
    group->labels.push_back(row.records.size() > 1
                                ? fmt::format("{} ({} of {} seeds)", row.label,
                                              static_cast<int>(row.records.size()) - row.succeeded, row.records.size())
                                : row.label);
  }
  return groups;
}

}  // namespace

Answer answer_of(const Comparison& c) { return {fastest_of(c), soonest_of(c), leanest_of(c), unfinished_of(c)}; }

std::string wins_text(std::span<const Comparison> comparisons) {
  std::map<std::string, int> wins;
  int all = 0, shared = 0, unsure = 0;
  for (const Comparison& c : comparisons) {
    const Win win = fastest_of(c);
    if (!win.row) continue;
    ++all;
    const double best = win.row->throughput.value().median;
    const bool alone = std::ranges::none_of(c.rows, [&](const ComparisonRow& row) {
      return row.system != win.row->system && row.throughput && row.throughput->median >= best * kAsFast;
    });
    if (win.sure.starts_with("not"))
      ++unsure;
    else if (!alone)
      ++shared;
    else
      ++wins[win.row->system];
  }
  std::vector<std::pair<std::string, int>> order(wins.begin(), wins.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [system, count] : order)
    text += text.empty() ? fmt::format("{} in {} of {}", system, count, all) : fmt::format(", {} in {}", system, count);
  const auto add = [&](const char* what, int count) {
    if (count > 0)
      text += fmt::format("{}{} in {}{}", text.empty() ? "" : "; ", what, count,
                          text.empty() ? fmt::format(" of {}", all) : "");
  };
  add("several systems, as fast as one another,", shared);
  add("not sure", unsure);
  return text;
}

}  // namespace sluice
