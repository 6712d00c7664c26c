#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/run/prepare.h"
#include "harness/run/profile_workload.h"

namespace sluice {

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
  c.options = resolve_options(system.options, parse_settings(a.set), "--set").values();
  c.workload = a.workload;
  c.cluster = a.cluster;
  c.clock = "virtual";
  c.costs = a.costs;
  c.ranks = a.devices > 0 ? a.devices : static_cast<int>(cluster.devices.size());
  c.batch = a.batch > 0 ? a.batch : workload.batch;
  long micro_batch = a.micro_batch > 0 ? a.micro_batch : c.batch / workload.microbatches;
  if (profile) {  // of one size only; an asynchronous system's batch is one of them
    for (const std::string& warning : profile->warnings)
      fmt::print(stderr, "note: {}: {}\n", a.workload, warning);
    micro_batch = profile->costs.micro_batch;
    if (!system.synchronous && a.batch == 0) c.batch = micro_batch;
  }
  if (micro_batch < 1 || c.batch % micro_batch != 0)
    throw InputError(
        "--micro-batch",
        std::to_string(micro_batch) + " does not divide the batch of " + std::to_string(c.batch));
  c.microbatches = system.synchronous ? static_cast<int>(c.batch / micro_batch) : 1;

  const Prepared p = prepare(c);
  // Asynchronous: a run long enough that filling the pipe hardly counts.
  const int units =
      system.synchronous ? c.microbatches : 8 * static_cast<int>(p.ranks.devices.size());
  const Program program = make_program(p, units);
  const Simulation simulation = simulate(program, costs_of(p.plan, p.costs, p.cluster), p.cluster,
                                         p.ranks.devices, {.trace = false});
  const double update_seconds = simulation.end / program.updates;
  const std::vector<RankMemory> memory = sluice::memory(
      program, stage_memory(p, workload.optimizer.momentum > 0 ? OptimizerSpec{.momentum = 0.9}
                                                               : OptimizerSpec{}));
  const std::string over = over_memory(p, memory);
  if (!over.empty())
    throw InputError("plan", over,
                     "use more devices, smaller micro-batches or a cluster with more memory");
  if (a.json) {
    fmt::print("{}\n", plan_json(p.plan, p.costs, system.name, Seconds(update_seconds)).dump(2));
    return 0;
  }
  fmt::print("{} on {}: {} stages on {} of {} devices, {} x {} samples per update, costs: {}\n",
             system.title, cluster.name, p.plan.stages.size(), p.ranks.devices.size(),
             cluster.devices.size(), c.microbatches, p.micro_batch, p.costs.source);
  fmt::print("{:>5}  {:>8}  {:<28} {:>10} {:>10} {:>10} {:>12} {:>10}\n", "stage", "devices",
             "layers", "F", "I", "W", "parameters", "peak");
  const std::vector<StageCost> costs = stage_costs(p.plan, p.costs, p.cluster);
  for (std::size_t s = 0; s < p.plan.stages.size(); ++s) {
    const PlanStage& stage = p.plan.stages[s];
    std::string devices;
    for (const DeviceId d : stage.devices)
      devices += (devices.empty() ? "" : ",") + std::to_string(d.value);
    const auto name = [&](int l) { return p.costs.layers[static_cast<std::size_t>(l)].name; };
    fmt::print("{:>5}  {:>8}  {:<28} {:>10} {:>10} {:>10} {:>12} {:>10}\n", s, devices,
               name(stage.layers.front()) + " .. " + name(stage.layers.back()),
               to_text(costs[s].forward), to_text(costs[s].input_gradient),
               to_text(costs[s].weight_gradient), to_text(costs[s].parameters),
               to_text(memory[p.ranks.placement.stages[s].front().index()].peak.total()));
  }
  fmt::print(
      "planner's objective (slowest stage): {}; simulated: {} per update, {:.4g} samples/s, bubble "
      "{:.1f} %\n",
      to_text(Seconds(p.plan.objective)), to_text(Seconds(update_seconds)),
      static_cast<double>(c.batch) / update_seconds, 100 * simulation.bubble.bubble_ratio);
  fmt::print("states visited: {}; search: {}{}\n", p.plan.states,
             to_text(Seconds(p.plan.search_seconds)), p.plan.complete ? "" : " (cut short)");
  return 0;
}

}  // namespace sluice
