// LayerPipe (Unnikrishnan & Parhi, LayerPipe, ICCAD 2021, arXiv 2108.06629; LayerPipe2, 2025, arXiv 2512.08160), as we
// read it. A layer's weight gradient W and its input gradient I do not depend on one another, so that a processor need
// not run both; and W may come late, if the delay is known. Layers in groups, each with a processor for its F and I;
// every W on whichever processor has room (systems/layerpipe/layer_map.h), so that the period is the load of the
// busiest processor. K = 2 groups on 3 processors, F = I = W = 1:
//
//   rank 0  F0F1..I0F2I1F3I2F4I3....   F and I of group 0
//   rank 1  ..F0I0F1I1F2I2F3I3F4I4..   F and I of group 1
//   rank 2  ......W0W0W1W1W2W2W3W3..   W of both: a micro-batch every 2 in place of every 3
//
// The input gradient itself is divided, too: the device of the group before, which waits for it, computes a part of the
// channels of a group's first product at the start of its own I, from the product's output gradient and those channels'
// weights, which come with the rest of the gradient (divide=yes; linear layers and convolutions at a cut that one
// tensor crosses). So neighbouring devices are balanced more finely than by whole layers.
//
// The delay rule: a gradient may be delayed by as many updates as there are pipeline stages between a layer's forward
// and it, which depends on the number S of groups after the layer's own only, and is the same for all layers of a
// group. In 1F1B without a flush that is S; a W on a processor of its own is one stage more, `gradient_delay` D:
//
//   F of micro-batch j (from 1) on a group reads the weights after max(0, j - 1 - S - D) updates (D = 0 if its W run on
//   its own processor), and the gradient of j makes update j of every group.
//
// weights=stash keeps the forward's weights until the I, K - k versions on group k. weights=average_a and average_b
// rebuild them as LayerPipe2 does, from a moving average of the updates: W + S lr avg. How the average decays was not
// read: average_a S / (S + 1), average_b (S - 1) / (S + 1), with which S = 1 is exact. weights=newest: neither.
//
// The paper's map of layers to processors, its networks and its data sets are not published; the map is ours.
#include <algorithm>
#include <iterator>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/machines.h"
#include "harness/plan/planner_options.h"
#include "systems/layerpipe/layer_map.h"
#include "systems/layerpipe/list_order.h"

