// Runs the cases of a sweep one after another and stores a record of each: resume, Ctrl-C, a full
// disk.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/case/case.h"
#include "harness/run/progress.h"
#include "harness/run/run_case.h"
#include "results/record.h"

namespace sluice {

struct SweepOptions {
  std::filesystem::path out;
  bool resume = false;  // skip cases that have a result (ok or diverged) in `out`
  ProgressStyle progress = ProgressStyle::plain;
  std::string checkpoints = {};  // RunHooks::checkpoints
};

struct SweepResult {
  std::vector<Record> records;          // made now, then those skipped by resume
  std::size_t skipped = 0, failed = 0;  // failed: failed or timed_out; a divergence is neither
  bool interrupted = false;
};

// The cases, each preceded by the candidates of its learning-rate search that none before it has:
// what run_sweep runs, in this order.
std::vector<RunCase> with_tuning(const std::vector<RunCase>& cases);

using RunOne = std::function<Record(const RunCase&, const RunHooks&)>;

// Throws InputError (unwritable output; before anything runs) and RunError (full disk; what was
// stored stays). Tests give a run_one of their own.
SweepResult run_sweep(const std::vector<RunCase>& cases, const SweepOptions& options, const RunOne& run_one = run_case);

std::string describe(const RunCase& c);  // "gpipe fmnist_cnn wall 2 ranks seed 1"

}  // namespace sluice
