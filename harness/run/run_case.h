// Runs one case on its clock and returns its record. A run that fails is a record too.
#pragma once

#include "harness/case/case.h"
#include "harness/case/profile_store.h"
#include "harness/train/run_hooks.h"
#include "results/record.h"

namespace sluice {

// Thrown when `cancel` ended the case: there is no record of a run that the user took back.
struct Cancelled {};

// Whatever happens to a case is in its record, so that the cases after it run: a system that cannot run it gives
// "unsupported"; a plan over memory "out_of_memory"; a rank that dies "failed" with its number; data that is missing or
// corrupt, or a process that gets no more memory, "failed"; its time limit, which counts from here, "timed_out". Of the
// processes of a job, one that fails alone throws.
Record run_case(const RunCase& c, ProfileStore& profiles, const RunHooks& hooks);

}  // namespace sluice
