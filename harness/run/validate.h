// Runs cases on both clocks, for results/validation.h to compare. Each round measures its own profiles, right before or
// after the cases that need them, and runs each case once on the virtual clock and once on the wall clock, so that
// changes of the machine's speed affect both alike. Every second round runs in reverse order. A case with slow updates
// is only in the first rounds, until it has run for as long as the others.
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
  double seconds = 0.25;  // approximate time of a case in a round; at least six updates
  ProgressStyle progress = ProgressStyle::none;
  std::string program;  // `sluice`, started by mpirun
};

struct ValidateResult {
  std::vector<Record> records;        // of both clocks, marked with environment["validation"]
  std::vector<std::string> left_out;  // cases that one of the clocks rejects, with the reason
  bool interrupted = false;
};

ValidateResult run_validation(const std::vector<ValidationCase>& cases, const ValidateOptions& options);

}  // namespace sluice
