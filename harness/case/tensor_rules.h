// Which cases and plans may have layers that groups of ranks share.
#pragma once

#include <string>

#include "harness/case/case.h"
#include "harness/model/model.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"

namespace sluice {

// Throws InputError where head and embedding of the case cannot be divided by words over its ranks.
void reject_word_slices(const RunCase& c, const Workload& workload);
// Throws InputError where layers cannot be shared as the case says.
void reject_tensor(const RunCase& c, const System& system);
[[noreturn]] void reject_shared_and_sharded();  // throws InputError

// Throws InputError, with `where` as its place, where groups of c.tensor devices do not divide the ranks, or the
// workload's layers cannot be divided by that degree.
void check_groups(const RunCase& c, const Workload& workload, const std::string& where);

// The tensor-parallel degree of the plan itself (PlanStage::tensor), where it runs as groups of that many ranks.
// 1: not so. On the virtual clock that is a plan whose stages have different degrees, or of a published profile (model
// has no layers then): it takes a replica of a stage as one device. Throws InputError where the wall clock cannot run
// it.
int shared_degree(const RunCase& c, const Plan& plan, const ModelGraph& model);

}  // namespace sluice
