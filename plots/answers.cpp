// See answers.h.
#include "plots/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "harness/base/quantities.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/compare.h"
#include "results/comparison_rows.h"
#include "results/model_error.h"
#include "results/system_style.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

using Rows = std::vector<const ComparisonRow*>;

bool touches(const Spread& a, const Spread& b) { return a.min <= b.max && b.min <= a.max; }

// "GPipe, DAPPLE and 3 more".
std::string listed(const Rows& rows) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(rows.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + title_of(*rows[i]);
  return rows.size() > kNamed ? text + fmt::format(" and {} more", rows.size() - kNamed) : text;
}

// "0.05", "4.6", "19", "120".
std::string percent(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f} %", value, value < 1 ? 2 : value < 10 ? 1 : 0);
}

std::string bytes_text(double bytes) { return to_text(Bytes(static_cast<std::int64_t>(bytes))); }

std::string samples_text(const ComparisonRow& row) { return rate_text(row.throughput.value().median) + " samples/s"; }

// The best row of each system, best first: the one of smallest `value`. Rows without one are left out.
Rows best_of_systems(const Rows& rows, const std::function<std::optional<double>(const ComparisonRow&)>& value) {
  Rows sorted, best;
  std::ranges::copy_if(rows, std::back_inserter(sorted), [&](const auto* row) { return value(*row).has_value(); });
  std::ranges::stable_sort(sorted, {}, [&](const auto* row) { return *value(*row); });
  for (const ComparisonRow* row : sorted)
    if (std::ranges::count(best, row->system, &ComparisonRow::system) == 0) best.push_back(row);
  return best;
}

std::optional<double> slowness(const ComparisonRow& row) {
  return row.throughput ? std::optional(-row.throughput->median) : std::nullopt;
}

// The rows of one race on one comparison.
class Race {
 public:
  Race(const Comparison& c, bool asynchronous) : c_(c), error_(model_error(c.cost_source)) {
    const bool others = std::ranges::any_of(
        c.rows, [&](const auto& row) { return !row.reference && row.asynchronous != asynchronous; });
    for (const ComparisonRow& row : c.rows) {
      if (row.reference && (!reference_ || slowness(row).value_or(0) < slowness(*reference_).value_or(0)))
        reference_ = &row;
      if (row.reference ? asynchronous && others : row.asynchronous != asynchronous) continue;
      rows_.push_back(&row);
      if (!row.misses_target()) eligible_.push_back(&row);
    }
    only_reference_ = std::ranges::all_of(rows_, [](const auto* row) { return row->reference; });
  }

  // Nothing but the single device, which races with the others.
  bool is_empty() const { return only_reference_; }

  Answer answer() const {
    Answer answer{.fastest = fastest()};
    answer.faster_but_missed = faster_but_missed(answer.fastest.row);
    if (answer.fastest.row) {
      const ComparisonRow& row = *answer.fastest.row;
      if (row.final_metric) answer.quality = "final " + c_.metric + " " + metric_text(row.final_metric->median);
      answer.reached = reached_text(row);
      if (row.peak_memory) answer.peak_memory = bytes_text(row.peak_memory->median) + " on its fullest rank";
      answer.over_one_device = over_one_device(row);
    }
    answer.soonest = soonest();
    answer.min_memory = min_memory();
    answer.unfinished = unfinished();
    return answer;
  }

 private:
  Win fastest() const {
    const Rows ranked = best_of_systems(eligible_, slowness);
    if (ranked.empty()) return {};
    Win win{.row = ranked[0], .name = title_of(*ranked[0]), .value = samples_text(*ranked[0])};
    if (ranked.size() == 1) return win;
    std::vector<double> rates;
    for (const ComparisonRow* row : ranked) rates.push_back(row->throughput.value().median);
    constexpr double kEqual = 5e-5;
    const double ahead = rates[0] / rates[1] - 1;
    win.lead = percent(ahead) + " ahead of " + title_of(*ranked[1]);
    if (c_.clock != "virtual") {
      judge_by_seeds(win, ranked);
      return win;
    }
    const auto tied = std::ranges::count(shared_places(rates, error_), 1);
    win.confidence = tied > 1 ? Confidence::tie : Confidence::sure;
    win.why = (tied > 1 ? "within " : "more than ") + model_error_text(error_);
    if (tied > 1) {
      win.lead = "tie with " + listed({ranked.begin() + 1, ranked.begin() + tied});
      if (ahead > kEqual) win.lead += "; " + percent(ahead) + " ahead of " + (tied == 2 ? "it" : "the second");
    }
    return win;
  }

