// Digests of the files that a case reads, so that an edited file makes another case. A workload file has
// workload_digest() (profile_workload.h).
#pragma once

#include <string>
#include <vector>

#include "harness/case/case.h"

namespace sluice {

struct CaseFile {
  std::string what;  // "cluster", "costs", "interference", the name of a calibration or of the system's option
  std::string file, digest;
};

// The files of the cluster, the costs, the calibrations, the interference, the system's options and a published
// profile. Throws InputError: a file that cannot be read.
std::vector<CaseFile> files_of(const RunCase& c);

// "cluster:0123456789abcdef,costs:...": the digests of these files. Leaves out a shipped file with the content that the
// first records were made with, so that these records keep their digests. Throws InputError: a file that cannot be
// read.
std::string file_digests(const RunCase& c);

// Throws InputError if the case's files have changed since the case was read.
void require_same_files(const RunCase& c);

}  // namespace sluice
