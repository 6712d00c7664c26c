#include "harness/case/prepare.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/case/costs.h"
#include "harness/case/profile_workload.h"
#include "harness/case/real_executor.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"

namespace sluice {

// The machine we are on, as a cluster: one device a rank, messages by handle.
static Cluster this_machine(int ranks, DeviceKind kind) {
  Cluster cluster = latency_cluster(ranks, Seconds(2e-6));
  cluster.name = kThisMachine;
  for (Device& device : cluster.devices) {
    device.name = "cpu thread";
    // Shared by all ranks: it is the operating system that refuses, not the plan.
    device.memory = Bytes(std::int64_t{1} << 50);
  }
  if (kind == DeviceKind::cuda) {
    // A GPU's memory is shared by the ranks that share it (device_of_rank in exec/torch).
    const nlohmann::json gpus = real_executor::gpus()["devices"];
    const auto n = static_cast<int>(gpus.size());
    for (Device& device : cluster.devices) {
      device.name = "GPU of this machine";
      if (n > 0) device.memory = Bytes(gpus[0]["memory_bytes"].get<std::int64_t>() / ((ranks + n - 1) / n));
    }
  }
  return cluster;
}

// The case's costs for micro-batches of `micro_batch` samples. "profile" measures on the GPU where the ranks run on the
// GPUs of this machine, otherwise on the CPU.
static CostGraph case_costs(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  const bool on_gpu = c.cluster == kThisMachine && c.device == DeviceKind::cuda;
  return load_costs(c.costs, *p.workload, micro_batch, p.cluster.devices.front(),
                    on_gpu ? DeviceKind::cuda : DeviceKind::cpu);
}

// The costs of micro-batches of another size than the case's, for plans whose stages take such.
static CostGraph costs_at(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  if (!is_cost_file(c.costs)) return case_costs(p, c, micro_batch);
  return grouped_costs(p.costs, static_cast<int>(micro_batch / p.micro_batch));  // a file has one size only
}

// A plan of a system that accumulates gradients may take micro-batches of another size than the case.
static void take_micro_batch_of_plan(const RunCase& c, Prepared& p) {
  if (p.plan.micro_batch == p.micro_batch) return;
  p.costs = costs_at(p, c, p.plan.micro_batch);
  p.micro_batch = p.plan.micro_batch;
  p.microbatches_per_update = static_cast<int>(c.batch / p.micro_batch);
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
  p.costs = case_costs(p, c, p.micro_batch);
}

// Everything that follows from a plan.
static void adopt(Prepared& p, const RunCase& c, const Plan& plan) {
  for (const PlanStage& stage : plan.stages) {
    const std::int64_t micro_batch = stage.micros_per_op * p.micro_batch;
    if (stage.micros_per_op > 1 &&
        std::ranges::find(p.costs.larger, micro_batch, &CostGraph::micro_batch) == p.costs.larger.end())
      p.costs.larger.push_back(costs_at(p, c, micro_batch));
  }
  p.plan = plan;
  if (p.system->accumulates)
    take_micro_batch_of_plan(c, p);
  else if (!p.system->synchronous)
    divide_among_replicas(c, p);
  adopt_pipeline(p, p.plan);
}

void adopt_pipeline(Prepared& p, const Plan& pipeline) {
  int devices = 0;
  for (const PlanStage& stage : pipeline.stages)
    for (const DeviceId device : stage.devices) devices = std::max(devices, device.value + 1);
  p.pipeline = pipeline;
  p.plan = replicate(pipeline, devices, p.microbatches_per_update / p.replicas.count, p.replicas);
  p.ranks = ranks_of(p.plan);
  p.graph = stage_graph(p.plan, p.costs);
}

// Throws InputError where the system cannot be replicated or sharded as the case says.
static void refuse_replicas(const RunCase& c, const System& system) {
  if (c.data_parallel == 1 && c.sharding == StageSharding::system) return;
  if (!system.synchronous)
    throw InputError("data_parallel",
                     c.system + " updates without a flush: its planner decides how often a stage is replicated",
                     "leave data_parallel and sharding out");
  if (c.data_parallel > 1 && system.data_parallel)
    throw InputError("data_parallel", c.system + " is data parallel by itself", "leave data_parallel out");
  if (c.microbatches % c.data_parallel != 0)
    throw InputError("microbatches",
                     std::to_string(c.microbatches) + " micro-batches cannot be divided among " +
                         std::to_string(c.data_parallel) + " pipelines",
                     "choose a multiple");
}

Program program_of_updates(const Prepared& p) {
  // Asynchronous: a run long enough that filling the pipe hardly counts.
  const int updates = p.system->synchronous ? 1 : 8 * static_cast<int>(p.ranks.devices.size());
  return make_program(p, p.microbatches_per_update * updates);
}

Seconds simulated_update(const Prepared& p, const Program& program) {
  // Synchronous: updates follow one another without a barrier; the first has nothing before it.
  const int iterations = p.system->synchronous ? 3 : 1;
  const Simulation s = simulate(program, costs_of(p.plan, p.costs, p.cluster), p.cluster, p.ranks.devices,
                                {.iterations = iterations, .trace = false});
  if (!p.system->synchronous) return Seconds(s.end / program.updates);
  return Seconds(s.update_end.back() - s.update_end[s.update_end.size() - 2]);
}

// Seconds of an update under a plan that a planner considers; infinite if it does not fit into memory.
static Seconds simulated_seconds(const Prepared& p, const RunCase& c, const Plan& plan) {
  Prepared candidate = p;
  adopt(candidate, c, plan);
  const Program program = program_of_updates(candidate);
  const auto held = memory(program, stage_memory(candidate, c.optimizer, program.rule));
  if (!over_memory(candidate, held).empty()) return Seconds(std::numeric_limits<double>::infinity());
  return simulated_update(candidate, program);
}

// A published variant recomputes one layer. A real stage does so as a whole.
static bool has_recomputing_layer(const PlanStage& stage, const CostGraph& costs) {
  for (std::size_t i = 0; i < stage.variants.size(); ++i) {
    const LayerCost& layer = costs.layers[static_cast<std::size_t>(stage.layers[i])];
    if (stage.variants[i] >= 0 && layer.variants[static_cast<std::size_t>(stage.variants[i])].recompute) return true;
  }
  return false;
}

Prepared prepare(const RunCase& c) {
  const auto begin = std::chrono::steady_clock::now();
  Prepared p;
  p.system = &find_system(c.system, "system");
  const ProfileWorkload* profile = profile_workload(c.workload, c.costs);
  refuse_replicas(c, *p.system);
  p.replicas = {c.data_parallel, c.layout};
  p.sharding = c.sharding;
  p.workload = profile ? &profile->workload : &find_workload(c.workload);
  p.options = resolve_options(p.system->options, c.options, "options");
  p.cluster = c.cluster == kThisMachine ? this_machine(c.ranks, c.device)
                                        : load_cluster(c.cluster, source_folder() + "/workloads/clusters");
  p.microbatches_per_update = c.microbatches;
  p.micro_batch = c.batch / c.microbatches;
  p.step_barrier = c.step == UpdateStart::barrier;
  p.costs = case_costs(p, c, p.micro_batch);
  // One replica is planned, for the devices that it would have if the replicas lay one after the other.
  const int replicas = c.data_parallel;
  Problem problem{p.costs, p.cluster, c.ranks / replicas, c.batch / replicas, c.microbatches / replicas, {}};
  problem.simulate = [&](const Plan& plan) { return simulated_seconds(p, c, plan); };
  problem.costs_at = [&](std::int64_t micro_batch) { return std::make_shared<CostGraph>(costs_at(p, c, micro_batch)); };
  if (!p.workload->model.layers.empty()) {  // a published profile has costs and no layers
    const ModelGraph& model = p.workload->model;
    std::vector<Bytes> weights;
    for (const LayerSpec& layer : model.layers) weights.emplace_back(4 * parameter_count(layer));
    problem.footprint = [weights, stashes = StageStashes(model, model.shapes()),
                         tensors = 2 + c.optimizer.state_tensors()](std::span<const int> layers) {
      Bytes always;  // weights, gradients, the optimizer's
      for (const int l : layers) always += weights[static_cast<std::size_t>(l)] * tensors;
      const GrowingStash stash = stashes.of(layers);
      return Problem::Footprint{always, stash.per_micro_batch.forward, stash.per_sample.forward};
    };
  }
  const auto search_begin = std::chrono::steady_clock::now();
  Plan plan = make_plan(*p.system, problem, p.options);
  plan.search.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - search_begin).count();
  if (c.clock == Clock::wall)
    for (PlanStage& stage : plan.stages) {
      if (stage.tensor > 1)
        throw InputError(c.system, "the plan shares layers between devices (tensor parallelism)",
                         "that is simulated only: use the virtual clock, or tensor_parallel=no");
      stage.recompute = stage.recompute || has_recomputing_layer(stage, p.costs);
    }
  adopt(p, c, plan);
  p.planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p;
}

