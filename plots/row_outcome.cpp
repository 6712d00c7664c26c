// See row_outcome.h.
#include "plots/row_outcome.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/quantities.h"

namespace sluice {
namespace {

// "rank 0 needs 23.4 GiB at its peak, its device 'V100' has 16 GiB" (harness/case/predict_memory.cpp): both amounts.
struct Shortage {
  std::string needed, has;
};

std::optional<Shortage> shortage(const std::string& reason) {
  const std::string needs = " needs ", end = " at its peak", has = " has ";
  const std::size_t from = reason.find(needs), to = reason.find(end), last = reason.rfind(has);
  if (from == std::string::npos || to == std::string::npos || last == std::string::npos || to < from || last < to)
    return std::nullopt;
  return Shortage{reason.substr(from + needs.size(), to - from - needs.size()), reason.substr(last + has.size())};
}

std::string out_of_memory(const std::string& reason) {
  const std::optional<Shortage> amounts = shortage(reason);
  if (!amounts) return "out of memory";
  std::string needed = amounts->needed;
  const std::size_t space = needed.find(' ');  // the unit once where both have it
  if (space != std::string::npos && amounts->has.ends_with(needed.substr(space))) needed.resize(space);
  return "OOM " + needed + " / " + amounts->has;
}

std::string short_text(RecordOutcome outcome, const std::string& reason, std::optional<std::int64_t> diverged_at) {
  if (outcome == RecordOutcome::ok) return "";
  if (outcome == RecordOutcome::out_of_memory) return out_of_memory(reason);
  const std::string words = outcome_words(outcome);
  if (outcome == RecordOutcome::diverged)
    return words + (diverged_at ? fmt::format(" at update {}", *diverged_at) : "");
  constexpr std::size_t kShort = 24;
  return reason.empty() || reason.size() > kShort ? words : words + ": " + reason;
}

}  // namespace

std::string outcome_words(RecordOutcome outcome) {
  std::string words = choice_name(outcome);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string short_outcome(const ComparisonRow& row) {
  if (row.outcome == RecordOutcome::diverged && row.records.size() > 1)
    return fmt::format("{}/{} diverged, the first at update {}", row.diverged, row.records.size(),
                       row.first_divergence.value_or(0));
  return short_text(row.outcome, row.reason, row.first_divergence);
}

std::string short_outcome(const Record& record) {
  return short_text(record.outcome, record.reason, record.diverged_at);
}

std::optional<double> needed_memory(const ComparisonRow& row) {
  std::optional<double> least;
  for (const Record& record : row.records) {
    if (record.outcome != RecordOutcome::out_of_memory || record.peak_bytes.empty()) return std::nullopt;
    const auto peak = static_cast<double>(std::ranges::max(record.peak_bytes, {}, &MemorySplit::total).total);
    least = std::min(least.value_or(peak), peak);
  }
  return least;
}

std::optional<double> exceeded_memory(const Comparison& comparison) {
  std::optional<double> least;
  for (const ComparisonRow& row : comparison.rows)
    for (const Record& record : row.records) {
      if (record.outcome != RecordOutcome::out_of_memory) continue;
      std::optional<Shortage> amounts = shortage(record.reason);
      if (!amounts) continue;
      std::erase(amounts->has, ' ');
      try {
        const auto limit = static_cast<double>(parse_bytes(amounts->has, "memory").value);
        least = std::min(least.value_or(limit), limit);
      } catch (const InputError&) {  // words of a record that another program wrote
      }
    }
  return least;
}

}  // namespace sluice
