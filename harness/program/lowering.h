// Lowering: from a schedule (compute ops only) to the program of every rank. It adds sends, receives, gradient
// reductions and optimizer steps, and writes the weight version into every compute instruction.
//
// Sends follow the op that makes the value and never block; a receive stands before the first op that needs it, and the
// receives of a channel are in the order of its sends (a message that comes early is taken early). An overlapped pair
// receives the inputs of both ops first and sends the outputs of both last. A stage steps after the last gradient of an
// update; a replicated one after an all-reduce besides, which in a flushing program stands at the end of the rank's
// program.
//
// Sharded stages (sharding.h) gather, free and reduce-scatter. All ranks of a stage's group meet in its collectives,
// each with the same ones in the same order. An engine may begin one where it is issued and go on: an op that reads
// gathered weights waits for its gather; a weight gradient and a step wait for the stage's last reduce-scatter.
//
// Moves of stashes (offload.h) stand before the op that they name and before what that op receives, in their order.
//
// A schedule of inference becomes a program without steps and reductions. With RunPolicy::queue a stage waits until the
// next one has taken what it made before (messages.h).
#pragma once

#include "harness/program/program.h"

namespace sluice {

// Throws InputError if the schedule does not pass its check (check_schedule.h; the message is the first violation), or
// the rule cannot be kept: a version that does not exist yet when it is read, micro-batches that are no whole number of
// steps, sharding of a system that updates without a flush, moves of stashes in an order that has none to move
// (inference, recomputation) or needs them in between (chunks of sequences). Whether collectives between the ops meet,
// and whether stashes are where ops need them, is for check_program.h to say.
Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
              const Sharding& sharding = {}, const RunPolicy& policy = {}, const Offload& offload = {});

}  // namespace sluice
