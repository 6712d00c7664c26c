// Co-runs of a workload on this machine (sluice profile --co-run): rows for the forest of slowdowns, by load.
#pragma once

#include <vector>

#include "harness/case/profile_store.h"
#include "harness/exec/co_runs.h"
#include "harness/plan/co_run_rows.h"

namespace sluice {

struct CoRunProfile {
  struct Load {
    CoRunLoad load;
    double slowdown = 1;  // of the whole model's forwards and backwards
    ForestRows rows;
  };
  std::vector<Load> loads;
};

// Measures for about `seconds` for each load. Throws InputError in a build without LibTorch or where no thread
// can be put on a core.
CoRunProfile measure_co_run_profile(const ProfileKey& key, const Workload& workload, double seconds);

// The rows of all loads.
ForestRows rows_of(const CoRunProfile& profile);
// The forest that DynPipe grows, on the rows of most loads and all of `published` (which may have none), and on those
// of the other loads its error. None: too few rows.
std::optional<HeldOutLoads> hold_out(const CoRunProfile& profile, const ForestRows& published);

// What sluice profile --co-run writes: the rows as read_forest_rows() reads them, what they are of, and the error.
Json to_json(const CoRunProfile& profile, const ProfileKey& key, const std::optional<HeldOutLoads>& error);

}  // namespace sluice
