// Runs the cases of a sweep and stores one record each, in their order. Cases of the virtual clock may run in parallel,
// with the same records except for the seconds of planning. Cases with a result may be skipped. Ctrl-C or a full disk
// ends the sweep and keeps the stored records.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/base/choice.h"
#include "harness/case/case.h"
#include "harness/run/progress.h"
#include "harness/run/run_case.h"
#include "results/record.h"
#include "results/store_lock.h"

namespace sluice {

// Which records keep their timeline: best: the fastest of each system in each comparison, which a report draws.
enum class KeptTimelines { all, best, none };
template <>
struct Choices<KeptTimelines> {
  static constexpr Choice<KeptTimelines> all[] = {
      {KeptTimelines::all, "all"}, {KeptTimelines::best, "best"}, {KeptTimelines::none, "none"}};
};
inline constexpr std::size_t kSmallSweep =
    50;  // cases: sweeps up to this size keep all timelines by default, larger ones none

struct SweepOptions {
  std::filesystem::path out;
  bool resume = false;  // skip cases whose outcome in `out` is final
  ProgressStyle progress = ProgressStyle::plain;
  std::string checkpoints = {};         // RunHooks::checkpoints
  int jobs = 1;                         // cases of the virtual clock that run at the same time
  std::optional<SweepPart> shard = {};  // the shard of the sweep that the cases are
  // none: by the number of cases. Those of `best` are stored at the end, in a second record of the same case; so a
  // sweep that was killed, and cases that resume skips, have none.
  std::optional<KeptTimelines> timelines = {};
  bool again = false;  // without resume: reruns cases with a final outcome in `out`, otherwise an InputError
};

struct SweepResult {
  std::vector<Record> records;          // made now, then those skipped by resume
  std::size_t skipped = 0, failed = 0;  // failed: failed or timed_out; a divergence is neither
  bool interrupted = false;
};

// Text that separates each case from others with the same describe(): ", microbatches 16"; "" if there are none.
std::vector<std::string> differences(const std::vector<RunCase>& cases);

// All cases that run_sweep may run, in order: each is preceded by those trainings of its learning-rate search that no
// earlier case shares. A search of several rounds needs only some of the later rounds' trainings.
std::vector<RunCase> with_tuning(const std::vector<RunCase>& cases);
// The expected number of them, with the lowest rates in place of those that the later rounds will train.
std::vector<RunCase> expected_with_tuning(const std::vector<RunCase>& cases);

using RunOne = std::function<Record(const RunCase&, const RunHooks&)>;

// Throws InputError (unwritable output; before anything runs) and RunError (full disk; stored records stay). run_one:
// run_case() or Job::run() with the profiles of the command; tests use their own.
SweepResult run_sweep(const std::vector<RunCase>& cases, const SweepOptions& options, const RunOne& run_one);

std::string describe(const RunCase& c);  // "gpipe fmnist_cnn wall 2 ranks seed 1"

}  // namespace sluice
