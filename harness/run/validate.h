// Runs cases on both clocks, for results/validation.h to compare. The virtual clock goes first (what profiles it needs
// are measured then); on the wall clock the cases are run in rounds, each case once a round, so that a machine that
// drifts does so for all.
#pragma once

#include <string>
#include <vector>

#include "harness/run/progress.h"
#include "harness/run/validation_cases.h"
#include "results/record.h"

namespace sluice {

struct ValidateOptions {
  std::string out;  // records, appended
  int rounds = 3;
  double seconds = 0.7;  // of a case in a round, about; 12 updates at least
  ProgressStyle progress = ProgressStyle::none;
  std::string program;  // `sluice`, for mpirun to start
};

struct ValidateResult {
  std::vector<Record> records;        // of both clocks, marked with environment["validation"]
  std::vector<std::string> left_out;  // cases that one of the clocks refuses, and why
  bool interrupted = false;
};

ValidateResult run_validation(const std::vector<ValidationCase>& cases, const ValidateOptions& options);

}  // namespace sluice
