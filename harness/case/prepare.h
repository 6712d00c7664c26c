// From a case to what runs it: its costs, its plan, its ranks, and programs that have passed the checker. `sluice plan`
// and `sluice run` both come through here.
#pragma once

#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/exec/session.h"
#include "harness/model/interference.h"
#include "harness/model/tensor_split.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/system.h"
#include "harness/program/program.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"
#include "workloads/models/registry.h"

namespace sluice {

struct Prepared {
  const System* system = nullptr;
  const Workload* workload = nullptr;
  Options options;
  Cluster cluster;
  CostGraph costs;
  Plan pipeline;      // of one data-parallel replica, as the planner made it; orders are made for it, too
  StageOrders order;  // of the pipeline's ops, where the planner has decided it
  PipelineReplicas replicas;
  StageSharding sharding = StageSharding::system;
  Plan plan;  // of all replicas
  RankMap ranks;
  StageGraph graph;
  double planning_seconds = 0;
  std::int64_t micro_batch = 1;  // samples
  int microbatches_per_update = 1;
  RunPolicy::Leftover leftover = RunPolicy::Leftover::drop;
  bool step_barrier = false;
  Interference interference;  // of the run; plans are made without it
  bool inference = false;
  int queue = 0;  // inference: RunPolicy::queue
  bool batched_weight_gradients = false;
  // Tensor parallelism: `pipeline` is then for groups of devices, and `plan` for all of them. Null: layers are whole.
  std::shared_ptr<const TensorModel> tensor;
  CostGraph member_costs;  // with `tensor`: of what one device of a group holds, sums over the group included
};

// What the ranks run: the workload's model, or the members' parts of it beside each other.
const ModelGraph& running_model(const Prepared& p);

// What the virtual clock takes for the ops of its plan.
Costs costs_of(const Prepared& p);

// Fills in everything that follows from the plan of one replica.
void adopt_pipeline(Prepared& p, const PlannedPipeline& planned);

// What a planner is given, at any time of a run; both arguments must outlive it.
Problem problem_of(const Prepared& p, const RunCase& c);

// Throws InputError; the plan's memory is not checked here (see over_memory).
Prepared prepare(const RunCase& c);

// The program of one update (synchronous systems: microbatches are the update's) or of one drained run (asynchronous
// systems and inference: all of the run's). epoch: of the training, from 0.
Program make_program(const Prepared& p, int microbatches, int epoch = 0);
// What the data-parallel ranks of a stage divide among them.
Sharding sharding_of(const Prepared& p, int microbatches);
WeightRule rule_of(const Prepared& p, int microbatches, int epoch = 0);
// For looking at a plan: the program that its updates repeat, and what one takes on the virtual
// clock once others have gone before it.
Program program_of_updates(const Prepared& p);
Seconds simulated_update(const Prepared& p, const Program& program);
Theory make_theory(const Prepared& p, int microbatches);

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer, const WeightRule& rule);

// "rank 1 needs 18 GiB at its peak, its device V100 has 16 GiB", or "" if every rank fits.
std::string over_memory(const Prepared& p, const std::vector<RankMemory>& memory);

}  // namespace sluice