// What an order is made for: one replica of the pipeline with its share of the micro-batches.
static ScheduleProblem schedule_problem(const Prepared& p, int microbatches, int epoch = 0) {
  const RankMap ranks = p.replicas.count == 1 ? p.ranks : ranks_of(p.pipeline);
  ScheduleProblem problem{p.graph, ranks.placement, static_cast<int>(ranks.devices.size()),
                          microbatches / p.replicas.count, stage_costs(p.plan, p.costs, p.cluster)};
  problem.microbatches_per_update = p.microbatches_per_update / p.replicas.count;
  problem.epoch = epoch;
  problem.order = p.plan.order;
  if (std::ranges::any_of(p.plan.stages, &PlanStage::recompute))
    for (const PlanStage& stage : p.plan.stages) problem.recompute.push_back(stage.recompute);
  return problem;
}

static Sharding sharding_of(const Prepared& p, const ScheduleProblem& problem) {
  using Gather = Sharding::Gather;
  using Reduce = Sharding::Reduce;
  switch (p.sharding) {
    case StageSharding::system:
      return p.system->sharding ? p.system->sharding(problem, p.options) : Sharding{};
    case StageSharding::none:
      return {};
    case StageSharding::optimizer:
      return {.gather = Gather::after_step, .reduce = Reduce::per_unit};
    case StageSharding::use:
      return {.gather = Gather::on_use, .reduce = Reduce::per_microbatch};
    case StageSharding::visit:
      return {.gather = Gather::on_visit, .reduce = Reduce::per_unit};
    case StageSharding::update:
      return {.gather = Gather::once, .reduce = Reduce::per_unit};
  }
  return {};
}

