// Reference records: the records behind the pages of results/findings, kept in the repository. They are ordinary
// records without the parts that no page shows; steps that repeat are stored once (step_repeats.h).
#pragma once

#include <filesystem>
#include <span>

#include "results/record.h"

namespace sluice {

// The record without its timeline, its micro-batches' latencies, its layers stage by stage and their names, episodes
// of interference that begin after the run, and digits of times, losses and metrics after the ninth (of times and
// losses on the wall clock after the seventh). On the virtual clock, also without the second copy of the predicted
// memory. It keeps the memory of the fullest rank; micro-batches in flight and weight versions only if they differ from
// the paper's; of the losses the first, those with an evaluation and the last tenth, of a validation none.
Record reference_record(Record record);

// Replaces the file by the reference records of `records`, in the order of system, workload, ranks, micro-batches,
// options and seed: of repeated cases the latest, of a validation every round. Leaves out candidates of a search for a
// rate: the records that use the rate have their results. What was planned and observed has nine digits, too. Throws
// RunError if it cannot be written.
void write_reference(const std::filesystem::path& file, std::span<const Record> records);

}  // namespace sluice
