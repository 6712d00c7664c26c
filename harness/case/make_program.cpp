#include "harness/case/make_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/case/expert_rules.h"
#include "harness/case/predict_memory.h"
#include "harness/case/tensor_rules.h"
#include "harness/pipeline/rule_fault.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/costs.h"

namespace sluice {

// What a message between each stage and the next takes when the links are free; 0 where nothing is sent.
static std::vector<Seconds> message_times(const Prepared& p, const StageGraph& graph, const RankMap& ranks) {
  Paths paths(p.cluster);
  std::vector<Seconds> result;
  for (std::size_t s = 0; s + 1 < graph.size(); ++s) {
    const StageId from(s), to(s + 1);
    // Of tensor-parallel groups, the first members.
    const auto device = [&](std::size_t stage) {
      return DeviceId(ranks.devices[ranks.placement.stages[stage].front().index()].value * group_size(p));
    };
    const DeviceId a = device(s), b = device(s + 1);
    Seconds time;
    if (a != b && std::ranges::find(graph.successors[s], to) != graph.successors[s].end()) {
      double seconds_per_byte = 0;
      for (const Hop& hop : paths.between(a, b)) {
        const Link& link = hop.link;
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

ScheduleProblem schedule_problem(const Prepared& p, int microbatches, int epoch) {
  const RankMap ranks = p.replicas.count == 1 && !p.tensor ? p.ranks : ranks_of(p.pipeline);
  const Plan& plan = p.tensor ? p.pipeline : p.plan;
  const StageGraph graph = p.tensor ? stage_graph(p.pipeline, p.member_costs) : p.graph;
  ScheduleProblem problem{graph, ranks.placement, static_cast<int>(ranks.devices.size()),
                          microbatches / p.replicas.count, stage_costs(plan, planned_costs(p), p.cluster)};
  problem.microbatches_per_update = p.microbatches_per_update / p.replicas.count;
  problem.epoch = epoch;
  problem.order = p.order;
  problem.sequence_chunks = plan.sequence.count;
  if (p.sizes.differ()) problem.sizes = sizes_of_pipeline(p.sizes, p.replicas.count);
  if (std::ranges::any_of(plan.stages, &PlanStage::recompute))
    for (const PlanStage& stage : plan.stages) problem.recompute.push_back(stage.recompute);
  if (p.system->offload && !p.inference) problem.host_copies = host_copies_of(plan, planned_costs(p), p.cluster);
  if (p.system->searches_order) {
    problem.messages = message_times(p, graph, ranks);
    problem.weight_stash_share = weight_stash_shares(p);
  }
  return problem;
}

static Offload offload_of(const Prepared& p, const ScheduleProblem& problem, const Schedule& one) {
  if (!p.system->offload) return {};
  if (p.tensor)
    throw InputError("tensor", "activations of layers that devices share do not move to the host",
                     "leave tensor parallelism out, or take another system than " + p.system->name);
  Offload offload = p.system->offload(problem, one, p.options);
  if (!offload.active()) return {};
  return replicate(offload, one.microbatches, p.replicas);
}

static bool has_replicas(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const PlanStage& stage) { return stage.devices.size() > 1; });
}

static Sharding sharding_of(const Prepared& p, const ScheduleProblem& problem) {
  if (p.inference || (p.tensor && !has_replicas(p.plan))) return {};
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
static void reject_too_many_ops(const Prepared& p, int microbatches) {
  constexpr double kMaxOps = 50e6;
  const double passes = p.inference ? 1 : 3;
  const double ops = passes * microbatches * p.plan.sequence.count * p.graph.stages();
  if (ops > kMaxOps)
    throw InputError("microbatches",
                     std::to_string(static_cast<std::int64_t>(ops)) + " ops in one program are too many",
                     "use fewer micro-batches, or fewer updates between two drains: at most " +
                         std::to_string(static_cast<std::int64_t>(kMaxOps)) + " ops are possible");
}

// What autograd keeps of a Module stays on the device that ran it.
static void reject_moved_modules(const Prepared& p, const Program& program) {
  const std::vector<LayerSpec>& layers = p.workload->model.layers;
  const auto module =
      std::ranges::find_if(layers, [](const LayerSpec& layer) { return std::holds_alternative<Module>(layer.kind); });
  if (module == layers.end()) return;
  for (const auto& rank : program.ranks)
    for (const Instruction& op : rank)
      if (op.opcode == Opcode::send_stash || op.opcode == Opcode::stash_out)
        throw InputError(p.system->name,
                         "moves activations to " +
                             std::string(op.opcode == Opcode::stash_out ? "the host" : "another rank") +
                             ", which layer '" + module->name + "' (Module) does not support",
                         "use another system");
}

static Program make_inference_program(const Prepared& p, int microbatches) {
  const ScheduleProblem problem = schedule_problem(p, p.microbatches_per_update);
  if (p.system->sharding && has_replicas(p.plan) && p.system->sharding(problem, p.options).active())
    throw InputError(p.system->name, "inference runs with whole weights on every rank of a stage",
                     "use data_parallel or a pipeline, or leave replicas out");
  const Schedule once = replicate(p.system->schedule(problem, p.options), p.replicas);
  const int batches = microbatches / p.microbatches_per_update;
  const PlacedSchedule all = repeated(forwards_of(once), p.graph, p.ranks.placement, batches);
  Program program = lower(all.schedule, p.graph, all.placement, {}, {}, {.queue = p.queue});
  program.updates = batches;
  program.microbatches_per_update = p.microbatches_per_update;
  return program;
}

Program make_program(const Prepared& p, int microbatches, int epoch) {
  reject_too_many_ops(p, microbatches);
  if (p.inference) return make_inference_program(p, microbatches);
  const ScheduleProblem problem = schedule_problem(p, microbatches, epoch);
  const Schedule one = p.system->schedule(problem, p.options);
  const Schedule schedule = members_of(replicate(one, p.replicas), group_size(p));
  const WeightRule rule = rule_of(p, microbatches, epoch);
  const Sharding sharding = sharding_of(p, problem);
  if (p.tensor && sharding.active()) reject_shared_and_sharded();
  if (p.spread && sharding.active()) reject_spread_and_sharded();
  Program program =
      lower(schedule, p.graph, p.ranks.placement, rule, sharding,
            {.leftover = p.leftover, .step_barrier = p.step_barrier && rule.synchronous(), .clip_norm = p.clip_norm},
            offload_of(p, problem, one));
  program.tensor = divided_model(p) ? divided_model(p)->degree : 1;
  program.sizes = p.sizes;
  program.spreads_experts = p.spread != nullptr;
  reject_moved_modules(p, program);
  if (p.spread) require_lock_step(program, *p.spread, p.plan);
  return checked(std::move(program));
}

WeightRule rule_of(const Prepared& p, int microbatches, int epoch) {
  if (p.inference) return {};
  WeightRule rule = p.system->weights(schedule_problem(p, microbatches, epoch), p.options);
  if (const std::string fault = rule_fault(*p.system, rule); !fault.empty())
    throw InputError(p.system->name, fault, "see baselines/README.md; sluice check " + p.system->name);
  return members_of(std::move(rule), group_size(p));
}

}  // namespace sluice
