// Whether the processes of a job read the same input: if rank 1 has other costs or other data than rank 0, the case is
// no experiment.
#pragma once

#include <vector>

#include "harness/case/case.h"
#include "harness/exec/process_group.h"

namespace sluice {

// Throws AgreedError in every process if some have other cases than the first one (including the files that cases read:
// case/file_digests.h), or other data for one of these that runs over the processes. The error names the ranks and the
// difference. Data that a process cannot read is left to the case, which fails with a record. Collective.
void compare_inputs(ProcessGroup& processes, const std::vector<RunCase>& cases);

}  // namespace sluice
