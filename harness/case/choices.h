// The closed choices among a run's settings, with their tables of names (base/choice.h). The sweep reader, the
// canonical JSON, the command line with its --help and the suggestions for a misspelt value share these tables. Choices
// that records name are in results/record_choices.h.
#pragma once

#include "harness/base/choice.h"
#include "harness/exec/session.h"
#include "harness/model/precision.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/run_policy.h"
#include "results/record_choices.h"

namespace sluice {

// What a run does: training, or inference: forwards only, on the initial weights.
enum class Task { train, inference };

// How messages between ranks are sent. none: the virtual clock; threads: in the memory of one process; mpi: between
// processes; nccl: between GPUs.
enum class TransportKind { none, threads, mpi, nccl };

// Where a rank computes. none: the virtual clock, which has the cluster's devices.
enum class DeviceKind { none, cpu, cuda };

// What the data-parallel ranks of a stage divide among themselves. system: the system's own rule; none: nothing, whole
// gradients are reduced; optimizer: the optimizer's state (ZeRO-1); the others also the weights (ZeRO-3), gathered for
// every op (use), for every visit to a stage (visit) or once per update (update).
enum class StageSharding { system, none, optimizer, use, visit, update };

// Where the experts of a layer are. replicated: on every data-parallel replica; spread: each replica has a part of them
// (model/expert_spread.h).
enum class ExpertPlacement { replicated, spread };

// How weight gradients are computed. per_microbatch: in each micro-batch's backward; batched: for all micro-batches of
// an update, as one matrix product per layer; automatic: the one of the two with the faster update by the case's costs,
// among those that fit into memory.
enum class WeightGradients { per_microbatch, batched, automatic };

// When a rank of a synchronous system begins the next update. free: its stages have stepped; barrier: all ranks have.
enum class UpdateStart { free, barrier };

// When an asynchronous system that does not accumulate gradients updates. batch: after the whole batch, taken as one
// micro-batch, so that an update sees as many samples as a synchronous system's; micro_batch: after every micro-batch,
// as in the papers.
enum class UpdateAfter { batch, micro_batch };

// What balanced cuts into stages minimise (plan/chain_partition.h). messages: layers and messages over the cut;
// compute: layers alone, as in cases that are older than this setting; blocks: as messages, but cuts are only before
// and after repeated blocks (model/fold_layers.h).
enum class Cuts { messages, compute, blocks };

// none: the operating system places the ranks; core: every rank stays on a core of its own (exec/pinning.h).
enum class Pin { none, core };

// How the wall clock produces the episodes of devices. pause: pauses inside the ops; load: a load that competes with
// the rank for its core.
enum class InterferenceBy { pause, load };

// Evaluations of an asynchronous pipeline. drain: it is drained first; snapshot: it keeps running, and copies of the
// weights are evaluated afterwards. A synchronous one is empty after every update.
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
struct Choices<ExpertPlacement> {
  static constexpr Choice<ExpertPlacement> all[] = {{ExpertPlacement::replicated, "replicated"},
                                                    {ExpertPlacement::spread, "spread"}};
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
