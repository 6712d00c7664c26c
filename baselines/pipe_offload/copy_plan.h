// Which activations of an order PipeOffload copies to the host, and when, as the authors' released scheduler decides
// (sail-sg/zero-bubble-pipeline-parallelism; its rules read in code, the plans held against those of an independent
// generator of the same rules).
//
// Ranks 2a and 2a + 1 share a host link that carries both directions at once. Time is cut into slots of T, the seconds
// of one copy: rank 2a sends in its even slots and receives in its odd ones, from the end of its first F on; rank
// 2a + 1 does so T later, so that at any time one of them sends and the other receives. (A last rank without a partner
// has a link to itself.)
//   1. The forwards of the warm-up are thought to run as late as nothing is delayed by it.
//   2. An activation whose time between F and I, less one I, is no more than 6 T stays.
//   3. Copies out take the first free slot after their F, in the order of the F; copies back the last free one that
//      ends an I before their I, from the last I backwards. There is no room where a copy back begins before its copy
//      out has ended.
//   4. Before the first copy back of the pair, copies out of both follow one another, each in 0.7 T.
#pragma once

#include <optional>

#include "baselines/pipe_offload/op_times.h"
#include "harness/pipeline/offload.h"

namespace sluice {

struct PlannedCopy {
  StageId stage;
  Micro micro;
  double out_start, out_end, back_start, back_end;  // seconds
};

struct CopyPlan {
  TimedOrder order;                              // with the late warm-up
  std::vector<std::vector<PlannedCopy>> copies;  // per rank, in the order of the forwards
};

// The plan for the first `chunks` stages of every rank; empty: there is no room.
std::optional<CopyPlan> plan_copies(const ScheduleProblem& problem, const Schedule& schedule, int chunks,
                                    double copy_seconds);

// The ops of a rank before which the moves of a copy stand.
struct MovePlaces {
  std::size_t out, free, back;
};
// forward: the op whose activation it is.
MovePlaces places_of(const PlannedCopy& copy, const std::vector<TimedOp>& ops, std::size_t forward);

// The plan as moves between the ops: out before the op in which the copy begins, free before the first that starts once
// it has ended, back before the op in which that copy begins.
Offload moves_of(const CopyPlan& plan);

}  // namespace sluice
