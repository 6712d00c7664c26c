// Preparing a case in the processes of a job: all of them plan with the same costs, so all have the same program.
#pragma once

#include <memory>

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "harness/exec/process_group.h"
#include "harness/program/program.h"

namespace sluice {

// Collective over the job. The first process plans, and measures for it if needed; the others then plan with its costs.
// Returns the processes that hold the case's ranks, which are the job's first; null in the others, where `prepared` is
// not set. Throws InputError in all of them.
std::unique_ptr<ProcessGroup> prepare_in_job(const RunCase& c, ProcessGroup& job, ProfileStore& profiles,
                                             Prepared& prepared);

// Collective. Throws RunStopped: a process has another program or outcome than the first one.
void compare_programs(ProcessGroup& processes, RecordOutcome outcome, const Program& program);

}  // namespace sluice
