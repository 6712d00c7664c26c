// RunCase: one experiment, fully spelled out: what a sweep's grid expands into and what a record is
// of.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/json_reader.h"
#include "harness/exec/session.h"
#include "workloads/models/registry.h"

namespace sluice {

struct RunCase {
  std::string system;                          // full name, aliases resolved
  std::map<std::string, std::string> options;  // all declared ones, resolved
  std::string workload;
  std::string cluster = "flat:4";  // the virtual clock's; on the wall clock "this machine"
  std::string clock = "wall";      // wall | virtual
  std::string costs =
      "profile";  // what planning and the virtual clock use: profile | analytic | a file
  std::string transport = "threads";
  std::string device = "cpu";
  int ranks = 2;
  std::int64_t batch = 0;  // samples per update
  int microbatches = 0;    // per update (asynchronous systems: 1, a whole batch at a time)
  std::uint64_t seed = 1;
  int epochs = 0;  // 0: `steps` updates without evaluation
  int evaluations_per_epoch = 1;
  int steps = 0;
  bool train = true;  // virtual clock: false leaves the numerics out, no curve
  std::string weight_gradient =
      "per_microbatch";  // or "batched": W of an update as one GEMM per layer
  OptimizerSpec optimizer;
  double timeout_seconds = 0;  // 0: none
  int fail_rank = -1;          // --inject-failure RANK:UPDATE, for tests and demonstrations
  std::int64_t fail_update = -1;
};

nlohmann::json to_json(const RunCase& c);  // canonical: its digest names the experiment

// One object of a sweep's grid (or the command line's flags as JSON): every key may hold a list,
// and the result is every combination. Defaults come from the workload. Throws InputError: unknown
// keys and names (with a suggestion), wrong types, counts below 1, a batch that the micro-batches
// do not divide.
std::vector<RunCase> expand_case(const nlohmann::json& entry, const std::string& file,
                                 const std::string& pointer);

// A sweep file: {"name", "title", "defaults": {...}, "grid": [{...}, ...]}. Cases that are the same
// experiment (single_device under several rank counts) are kept once.
struct Sweep {
  std::string name, title;
  std::vector<RunCase> cases;
};
Sweep load_sweep(const std::string& path);

// Keeps the cases i, i + n, i + 2 n, ... of "i/n" (i from 0). Throws InputError.
std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description);

}  // namespace sluice
