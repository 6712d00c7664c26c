// What the files hold that a case reads, so that an edited file makes another case. A workload file has
// workload_digest() (profile_workload.h).
#pragma once

#include <string>

#include "harness/case/case.h"

namespace sluice {

// "cluster:0123456789abcdef,costs:...": a digest for each file of the cluster, the costs, the calibrations, the
// interference, the system's options and a published profile. A shipped file that still holds what the first records
// were made with has none, so that these records keep their digests. Throws InputError: a file that cannot be read.
std::string file_digests(const RunCase& c);

// Throws InputError where the case's files hold something else than when the case was read.
void require_same_files(const RunCase& c);

}  // namespace sluice
