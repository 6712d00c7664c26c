#include "harness/train/training.h"

#include <algorithm>
#include <cmath>

#include "harness/case/real_executor.h"
#include "harness/train/curve.h"
#include "harness/train/feed.h"
#include "harness/train/learning_rate.h"
#include "harness/train/memory_split.h"
#include "harness/train/timeline.h"

namespace sluice {

// Null for a synthetic batch, and where a case by steps only asks for times.
static std::shared_ptr<const DataSplit> data_for(const RunCase& c, const Workload& workload) {
  if (c.epochs == 0 && (workload.dataset == "synthetic" || !c.train)) return nullptr;
  return data_of(workload.dataset, workload.model);
}

Training::Training(const RunCase& c, const Prepared& prepared)
    : case_(c),
      prepared_(prepared),
      data_(data_for(c, *prepared.workload)),
      segments_(c, prepared, data_ ? data_->train.samples : 0) {}

void Training::run(const Program& first, const TrainingHooks& hooks, ProcessGroup* processes, const Pinning* pinning,
                   Record& record) {
  if (case_.train) session_ = start_session(first, processes);
  record.warmup_steps = static_cast<int>(std::min<std::int64_t>(5, segments_.first_updates() / 2));
  const Checkpoints checkpoints(hooks.checkpoints, record.digest, processes);
  const std::vector<UndrainedSegment> all = segments_.undrained();
  TrainingPosition position;
  if (session_) position = checkpoints.restore(*session_, record);
  while (position.next < all.size()) {
    const UndrainedSegment& segment = all[position.next];
    const bool last = position.next + 1 == all.size();
    const Program program = make_program(prepared_, segments_.microbatches_of_program(segment.first, segment.updates()),
                                         segments_.epoch_of(segment.first));
    const SegmentResult result =
        run_segment(case_, prepared_, program, session_.get(), request_for(segment, hooks, pinning, position), last);
    add_to_record(result, segment, last, position, record);
    if (result.diverged) break;
    position.next += 1;
    position.updates += segment.updates();
    position.seconds += result.seconds;
    if (session_ && evaluates(last)) {
      if (!evaluate(segment.ends.size(), record)) break;
      report(hooks, position.updates);
    }
    if (session_ && !last) checkpoints.save(*session_, record, position);
  }
  if (on_wall())
    for (const MemoryByKind& peak : session_->peak_memory()) record.peak_bytes.push_back(split_of(peak));
  checkpoints.delete_all();
}

std::unique_ptr<Session> Training::start_session(const Program& first, ProcessGroup* processes) const {
  SessionSpec spec;
  spec.model = prepared_.workload->model;
  spec.plan = prepared_.plan;
  spec.optimizer = case_.optimizer;
  spec.seed = case_.seed;
  spec.micro_batch = prepared_.micro_batch;
  spec.batched_weight_gradients = case_.weight_gradient == WeightGradients::batched;
  if (on_wall()) {
    spec.device = choice_name(case_.device);
    spec.transport = choice_name(case_.transport);
  }
  spec.rule = first.rule;
  spec.processes = processes;
  spec.sharding = first.sharding;
  spec.fail_rank = case_.fail_rank;
  spec.fail_update = case_.fail_update;
  if (data_) {
    // The candidates of a learning-rate search are compared on the validation part, never on the test part; where the
    // data has none, by their training loss.
    const bool validates = case_.purpose == Purpose::tune && has_validation_part();
    spec.feed = feed_of(data_, validates ? HeldOut::validation : HeldOut::test);
  } else {
    spec.synthetic_batch = case_.batch;
  }
  std::unique_ptr<Session> session = real_executor::session(spec);
  session->reset_peak_memory();
  return session;
}

// A candidate of a search is evaluated at its end even if it trains by steps.
bool Training::evaluates(bool last) const {
  if (case_.purpose == Purpose::tune) return has_validation_part() && (last || case_.epochs > 0);
  return case_.epochs > 0;
}

RunRequest Training::request_for(const UndrainedSegment& segment, const TrainingHooks& hooks, const Pinning* pinning,
                                 const TrainingPosition& start) const {
  RunRequest request;
  request.iterations = segments_.iterations_of_program(segment.updates());
  if (!session_) return request;
  request.order = segments_.samples(segment);
  if (segments_.snapshots()) request.snapshots = segment.ends;
  request.learning_rate = learning_rate_of(case_, segments_);
  if (case_.timeout_seconds > 0) request.timeout = Seconds(std::max(case_.timeout_seconds - start.seconds, 1e-3));
  request.cancel = hooks.cancel;
  request.pinning = pinning;
  request.progress = [this, &hooks, before = start.updates](std::int64_t updates) { report(hooks, before + updates); };
  return request;
}

void Training::add_to_record(const SegmentResult& result, const UndrainedSegment& segment, bool last,
                             const TrainingPosition& start, Record& record) const {
  if (result.diverged) return add_diverged_segment(record, result, !on_wall(), start);
  add_segment(record, result, segment, case_.epochs > 0, start);
  if (!last) return;
  // An asynchronous system's program is the whole segment: three batches a rank, forward and backward, are enough.
  const std::size_t most = prepared_.system->synchronous ? std::size_t{4096} : 6 * prepared_.ranks.devices.size();
  add_timeline(record, result.trace, most);
}

// Fills in the metric of the last `points` points of the curve; false if the weights are spoilt.
bool Training::evaluate(std::size_t points, Record& record) const {
  const std::size_t before = record.curve.size() - points;
  for (std::size_t k = 0; k < points; ++k) {
    const Evaluation evaluation = segments_.snapshots() ? session_->evaluate_snapshot(k) : session_->evaluate();
    CurvePoint& point = record.curve[before + k];
    point.extra = evaluation.extra;
    point.metric = prepared_.workload->metric == "loss" ? evaluation.loss : evaluation.accuracy;
    // The last updates may have spoilt the weights without a forward of theirs to show it.
    if (!std::isfinite(evaluation.loss)) {
      set_diverged(record, point.step, "the test loss after it is not finite");
      record.curve.resize(before + k + 1);
      return false;
    }
  }
  return true;
}

void Training::report(const TrainingHooks& hooks, std::int64_t updates) const {
  if (hooks.progress) hooks.progress(static_cast<double>(updates) / static_cast<double>(segments_.total_updates()));
}

}  // namespace sluice
