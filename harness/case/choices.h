// The closed choices among a run's settings, with the tables of names (base/choice.h) that the sweep reader, the
// canonical JSON, the command line with its --help, and the suggestions for a misspelt value share. Those that records
// name stand in results/record_choices.h.
#pragma once

#include "harness/base/choice.h"
#include "harness/exec/session.h"
#include "harness/model/precision.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/run_policy.h"
#include "results/record_choices.h"

namespace sluice {

// What a run does: it trains, or only runs forward, on the initial weights (inference).
enum class Task { train, inference };

// What carries messages between ranks: none on the virtual clock; threads, the memory of one process; mpi, processes;
// nccl, GPUs.
enum class TransportKind { none, threads, mpi, nccl };

// What a rank computes on: none on the virtual clock, which has the cluster's devices.
enum class DeviceKind { none, cpu, cuda };

// What the data-parallel ranks of a stage divide among them: what the system itself says; nothing, so that they reduce
// whole gradients; the optimizer's state (ZeRO-1); or the weights too (ZeRO-3), gathered for every op (use), for every
// visit to a stage (visit) or once an update (update).
enum class StageSharding { system, none, optimizer, use, visit, update };

// How weight gradients are computed: with each micro-batch's backward; for all micro-batches of an update, as one
// matrix product a layer; or, automatic, in whichever of the two ways takes less time of an update by the case's costs
// and fits into memory.
enum class WeightGradients { per_microbatch, batched, automatic };

// When a rank of a synchronous system begins the next update: once its own stages have stepped, or once all ranks have.
enum class UpdateStart { free, barrier };

// When an asynchronous system that does not accumulate gradients updates: after the whole batch, which it takes as one
// micro-batch, so that an update sees as many samples as a synchronous system's; or after every micro-batch, as in the
// papers.
enum class UpdateAfter { batch, micro_batch };

// What balanced cuts into stages weigh (plan/chain_partition.h): the layers and the messages over the cut; the layers
// alone, as cases from before there was a choice; or layers and messages, with cuts only before and after blocks that
// repeat (model/fold_layers.h).
enum class Cuts { messages, compute, blocks };

// none: the operating system places the ranks; core: every rank stays on a core of its own (exec/pinning.h).
enum class Pin { none, core };

// How the wall clock makes the episodes of devices: by pauses inside the ops, or by a load that competes with the rank
// for its core.
enum class InterferenceBy { pause, load };

// Before an evaluation an asynchronous pipeline runs empty (drain), or it runs on and copies of the weights are
// evaluated afterwards (snapshot). A synchronous one is empty after every update.
enum class EvaluationMode { drain, snapshot };

// How the learning rate changes over a run (RateSchedule, case.h).
enum class RateScheduleKind { constant, step, polynomial };

using Leftover = RunPolicy::Leftover;

template <>
struct Choices<Task> {
  static constexpr Choice<Task> all[] = {{Task::train, "train"}, {Task::inference, "inference"}};
};
template <>
struct Choices<TransportKind> {
  static constexpr Choice<TransportKind> all[] = {{TransportKind::threads, "threads"},
                                                  {TransportKind::mpi, "mpi"},
                                                  {TransportKind::nccl, "nccl"},
                                                  {TransportKind::none, "none", false}};
};
template <>
struct Choices<DeviceKind> {
  static constexpr Choice<DeviceKind> all[] = {
      {DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}, {DeviceKind::none, "", false}};
};
template <>
struct Choices<PipelineReplicas::Layout> {
  static constexpr Choice<PipelineReplicas::Layout> all[] = {{PipelineReplicas::Layout::groups, "groups"},
                                                             {PipelineReplicas::Layout::pipelines, "pipelines"}};
};
template <>
struct Choices<StageSharding> {
  static constexpr Choice<StageSharding> all[] = {
      {StageSharding::system, "system"}, {StageSharding::none, "none"},   {StageSharding::optimizer, "optimizer"},
      {StageSharding::use, "use"},       {StageSharding::visit, "visit"}, {StageSharding::update, "update"}};
};
template <>
struct Choices<WeightGradients> {
  static constexpr Choice<WeightGradients> all[] = {{WeightGradients::per_microbatch, "per_microbatch"},
                                                    {WeightGradients::batched, "batched"},
                                                    {WeightGradients::automatic, "auto"}};
};
template <>
struct Choices<UpdateStart> {
  static constexpr Choice<UpdateStart> all[] = {{UpdateStart::free, "free"}, {UpdateStart::barrier, "barrier"}};
};
template <>
struct Choices<UpdateAfter> {
  static constexpr Choice<UpdateAfter> all[] = {{UpdateAfter::batch, "batch"},
                                                {UpdateAfter::micro_batch, "micro_batch"}};
};
template <>
struct Choices<Cuts> {
  static constexpr Choice<Cuts> all[] = {
      {Cuts::messages, "messages"}, {Cuts::compute, "compute"}, {Cuts::blocks, "blocks"}};
};
template <>
struct Choices<Pin> {
  static constexpr Choice<Pin> all[] = {{Pin::none, "none"}, {Pin::core, "core"}};
};
template <>
struct Choices<InterferenceBy> {
  static constexpr Choice<InterferenceBy> all[] = {{InterferenceBy::pause, "pause"}, {InterferenceBy::load, "load"}};
};
template <>
struct Choices<EvaluationMode> {
  static constexpr Choice<EvaluationMode> all[] = {{EvaluationMode::drain, "drain"},
                                                   {EvaluationMode::snapshot, "snapshot"}};
};
template <>
struct Choices<Leftover> {
  static constexpr Choice<Leftover> all[] = {{Leftover::drop, "drop"}, {Leftover::partial, "partial"}};
};
template <>
struct Choices<RateScheduleKind> {
  static constexpr Choice<RateScheduleKind> all[] = {{RateScheduleKind::constant, "constant"},
                                                     {RateScheduleKind::step, "step"},
                                                     {RateScheduleKind::polynomial, "polynomial"}};
};

}  // namespace sluice
