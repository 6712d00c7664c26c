// Which runs may have another precision or attention than the executor's.
#pragma once

#include <string>

#include "harness/case/case.h"

namespace sluice {

struct Workload;

Storage storage_of(const RunCase& c);

// Whether the run is computed only on the virtual clock: the executor has only fp32 with fused attention.
bool counted_only(const RunCase& c);

// Its precision and attention, to append to the source of costs: " (mixed, scores kept)". Empty: as in the executor.
std::string counted_in(const RunCase& c);

// Throw InputError at `where`: on the wall clock, with costs that were measured or published, or if the setting does
// not apply to the workload.
void check_precision(const RunCase& c, const Workload& workload, const std::string& where);
void check_attention(const RunCase& c, const Workload& workload, const std::string& where);

// The scores of a chunk cover all positions before it, which plans with chunks do not count.
[[noreturn]] void reject_scores_of_chunks();

}  // namespace sluice
