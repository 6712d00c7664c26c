#include "harness/run/prepare.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
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

// A stage of r replicas of an asynchronous system takes r micro-batches for one update of its own,
// so that the global batch, which makes one update of the most replicated stage, is cut once more.
static void divide_among_replicas(const RunCase& c, Prepared& p) {
  std::size_t most = 1;
  for (const PlanStage& stage : p.plan.stages) most = std::max(most, stage.devices.size());
  if (most == 1) return;
  p.microbatches_per_update *= static_cast<int>(most);
  if (c.batch % p.microbatches_per_update != 0)
    throw InputError("batch",
                     std::to_string(c.batch) + " samples cannot be divided among " +
                         std::to_string(p.microbatches_per_update) + " micro-batches",
                     "a stage has " + std::to_string(most) + " replicas: choose a multiple");
  p.micro_batch = c.batch / p.microbatches_per_update;
  p.plan.micro_batch = p.micro_batch;
  p.costs = load_costs(c.costs, *p.workload, p.micro_batch, p.cluster.devices.front());
}

// The costs of micro-batches of another size; kept in `larger` where the plan's stages take such.
static CostGraph costs_at(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  if (c.costs == "analytic" || c.costs == "profile")
    return load_costs(c.costs, *p.workload, micro_batch, p.cluster.devices.front());
  return grouped_costs(p.costs, static_cast<int>(micro_batch / p.micro_batch));  // a file has one
}

// Everything that follows from a plan.
static void adopt(Prepared& p, const RunCase& c, const Plan& plan) {
  for (const PlanStage& stage : plan.stages) {
    const std::int64_t micro_batch = stage.grouping * p.micro_batch;
    if (stage.grouping > 1 && std::ranges::find(p.costs.larger, micro_batch,
                                                &CostGraph::micro_batch) == p.costs.larger.end())
      p.costs.larger.push_back(costs_at(p, c, micro_batch));
  }
  p.plan = plan;
  if (!p.system->synchronous) divide_among_replicas(c, p);
  p.ranks = ranks_of(p.plan);
  p.graph = stage_graph(p.plan, p.costs);
}

Program program_of_updates(const Prepared& p) {
  // Asynchronous: a run long enough that filling the pipe hardly counts.
  const int updates = p.system->synchronous ? 1 : 8 * static_cast<int>(p.ranks.devices.size());
  return make_program(p, p.microbatches_per_update * updates);
}

Seconds simulated_update(const Prepared& p, const Program& program) {
  // Synchronous: updates follow one another without a barrier; the first has nothing before it.
  const int iterations = p.system->synchronous ? 3 : 1;
  const Simulation s = simulate(program, costs_of(p.plan, p.costs, p.cluster), p.cluster,
                                p.ranks.devices, {.iterations = iterations, .trace = false});
  if (!p.system->synchronous) return Seconds(s.end / program.updates);
  return Seconds(s.update_end.back() - s.update_end[s.update_end.size() - 2]);
}

// Of a plan that is being considered; infinite if it does not fit.
static Seconds simulated_seconds(const Prepared& p, const RunCase& c, const Plan& plan) {
  Prepared candidate = p;
  adopt(candidate, c, plan);
  const Program program = program_of_updates(candidate);
  const auto held = memory(program, stage_memory(candidate, c.optimizer, program.rule));
  if (!over_memory(candidate, held).empty())
    return Seconds(std::numeric_limits<double>::infinity());
  return simulated_update(candidate, program);
}

static StageMemory memory_of_layers(const ModelGraph& model, std::span<const Shape> shapes,
                                    std::span<const int> layers, std::int64_t samples,
                                    int optimizer_tensors) {
  Bytes weights;
  for (const int l : layers)
    weights += Bytes(4 * parameter_count(model.layers[static_cast<std::size_t>(l)]));
  const StageStash stash = stage_stash(model, shapes, layers, samples);
  return {.weights = weights,
          .gradients = weights,
          .optimizer = weights * optimizer_tensors,
          .stash = stash.forward,
          .weight_stash = stash.weight,
          .input = Bytes(0),
          .boundary = boundary_values(model, shapes, layers, samples)};
}

