#include "harness/run/prepare.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "harness/core/error.h"
#include "harness/core/json_reader.h"
#include "harness/run/engine.h"
#include "harness/run/profile_workload.h"

namespace sluice {

std::string source_folder() {
  const char* home = std::getenv("SLUICE_HOME");
  return home ? home : SLUICE_SOURCE_DIR;
}

CostGraph load_costs(const std::string& source, const Workload& workload, std::int64_t micro_batch,
                     const Device& device) {
  if (const ProfileWorkload* profile = profile_workload(workload.name, source)) {
    if (profile->costs.micro_batch != micro_batch)
      throw InputError(workload.name,
                       "has micro-batches of " + std::to_string(profile->costs.micro_batch) +
                           " samples, this plan " + std::to_string(micro_batch),
                       "leave --micro-batch out");
    return profile->costs;
  }
  if (source == "analytic") return analytic_costs(workload.model, micro_batch, device);
  if (source == "profile") {
    static std::mutex mutex;
    static std::map<std::pair<std::string, std::int64_t>, CostGraph> measured;
    const std::lock_guard lock(mutex);
    const auto key = std::pair(workload.name, micro_batch);
    if (!measured.contains(key)) measured[key] = engine::measure(workload.model, micro_batch);
    return measured.at(key);
  }
  const CostGraph graph = cost_graph_from_json(parse_json_file(source), source);
  if (graph.layers.size() != workload.model.layers.size())
    throw InputError(source,
                     "has " + std::to_string(graph.layers.size()) + " layers, workload '" +
                         workload.name + "' has " + std::to_string(workload.model.layers.size()),
                     "profile this workload");
  if (graph.micro_batch != micro_batch)
    throw InputError(source,
                     "was measured for micro-batches of " + std::to_string(graph.micro_batch) +
                         " samples, this run has " + std::to_string(micro_batch),
                     "profile again with --micro-batch " + std::to_string(micro_batch));
  return graph;
}

// The machine we are on, as a cluster: one device a rank, messages by handle.
static Cluster this_machine(int ranks) {
  Cluster cluster = latency_cluster(ranks, Seconds(2e-6));
  cluster.name = "this machine";
  for (Device& device : cluster.devices) {
    device.name = "cpu thread";
    device.memory =
        Bytes(static_cast<std::int64_t>(1)
              << 50);  // shared by all ranks; the operating system refuses, not the plan
  }
  return cluster;
}

Prepared prepare(const RunCase& c) {
  const auto begin = std::chrono::steady_clock::now();
  Prepared p;
  p.system = &find_system(c.system, "system");
  const ProfileWorkload* profile = profile_workload(c.workload, c.costs);
  p.workload = profile ? &profile->workload : &find_workload(c.workload);
  p.options = resolve_options(p.system->options, c.options, "options");
  p.cluster = c.cluster == "this machine"
                  ? this_machine(c.ranks)
                  : load_cluster(c.cluster, source_folder() + "/workloads/clusters");
  p.micro_batch = c.batch / c.microbatches;
  p.costs = load_costs(c.costs, *p.workload, p.micro_batch, p.cluster.devices.front());
  const Problem problem{p.costs, p.cluster, c.ranks, c.batch, c.microbatches, {}};
  const auto search_begin = std::chrono::steady_clock::now();
  p.plan = p.system->plan(problem, p.options);
  p.plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - search_begin).count();
  for (const PlanStage& stage : p.plan.stages)
    if (c.clock == "wall" && (stage.tensor > 1 || !stage.variants.empty()))
      throw InputError(c.system, "the plan shares layers between devices or recomputes activations",
                       "that is simulated only: use the virtual clock");
  p.ranks = ranks_of(p.plan);
  p.graph = stage_graph(p.plan, p.costs);
  p.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p;
}

static ScheduleProblem schedule_problem(const Prepared& p, int microbatches) {
  return {p.graph, p.ranks.placement, static_cast<int>(p.ranks.devices.size()), microbatches};
}

Program make_program(const Prepared& p, int microbatches) {
  const Schedule schedule = p.system->schedule(schedule_problem(p, microbatches), p.options);
  return lower(schedule, p.graph, p.ranks.placement, p.system->weights(p.options));
}

Theory make_theory(const Prepared& p, int microbatches) {
  return p.system->theory(schedule_problem(p, microbatches), p.options);
}

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer) {
  if (p.workload->model.layers.empty()) return profile_stage_memory(p.plan, p.costs, optimizer);
  const ModelGraph& model = p.workload->model;
  const std::vector<Shape> shapes = model.shapes();
  std::vector<StageMemory> result;
  for (const PlanStage& stage : p.plan.stages) {
    Bytes weights;
    for (const int l : stage.layers)
      weights += Bytes(4 * parameter_count(model.layers[static_cast<std::size_t>(l)]));
    const StageStash stash = stage_stash(model, shapes, stage.layers, p.micro_batch);
    result.push_back(
        {weights, weights, weights * optimizer.state_tensors(), stash.forward, stash.weight});
  }
  return result;
}

std::string over_memory(const Prepared& p, const std::vector<RankMemory>& memory) {
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const Device& device = p.cluster.devices[p.ranks.devices[r].index()];
    if (memory[r].peak.total() > device.memory)
      return "rank " + std::to_string(r) + " needs " + to_text(memory[r].peak.total()) +
             " at its peak, its device '" + device.name + "' has " + to_text(device.memory);
  }
  return "";
}

}  // namespace sluice
