// What the segments of a training add to its record: the seconds of every update, and the points of the curve.
#pragma once

#include <cstdint>
#include <string>

#include "harness/exec/session.h"
#include "harness/train/run_segment.h"
#include "harness/train/segments.h"
#include "results/record.h"

namespace sluice {

// Inference: fills in observed.latency_seconds, of every micro-batch in the order in which they enter, and, where
// outputs were computed, observed.output_digest, which is equal for runs whose outputs are equal to the last bit.
void add_micro_batches(Record& record, const SegmentResult& result);

// A segment that came to its end. by_epochs: a point at every end of a segment, with the mean loss since the one
// before; else a point an update. start: where the training stood before it.
void add_segment(Record& record, const SegmentResult& result, const UndrainedSegment& segment, bool by_epochs,
                 const TrainingPosition& start);

// A segment whose loss stopped being finite: the record keeps what the segment did until then. Every loss is a point
// of the curve, the last one the loss that is not finite. simulated: the times are the virtual clock's, which knows
// nothing of the divergence.
void add_diverged_segment(Record& record, const SegmentResult& result, bool simulated, const TrainingPosition& start);

// An evaluation's value of a workload's metric: loss, perplexity (e to the loss) or accuracy.
double metric_of(const Evaluation& evaluation, const std::string& metric);

// The record's outcome from now on. update: counted from 1 over the whole run.
void set_diverged(Record& record, std::int64_t update, const std::string& how);

}  // namespace sluice
