// What DynPipe learns from co-runs on this machine (sluice profile --co-run): rows for its forest of slowdowns, by
// load.
#pragma once

#include "harness/pipeline/co_runs.h"

namespace sluice {

// Every resource at several shares of a core; on the rank's own core and, given two cores, on another one.
std::vector<CoRunLoad> co_run_loads(int cores);

// The rows of co_run_loads() as read_forest_rows() reads them, the loads that they are of, and the error of the forest
// that DynPipe grows, on the rows of most loads and all published ones, on those of the other loads; no error where
// there are too few rows. Throws InputError: the published file cannot be read (before anything is measured).
CoRunFile co_run_file(const CoRunProblem& problem);

}  // namespace sluice
