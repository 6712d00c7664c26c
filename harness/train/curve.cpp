#include "harness/train/curve.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>

#include "results/steady_window.h"
#include "results/store.h"

namespace sluice {

double metric_of(const Evaluation& evaluation, const std::string& metric) {
  if (metric == "perplexity") return std::exp(evaluation.loss);
  return metric == "loss" ? evaluation.loss : evaluation.accuracy;
}

static void add_step_seconds(Record& record, std::span<const double> update_end) {
  const std::vector<double> steps = step_seconds_of(update_end);
  record.step_seconds.insert(record.step_seconds.end(), steps.begin(), steps.end());
}

// The mean of the losses of updates `from` to `to`; 0 where the case has none.
static double mean_loss(const std::vector<double>& losses, std::int64_t from, std::int64_t to) {
  if (losses.empty()) return 0;
  return std::accumulate(losses.begin() + from, losses.begin() + to, 0.0) / static_cast<double>(to - from);
}

static void add_points_of_segments(Record& record, const SegmentResult& result, const UndrainedSegment& segment,
                                   const TrainingPosition& start) {
  std::int64_t from = 0;
  for (const std::int64_t end : segment.ends) {
    // At its end the pipeline is drained; in mid-run the last rank has just made the update.
    const double seconds =
        end == segment.updates() ? result.seconds : result.update_end[static_cast<std::size_t>(end) - 1];
    record.curve.push_back({.step = start.updates + end,
                            .seconds = start.seconds + seconds,
                            .loss = mean_loss(result.losses, from, end),
                            .metric = {}});
    from = end;
  }
}

static void add_point_of_update(Record& record, const TrainingPosition& start, std::size_t update, double seconds,
                                double loss) {
  record.curve.push_back(
      {.step = start.updates + static_cast<std::int64_t>(update) + 1, .seconds = seconds, .loss = loss, .metric = {}});
}

void add_segment(Record& record, const SegmentResult& result, const UndrainedSegment& segment, bool by_epochs,
                 const TrainingPosition& start) {
  add_step_seconds(record, result.update_end);
  if (by_epochs) return add_points_of_segments(record, result, segment, start);
  for (std::size_t u = 0; u < result.losses.size(); ++u)
    add_point_of_update(record, start, u, start.seconds + result.update_end[u], result.losses[u]);
}

void add_diverged_segment(Record& record, const SegmentResult& result, bool simulated, const TrainingPosition& start) {
  if (!result.diverged) throw std::logic_error("the segment did not diverge");
  const std::int64_t update = *result.diverged;
  set_diverged(record, start.updates + update + 1, "the training loss is not finite");
  std::vector<double> update_end = result.update_end;
  if (update_end.size() > result.losses.size()) update_end.resize(result.losses.size());
  add_step_seconds(record, update_end);
  // Of an asynchronous run the last losses come before their updates have reached every stage.
  const auto seconds_of = [&](std::size_t u) {
    if (u < update_end.size()) return start.seconds + update_end[u];
    if (!simulated) return start.seconds + result.seconds;
    return start.seconds + (update_end.empty() ? 0.0 : update_end.back());
  };
  for (std::size_t u = 0; u < result.losses.size(); ++u)
    add_point_of_update(record, start, u, seconds_of(u), result.losses[u]);
  add_point_of_update(record, start, static_cast<std::size_t>(update), seconds_of(result.losses.size()),
                      std::numeric_limits<double>::quiet_NaN());
}

void set_diverged(Record& record, std::int64_t update, const std::string& how) {
  record.outcome = RecordOutcome::diverged;
  record.diverged_at = update;
  record.reason = "at update " + std::to_string(update) + ": " + how;
}

void add_micro_batches(Record& record, const SegmentResult& result) {
  std::vector<double> seconds;
  for (std::size_t m = 0; m < result.micro_batches.left.size(); ++m)
    seconds.push_back(result.micro_batches.left[m] - result.micro_batches.entered[m]);
  record.observed.latency_seconds = std::move(seconds);
  if (result.output_digests.empty()) return;
  record.observed.output_digest = digest(Json(result.output_digests));
}

}  // namespace sluice
