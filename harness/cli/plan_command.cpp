#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/case/prepare.h"
#include "harness/case/profile_workload.h"
#include "harness/cli/commands.h"
#include "harness/plan/stage_picture.h"

namespace sluice {

// A line a stage: the seconds of F, I and W for the samples of one op, and the most that its first device holds.
static void print_stages(const Prepared& p, const std::vector<RankMemory>& memory) {
  const std::vector<StageCost> costs = stage_costs(p.plan, p.costs, p.cluster);
  std::vector<std::string> devices, layers;
  std::size_t device_width = 7, layer_width = 6;
  for (const PlanStage& stage : p.plan.stages) {
    const auto name = [&](int l) { return p.costs.layers[static_cast<std::size_t>(l)].name; };
    devices.push_back(device_list(stage.devices));
    layers.push_back(stage.layers.size() == 1 ? name(stage.layers.front())
                                              : name(stage.layers.front()) + " .. " + name(stage.layers.back()));
    device_width = std::max(device_width, devices.back().size());
    layer_width = std::max(layer_width, layers.back().size());
  }
  fmt::print("{:>5}  {:>{}}  {:<{}}  {:>7} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9}\n", "stage", "devices", device_width,
             "layers", layer_width, "samples", "F", "I", "W", "parameters", "in flight", "peak");
  for (std::size_t s = 0; s < p.plan.stages.size(); ++s) {
    const PlanStage& stage = p.plan.stages[s];
    const RankMemory& held = memory[p.ranks.placement.stages[s].front().index()];
    fmt::print("{:>5}  {:>{}}  {:<{}}  {:>7} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9}{}\n", s, devices[s], device_width,
               layers[s], layer_width, stage.micros_per_op * p.micro_batch, to_text(costs[s].forward),
               to_text(costs[s].input_gradient), to_text(costs[s].weight_gradient), to_text(costs[s].parameters),
               held.peak_in_flight, to_text(held.peak.total()), stage.recompute ? "  recomputes" : "");
  }
}

int plan_command(const PlanArguments& a) {
  const ProfileWorkload* profile = profile_workload(a.workload, a.costs);
  const Workload& workload = profile ? profile->workload : find_workload(a.workload);
  const Cluster cluster = load_cluster(a.cluster, source_folder() + "/workloads/clusters");
  if (a.devices < 0) throw InputError("--devices", "must be at least 1");
  if (a.batch < 0 || a.micro_batch < 0)
    throw InputError(a.batch < 0 ? "--batch" : "--micro-batch", "must be at least 1");
  RunCase c;
  const System& system = find_system(a.system, "--system");
  c.system = system.name;
  c.options = resolve_options(system.options, given_options(a.set), "--set").values();
  c.workload = a.workload;
  c.cluster = a.cluster;
  c.clock = Clock::virtual_clock;
  c.costs = a.costs;
  c.ranks = a.devices > 0 ? a.devices : static_cast<int>(cluster.devices.size());
  c.batch = a.batch > 0 ? a.batch : workload.batch;
  long micro_batch = a.micro_batch > 0 ? a.micro_batch : c.batch / workload.microbatches;
  if (profile) {  // its micro-batches have one size; one of them is an asynchronous system's batch
    for (const std::string& warning : profile->warnings) fmt::print(stderr, "note: {}: {}\n", a.workload, warning);
    micro_batch = profile->costs.micro_batch;
    if (!system.synchronous && a.batch == 0) c.batch = micro_batch;
  }
  if (micro_batch < 1 || c.batch % micro_batch != 0)
    throw InputError("--micro-batch",
                     std::to_string(micro_batch) + " does not divide the batch of " + std::to_string(c.batch));
  const bool several = system.synchronous || system.accumulates;
  c.microbatches = several ? static_cast<int>(c.batch / micro_batch) : 1;

  if (workload.optimizer.momentum > 0) c.optimizer.momentum = 0.9;

  const Prepared p = prepare(c);
  const Program program = program_of_updates(p);
  const double update_seconds = simulated_update(p, program).value;
  const Simulation simulation =
      simulate(program, costs_of(p.plan, p.costs, p.cluster), p.cluster, p.ranks.devices, {.trace = false});
  const std::vector<RankMemory> memory = sluice::memory(program, stage_memory(p, c.optimizer, program.rule));
  const std::string over = over_memory(p, memory);
  if (!over.empty())
    throw InputError("plan", over, "use more devices, smaller micro-batches or a cluster with more memory");
  if (a.json) {
    fmt::print("{}\n", plan_json(p.plan, p.costs, system.name, Seconds(update_seconds)).dump(2));
    return 0;
  }
  const int plan_depth = depth(p.graph);
  fmt::print("{} on {}: {} stages, {} deep, on {} of {} devices, {} x {} samples per update, costs: {}\n", system.title,
             cluster.name, p.plan.stages.size(), plan_depth, p.ranks.devices.size(), cluster.devices.size(),
             c.microbatches, p.micro_batch, p.costs.source);
  print_stages(p, memory);
  fmt::print("\n{}\n", stage_picture(p.plan, p.graph));
  const SearchReport& search = p.plan.search;
  fmt::print("planner's objective ({}): {}; simulated: {} per update, {:.4g} samples/s, bubble {:.1f} %\n",
             search.objective_name, to_text(Seconds(search.objective)), to_text(Seconds(update_seconds)),
             static_cast<double>(c.batch) / update_seconds, 100 * simulation.bubble.bubble_ratio);
  fmt::print("states visited: {}; search: {}{}\n", search.states, to_text(Seconds(search.seconds)),
             search.complete ? "" : " (cut short)");
  return 0;
}

}  // namespace sluice
