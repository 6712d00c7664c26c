// Lowering: from a schedule (compute ops only) to the program of every rank. It adds sends, receives, gradient
// reductions and optimizer steps, and writes the weight version into every compute instruction.
//
// A send follows the op that makes the value and never blocks. A receive comes before the first op that needs it, and
// the receives of a channel are in the order of its sends (a message that comes early is received early). An overlapped
// pair receives the inputs of both ops first and sends the outputs of both last. A stage steps after the last gradient
// of an update; a replicated one also after an all-reduce, which in a program with a flush is at the end of the rank's
// program.
//
// Sharded stages (sharding.h) gather, free and reduce-scatter. All ranks of a stage's group have the same collectives
// in the same order. An engine may begin one where it is issued and continue: an op that reads gathered weights waits
// for its gather; a weight gradient and a step wait for the stage's last reduce-scatter.
//
// Moves of stashes (offload.h) are before the op that they name and before its receives, in their order.
//
// A schedule of inference becomes a program without steps and reductions. With RunPolicy::queue a stage waits until the
// next one has taken its earlier output (messages.h).
#pragma once

#include "harness/program/program.h"

namespace sluice {

// Throws InputError if the schedule fails its check (check_schedule.h; the message is the first violation), or the rule
// is impossible: a version that does not exist yet when it is read, micro-batches that are not a whole number of steps,
// sharding of a system that updates without a flush, moves of stashes in an order without stashes to move (inference,
// recomputation) or that needs them in between (chunks of sequences). check_program.h checks that collectives between
// the ops match, and that stashes are where ops need them.
Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
              const Sharding& sharding = {}, const RunPolicy& policy = {}, const Offload& offload = {});

}  // namespace sluice
