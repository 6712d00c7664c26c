// Which runs may be counted in another precision, or with another attention, than the executor computes in.
#pragma once

#include <string>

#include "harness/case/case.h"

namespace sluice {

struct Workload;

Storage storage_of(const RunCase& c);

// Whether the run is counted only: the executor, which is fp32 with fused attention, has no such run.
bool counted_only(const RunCase& c);

// What it is counted in, to put behind the source of costs: " (mixed, scores kept)". Empty: as the executor has it.
std::string counted_in(const RunCase& c);

// Throw InputError at `where`: on the wall clock, with costs that were measured or published, or where the workload has
// nothing that the setting is of.
void check_precision(const RunCase& c, const Workload& workload, const std::string& where);
void check_attention(const RunCase& c, const Workload& workload, const std::string& where);

// The scores of a chunk are those on all positions before it, which no plan of chunks counts.
[[noreturn]] void reject_scores_of_chunks();

}  // namespace sluice