Sharding sharding_of(const Prepared& p, int microbatches) { return sharding_of(p, schedule_problem(p, microbatches)); }

Program make_program(const Prepared& p, int microbatches, int epoch) {
  const ScheduleProblem problem = schedule_problem(p, microbatches, epoch);
  const Schedule schedule = replicate(p.system->schedule(problem, p.options), p.replicas);
  const WeightRule rule = rule_of(p, microbatches, epoch);
  return checked(lower(schedule, p.graph, p.ranks.placement, rule, sharding_of(p, problem),
                       {.leftover = p.leftover, .step_barrier = p.step_barrier && rule.synchronous()}));
}

WeightRule rule_of(const Prepared& p, int microbatches, int epoch) {
  return p.system->weights(schedule_problem(p, microbatches, epoch), p.options);
}

Theory make_theory(const Prepared& p, int microbatches) {
  Theory theory = p.system->theory(schedule_problem(p, microbatches), p.options);
  for (std::vector<int>* figures : {&theory.in_flight, &theory.weight_versions, &theory.staleness})
    *figures = replicate(*figures, p.replicas);
  return theory;
}

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer, const WeightRule& rule) {
  const ModelGraph& model = p.workload->model;
  if (model.layers.empty()) return stage_memory(p.costs, p.plan, optimizer);
  return stage_memory(model, p.plan, p.micro_batch, optimizer, rule);
}

std::string over_memory(const Prepared& p, const std::vector<RankMemory>& memory) {
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const Device& device = p.cluster.devices[p.ranks.devices[r].index()];
    if (memory[r].peak.total() > device.memory)
      return "rank " + std::to_string(r) + " needs " + to_text(memory[r].peak.total()) + " at its peak, its device '" +
             device.name + "' has " + to_text(device.memory);
  }
  return "";
}

}  // namespace sluice
