// Sweeps: files that describe many cases as combinations of lists of settings.
#pragma once

#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/entry.h"

namespace sluice {

// One object of a sweep's grid. Every key may hold a list, and so may the keys inside "options" and "optimizer"; the
// result is every combination. "system" also takes patterns (systems_of_pattern). Throws InputError as resolve
// (settings.h).
std::vector<RunCase> expand_case(const Entry& entry);

// A sweep file: {"name", "title", "defaults": {...}, "grid": [{...}, ...]}. Cases that are the same
// experiment (single_device under several rank counts) are kept once.
struct Sweep {
  std::string name, title;
  std::vector<RunCase> cases;
  std::size_t combinations = 1;  // before equal ones were removed
  std::size_t experiments = 1;   // after that, also those of which the cases are a part (--shard)
  // Values of an entry that have no effect in any of its combinations: "s.json: /grid/0/queue: only inference ...".
  std::vector<std::string> without_effect = {};
};
// Throws InputError, also for more than 100,000 combinations.
Sweep load_sweep(const std::string& path);

// Identifies the learning-rate search of a tuned case; the same for every seed of the case.
std::string search_digest(const RunCase& tuned);

}  // namespace sluice
