// Which cases may spread experts over data-parallel replicas (model/expert_spread.h).
#pragma once

#include <string>

#include "harness/case/case.h"
#include "harness/model/model.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/system.h"
#include "harness/program/program.h"
#include "workloads/models/registry.h"

namespace sluice {

// Over how many replicas the case spreads them: those that it asks for, or all ranks of a system that is data parallel.
int expert_replicas(const RunCase& c, const System& system);

// Throws InputError at `where` if the workload has no experts, or that many replicas do not divide them.
void check_spread_experts(const RunCase& c, const System& system, const Workload& workload, const std::string& where);
// Throws InputError if the case cannot spread experts, with the reason.
void reject_spread_experts(const RunCase& c, const System& system);
[[noreturn]] void reject_spread_and_sharded();  // throws InputError

// Throws InputError if a stage with spread experts has another number of replicas than they are spread over, or its
// replicas do not run the ops of such stages in one order.
void require_lock_step(const Program& program, const ModelGraph& spread, const Plan& plan);

}  // namespace sluice