  static void judge_by_seeds(Win& win, const Rows& ranked) {
    const ComparisonRow& first = *ranked[0];
    Rows alike, unknown;
    bool by_seeds = true;
    for (const ComparisonRow* other : Rows(ranked.begin() + 1, ranked.end())) {
      if (enough_seeds(first) && enough_seeds(*other)) {
        if (touches(first.throughput.value(), other->throughput.value())) alike.push_back(other);
      } else if (first.interval && other->interval) {
        by_seeds = false;
        if (overlap(*first.interval, *other->interval)) alike.push_back(other);
      } else {
        unknown.push_back(other);
      }
    }
    if (!alike.empty()) {
      win.confidence = Confidence::unsure, win.why = "cannot be told apart from " + listed(alike);
    } else if (!unknown.empty()) {
      win.confidence = Confidence::unknown;
      win.why = "too few steps and seeds to compare with " + listed(unknown);
    } else if (by_seeds) {
      win.confidence = Confidence::sure, win.why = "the ranges of five or more seeds do not touch";
    } else {
      win.confidence = Confidence::likely;
      win.why = "the 95 % intervals of the steps do not touch, but there are few seeds";
    }
  }

  std::vector<std::string> faster_but_missed(const ComparisonRow* winner) const {
    Rows missed;
    std::ranges::copy_if(rows_, std::back_inserter(missed), &ComparisonRow::misses_target);
    missed = best_of_systems(missed, slowness);
    std::vector<std::string> texts;
    for (const ComparisonRow* row : missed)
      if (!winner || row->throughput->median > winner->throughput->median)
        texts.push_back(fmt::format("{}, {}: {}misses the target in {} of {} seed{}", title_of(*row),
                                    samples_text(*row), winner ? "faster, but " : "", row->attempts, row->attempts,
                                    row->attempts == 1 ? "" : "s"));
    if (!winner && texts.size() > 1) texts.resize(1);
    return texts;
  }

  std::string reached_text(const ComparisonRow& row) const {
    if (!c_.target || (!row.final_metric && row.diverged == 0)) return "";
    return fmt::format("{:g} reached in {} of {} seed{}", *c_.target, row.reached, row.attempts,
                       row.attempts == 1 ? "" : "s");
  }

  std::string over_one_device(const ComparisonRow& row) const {
    if (!reference_ || row.reference) return "";
    if (reference_->throughput)
      return fmt::format("{:.2f}× the single device", row.throughput.value().median / reference_->throughput->median);
    return "the single device: " + short_outcome(*reference_);
  }

  Win soonest() const {
    const auto missed = [](const ComparisonRow& row) {
      return static_cast<double>(row.attempts - row.reached) / row.attempts;
    };
    Rows ranked = best_of_systems(
        rows_, [](const auto& row) { return row.attempts > 0 ? middle(row.time_to_accuracy) : std::nullopt; });
    // A system that missed the target with most of its seeds is no winner by the others.
    std::ranges::stable_partition(ranked, [&](const auto* row) { return missed(*row) <= 0.5; });
    if (ranked.empty()) return {};
    const ComparisonRow& first = *ranked[0];
    const double time = first.time_to_accuracy.value().median;
    Win win{.row = &first, .name = title_of(first), .value = to_text(Seconds(time))};
    if (ranked.size() == 1) return win;
    const ComparisonRow& second = *ranked[1];
    const double next = second.time_to_accuracy.value().median;
    win.lead =
        title_of(second) + " takes " + (next / time < 1.005 ? "" : fmt::format("{:.2f}× ", next / time)) + "as long";
    constexpr int enough = static_cast<int>(kSeedsToTell);
    if (first.attempts < enough || second.attempts < enough) {
      win.confidence = Confidence::unknown;
      win.why = fmt::format("{}; at least {} each are needed to tell", seeds_of(first, second), enough);
    } else if (first.reached < first.attempts) {
      win.confidence = Confidence::unsure;
      win.why = fmt::format("{} of its {} seeds missed the target", first.attempts - first.reached, first.attempts);
    } else if (touches(first.time_to_accuracy.value(), second.time_to_accuracy.value())) {
      win.confidence = Confidence::unsure, win.why = "cannot be told apart from " + title_of(second);
    } else if (c_.clock == "virtual" && within_model_error(time, next, error_)) {
      win.confidence = Confidence::tie, win.why = "within " + model_error_text(error_);
    } else {
      win.confidence = Confidence::sure;
      win.why = "the ranges do not touch: " + seeds_of(first, second);
    }
    return win;
  }

