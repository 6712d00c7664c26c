#include "harness/exec/rank_result.h"

#include <algorithm>

#include "harness/exec/bytes.h"

namespace sluice {

// Written by a ByteWriter, read by a ByteReader.
static void numbers(auto& bytes, auto& result) {
  bytes.list(result.update_end);
  bytes.list(result.micro_batches.entered);
  bytes.list(result.micro_batches.left);
  bytes.list(result.trace);
  bytes.value(result.steps);
  bytes.value(result.end);
}

static std::string write(const RankResult& result, const RunOutcome& outcome) {
  ByteWriter out;
  numbers(out, result);
  out.value(outcome.failure.has_value());
  if (outcome.failure) {
    out.value(outcome.failure->kind);
    out.value(outcome.failure->rank.value_or(Rank(-1)));
    out.text(outcome.failure->what());
  }
  out.value(outcome.seconds);
  out.value(outcome.diverged.value_or(-1));
  return out.bytes();
}

static RunOutcome read(const std::string& bytes, RankResult& result) {
  ByteReader in(bytes);
  numbers(in, result);
  RunOutcome outcome;
  if (in.value<bool>()) {
    const auto kind = in.value<RunStopped::Kind>();
    const auto rank = in.value<Rank>();
    outcome.failure.emplace(kind, rank.value < 0 ? std::nullopt : std::optional(rank), in.text());
  }
  in.value(outcome.seconds);
  if (const auto update = in.value<std::int64_t>(); update >= 0) outcome.diverged = update;
  return outcome;
}

RunOutcome collect(ProcessGroup& processes, std::vector<RankResult>& results, const RunOutcome& own) {
  const auto me = static_cast<std::size_t>(processes.rank());
  const std::vector<std::string> all = processes.all_gather(write(results[me], own));
  RunOutcome first;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const RunOutcome outcome = read(all[r], results[r]);
    if (outcome.failure && (!first.failure || outcome.seconds < first.seconds)) {
      first.failure.emplace(*outcome.failure);
      first.seconds = outcome.seconds;
    }
    if (outcome.diverged) first.diverged = std::min(first.diverged.value_or(*outcome.diverged), *outcome.diverged);
  }
  return first;
}

}  // namespace sluice