namespace sluice {

namespace {

enum class Weights { stash, average_a, average_b, newest };

const ChoiceOption<Weights> weights_option(
    "weights",
    "what the input gradient reads: stash (the forward's weights), average_a or average_b (rebuilt from a moving "
    "average of the updates, as LayerPipe2 does, with one of two decays of ours) or newest",
    {{"stash", Weights::stash},
     {"average_a", Weights::average_a},
     {"average_b", Weights::average_b},
     {"newest", Weights::newest}});

// The layer that a group would begin with, if its input gradient can be divided: what comes over the cut before it is
// one tensor, and nothing after the cut reads it but this layer.
const LayerCost* dividable(const CostGraph& costs, int first) {
  const LayerCost& product = costs.layers[first];
  if (product.input_channels < 2 || product.inputs.size() != 1 || product.inputs.front() < 0) return nullptr;
  for (std::size_t l = static_cast<std::size_t>(first) + 1; l < costs.layers.size(); ++l)
    for (const int input : costs.layers[l].inputs)
      if (input >= 0 && input < first) return nullptr;
  return &product;
}

std::vector<LayerTasks> tasks_of(const LayerGroupGraph& graph, const CostGraph& costs, double bytes_per_second) {
  std::vector<LayerTasks> tasks;
  for (const LayerGroup& group : graph.groups) {
    LayerTasks& task = tasks.emplace_back();
    double stash = 0;
    for (const int l : group.layers) {
      const LayerCost& layer = costs.layers[l];
      task.forward += layer.forward.value;
      task.input_gradient += layer.input_gradient.value;
      task.weight_gradient += layer.weight_gradient.value;
      if (layer.trained() == Bytes(0)) continue;
      stash += static_cast<double>(layer.output.value);
      for (const int input : layer.inputs)
        if (input >= 0) stash += static_cast<double>(costs.layers[input].output.value);
    }
    task.stash_message = stash / bytes_per_second;
    const LayerCost* const product = dividable(costs, group.layers.front());
    if (!product) continue;
    task.channels = product->input_channels;
    task.product_input_gradient = product->input_gradient.value;
    const Bytes input = costs.layers[product->inputs.front()].output;
    task.product_message =
        static_cast<double>((input + product->output + product->parameters).value) / bytes_per_second;
  }
  return tasks;
}

Plan plan_of(const LayerMap& map, const LayerGroupGraph& graph, std::int64_t micro_batch) {
  Plan plan{.micro_batch = micro_batch};
  std::vector<bool> used(
      static_cast<std::size_t>(1 + std::max(map.groups(), *std::ranges::max_element(map.weight_gradient))));
  for (int s = 0; s < map.groups(); ++s) {
    PlanStage& stage = plan.stages.emplace_back();
    stage.layers = layers_of(graph, map.first[s], map.first[s + 1]);
    stage.devices = {DeviceId(s)};
    stage.passed_channels = map.passed_channels[s];
    used[s] = true;
    if (map.weight_gradient[s] == s) continue;
    stage.weight_gradient_device = DeviceId(map.weight_gradient[s]);
    used[map.weight_gradient[s]] = true;
  }
  for (std::size_t d = 0; d < used.size(); ++d)
    if (used[d]) plan.rank_order.emplace_back(d);
  return plan;
}

// Those of the search, and those in which every W stays, which have the fewest messages. states: adds what was tried.
std::vector<LayerMap> maps_of(std::vector<LayerTasks> tasks, int devices, bool divides, std::int64_t* states) {
  std::vector<LayerMap> maps;
  const auto add_maps = [&](bool divided) {
    std::ranges::move(layer_maps(tasks, devices, divided, states), std::back_inserter(maps));
  };
  add_maps(false);
  if (divides) add_maps(true);
  for (LayerTasks& task : tasks) task.stash_message = std::numeric_limits<double>::infinity();
  add_maps(false);
  if (divides) add_maps(true);
  return maps;
}

std::vector<PlannedPipeline> layerpipe_plans(const Problem& problem, const Options& options) {
  const CostGraph costs = costs_on_slowest(problem.costs, problem.cluster, problem.devices);
  const LayerGroupGraph graph = layer_groups(costs);
  const int groups = options.integer("groups");
  if (groups > std::min(problem.devices, count_of(graph.groups)))
    throw InputError("layerpipe",
                     std::to_string(groups) + " groups of " + std::to_string(graph.groups.size()) + " layers on " +
                         std::to_string(problem.devices) + " devices",
                     "give every group a layer and a device, or leave --set groups out");
  SearchReport report{.objective_name = "busiest processor, seconds a micro-batch"};
  const std::vector<LayerMap> maps =
      maps_of(tasks_of(graph, costs, Bandwidths(problem.cluster, problem.devices).slowest()), problem.devices,
              options.flag("divide") && !problem.inference, &report.states);
  std::vector<PlannedPipeline> plans;
  for (const LayerMap& map : maps) {
    if (groups > 0 && map.groups() != groups) continue;
    Plan plan = plan_of(map, graph, problem.costs.micro_batch);
    report.objective = map.period;  // which knows no messages
    plan.search = report;
    plans.emplace_back(std::move(plan));
  }
  if (plans.empty())
    throw InputError("layerpipe", "no map of the layers has " + std::to_string(groups) + " groups",
                     "leave --set groups out");
  return plans;
}

Schedule layerpipe_schedule(const ScheduleProblem& problem, const Options& options) {
  return list_order(problem, options.integer("gradient_delay"));
}

WeightRule layerpipe_weights(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.stages();
  WeightRule rule{.update = WeightRule::Update::every_backward,
                  .weight_gradient_delay = options.integer("gradient_delay")};
  const Weights weights = weights_option(options);
  if (weights == Weights::stash) return rule;
  rule.backward = WeightRule::Backward::newest;
  if (weights == Weights::newest) return rule;
  const auto after = [p](int k) { return p - 1 - k; };
  rule.backward_horizon = list_of(p, [&](int k) { return -after(k); });
  rule.backward_delta = WeightRule::Delta::update_moving_average;
  rule.update_average_decay = list_of(p, [&](int k) {
    const double s = after(k);
    return weights == Weights::average_a ? s / (s + 1) : std::max(s - 1, 0.0) / (s + 1);
  });
  return rule;
}

Theory layerpipe_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory;
  const int p = problem.stages(), n = problem.microbatches;
  theory.in_flight.assign(problem.ranks, 0);
  theory.staleness.assign(problem.ranks, 0);
  for (int k = 0; k < p; ++k) {
    const int delay = problem.placement.has_weight_gradient_rank(StageId(k)) ? options.integer("gradient_delay") : 0;
    theory.in_flight[problem.rank_of(k).value] = std::min(n, p - k);
    theory.staleness[problem.rank_of(k).value] = std::min(n - 1, p - 1 - k + delay);
  }
  return theory;
}

}  // namespace

extern const System layerpipe;
const System layerpipe = {
    .name = "layerpipe",
    .title = "LayerPipe",
    .citation =
        "Unnikrishnan & Parhi, LayerPipe: Accelerating Deep Neural Network Training by Intra-Layer and Inter-Layer "
        "Gradient Pipelining and Multiprocessor Scheduling, ICCAD 2021 (arXiv 2108.06629); LayerPipe2, 2025 "
        "(arXiv 2512.08160)",
    .written_from = {WrittenFrom::abstract,
                     {{"map of layers", WrittenFrom::ours},
                      {"order", WrittenFrom::ours},
                      {"decay of weights=average", WrittenFrom::ours}},
                     "The map of layers to processors, its search, the order of the ops and the decays of the weights' "
                     "average are ours."},
    .synchronous = false,
    .options = {training_only(weights_option.spec()),
                training_only({"divide", "yes",
                               "a group may pass a part of its first product's input gradient to the one before it",
                               kYesNo}),
                {.name = "groups",
                 .default_value = "0",
                 .help = "number of groups of layers, each with its own delay and processor for F and I; 0: the best",
                 .minimum = 0},
                {.name = "gradient_delay",
                 .default_value = "1",
                 .help = "max delay of a weight gradient from another processor, in micro-batches",
                 .minimum = 0,
                 .training_only = true},
                rank_option()},
    .own_cuts = [](const Options&) { return true; },
    .candidates = layerpipe_plans,
    .schedule = layerpipe_schedule,
    .weights = layerpipe_weights,
    .theory = layerpipe_theory,
};

}  // namespace sluice
