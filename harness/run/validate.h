// Runs cases on both clocks, for results/validation.h to compare. Both clocks go in rounds: a round measures its own
// profiles, each next to the cases that need it, and runs each case once on the virtual clock and once on the wall
// clock, so that a machine whose speed changes does so for both alike. Every other round goes backwards. A case whose
// updates are slow takes part in the first rounds only, until it has run for as long as the others.
#pragma once

#include <string>
#include <vector>

#include "harness/run/progress.h"
#include "harness/run/validation_cases.h"
#include "results/record.h"

namespace sluice {

struct ValidateOptions {
  std::string out;  // records, appended
  int rounds = 4;
  double seconds = 0.25;  // of a case in a round, about; six updates at least
  ProgressStyle progress = ProgressStyle::none;
  std::string program;  // `sluice`, for mpirun to start
};

struct ValidateResult {
  std::vector<Record> records;        // of both clocks, marked with environment["validation"]
  std::vector<std::string> left_out;  // cases that one of the clocks rejects, and why
  bool interrupted = false;
};

ValidateResult run_validation(const std::vector<ValidationCase>& cases, const ValidateOptions& options);

}  // namespace sluice
