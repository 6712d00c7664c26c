// Runs one case on its clock and returns its record. A run that fails is a record too.
#pragma once

#include "harness/case/case.h"
#include "harness/case/profile_store.h"
#include "harness/train/run_hooks.h"
#include "results/record.h"

namespace sluice {

// Thrown when `cancel` ended the case: a run that the user cancelled has no record.
struct Cancelled {};

// The record holds every failure of a case, so that the following cases run: "unsupported" if a system cannot run it;
// "out_of_memory" for a plan over memory; "failed" with the rank's number if a rank dies, and for data that is missing
// or corrupt, or a process that gets no more memory; "timed_out" for its time limit, which counts from here. In a job,
// a process that fails alone throws.
Record run_case(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks);

}  // namespace sluice
