// The closed choices among a run's settings: an enum each, with one table of names that the sweep reader, the canonical
// JSON, the command line with its --help, and the suggestions for a misspelt value share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/exec/session.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/run_policy.h"

namespace sluice {

template <class E>
struct Choice {
  E value;
  const char* name;
  bool may_be_given = true;  // in a sweep or on the command line; otherwise only the harness sets it
};

// Specialised below: `all`, the choices in the order in which help and errors name them.
template <class E>
struct Choices;

// On the wall clock ranks run and train for real; the virtual clock simulates when each op runs.
enum class Clock { wall, virtual_clock };

// What carries messages between ranks: none on the virtual clock; threads, the memory of one process; mpi, processes;
// nccl, GPUs.
enum class TransportKind { none, threads, mpi, nccl };

// What a rank computes on: none on the virtual clock, which has the cluster's devices.
enum class DeviceKind { none, cpu, cuda };

// What the data-parallel ranks of a stage divide among them: what the system itself says; nothing, so that they reduce
// whole gradients; the optimizer's state (ZeRO-1); or the weights too (ZeRO-3), gathered for every op (use), for every
// visit to a stage (visit) or once an update (update).
enum class StageSharding { system, none, optimizer, use, visit, update };

// How weight gradients are computed: with each micro-batch's backward, or, for all micro-batches of an update, as one
// matrix product a layer.
enum class WeightGradients { per_microbatch, batched };

// When a rank of a synchronous system begins the next update: once its own stages have stepped, or once all ranks have.
enum class UpdateStart { free, barrier };

// none: the operating system places the ranks; core: every rank stays on a core of its own (exec/pinning.h).
enum class Pin { none, core };

// Before an evaluation an asynchronous pipeline runs empty (drain), or it runs on and copies of the weights are
// evaluated afterwards (snapshot). A synchronous one is empty after every update.
enum class EvaluationMode { drain, snapshot };

// What a run is for: to be measured and compared; as a point of a search for the largest learning rate that does not
// diverge (boundary); as a candidate of a search for the best learning rate (tune).
enum class Purpose { measure, boundary, tune };

// How the learning rate changes over a run (RateSchedule, case.h).
enum class RateScheduleKind { constant, step, polynomial };

using Leftover = RunPolicy::Leftover;

template <>
struct Choices<Clock> {
  static constexpr Choice<Clock> all[] = {{Clock::wall, "wall"}, {Clock::virtual_clock, "virtual"}};
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
                                                    {WeightGradients::batched, "batched"}};
};
template <>
struct Choices<UpdateStart> {
  static constexpr Choice<UpdateStart> all[] = {{UpdateStart::free, "free"}, {UpdateStart::barrier, "barrier"}};
};
template <>
struct Choices<Pin> {
  static constexpr Choice<Pin> all[] = {{Pin::none, "none"}, {Pin::core, "core"}};
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
struct Choices<Purpose> {
  static constexpr Choice<Purpose> all[] = {
      {Purpose::measure, "measure"}, {Purpose::boundary, "boundary"}, {Purpose::tune, "tune", false}};
};
template <>
struct Choices<RateScheduleKind> {
  static constexpr Choice<RateScheduleKind> all[] = {{RateScheduleKind::constant, "constant"},
                                                     {RateScheduleKind::step, "step"},
                                                     {RateScheduleKind::polynomial, "polynomial"}};
};
template <>
struct Choices<OptimizerSpec::Kind> {
  static constexpr Choice<OptimizerSpec::Kind> all[] = {{OptimizerSpec::Kind::sgd, "sgd"},
                                                        {OptimizerSpec::Kind::adam, "adam"},
                                                        {OptimizerSpec::Kind::adamw, "adamw"},
                                                        {OptimizerSpec::Kind::rmsprop, "rmsprop"}};
};

// An enum with a table of names.
template <class E>
concept ClosedChoice = requires {
  Choices<E>::all;
};

template <ClosedChoice E>
std::string choice_name(E value) {
  for (const Choice<E>& choice : Choices<E>::all)
    if (choice.value == value) return choice.name;
  return "?";
}

// The choice that a person may give under this name.
template <ClosedChoice E>
std::optional<E> choice_named(std::string_view name) {
  for (const Choice<E>& choice : Choices<E>::all)
    if (choice.may_be_given && choice.name == name) return choice.value;
  return std::nullopt;
}

// The names that a person may give.
template <ClosedChoice E>
std::vector<std::string> choice_names() {
  std::vector<std::string> names;
  for (const Choice<E>& choice : Choices<E>::all)
    if (choice.may_be_given) names.emplace_back(choice.name);
  return names;
}

}  // namespace sluice
