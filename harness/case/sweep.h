// Sweeps: files that hold many cases as the combinations of lists of settings.
#pragma once

#include <string>
#include <vector>

#include "harness/case/case.h"

namespace sluice {

class Json;

// One object of a sweep's grid (or the command line's flags as JSON): every key may hold a list, so may those inside
// "options" and "optimizer", and the result is every combination. "system" takes "*" (all) and "*asynchronous" (all
// that update without a flush). Defaults come from the workload. Throws InputError as read_case (settings.h).
std::vector<RunCase> expand_case(const Json& entry, const std::string& file, const std::string& pointer);

// A sweep file: {"name", "title", "defaults": {...}, "grid": [{...}, ...]}. Cases that are the same
// experiment (single_device under several rank counts) are kept once.
struct Sweep {
  std::string name, title;
  std::vector<RunCase> cases;
};
Sweep load_sweep(const std::string& path);  // throws InputError

// Keeps the cases i, i + n, i + 2 n, ... of "i/n" (i from 0). Cases that share a learning-rate
// search count as one and stay together. Throws InputError.
std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description);

}  // namespace sluice
