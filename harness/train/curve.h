// What the segments of a training add to its record: the seconds of every update, and the points of the curve.
#pragma once

#include <cstdint>
#include <string>

#include "harness/exec/session.h"
#include "harness/train/run_segment.h"
#include "harness/train/segments.h"
#include "results/record.h"

namespace sluice {

// Inference: sets observed.latency_seconds, for every micro-batch in the order in which they enter, and, if outputs
// were computed, observed.output_digest, which is equal for runs whose outputs are equal to the last bit.
void add_micro_batches(Record& record, const SegmentResult& result);

// A finished segment. by_epochs: a point at the end of every segment, with the mean loss since the previous one; else a
// point per update. start: the position of the training before it.
void add_segment(Record& record, const SegmentResult& result, const UndrainedSegment& segment, bool by_epochs,
                 const TrainingPosition& start);

// A segment whose loss stopped being finite: the record keeps the segment's updates until then. Every loss is a point
// of the curve, and the last one is the loss that is not finite. simulated: the times are the virtual clock's, which
// does not stop at the divergence.
void add_diverged_segment(Record& record, const SegmentResult& result, bool simulated, const TrainingPosition& start);

// An evaluation's value of a workload's metric: loss, perplexity (e to the loss) or accuracy.
double metric_of(const Evaluation& evaluation, const std::string& metric);

// Sets the record's outcome. update: counted from 1 over the whole run.
void set_diverged(Record& record, std::int64_t update, const std::string& how);

}  // namespace sluice
