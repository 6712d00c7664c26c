// 1F1B with replicated stages, each stage on its own devices: PipeDream's 1F1B-RR (SOSP 2019, section 3.2), and its
// form with a flush. Micro-batch i runs on replica i mod r of a stage; replica q runs its share in order, `warm_up`
// micro-batches ahead. Two replicas of stage 0 before one stage 1, 4 micro-batches:
//
//   rank 0  F0    F2 B0       B2
//   rank 1     F1       F3 B1    B3
//   rank 2     F0 B0 F1 B1 F2 B2 F3 B3
#pragma once

#include <string>
#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

// Max in-flight micro-batches on each replica of every stage: the devices from that stage on / its replicas, rounded up
// (the paper's NOAM for the input stage). A plain chain of p: p - s.
std::vector<int> round_robin_in_flight(const Placement& placement);

// Order of every stage's replicas: in_flight[s] forwards ahead, then one backward and one forward in turn. Throws
// InputError at `where` if a stage has more replicas than there are micro-batches, or a rank holds two stages.
Schedule replicated_one_f_one_b(const ScheduleProblem& problem, const std::vector<int>& in_flight,
                                const std::string& where);

bool has_replicas(const Placement& placement);

// Theory of 1F1B with a flush on a chain without replicas; empty for other plans, which have no formula.
Theory flushed_chain_theory(const ScheduleProblem& problem, const std::vector<int>& in_flight);

}  // namespace sluice
