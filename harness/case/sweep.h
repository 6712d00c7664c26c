// Sweeps: files that hold many cases as the combinations of lists of settings.
#pragma once

#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/entry.h"

namespace sluice {

// One object of a sweep's grid: every key may hold a list, so may those inside "options" and "optimizer", and the
// result is every combination. "system" takes patterns, too (systems_of_pattern). Throws InputError as
// resolve (settings.h).
std::vector<RunCase> expand_case(const Entry& entry);

// A sweep file: {"name", "title", "defaults": {...}, "grid": [{...}, ...]}. Cases that are the same
// experiment (single_device under several rank counts) are kept once.
struct Sweep {
  std::string name, title;
  std::vector<RunCase> cases;
  std::size_t combinations = 1;  // of which the cases are left
  // Values of an entry that decide nothing in any of its combinations: "s.json: /grid/0/queue: only inference ...".
  std::vector<std::string> without_effect = {};
};
// Throws InputError, also for more than 100,000 combinations.
Sweep load_sweep(const std::string& path);

// One name for the learning-rate search of a tuned case, whichever seed the case has.
std::string search_digest(const RunCase& tuned);

}  // namespace sluice
