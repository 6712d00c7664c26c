#include "harness/train/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/case/feed.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_update.h"
#include "harness/program/numerics.h"
#include "harness/train/curve.h"
#include "harness/train/learning_rate.h"
#include "harness/train/memory_split.h"
#include "harness/train/timeline.h"
#include "results/metrics.h"

namespace sluice {

// Null for a synthetic batch, and where a case by steps only asks for times.
static std::shared_ptr<const DataSplit> data_for(const RunCase& c, const Workload& workload) {
  if (c.epochs == 0 && (workload.dataset == "synthetic" || !c.train)) return nullptr;
  return data_of(workload.dataset, workload.model);
}

static std::string layers_text(const Session& session) {
  return fmt::format("{:x}", fmt::join(session.layer_digests(), " "));
}

Training::Training(const RunCase& c, const Prepared& prepared)
    : case_(c),
      prepared_(prepared),
      data_(data_for(c, *prepared.workload)),
      segments_(c, prepared, data_ ? data_->train.samples : 0),
      adapter_(c, prepared, segments_.total_updates()) {
  disturbance_.interference = prepared.interference;
  disturbance_.by_load = c.interference_by == InterferenceBy::load;
  disturbance_.slowdowns = parse_slowdowns(c.slowdown, c.ranks, "slowdown");
  disturbance_.throttle = Throttle::parse(c.throttle, c.ranks, "throttle");
}

void Training::run(const Program& first, const RunHooks& hooks, ProcessGroup* processes, const Pinning* pinning,
                   Record& record) {
  agree_on_error(processes, [&] { reject_late_failure(); });
  TrainedNumbers numbers;
  const bool shares = hooks.turn && hooks.checkpoints.empty() && !processes && !training_group(case_).empty();
  if (shares) {
    share(*hooks.turn, first, record, numbers);
  } else if (case_.train) {
    session_ = start_session(prepared_, first, processes);
  }
  record.warmup_steps = static_cast<int>(std::min<std::int64_t>(5, segments_.first_updates() / 2));
  Checkpoints checkpoints(hooks.checkpoints, record.digest, processes);
  const std::vector<UndrainedSegment> all = segments_.undrained();
  TrainingPosition position;
  if (session_) position = checkpoints.restore(*session_, record, all, adapter_.active());
  const bool whole = position.next == 0;
  if (!whole && adapter_.active() &&
      adapter_.resume(record.observed.adaptation.value_or(RecordedAdaptation{}), position.updates))
    session_->repartition(adapter_.prepared().plan);
  if (!position.layers.empty() && layers_text(*session_) != position.layers)
    throw std::logic_error("weights, optimizer state or statistics are not those that the checkpoint was made of");
  while (position.next < all.size()) {
    const UndrainedSegment& segment = all[position.next];
    const bool last = position.next + 1 == all.size();
    const RunRequest request = request_for(segment, hooks, pinning, position);
    const SegmentResult result = adapter_.active() ? run_adaptive(segment, request, processes, position, last)
                                                   : run_as_planned(segment, request, position, last);
    add_to_record(result, segment, last, position, hooks.timeline, record);
    if (result.diverged) break;
    position.next += 1;
    position.updates += segment.updates();
    position.seconds += result.seconds;
    if (session_ && evaluates(last)) {
      if (!evaluate(segment.ends.size(), record)) break;
      report(hooks, position.updates);
    }
    if (session_ && !last) {
      adapter_.describe(record);
      if (adapter_.active()) position.layers = layers_text(*session_);
      checkpoints.save(*session_, record, position);
    }
  }
  if (on_wall())
    for (const MemoryByKind& peak : session_->peak_memory()) record.peak_bytes.push_back(split_of(peak));
  adapter_.describe(record);
  if (lacks_steady_state(record))
    record.observed.steady_update_seconds = simulated_update(prepared_, program_of_updates(prepared_)).value;
  if (record.observed.adaptation) record.observed.adaptation->oracle_seconds = adapter_.seconds_of_oracle();
  if (whole) agree_on_error(processes, [&] { reject_missed_move(record); });
  checkpoints.delete_all();
  if (shares && !record.curve_of) hooks.turn->give(std::move(numbers));
}

void Training::share(SharedTrainings::Turn& turn, const Program& first, Record& record, TrainedNumbers& numbers) {
  if (auto shared = turn.take(numbers_key(segments_.undrained()))) {
    record.curve_of = shared->trained_by;
    session_ = repeat_numbers(std::move(shared));
    return;
  }
  numbers.trained_by = {
      .digest = record.digest, .system = record.system, .cluster = record.cluster, .ranks = record.ranks};
  session_ = keep_numbers(start_session(prepared_, first, nullptr), numbers);
}

// All that the numbers of the training depend on besides its group (training_group).
std::string Training::numbers_key(const std::vector<UndrainedSegment>& segments) const {
  Json key = {{"micro_batch", prepared_.micro_batch},       {"microbatches", prepared_.microbatches_per_update},
              {"microbatch_sizes", case_.microbatch_sizes}, {"learning_rate", case_.optimizer.learning_rate},
              {"experts", choice_name(case_.experts)},      {"segments", Json::array()}};
  const NumericsOptions options{.batched_weight_gradients = prepared_.batched_weight_gradients,
                                .snapshots = segments_.snapshots()};
  for (const UndrainedSegment& segment : segments) {
    const int iterations = segments_.iterations_of_program(segment.updates());
    const Program program = make_program(prepared_, segments_.microbatches_of_program(segment.first, segment.updates()),
                                         segments_.epoch_of(segment.first));
    key["segments"].push_back(
        {segment.ends, iterations, numerics(program, running_model(prepared_), prepared_.plan, options)});
  }
  return key.dump();
}

// A failure that was asked for and does not happen would pass for a run that survived it.
void Training::reject_late_failure() const {
  if (case_.fail_update >= segments_.total_updates())
    throw InputError("--inject-failure",
                     "update " + std::to_string(case_.fail_update) + " is after the last one, " +
                         std::to_string(segments_.total_updates() - 1),
                     "updates count from 0");
}

void Training::reject_missed_move(const Record& record) const {
  if (case_.fail_move < 0 || record.outcome == RecordOutcome::diverged) return;
  const auto& adaptation = record.observed.adaptation;
  const auto moves =
      adaptation ? std::ranges::count(adaptation->changes, false, &RecordedAdaptation::Change::restart) : 0;
  if (moves <= case_.fail_move)
    throw InputError("inject_failure",
                     "move " + std::to_string(case_.fail_move) + " is after the last one: layers moved " +
                         std::to_string(moves) + " times",
                     "moves count from 0; lengthen the run or its episodes");
}

SegmentResult Training::run_as_planned(const UndrainedSegment& segment, const RunRequest& request,
                                       const TrainingPosition& position, bool last) const {
  const Program program = make_program(prepared_, segments_.microbatches_of_program(segment.first, segment.updates()),
                                       segments_.epoch_of(segment.first));
  return run_segment(case_, prepared_, program, session_.get(), request, position.seconds, last);
}

SegmentResult Training::run_adaptive(const UndrainedSegment& segment, const RunRequest& request,
                                     ProcessGroup* processes, const TrainingPosition& position, bool last) {
  const auto restart = [&](const Prepared& now, const std::string& file) {
    const Program program = make_program(now, now.microbatches_per_update, segments_.epoch_of(segment.first));
    session_.reset();
    session_ = start_session(now, program, processes);
    session_->load(file, true);
  };
  return adapter_.run({.updates = segment.updates(),
                       .epoch = segments_.epoch_of(segment.first),
                       .start = position.seconds,
                       .traced = last},
                      session_, request, processes, restart);
}

std::unique_ptr<Session> Training::start_session(const Prepared& prepared, const Program& first,
                                                 ProcessGroup* processes) const {
  SessionSpec spec;
  spec.model = running_model(prepared);
  spec.tensor = divided_model(prepared);
  spec.plan = prepared.plan;
  spec.optimizer = case_.optimizer;
  spec.seed = case_.seed;
  spec.micro_batch = prepared.micro_batch;
  spec.batched_weight_gradients = prepared.batched_weight_gradients;
  if (on_wall()) {
    spec.gradient_bucket = prepared.gradient_bucket;
    spec.device = choice_name(case_.device);
    spec.transport = choice_name(case_.transport);
  }
  spec.rule = first.rule;
  spec.inference = prepared_.inference;
  spec.processes = processes;
  spec.sharding = first.sharding;
  spec.fail_rank = case_.fail_rank;
  spec.fail_update = case_.fail_update;
  spec.fail_move = case_.fail_move;
  spec.fail_killed = case_.fail_killed;
  if (data_) {
    // The candidates of a learning-rate search are compared on the validation part, never on the test part; where the
    // data has none, by their training loss.
    const bool validates = case_.purpose == Purpose::tune && has_validation_part();
    spec.feed = feed_of(data_, validates ? HeldOut::validation : HeldOut::test);
  } else {
    spec.synthetic_batch = case_.batch;
  }
  std::unique_ptr<Session> session = make_session(spec);
  session->reset_peak_memory();
  return session;
}

// A candidate of a search is evaluated at its end even if it trains by steps.
bool Training::evaluates(bool last) const {
  if (case_.purpose == Purpose::tune) return has_validation_part() && (last || case_.epochs > 0);
  return case_.epochs > 0;
}

RunRequest Training::request_for(const UndrainedSegment& segment, const RunHooks& hooks, const Pinning* pinning,
                                 const TrainingPosition& start) const {
  RunRequest request;
  request.iterations = segments_.iterations_of_program(segment.updates());
  if (!session_) return request;
  if (!prepared_.inference) request.order = segments_.samples(segment);
  if (segments_.snapshots()) request.snapshots = segment.ends;
  request.learning_rate = learning_rate_of(case_, segments_);
  if (case_.timeout_seconds > 0) {
    // Of this process, and of the one that made the checkpoint.
    const double left = std::min(case_.timeout_seconds - start.seconds, time_left().value_or(Seconds(1e9)).value);
    request.timeout = Seconds(std::max(left, 1e-3));
  }
  request.cancel = hooks.cancel;
  request.pinning = pinning;
  request.disturbance = on_wall() ? &disturbance_at(start.seconds) : nullptr;
  request.progress = [this, &hooks, before = start.updates](std::int64_t updates) { report(hooks, before + updates); };
  return request;
}

const Disturbance& Training::disturbance_at(double seconds) const {
  disturbance_.start = seconds;
  disturbance_.devices = prepared_.ranks.devices;
  return disturbance_;
}

void Training::add_to_record(const SegmentResult& result, const UndrainedSegment& segment, bool last,
                             const TrainingPosition& start, bool timeline, Record& record) const {
  if (result.diverged) return add_diverged_segment(record, result, !on_wall(), start);
  add_segment(record, result, segment, case_.epochs > 0, start);
  if (!last) return;
  // Of a program that is the whole segment the beginning is enough: two micro-batches a rank in inference, three
  // batches a rank, forward and backward, of an asynchronous system.
  const std::size_t ranks = prepared_.ranks.devices.size();
  if (prepared_.inference) add_micro_batches(record, result);
  add_bubbles(record, result.trace);
  if (!timeline) return;
  const bool whole = prepared_.system->synchronous && !prepared_.inference;
  record.timeline = timeline_of(result.trace, whole ? 4096 : (prepared_.inference ? 2 : 6) * ranks);
}

// Fills in the metric of the last `points` points of the curve; false if the weights are spoilt.
bool Training::evaluate(std::size_t points, Record& record) const {
  const std::size_t before = record.curve.size() - points;
  for (std::size_t k = 0; k < points; ++k) {
    const Evaluation evaluation = segments_.snapshots() ? session_->evaluate_snapshot(k) : session_->evaluate();
    CurvePoint& point = record.curve[before + k];
    point.extra = evaluation.extra;
    point.metric = metric_of(evaluation, prepared_.workload->metric);
    // The last updates may have spoilt the weights without a forward of theirs to show it.
    if (!std::isfinite(evaluation.loss) || !std::isfinite(*point.metric)) {
      const std::string what = std::isfinite(evaluation.loss) ? prepared_.workload->metric : "loss";
      set_diverged(record, point.step, "the test " + what + " after it is not finite");
      record.curve.resize(before + k + 1);
      return false;
    }
  }
  return true;
}

void Training::report(const RunHooks& hooks, std::int64_t updates) const {
  if (hooks.progress) hooks.progress(static_cast<double>(updates) / static_cast<double>(segments_.total_updates()));
}

}  // namespace sluice
