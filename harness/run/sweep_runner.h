// Runs the cases of a sweep one after another and stores a record of each: resume, Ctrl-C, a full
// disk.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/run/case.h"
#include "harness/run/progress.h"
#include "results/record.h"

namespace sluice {

struct SweepOptions {
  std::filesystem::path out;
  bool resume = false;  // skip cases that have an ok record in `out`
  ProgressStyle progress = ProgressStyle::plain;
};

struct SweepResult {
  std::vector<Record> records;          // made now, then those skipped by resume
  std::size_t skipped = 0, failed = 0;  // failed: failed or timed_out
  bool interrupted = false;
};

// Throws InputError (unwritable output; before anything runs) and RunError (full disk; what was
// stored stays).
SweepResult run_sweep(const std::vector<RunCase>& cases, const SweepOptions& options);

std::string describe(const RunCase& c);  // "gpipe fmnist_cnn wall 2 ranks seed 1"

}  // namespace sluice
