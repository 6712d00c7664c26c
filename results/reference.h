// Reference records: the records behind the pages of results/findings, kept in the repository. They are ordinary
// records without what no page shows, and steps that repeat stand there once (step_repeats.h).
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "results/record.h"

namespace sluice {

// The record without its timeline, its micro-batches' latencies, its layers stage by stage and their names, episodes of
// interference that begin after the run, digits of times and losses after the ninth (on the wall clock the seventh)
// and, on the virtual clock, the second copy of the predicted memory; of the ranks' memory the fullest rank's;
// micro-batches in flight and weight versions only where they differ from the paper's; of the losses the first, those
// with an evaluation and the last tenth, of a validation none. `command` is noted in its environment.
Record reference_record(Record record, const std::string& command);

// Replaces the file by the reference records of `records`, of repeated cases the latest, of a validation every round, in
// the order of system, workload, ranks, micro-batches, options and seed. Candidates of a search for a rate are left
// out: what they gave stands in the records that the search was for. Throws RunError if it cannot be written.
void write_reference(const std::filesystem::path& file, std::span<const Record> records, const std::string& command);

}  // namespace sluice