  // "1 seed each", "1 and 5 seeds".
  static std::string seeds_of(const ComparisonRow& first, const ComparisonRow& second) {
    const int n = first.attempts;
    return n != second.attempts ? fmt::format("{} and {} seeds", n, second.attempts)
                                : fmt::format("{} seed{} each", n, n == 1 ? "" : "s");
  }

  Win min_memory() const {
    const Rows ranked = best_of_systems(
        eligible_, [](const auto& row) { return row.throughput ? middle(row.peak_memory) : std::nullopt; });
    if (ranked.empty()) return {};
    return {.row = ranked[0], .name = title_of(*ranked[0]), .value = bytes_text(ranked[0]->peak_memory->median)};
  }

  std::vector<Unfinished> unfinished() const {
    std::vector<Unfinished> groups;
    for (const ComparisonRow* row : rows_) {
      if (row->outcome == RecordOutcome::ok) continue;
      const std::string outcome = outcome_words(row->outcome);
      auto group = std::ranges::find(groups, outcome, &Unfinished::outcome);
      if (group == groups.end()) group = groups.insert(groups.end(), {outcome, {}, row->reason});
      const auto seeds = static_cast<int>(row->records.size());
      group->names.push_back(seeds > 1
                                 ? fmt::format("{} ({} of {} seeds)", title_of(*row), seeds - row->succeeded, seeds)
                                 : title_of(*row));
    }
    return groups;
  }

  const Comparison& c_;
  double error_;
  const ComparisonRow* reference_ = nullptr;
  Rows rows_, eligible_;
  bool only_reference_ = false;
};

}  // namespace

std::vector<Answer> answers_of(const Comparison& c) {
  std::vector<Answer> answers;
  const bool any_other = std::ranges::any_of(c.rows, [](const auto& row) { return !row.reference; });
  for (const bool asynchronous : {false, true}) {
    const Race race(c, asynchronous);
    if (race.is_empty() && (any_other || asynchronous)) continue;
    answers.push_back(race.answer());
    answers.back().asynchronous = asynchronous;
  }
  return answers;
}

std::string wins_text(std::span<const Comparison> comparisons, bool asynchronous) {
  std::map<std::string, int> wins;
  int all = 0, tied = 0, unsure = 0, missed = 0;
  for (const Comparison& c : comparisons)
    for (const Answer& answer : answers_of(c)) {
      const Win& win = answer.fastest;
      if (answer.asynchronous != asynchronous || (!win.row && answer.faster_but_missed.empty())) continue;
      if (win.row && win.lead.empty() && win.confidence == Confidence::none) continue;  // the only one
      ++all;
      if (!win.row) {
        ++missed;
      } else if (win.confidence == Confidence::tie) {
        ++tied;
      } else if (win.confidence == Confidence::unsure || win.confidence == Confidence::unknown) {
        ++unsure;
      } else {
        ++wins[system_style(win.row->system).title];
      }
    }
  std::vector<std::pair<std::string, int>> order(wins.begin(), wins.end());
  std::ranges::stable_sort(order, std::greater(), &std::pair<std::string, int>::second);
  for (const auto& [what, count] : {std::pair("tied", tied), {"not sure", unsure}, {"none reaches the target", missed}})
    if (count > 0) order.emplace_back(what, count);
  std::string text;
  for (const auto& [what, count] : order)
    text += text.empty() ? fmt::format("{} in {} of {}", what, count, all) : fmt::format(", {} in {}", what, count);
  return text;
}

}  // namespace sluice
