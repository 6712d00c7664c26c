#include "harness/case/prepare.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/case/costs.h"
#include "harness/case/cut_sequences.h"
#include "harness/case/profile_workload.h"
#include "harness/case/real_executor.h"
#include "harness/case/tensor_costs.h"
#include "harness/case/tensor_rules.h"
#include "harness/model/load_interference.h"
#include "harness/model/throttle.h"
#include "harness/pipeline/rule_fault.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"

namespace sluice {

// What the case slows down for good, as planners see it.
static void slow_down(Cluster& cluster, const RunCase& c) {
  const std::vector<double> slowdowns = parse_slowdowns(c.slowdown, c.ranks, "slowdown");
  for (std::size_t d = 0; d < slowdowns.size(); ++d) cluster.devices[d].speed /= slowdowns[d];
  const Throttle throttle = Throttle::parse(c.throttle, c.ranks, "throttle");
  if (throttle.empty()) return;
  cluster.one_machine.reset();  // its messages pass through no link
  for (Link& link : cluster.links) {
    const LinkThrottle t = throttle.between(link.from, link.to);
    link.bandwidth = std::min(link.bandwidth, t.rate);
    link.latency += t.latency;
  }
}

// The machine we are on, as a cluster: one device a rank, messages by handle.
static Cluster this_machine(const RunCase& c, bool processes) {
  const int ranks = c.ranks;
  const DeviceKind kind = c.device;
  Cluster cluster = latency_cluster(ranks, Seconds(2e-6));
  cluster.name = kThisMachine;
  for (Device& device : cluster.devices) {
    device.name = "cpu thread";
    // Shared by all ranks: it is the operating system that refuses, not the plan.
    device.memory = Bytes(std::int64_t{1} << 50);
  }
  if (kind != DeviceKind::cuda)
    cluster.one_machine = Cluster::OneMachine{
        .between_processes = processes, .cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  if (kind == DeviceKind::cuda) {
    // A GPU's memory is shared by the ranks that share it (device_of_rank in exec/torch).
    const Json gpus = real_executor::gpus()["devices"];
    const auto n = static_cast<int>(gpus.size());
    for (Device& device : cluster.devices) {
      device.name = "GPU of this machine";
      if (n > 0) device.memory = Bytes(gpus[0]["memory_bytes"].get<std::int64_t>() / ((ranks + n - 1) / n));
    }
  }
  slow_down(cluster, c);
  return cluster;
}

// The case's costs for micro-batches of `micro_batch` samples. "profile" measures on the GPU where the ranks run on the
// GPUs of this machine, otherwise on the CPU.
static CostGraph case_costs(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  const bool on_gpu = c.cluster == kThisMachine && c.device == DeviceKind::cuda;
  const bool batched = c.weight_gradient == WeightGradients::batched && !on_gpu;
  CostGraph costs = load_costs(c.costs, *p.workload,
                               {.workload = c.workload,
                                .micro_batch = micro_batch,
                                .device = on_gpu ? DeviceKind::cuda : DeviceKind::cpu,
                                .optimizer = c.optimizer,
                                .workload_digest = workload_digest(*p.workload),
                                .batched_micros = batched ? c.microbatches / c.data_parallel : 0},
                               p.cluster.devices.front());
  if (p.tensor) costs = member_costs(costs, *p.tensor, p.cluster);
  return c.task == Task::inference ? forward_only(std::move(costs)) : costs;
}

const ModelGraph& running_model(const Prepared& p) { return p.tensor ? p.tensor->all : p.workload->model; }

// What planners and orders are made for: of groups that share layers, one device of each.
static const ModelGraph& planned_model(const Prepared& p) { return p.tensor ? p.tensor->member : p.workload->model; }
static const CostGraph& planned_costs(const Prepared& p) { return p.tensor ? p.member_costs : p.costs; }

static int group_size(const Prepared& p) { return p.tensor ? p.tensor->degree : 1; }

static void set_costs(Prepared& p, CostGraph costs) {
  if (!p.tensor) {
    p.costs = std::move(costs);
    return;
  }
  p.member_costs = std::move(costs);
  p.costs = members_of(p.member_costs, p.tensor->degree);
}

// The costs of micro-batches of another size than the case's, for plans whose stages take such.
static CostGraph costs_at(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  if (!is_cost_file(c.costs) && !profile_workload(c.workload, c.costs)) return case_costs(p, c, micro_batch);
  return grouped_costs(p.costs, int_of(micro_batch / p.micro_batch, "micro-batch", 1));  // a file has one size only
}

// A plan of a system that accumulates gradients may take micro-batches of another size than the case.
static void take_micro_batch_of_plan(const RunCase& c, Prepared& p) {
  if (p.plan.micro_batch == p.micro_batch) return;
  set_costs(p, costs_at(p, c, p.plan.micro_batch));
  p.micro_batch = p.plan.micro_batch;
  p.microbatches_per_update = int_of(c.batch / p.micro_batch, "micro-batches", 1);
}

// A stage of r replicas of an asynchronous system takes r micro-batches for one update of its own, so that the global
// batch is cut once more: into the least number that makes whole updates of every stage. A published profile has
// micro-batches of one size, its batch being a worker's own, as in PipeDream: there the global batch grows instead.
static void divide_among_replicas(const RunCase& c, Prepared& p) {
  int together = 1;
  for (const PlanStage& stage : p.plan.stages) together = std::lcm(together, static_cast<int>(stage.devices.size()));
  if (together == 1) return;
  p.microbatches_per_update = int_of(exact_product<std::int64_t>(p.microbatches_per_update, together), "micro-batches");
  if (is_profile_workload(*p.workload)) return;
  if (c.batch % p.microbatches_per_update != 0)
    throw InputError("batch",
                     std::to_string(c.batch) + " samples cannot be divided among " +
                         std::to_string(p.microbatches_per_update) + " micro-batches",
                     "stages have replicas that need them all for an update: choose a multiple");
  p.micro_batch = c.batch / p.microbatches_per_update;
  p.plan.micro_batch = p.micro_batch;
  p.costs = case_costs(p, c, p.micro_batch);
}

// In inference the micro-batch is what is asked of the system, and the same for all.
static void refuse_other_micro_batch(const Prepared& p) {
  if (p.plan.micro_batch != p.micro_batch)
    throw InputError("plan",
                     "is for micro-batches of " + std::to_string(p.plan.micro_batch) + " samples, inference takes " +
                         std::to_string(p.micro_batch),
                     "use a planner that keeps the size");
}

// Everything that follows from a plan.
static void adopt(Prepared& p, const RunCase& c, const PlannedPipeline& planned) {
  for (const PlanStage& stage : planned.plan.stages) {
    const std::int64_t micro_batch = stage.micros_per_op * p.micro_batch;
    if (stage.micros_per_op > 1 &&
        std::ranges::find(p.costs.larger, micro_batch, &CostGraph::micro_batch) == p.costs.larger.end())
      p.costs.larger.push_back(costs_at(p, c, micro_batch));
  }
  p.plan = planned.plan;
  if (p.inference) {
    refuse_other_micro_batch(p);
    for (PlanStage& stage : p.plan.stages) {
      stage.recompute = false;
      stage.weight_gradient_device.reset();
    }
  } else if (p.system->accumulates)
    take_micro_batch_of_plan(c, p);
  else if (!p.system->synchronous)
    divide_among_replicas(c, p);
  adopt_pipeline(p, {p.plan, planned.order});
}

void adopt_pipeline(Prepared& p, const PlannedPipeline& planned) {
  int devices = 0;
  for (const PlanStage& stage : planned.plan.stages)
    for (const DeviceId device : stage.devices) devices = std::max(devices, device.value + 1);
  p.pipeline = planned.plan;
  p.order = planned.order;
  cut_sequences(*p.workload, p.system->name, p.pipeline, p.costs);
  if (p.tensor && p.pipeline.sequence.count > 1)
    throw InputError("tensor", p.system->name + " cuts sequences into chunks, and shared layers take whole ones",
                     "leave tensor out, or set sequence_chunks=1");
  p.plan = members_of(replicate(p.pipeline, devices, p.microbatches_per_update / p.replicas.count, p.replicas),
                      group_size(p));
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

// Batches of inference after which the pipe, with its queues, has been full for as long again.
static int batches_to_fill(const Prepared& p) {
  const int in_the_pipe = static_cast<int>(p.plan.stages.size()) * (p.queue + 1);
  return 2 * std::max(4, 2 * (in_the_pipe + p.microbatches_per_update - 1) / p.microbatches_per_update);
}

// Whether a program is one update, again and again: of synchronous systems that train.
static bool repeats_one_update(const Prepared& p) { return p.system->synchronous && !p.inference; }

Costs costs_of(const Prepared& p) {
  Costs costs = costs_of(p.plan, p.costs, p.cluster);
  costs.batched_weight_gradients = p.batched_weight_gradients;
  return costs;
}

Program program_of_updates(const Prepared& p) {
  // Otherwise a run long enough that filling the pipe hardly counts.
  const int ranks = static_cast<int>(p.ranks.devices.size());
  const int updates = repeats_one_update(p) ? 1 : p.inference ? batches_to_fill(p) : 8 * ranks;
  return make_program(p, int_of(exact_product<std::int64_t>(p.microbatches_per_update, updates), "micro-batches"));
}

Seconds simulated_update(const Prepared& p, const Program& program) {
  // Synchronous: updates follow one another without a barrier; the first has nothing before it.
  const int iterations = repeats_one_update(p) ? 3 : 1;
  const Simulation s =
      simulate(program, costs_of(p), p.cluster, p.ranks.devices, {.iterations = iterations, .trace = false});
  if (p.inference) {  // the second half: by then the pipe and its queues are full
    const std::size_t half = s.update_end.size() / 2;
    return Seconds((s.update_end.back() - s.update_end[half - 1]) / static_cast<double>(s.update_end.size() - half));
  }
  if (!p.system->synchronous) return Seconds(s.end / program.updates);
  return Seconds(s.update_end.back() - s.update_end[s.update_end.size() - 2]);
}

// Seconds of an update under a plan that a planner considers; infinite if it does not fit into memory.
static Seconds simulated_seconds(const Prepared& p, const RunCase& c, const PlannedPipeline& planned) {
  stop_now();
  Prepared candidate = p;
  adopt(candidate, c, planned);
  const Program program = program_of_updates(candidate);
  const auto held = memory(program, stage_memory(candidate, c.optimizer, program.rule));
  if (!over_memory(candidate, held).empty()) return Seconds(std::numeric_limits<double>::infinity());
  return simulated_update(candidate, program);
}

// A published variant recomputes one layer. A real stage does so as a whole.
static bool has_recomputing_layer(const PlanStage& stage, const CostGraph& costs) {
  for (std::size_t i = 0; i < stage.variants.size(); ++i) {
    const LayerCost& layer = costs.layers[stage.layers[i]];
    if (stage.variants[i] >= 0 && layer.variants[stage.variants[i]].recompute) return true;
  }
  return false;
}

// Throws InputError where the system cannot infer.
static void refuse_inference(const Prepared& p) {
  if (p.inference && (p.system->sharding || p.sharding != StageSharding::system))
    throw InputError(p.system->name, "inference runs with whole weights on every rank of a stage",
                     "use data_parallel or a pipeline, and leave sharding out");
}

Problem problem_of(const Prepared& p, const RunCase& c) {
  // One replica is planned, for the devices that it would have if the replicas lay one after the other.
  const int replicas = c.data_parallel;
  Problem problem{planned_costs(p),          p.cluster, c.ranks / replicas / group_size(p), c.batch / replicas,
                  c.microbatches / replicas, {}};
  problem.inference = p.inference;
  problem.simulate = [&p, &c](const PlannedPipeline& planned) { return simulated_seconds(p, c, planned); };
  problem.costs_at = [&p, &c](std::int64_t micro_batch) {
    return std::make_shared<CostGraph>(costs_at(p, c, micro_batch));
  };
  if (!p.workload->model.layers.empty()) {  // a published profile has costs and no layers
    const ModelGraph& model = planned_model(p);
    std::vector<Bytes> lasting;  // of each layer: weights, gradients, the optimizer's
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
      const std::int64_t weights = parameter_count(model.layers[l]);
      lasting.emplace_back(4 * (p.inference ? weights : 2 * weights + state_elements(c.optimizer, model, l)));
    }
    problem.footprint = [lasting, stashes = StageStashes(model, model.shapes()), inference = p.inference, &model,
                         shapes = model.shapes()](std::span<const int> layers) {
      Bytes always;
      for (const int l : layers) always += lasting[l];
      if (inference) return Problem::Footprint{always, Bytes(0), live_bytes(model, shapes, layers, 1)};
      const GrowingStash stash = stashes.of(layers);
      return Problem::Footprint{always, stash.per_micro_batch.forward, stash.per_sample.forward};
    };
  }
  return problem;
}

// The rest of what a plan's own degree of shared layers decides (shared_degree).
static void share_layers(Prepared& p, const RunCase& c, Plan& plan) {
  const int degree = shared_degree(c, plan, p.workload->model);
  if (degree == 1) return;
  plan = groups_of(plan, degree);
  p.tensor = std::make_shared<const TensorModel>(split_tensors(p.workload->model, degree));
  CostGraph whole = p.costs;
  for (LayerCost& layer : whole.layers) layer.variants.clear();
  set_costs(p, member_costs(whole, *p.tensor, p.cluster));
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
  const bool processes = c.cluster == kThisMachineProcesses || c.transport == TransportKind::mpi;
  p.cluster = is_this_machine(c) ? this_machine(c, processes)
                                 : load_cluster(c.cluster, source_folder() + "/workloads/clusters");
  p.microbatches_per_update = c.microbatches;
  p.micro_batch = c.batch / c.microbatches;
  p.step_barrier = c.step == UpdateStart::barrier;
  p.interference = load_interference(c.interference, static_cast<int>(p.cluster.devices.size()), "interference");
  p.inference = c.task == Task::inference;
  p.queue = c.queue;
  p.batched_weight_gradients = c.weight_gradient == WeightGradients::batched;
  if (c.tensor > 1) {
    refuse_tensor(c, *p.system);
    p.tensor = std::make_shared<const TensorModel>(split_tensors(p.workload->model, c.tensor));
  }
  set_costs(p, case_costs(p, c, p.micro_batch));
  refuse_inference(p);
  const Problem problem = problem_of(p, c);
  const auto search_begin = std::chrono::steady_clock::now();
  PlannedPipeline planned = make_plan(*p.system, problem, p.options);
  Plan& plan = planned.plan;
  plan.search.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - search_begin).count();
  if (c.clock == Clock::wall)
    for (PlanStage& stage : plan.stages) stage.recompute = stage.recompute || has_recomputing_layer(stage, p.costs);
  share_layers(p, c, plan);
  adopt(p, c, planned);
  p.planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p;
}

// What a message between each stage and the next takes when the links are free; 0 where nothing is sent.
static std::vector<Seconds> message_times(const Prepared& p, const StageGraph& graph, const RankMap& ranks) {
  Paths paths(p.cluster);
  std::vector<Seconds> result;
  for (std::size_t s = 0; s + 1 < graph.size(); ++s) {
    const StageId from(s), to(s + 1);
    // Of groups that share layers, the first members.
    const auto device = [&](std::size_t stage) {
      return DeviceId(ranks.devices[ranks.placement.stages[stage].front().index()].value * group_size(p));
    };
    const DeviceId a = device(s), b = device(s + 1);
    Seconds time;
    if (a != b && std::ranges::find(graph.successors[s], to) != graph.successors[s].end()) {
      double seconds_per_byte = 0;
      for (const Hop& hop : paths.between(a, b)) {
        const Link& link = p.cluster.links[hop.link];
        time += link.latency;
        seconds_per_byte = std::max(seconds_per_byte, 1 / link.bandwidth);
      }
      time += Seconds(seconds_per_byte * static_cast<double>(edge_bytes(p.pipeline, planned_costs(p), from, to).value));
    }
    result.push_back(time);
  }
  return result;
}

// Per stage, what W keeps of a micro-batch's activations after I, as a share of them.
static std::vector<double> weight_stash_shares(const Prepared& p) {
  std::vector<double> shares;
  const std::vector<StageMemory> stages = stage_memory(p, OptimizerSpec{}, WeightRule{});
  for (std::size_t s = 0; s < stages.size(); s += static_cast<std::size_t>(group_size(p)))
    shares.push_back(stages[s].stash.value == 0 ? 1
                                                : std::min(1.0, static_cast<double>(stages[s].weight_stash.value) /
                                                                    static_cast<double>(stages[s].stash.value)));
  return shares;
}

// What an order is made for: one replica of the pipeline with its share of the micro-batches.
static ScheduleProblem schedule_problem(const Prepared& p, int microbatches, int epoch = 0) {
  const RankMap ranks = p.replicas.count == 1 && !p.tensor ? p.ranks : ranks_of(p.pipeline);
  const Plan& plan = p.tensor ? p.pipeline : p.plan;
  const StageGraph graph = p.tensor ? stage_graph(p.pipeline, p.member_costs) : p.graph;
  ScheduleProblem problem{graph, ranks.placement, static_cast<int>(ranks.devices.size()),
                          microbatches / p.replicas.count, stage_costs(plan, planned_costs(p), p.cluster)};
  problem.microbatches_per_update = p.microbatches_per_update / p.replicas.count;
  problem.epoch = epoch;
  problem.order = p.order;
  problem.sequence_chunks = plan.sequence.count;
  if (std::ranges::any_of(plan.stages, &PlanStage::recompute))
    for (const PlanStage& stage : plan.stages) problem.recompute.push_back(stage.recompute);
  if (p.system->searches_order) {
    problem.messages = message_times(p, graph, ranks);
    problem.weight_stash_share = weight_stash_shares(p);
  }
  return problem;
}

static Sharding sharding_of(const Prepared& p, const ScheduleProblem& problem) {
  if (p.inference) return {};
  using Gather = Sharding::Gather;
  using Reduce = Sharding::Reduce;
  switch (p.sharding) {
    case StageSharding::system:
      return p.system->sharding ? p.system->sharding(problem, p.options) : Sharding{};
    case StageSharding::none:
      return {};
    case StageSharding::optimizer:
      return {.gather = Gather::after_step, .reduce = Reduce::accumulated};
    case StageSharding::use:
      return {.gather = Gather::on_use, .reduce = Reduce::per_microbatch};
    case StageSharding::visit:
      return {.gather = Gather::on_visit, .reduce = Reduce::accumulated};
    case StageSharding::update:
      return {.gather = Gather::once, .reduce = Reduce::accumulated};
  }
  return {};
}

Sharding sharding_of(const Prepared& p, int microbatches) { return sharding_of(p, schedule_problem(p, microbatches)); }

// More would take all of a machine's memory before the first one runs.
static void refuse_too_many_ops(const Prepared& p, int microbatches) {
  constexpr double kMostOps = 50e6;
  const double ops = 3.0 * microbatches * p.plan.sequence.count * p.graph.stages();
  if (ops > kMostOps)
    throw InputError("microbatches",
                     std::to_string(static_cast<std::int64_t>(ops)) + " ops in one program are too many",
                     "use fewer micro-batches, or fewer updates between two drains: at most " +
                         std::to_string(static_cast<std::int64_t>(kMostOps)) + " ops are possible");
}

static Program make_inference_program(const Prepared& p, int microbatches) {
  const ScheduleProblem problem = schedule_problem(p, p.microbatches_per_update);
  const Schedule once = replicate(p.system->schedule(problem, p.options), p.replicas);
  const int batches = microbatches / p.microbatches_per_update;
  const PlacedSchedule all = repeated(forwards_of(once), p.graph, p.ranks.placement, batches);
  Program program = lower(all.schedule, p.graph, all.placement, {}, {}, {.queue = p.queue});
  program.updates = batches;
  program.micros_per_update = p.microbatches_per_update;
  return program;
}

Program make_program(const Prepared& p, int microbatches, int epoch) {
  if (p.inference) return make_inference_program(p, microbatches);
  refuse_too_many_ops(p, microbatches);
  const ScheduleProblem problem = schedule_problem(p, microbatches, epoch);
  const Schedule schedule = members_of(replicate(p.system->schedule(problem, p.options), p.replicas), group_size(p));
  const WeightRule rule = rule_of(p, microbatches, epoch);
  const Sharding sharding = sharding_of(p, problem);
  if (p.tensor && sharding.active()) refuse_shared_and_sharded();
  Program program = lower(schedule, p.graph, p.ranks.placement, rule, sharding,
                          {.leftover = p.leftover, .step_barrier = p.step_barrier && rule.synchronous()});
  program.tensor = group_size(p);
  return checked(std::move(program));
}

WeightRule rule_of(const Prepared& p, int microbatches, int epoch) {
  if (p.inference) return {};
  WeightRule rule = p.system->weights(schedule_problem(p, microbatches, epoch), p.options);
  if (const std::string fault = rule_fault(*p.system, rule); !fault.empty())
    throw InputError(p.system->name, fault, "see baselines/README.md; sluice check " + p.system->name);
  return members_of(std::move(rule), group_size(p));
}

Theory make_theory(const Prepared& p, int microbatches) {
  if (p.inference) return {};  // what papers promise is of training
  Theory theory = p.system->theory(schedule_problem(p, microbatches), p.options);
  for (std::vector<int>* figures : {&theory.in_flight, &theory.weight_versions, &theory.staleness})
    *figures = members_of(replicate(*figures, p.replicas), group_size(p));
  return theory;
}

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer, const WeightRule& rule) {
  const ModelGraph& model = running_model(p);
  if (p.inference)
    return model.layers.empty() ? inference_memory(p.costs, p.plan, p.queue)
                                : inference_memory(model, p.plan, p.micro_batch, p.queue);
  std::vector<StageMemory> stages = model.layers.empty() ? stage_memory(p.costs, p.plan, optimizer)
                                                         : stage_memory(model, p.plan, p.micro_batch, optimizer, rule);
  if (!model.layers.empty()) add_temporaries(stages, p.plan, p.costs);
  if (p.batched_weight_gradients)
    for (StageMemory& stage : stages) {
      stage.batched_micros = std::max(1, p.microbatches_per_update / p.replicas.count);
      for (StageMemory& chunk : stage.sequence_chunks) chunk.batched_micros = stage.batched_micros;
    }
  return stages;
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
