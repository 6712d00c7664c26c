// Training: the loop over a case's segments, the same on both clocks: run a segment, add it to the record, evaluate,
// keep a checkpoint.
#pragma once

#include <memory>
#include <string>

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "harness/exec/pinning.h"
#include "harness/exec/process_group.h"
#include "harness/exec/session.h"
#include "harness/train/adapter.h"
#include "harness/train/checkpoints.h"
#include "harness/train/run_hooks.h"
#include "harness/train/run_segment.h"
#include "harness/train/segments.h"
#include "results/record.h"
#include "workloads/data/dataset.h"

namespace sluice {

class Training {
 public:
  // Reads the case's data set. The arguments outlive the training. Throws InputError: a data set that is missing or
  // corrupt, an epoch shorter than its evaluations.
  Training(const RunCase& c, const Prepared& prepared);

  const Segments& segments() const { return segments_; }
  // Trains and records the results: steps, curve, timeline, on the wall clock the memory in use, and the outcome if the
  // training diverges. first: the program of the first segment. processes: those of the ranks, null: threads of this
  // one. pinning: null: the ranks run on any core. Throws RunStopped.
  void run(const Program& first, const RunHooks& hooks, ProcessGroup* processes, const Pinning* pinning,
           Record& record);

 private:
  bool on_wall() const { return case_.clock == Clock::wall; }
  void reject_late_failure() const;
  void reject_missed_move(const Record& record) const;
  // A session for the program's rule and sharding.
  std::unique_ptr<Session> start_session(const Prepared& prepared, const Program& first, ProcessGroup* processes) const;
  SegmentResult run_as_planned(const UndrainedSegment& segment, const RunRequest& request,
                               const TrainingPosition& position, bool last) const;
  SegmentResult run_adaptive(const UndrainedSegment& segment, const RunRequest& request, ProcessGroup* processes,
                             const TrainingPosition& position, bool last);
  const Disturbance& disturbance_at(double seconds) const;
  // Takes the numbers of a training that computes the same as this one, or keeps its own in `numbers`.
  void share(SharedTrainings::Turn& turn, const Program& first, Record& record, TrainedNumbers& numbers);
  std::string numbers_key(const std::vector<UndrainedSegment>& segments) const;
  bool has_validation_part() const { return data_ && data_->validation.samples > 0; }
  bool evaluates(bool last) const;
  RunRequest request_for(const UndrainedSegment& segment, const RunHooks& hooks, const Pinning* pinning,
                         const TrainingPosition& start) const;
  void add_to_record(const SegmentResult& result, const UndrainedSegment& segment, bool last,
                     const TrainingPosition& start, bool timeline, Record& record) const;
  bool evaluate(std::size_t points, Record& record) const;
  void report(const RunHooks& hooks, std::int64_t updates) const;

  const RunCase& case_;
  const Prepared& prepared_;
  std::shared_ptr<const DataSplit> data_;  // null: a synthetic batch
  Segments segments_;
  Adapter adapter_;
  std::unique_ptr<Session> session_;  // null: the case asks for times only
  mutable Disturbance disturbance_;   // of the wall clock
};

}  // namespace sluice
