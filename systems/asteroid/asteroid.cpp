// Asteroid (Ye et al., MobiCom 2024, arXiv 2408.08015): hybrid pipelines over unequal edge devices. Each stage runs on
// a group of devices that all-reduce its gradients. The planner (asteroid_search.h) minimizes the seconds of a round,
// an update of M micro-batches, within the memory of every device. The order is 1F1B with one more micro-batch in
// flight for every message, so that a message can be on its way while both of its stages compute: stage p of P keeps
// 2 (P - p) - 1 micro-batches, where 1F1B keeps P - p. P = 3, M = 6:
//
//   rank 0  F0F1F2F3F4....B0--F5B1--..B2--..B3--..B4--..B5--
//   rank 1  ..F0F1F2..B0--F3B1--F4B2--F5B3--..B4--..B5--....
//   rank 2  ....F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--........
//
// Sources. Only the abstract and the beginning of the introduction of the paper could be read, and the authors' program
// was not found. What is called the paper's here comes from two programs by others, written after its two algorithms.
// Both have the order of the devices by memory, the dynamic program over (layers, devices, stages), a micro-batch on
// the slowest link between two groups, and a ring over the slowest link of a group. Only one has the waiting, execution
// and all-reduce of a step, only the other 2 (P - p) - 1; both agree with what is remembered of the paper.
//
// Differences from the paper, and decisions of our own:
//   - Shares of a group. The paper gives the devices of a group unequal shares of the samples of every micro-batch, by
//     speed and memory. Here they take whole micro-batches in turn, in equal numbers (to within one), or none.
//     The micro-batches in flight, one for every device and every message from the stage on, are divided equally, too.
//   - The dominant step is chosen so that every step has time for its own work (asteroid_search.h). The program that
//     has the steps chooses the largest F + B, which would give a pipeline of equal stages no bubble.
//   - The paper profiles layers with micro-batches of several sizes. Here all have one size.
//   - The paper's recovery from the loss of a device is left out.
#include <span>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/system.h"
#include "harness/plan/planner_options.h"
#include "harness/plan/replicated_schedule.h"
#include "systems/asteroid/asteroid_search.h"

namespace sluice {

namespace {

enum class InFlight { steps, stages };

const ChoiceOption<InFlight> in_flight_option("in_flight",
                                              "max micro-batches in flight on stage p of P: steps, one for every stage "
                                              "and message from it on, 2 (P - p) - 1 without "
                                              "replicas (as others report of the paper); stages, 1F1B's P - p",
                                              {{"steps", InFlight::steps}, {"stages", InFlight::stages}});

// What a device holds of layer groups [first, last), with micro-batches of the problem's size.
// layers: of all groups.
StageBytes bytes_of(const Problem& problem, const LayerGroupGraph& graph, std::span<const int> layers, int first,
                    int last) {
  StageBytes held;
  if (problem.footprint) {
    const int begin = graph.groups[first].layers.front(), end = graph.groups[last - 1].layers.back() + 1;
    const Problem::Footprint footprint =
        problem.footprint(layers.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    held.always = static_cast<double>(footprint.always.value);
    held.per_micro_batch =
        static_cast<double>((footprint.per_micro_batch + problem.costs.micro_batch * footprint.per_sample).value);
  } else {
    for (int g = first; g < last; ++g) {
      held.always += graph.groups[g].resident;
      held.per_micro_batch += graph.groups[g].kept;
    }
  }
  if (problem.inference) return {held.always + held.per_micro_batch, 0};  // nothing waits for a backward
  return held;
}

// The best plan for every number of stages.
std::vector<PlannedPipeline> asteroid_plans(const Problem& problem, const Options& options) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  const std::vector<int> layers = layers_of(graph, 0, count_of(graph.groups));
  const AsteroidResult result =
      asteroid_search(graph, problem.costs, problem.cluster,
                      {.devices = problem.devices,
                       .microbatches = problem.microbatches,
                       .max_replicas = problem.max_replicas,
                       .messages_in_flight = in_flight_option(options) == InFlight::steps,
                       .bytes = [&](int first, int last) { return bytes_of(problem, graph, layers, first, last); },
                       .limits = {.seconds = problem.search_seconds}});
  if (result.by_stages.empty())
    throw InputError("asteroid",
                     "no plan on " + std::to_string(problem.devices) + " devices fits" +
                         (result.complete ? "" : " was found in time"),
                     "use more devices, smaller micro-batches or devices with more memory");
  std::vector<PlannedPipeline> plans;
  for (const auto& [count, found] : result.by_stages) {
    Plan& plan = plans.emplace_back(Plan{.micro_batch = problem.costs.micro_batch}).plan;
    for (const AsteroidStage& stage : found.stages)
      plan.stages.push_back({.layers = layers_of(graph, stage.first, stage.last), .devices = stage.devices});
    plan.search = {.objective = found.seconds,
                   .objective_name = "seconds of a round",
                   .states = result.states,
                   .complete = result.complete};
  }
  return plans;
}

std::vector<int> in_flight(const ScheduleProblem& problem, const Options& options) {
  const auto& stages = problem.placement.stages;
  std::vector<int> result(stages.size());
  int replicas_after = 0, messages_after = 0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    const int replicas = static_cast<int>(stages[s].size());
    result[s] = asteroid_in_flight(replicas, replicas_after, messages_after);
    replicas_after += replicas;
    if (in_flight_option(options) == InFlight::steps) ++messages_after;
  }
  return result;
}

}  // namespace

extern const System asteroid = {
    .name = "asteroid",
    .title = "Asteroid",
    .citation =
        "Ye et al., Asteroid: Resource-Efficient Hybrid Pipeline Parallelism for Collaborative DNN Training on "
        "Heterogeneous Edge Devices, MobiCom 2024 (arXiv 2408.08015)",
    .written_from = {WrittenFrom::abstract,
                     {{"dominant step", WrittenFrom::ours},
                      {"shares of a group", WrittenFrom::ours},
                      {"in_flight=stages", WrittenFrom::ours}},
                     "Only the abstract could be read; the rest follows programs by others, which give the devices of "
                     "a stage unequal shares of each micro-batch, by speed and memory. Here they take whole "
                     "micro-batches in equal numbers. The choice of the dominant step and in_flight=stages are ours."},
    .one_size_only = "its planner's objective is for micro-batches of one size",
    .options = {training_only(in_flight_option.spec()), rank_option(), search_seconds_option()},
    .own_cuts = [](const Options&) { return true; },
    .candidates = asteroid_plans,
    .schedule =
        [](const ScheduleProblem& problem, const Options& options) {
          return replicated_one_f_one_b(problem, in_flight(problem, options), "asteroid");
        },
    .theory = [](const ScheduleProblem& problem,
                 const Options& options) { return flushed_chain_theory(problem, in_flight(problem, options)); },
    .replicates = [](const Options&) { return true; },
};

}  // namespace sluice
