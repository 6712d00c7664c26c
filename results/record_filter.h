// Selecting records by the identity of their run.
#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace sluice {

// Records that match every filter: "system=gpipe,one_f_one_b", "ranks=4", "variant!=h2", "commit=1a2b3c4". A key is a
// field of a record's identity (system, workload, cluster, clock, cost_source, transport, device, ranks, batch,
// microbatches, seed, purpose, outcome), commit (its first letters; of the build that ran it), rate (given or tuned:
// the learning rate), duration ("3 epochs"), optimizer (its kind, or its text in tables) or an option's name. A system
// may be called by its name, title or alias. A record without that option matches no "=" and every "!=". A value may
// contain commas: the longest value that a record has counts as one ("cluster=flat:8,memory=16GiB"). Throws InputError
// for an invalid filter, or a key that no record has.
std::vector<Record> filtered(std::vector<Record> records, const std::vector<std::string>& filters);

}  // namespace sluice
