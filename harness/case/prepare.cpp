#include "harness/case/prepare.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/cut_sequences.h"
#include "harness/case/expert_costs.h"
#include "harness/case/expert_rules.h"
#include "harness/case/precision_rules.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/profile_workload.h"
#include "harness/case/size_rules.h"
#include "harness/case/tensor_costs.h"
#include "harness/case/tensor_rules.h"
#include "harness/case/this_machine.h"
#include "harness/model/expert_spread.h"
#include "harness/model/fold_layers.h"
#include "harness/model/load_interference.h"
#include "harness/model/word_slices.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/plan/machines.h"
#include "harness/plan/make_plan.h"

namespace sluice {

std::string microbatches_text(const Prepared& p) {
  const std::string largest = std::to_string(p.micro_batch);
  return std::to_string(p.microbatches_per_update) + " x " +
         (p.sizes.differ() ? std::to_string(p.sizes.distinct().front()) + " to " + largest : largest);
}

// How the costs of a part of a layer relate to the whole layer's.
static CostFormula cost_formula(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  return [&p, &c, micro_batch](const ModelGraph& model) {
    return is_calibrated(c.costs) ? cluster_costs(c.costs, model, micro_batch, p.cluster, p.storage, c.optimizer)
                                  : analytic_costs(model, micro_batch, p.cluster.devices.front(), p.storage);
  };
}

// The case's costs for micro-batches of `micro_batch` samples. "profile" measures on the GPU where the ranks run on the
// GPUs of this machine, otherwise on the CPU.
static CostGraph case_costs(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  const bool on_gpu = is_on_gpus(c);
  const bool batched = c.weight_gradient != WeightGradients::per_microbatch && !on_gpu;
  CostGraph costs = load_costs(c.costs, *p.workload,
                               {.workload = c.workload,
                                .micro_batch = micro_batch,
                                .device = on_gpu ? DeviceKind::cuda : DeviceKind::cpu,
                                .optimizer = c.optimizer,
                                .workload_digest = workload_digest(*p.workload),
                                .batched_microbatches = batched ? c.microbatches / c.data_parallel : 0},
                               p.cluster, p.storage, *p.profiles);
  if (p.spread)
    costs = spread_costs(costs, p.workload->model, *p.spread, p.cluster,
                         groups_of_experts(c.ranks, {replicas_of_experts(*p.spread), p.replicas.layout}),
                         cost_formula(p, c, micro_batch));
  if (p.tensor) costs = member_costs(costs, *p.tensor, p.cluster, cost_formula(p, c, micro_batch));
  if (p.words) costs = word_slice_costs(costs, *p.words, p.cluster, cost_formula(p, c, micro_batch));
  return c.task == Task::inference ? forward_only(std::move(costs)) : costs;
}

static void set_costs(Prepared& p, CostGraph costs) {
  if (!p.tensor) {
    p.costs = std::move(costs);
    return;
  }
  p.member_costs = std::move(costs);
  p.costs = members_of(p.member_costs, p.tensor->degree);
}

// Throws InputError where layers have a pair_share that the case cannot take.
static void require_one_pair_share(const Prepared& p, const RunCase& c) {
  const auto layer = std::ranges::find_if(p.costs.layers, [](const LayerCost& l) { return l.pair_share.has_value(); });
  if (layer == p.costs.layers.end()) return;
  const std::string where = c.costs + ": layer '" + layer->name + "'";
  if (p.cluster.pair_share)
    throw InputError(where, "has a pair_share, and so has cluster '" + p.cluster.name + "'", "leave one of them out");
  if (is_this_machine(c))
    throw InputError(where, "has a pair_share, and this machine runs the ops of a pair one after the other",
                     "leave it out, or use another cluster on the virtual clock");
}

// The costs of micro-batches of another size than the case's, for plans whose stages take such.
static CostGraph costs_at(const Prepared& p, const RunCase& c, std::int64_t micro_batch) {
  if (!is_cost_file(c.costs) && !profile_workload(c.workload, c.costs)) return case_costs(p, c, micro_batch);
  return in_proportion(p.costs, micro_batch);  // a file has one size only
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
static void reject_other_micro_batch(const Prepared& p) {
  if (p.plan.micro_batch != p.micro_batch)
    throw InputError("plan",
                     "is for micro-batches of " + std::to_string(p.plan.micro_batch) + " samples, inference takes " +
                         std::to_string(p.micro_batch),
                     "use a planner that keeps the size");
}

// Everything that follows from a plan.
static void adopt(Prepared& p, const RunCase& c, const PlannedPipeline& planned) {
  for (const PlanStage& stage : planned.plan.stages) {
    const std::int64_t micro_batch = stage.microbatches_per_op * p.micro_batch;
    if (stage.microbatches_per_op > 1 &&
        std::ranges::find(p.costs.larger, micro_batch, &CostGraph::micro_batch) == p.costs.larger.end())
      p.costs.larger.push_back(costs_at(p, c, micro_batch));
  }
  p.plan = planned.plan;
  if (p.inference) {
    reject_other_micro_batch(p);
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

// Where the plan has cut between a layer and one that uses its weight. A stage all of whose ranks hold the weight's own
// stage, too, uses that one (V placements, two directions); any other has a copy, which is added to the costs.
static void copy_tied_weights(Prepared& p) {
  const ModelGraph& model = model_of_replica(p);
  if (divided_model(p) || std::ranges::none_of(model.layers, [](const LayerSpec& l) { return l.tied_to >= 0; })) return;
  const std::vector<int> stage_of = stage_of_layers(p.plan, model.layers.size());
  const auto lends = [&](int reader, int owner) {
    const Placement& placement = p.ranks.placement;
    const auto holds = [&](Rank rank) { return std::ranges::count(placement.stages[owner], rank) > 0; };
    return std::ranges::all_of(placement.stages[reader], holds) &&
           !placement.has_weight_gradient_rank(StageId(reader)) && !placement.has_weight_gradient_rank(StageId(owner));
  };
  const auto copied = std::make_shared<const ModelGraph>(with_copies(model, stage_of, lends));
  std::map<int, std::set<int>> copies;  // by layer: the stages that hold its weight
  std::set<std::pair<int, int>> loans;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec& layer = copied->layers[l];
    if (const int owner = layer.copy_of; owner >= 0 && !layer.frozen)
      copies[owner].insert({stage_of[owner], stage_of[l]});
    if (layer.tied_to >= 0 && stage_of[layer.tied_to] != stage_of[l])
      loans.emplace(stage_of[l], stage_of[layer.tied_to]);
    const bool apart =
        !layer.frozen && model.layers[l].tied_to >= 0 && stage_of[model.layers[l].tied_to] != stage_of[l];
    if (apart && !p.system->synchronous && !p.inference)
      throw InputError("model '" + model.name + "', layer '" + layer.name + "'",
                       "uses the weight of '" + model.layers[model.layers[l].tied_to].name +
                           "', and the plan puts them into stages " +
                           std::to_string(stage_of[model.layers[l].tied_to]) + " and " + std::to_string(stage_of[l]) +
                           ", which " + p.system->name +
                           " updates at different times, so that the sum of both gradients never exists",
                       "use a system with a flush, or leave tied_to out, which gives both layers weights of their own");
  }
  p.copied = copied;
  count_copies(p.costs, *copied);
  for (const auto& [owner, stages] : copies) p.graph.copies.emplace_back(stages.begin(), stages.end());
  for (const auto& [reader, owner] : loans) p.graph.loans.push_back({StageId(reader), StageId(owner)});
}

void adopt_pipeline(Prepared& p, const PlannedPipeline& planned) {
  int devices = 0;
  for (const PlanStage& stage : planned.plan.stages)
    for (const DeviceId device : stage.devices) devices = std::max(devices, device.value + 1);
  p.pipeline = planned.plan;
  p.order = planned.order;
  if (p.sizes.differ()) require_sizes_possible(p.pipeline, *p.system);
  cut_sequences(*p.workload, p.system->name, p.pipeline, p.costs);
  if (p.tensor && p.pipeline.sequence.count > 1)
    throw InputError("tensor", p.system->name + " cuts sequences into chunks, and tensor parallelism takes whole ones",
                     "leave tensor out, or set sequence_chunks=1");
  if (p.spread && p.pipeline.sequence.count > 1)
    throw InputError("experts", p.system->name + " cuts sequences into chunks, and spread experts take whole ones",
                     "use replicated experts, or set sequence_chunks=1");
  if (p.pipeline.sequence.count > 1 && p.storage.attention != AttentionScores::fused) reject_scores_of_chunks();
  p.plan = members_of(replicate(p.pipeline, devices, p.microbatches_per_update / p.replicas.count, p.replicas),
                      group_size(p));
  p.ranks = ranks_of(p.plan);
  p.graph = stage_graph(p.plan, p.costs);
  copy_tied_weights(p);
}

// Throws InputError where the system cannot be replicated or sharded as the case says.
static void reject_replicas(const RunCase& c, const System& system) {
  if (c.data_parallel == 1 && c.sharding == StageSharding::system) return;
  if (!system.synchronous)
    throw InputError("data_parallel",
                     c.system + " updates without a flush: its planner decides how often a stage is replicated",
                     "leave data_parallel and sharding out");
  if (c.data_parallel > 1 && system.data_parallel)
    throw InputError("data_parallel", "the system " + c.system + " is data parallel by itself",
                     "leave --data-parallel out");
  if (c.microbatches % c.data_parallel != 0)
    throw InputError("microbatches",
                     std::to_string(c.microbatches) + " micro-batches cannot be divided among " +
                         std::to_string(c.data_parallel) + " pipelines",
                     "choose a multiple");
}

// Seconds of an update; infinite if it does not fit into memory.
static Seconds simulated_seconds(const Prepared& p, const RunCase& c) {
  const Program program = program_of_updates(p);
  const auto held = memory(program, stage_memory(p, c.optimizer, program.rule));
  if (!over_memory(p, held).empty()) return Seconds(std::numeric_limits<double>::infinity());
  return simulated_update(p, program);
}

// The same for one batch under a plan that a planner considers; infinite where it cannot run.
static Seconds simulated_seconds(const Prepared& p, const RunCase& c, const PlannedPipeline& planned) {
  stop_now();
  Prepared candidate = p;
  try {
    adopt(candidate, c, planned);
  } catch (const InputError&) {
    return Seconds(std::numeric_limits<double>::infinity());
  }
  // A published profile's batch has grown with the replicas.
  const double batches = static_cast<double>(candidate.microbatches_per_update) / p.microbatches_per_update;
  return simulated_seconds(candidate, c) / (is_profile_workload(*p.workload) ? batches : 1);
}

// A published variant recomputes one layer. A real stage does so as a whole.
static bool has_recomputing_layer(const PlanStage& stage, const CostGraph& costs) {
  for (std::size_t i = 0; i < stage.variants.size(); ++i) {
    const LayerCost& layer = costs.layers[stage.layers[i]];
    if (stage.variants[i] >= 0 && layer.variants[stage.variants[i]].recompute) return true;
  }
  return false;
}

static void reject_sharded_inference(const Prepared& p) {
  if (p.inference && p.sharding != StageSharding::system && p.sharding != StageSharding::none)
    throw InputError("sharding", "inference runs with whole weights on every rank of a stage", "leave sharding out");
}

Problem problem_of(const Prepared& p, const RunCase& c) {
  // One replica is planned, for the devices that it would have if the replicas lay one after the other.
  const int replicas = c.data_parallel;
  const Cluster& cluster = p.planned_cluster.devices.empty() ? p.cluster : p.planned_cluster;
  Problem problem{planned_costs(p),          cluster, c.ranks / replicas / group_size(p), c.batch / replicas,
                  c.microbatches / replicas, {}};
  problem.inference = p.inference;
  if (p.sizes.differ()) problem.sizes = sizes_of_pipeline(p.sizes, replicas);
  problem.first_layers = c.first_layers;
  if (p.words) {
    problem.word_slices = word_slices(*p.words);
    for (int& layer : problem.first_layers) layer = p.words->first_parts[layer];
  }
  problem.cuts_count_messages = c.cuts != Cuts::compute && !is_this_machine(c);
  if (c.cuts == Cuts::blocks) {
    const RepeatedBlocks blocks = repeated_blocks(planned_model(p));
    for (int b = 0; b <= blocks.copies; ++b) problem.cut_before.push_back(blocks.begin + b * blocks.size);
  }
  problem.simulate = [&p, &c](const PlannedPipeline& planned) { return simulated_seconds(p, c, planned); };
  problem.costs_at = [&p, &c](std::int64_t micro_batch) {
    return std::make_shared<CostGraph>(costs_at(p, c, micro_batch));
  };
  problem.footprint = planned_footprint(p, c.optimizer);
  return problem;
}

// The rest of what a plan's own tensor-parallel degree decides (shared_degree).
static void share_layers(Prepared& p, const RunCase& c, Plan& plan) {
  const int degree = shared_degree(c, plan, p.workload->model);
  if (degree == 1) return;
  plan = groups_of(plan, degree);
  p.tensor = std::make_shared<const TensorModel>(split_tensors(p.workload->model, degree));
  CostGraph whole = p.costs;
  for (LayerCost& layer : whole.layers) layer.variants.clear();
  set_costs(p, member_costs(whole, *p.tensor, p.cluster, cost_formula(p, c, p.micro_batch)));
}

static Prepared prepare_with(const RunCase& c, ProfileStore& profiles, bool batched_weight_gradients) {
  const auto begin = std::chrono::steady_clock::now();
  Prepared p;
  p.profiles = &profiles;
  p.system = &find_system(c.system, "system");
  const ProfileWorkload* profile = profile_workload(c.workload, c.costs);
  reject_replicas(c, *p.system);
  p.replicas = {c.data_parallel, c.layout};
  p.sharding = c.sharding;
  p.workload = profile ? &profile->workload : &find_workload(c.workload);
  p.options = resolve_options(p.system->options, c.options, "options");
  p.cluster = is_this_machine(c) ? this_machine(c) : load_cluster(c.cluster, source_folder() + "/workloads/clusters");
  p.microbatches_per_update = c.microbatches;
  if (!c.microbatch_sizes.empty()) {
    require_sizes_possible(c, *p.system);
    p.sizes = MicrobatchSizes(c.microbatch_sizes);
  }
  p.micro_batch = p.sizes.differ() ? p.sizes.distinct().back() : c.batch / c.microbatches;
  p.step_barrier = c.step == UpdateStart::barrier;
  p.clip_norm = c.optimizer.clip_norm > 0;
  p.interference = load_interference(c.interference, static_cast<int>(p.cluster.devices.size()), "interference");
  p.inference = c.task == Task::inference;
  p.queue = c.queue;
  p.batched_weight_gradients = batched_weight_gradients;
  p.gradient_bucket = c.gradient_buckets;
  p.storage = storage_of(c);
  if (!profile) require_peak(p.cluster.devices, p.storage);
  if (c.experts == ExpertPlacement::spread) {
    reject_spread_experts(c, *p.system);
    p.spread = std::make_shared<const ModelGraph>(spread_experts(p.workload->model, expert_replicas(c, *p.system)));
  }
  if (c.tensor > 1) {
    reject_tensor(c, *p.system);
    p.tensor = std::make_shared<const TensorModel>(split_tensors(p.workload->model, c.tensor));
  }
  if (p.system->divides_words) {
    reject_word_slices(c, *p.workload);
    p.words = std::make_shared<const TensorModel>(slice_words(p.workload->model, c.ranks));
  }
  set_costs(p, case_costs(p, c, p.micro_batch));
  require_one_pair_share(p, c);
  for (const std::int64_t size : p.sizes.distinct()) p.size_costs.push_back(costs_at(p, c, size));
  reject_sharded_inference(p);
  p.planned_cluster = with_measured_speeds(p.cluster, planned_costs(p));
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

Prepared prepare(const RunCase& c, ProfileStore& profiles) {
  Prepared p = prepare_with(c, profiles, c.weight_gradient == WeightGradients::batched);
  if (c.weight_gradient != WeightGradients::automatic) return p;
  Prepared batched;
  try {
    batched = prepare_with(c, profiles, true);
  } catch (const InputError&) {
    return p;  // no plan has room for what waits for the products
  }
  batched.planning_seconds += p.planning_seconds;
  p.planning_seconds = batched.planning_seconds;
  return simulated_seconds(batched, c) < simulated_seconds(p, c) ? batched : p;
}

}  // namespace sluice
