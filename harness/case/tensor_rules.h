// Which cases and plans may have tensor-parallel layers.
#pragma once

#include <string>

#include "harness/case/case.h"
#include "harness/model/model.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"

namespace sluice {

// Throws InputError if head and embedding of the case cannot be divided by words over its ranks.
void reject_word_slices(const RunCase& c, const Workload& workload);
// Throws InputError if layers cannot be divided as the case says.
void reject_tensor(const RunCase& c, const System& system);
[[noreturn]] void reject_shared_and_sharded();  // throws InputError

// Throws InputError at `where` if groups of c.tensor devices do not divide the ranks, or the workload's layers cannot
// be divided by that degree.
void check_groups(const RunCase& c, const Workload& workload, const std::string& where);

// The tensor-parallel degree of the plan itself (PlanStage::tensor) if it runs as groups of that many ranks, else 1. On
// the virtual clock it is 1 for a plan whose stages have different degrees, and for a published profile (its model has
// no layers): there, a replica of a stage counts as one device. Throws InputError if the wall clock cannot run the
// plan.
int shared_degree(const RunCase& c, const Plan& plan, const ModelGraph& model);

}  // namespace sluice