Prepared prepare(const RunCase& c) {
  const auto begin = std::chrono::steady_clock::now();
  Prepared p;
  p.system = &find_system(c.system, "system");
  const ProfileWorkload* profile = profile_workload(c.workload, c.costs);
  if (p.system->data_parallel && p.system->sharding)
    throw InputError(c.system, "gathers and scatters its weights, which nothing here executes yet",
                     "see its order with sluice schedule; run data_parallel");
  p.workload = profile ? &profile->workload : &find_workload(c.workload);
  p.options = resolve_options(p.system->options, c.options, "options");
  p.cluster = c.cluster == "this machine"
                  ? this_machine(c.ranks)
                  : load_cluster(c.cluster, source_folder() + "/workloads/clusters");
  p.microbatches_per_update = c.microbatches;
  p.micro_batch = c.batch / c.microbatches;
  p.step_barrier = c.step == "barrier";
  p.costs = load_costs(c.costs, *p.workload, p.micro_batch, p.cluster.devices.front());
  Problem problem{p.costs, p.cluster, c.ranks, c.batch, c.microbatches, {}};
  problem.simulate = [&](const Plan& plan) { return simulated_seconds(p, c, plan); };
  problem.costs_at = [&](std::int64_t micro_batch) { return costs_at(p, c, micro_batch); };
  if (!p.workload->model.layers.empty()) {  // a published profile has costs and no layers
    problem.footprint = [&, shapes = p.workload->model.shapes()](std::span<const int> layers,
                                                                 std::int64_t samples) {
      const StageMemory m =
          memory_of_layers(p.workload->model, shapes, layers, samples, c.optimizer.state_tensors());
      return Problem::Footprint{m.weights + m.gradients + m.optimizer, m.stash};
    };
  }
  const auto search_begin = std::chrono::steady_clock::now();
  Plan plan = p.system->plan(problem, p.options);
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - search_begin).count();
  for (const PlanStage& stage : plan.stages)
    if (c.clock == "wall" && (stage.tensor > 1 || !stage.variants.empty()))
      throw InputError(c.system, "the plan shares layers between devices or recomputes activations",
                       "that is simulated only: use the virtual clock");
  adopt(p, c, plan);
  p.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p;
}

static ScheduleProblem schedule_problem(const Prepared& p, int microbatches, int epoch = 0) {
  ScheduleProblem problem{p.graph, p.ranks.placement, static_cast<int>(p.ranks.devices.size()),
                          microbatches, stage_costs(p.plan, p.costs, p.cluster)};
  problem.microbatches_per_update = p.microbatches_per_update;
  problem.epoch = epoch;
  problem.order = p.plan.order;
  return problem;
}

Program make_program(const Prepared& p, int microbatches, int epoch) {
  const ScheduleProblem problem = schedule_problem(p, microbatches, epoch);
  return lower(p.system->schedule(problem, p.options), p.graph, p.ranks.placement,
               rule_of(p, microbatches, epoch));
}

WeightRule rule_of(const Prepared& p, int microbatches, int epoch) {
  WeightRule rule = p.system->weights(schedule_problem(p, microbatches, epoch), p.options);
  rule.step_barrier = p.step_barrier && rule.synchronous();
  return rule;
}

Theory make_theory(const Prepared& p, int microbatches) {
  return p.system->theory(schedule_problem(p, microbatches), p.options);
}

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer,
                                      const WeightRule& rule) {
  if (p.workload->model.layers.empty()) return profile_stage_memory(p.plan, p.costs, optimizer);
  const ModelGraph& model = p.workload->model;
  const std::vector<Shape> shapes = model.shapes();
  const std::vector<StageInterface> between = interfaces(
      model, stage_of_layers(p.plan, model.layers.size()), static_cast<int>(p.plan.stages.size()));
  std::vector<StageMemory> result;
  for (std::size_t s = 0; s < p.plan.stages.size(); ++s) {
    const PlanStage& stage = p.plan.stages[s];
    const std::int64_t samples = stage.grouping * p.micro_batch;
    StageMemory m =
        memory_of_layers(model, shapes, stage.layers, samples,
                         optimizer.state_tensors() + delta_tensors(optimizer, rule, StageId(s)));
    for (const int producer : between[s].receives)
      if (producer >= 0) m.input += output_bytes(model, shapes, producer, samples);
    result.push_back(m);
  }
  return result;
}

std::string refusal_of_real_ranks(const Plan& plan) {
  const bool grouped =
      std::ranges::any_of(plan.stages, [](const PlanStage& s) { return s.grouping != 1; });
  if (!grouped && plan.imposed_edges.empty()) return "";
  return "the plan's stages take different micro-batches or are tied without a tensor, which only "
         "the virtual clock without training runs";
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
