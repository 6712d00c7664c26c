// SPP (Luo et al., Efficient Pipeline Planning for Expedited Distributed DNN Training, INFOCOM
// 2022, arXiv 2204.10562): synchronous pipelines over devices joined by arbitrary links. The exact
// problem is NP-hard, so it is taken apart:
//
//   1. recursive device ordering: cut the devices at the global minimum cut, then each half, so
//      that devices with fast links stand together (systems/spp/device_order.h)
//   2. partition and replication: for that order and every number of stages, the stages and
//      replicas whose busiest resource is least busy (systems/spp/replicated_partition.h)
//   3. pipeline execution: order every stage's blocks by micro-batch number + position in the
//      pipeline; of all numbers of stages keep the one with the least iteration time
//      (systems/spp/list_schedule.h)
//
// The order on three stages, M = 6, F : B = 1 : 2, free transfers (keys: micro-batch + position;
// the positions of F, transfer, ..., B are 0 to 8):
//
//   rank 0  F0 F1 F2 F3 F4 F5    B0       B1       B2       B3       B4       B5
//   rank 1     F0 F1 F2 F3 B0    F4 B1    F5 B2       B3       B4       B5
//   rank 2        F0 B0    F1 B1    F2 B2    F3 B3    F4 B4    F5 B5
//
// It forwards further ahead than 1F1B (4 micro-batches a stage, since transfers have positions too)
// and holds as many more activations.
//
// Written from memory of the paper; "the model" below is what is remembered of its model.
//
// Its model and what runs here agree where stages are not replicated, channels are duplex, every
// two neighbours have a link of their own and links have no latency. Elsewhere:
//   - A replica here takes every r-th micro-batch whole, while the model splits each over all r.
//     The work is the same, but the first result comes later. So that no replica waits for the list
//     to come round to it, the order is made of rounds of as many micro-batches as the most
//     replicated stage has replicas: a round is what the model splits. A stage has at most as many
//     replicas as there are micro-batches.
//   - channel=shared, the model's: both directions of a channel wait for each other in key order; full
//     duplex links do not.
//   - Transfers pay a link's latency and queue for media they share; in the model they do neither.
//     A skip connection crosses each channel between its ends; here it goes to its reader at once.
//   - The all-reduce is a ring over the stage's devices in order, and starts when the rank has
//     nothing else left to do; the model's is paced by the slowest link between any two of them.
//   - The model leaves out optimizer steps.
// Devices of different speed are outside of the model: a stage runs at its slowest device's.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/thread_seconds.h"
#include "harness/pipeline/orders.h"
#include "harness/pipeline/system.h"
#include "harness/plan/planner_options.h"
#include "systems/spp/device_order.h"
#include "systems/spp/layer_chain.h"
#include "systems/spp/list_schedule.h"
#include "systems/spp/replicated_partition.h"

namespace sluice {

namespace {

ListScheduleOptions execution_options(const Options& options) {
  return {
      .rule = options.text("order") == "ready" ? ListScheduleOptions::Rule::ready : ListScheduleOptions::Rule::strict,
      .duplex = options.text("channel") == "duplex",
      .merge_last = options.flag("merge_last")};
}

// Weights, gradients, one optimizer state and, of mixed precision, fp32 copies, in tensors of the gradients' size.
double tensors_per_parameter(const Storage& s) {
  return static_cast<double>((s.weight + s.gradient + s.state + s.master).value) /
         static_cast<double>(s.gradient.value);
}

// What partition and replication are asked for one order of the devices.
ReplicationProblem replication_problem(const Problem& problem, const Options& options, const LayerChain& chain,
                                       const SquareMatrix& bandwidths, const std::vector<int>& device_order) {
  const std::size_t n = device_order.size();
  ReplicationProblem result{.chain = chain, .bandwidths = SquareMatrix(n), .speeds = {}};
  std::vector<double> capacity;
  for (std::size_t a = 0; a < n; ++a) {
    const auto device = static_cast<std::size_t>(device_order[a]);
    for (std::size_t b = 0; b < n; ++b)
      result.bandwidths.at(a, b) = bandwidths.at(device, static_cast<std::size_t>(device_order[b]));
    result.speeds.push_back(problem.cluster.devices[device].speed);
    capacity.push_back(static_cast<double>(problem.cluster.devices[device].memory.value));
  }
  result.microbatches = problem.microbatches;
  result.max_replicas = std::min(problem.microbatches, problem.max_replicas);
  result.all_devices = options.flag("all_devices");
  result.stages = options.integer("stages");
  if (options.flag("memory"))
    result.memory = StageMemoryLimit{.capacity = capacity,
                                     .tensors_per_parameter = tensors_per_parameter(problem.costs.storage),
                                     .in_flight = [merged = options.flag("merge_last")](int after) {
                                       return std::max(1, list_schedule_depth(after + 1, 0, merged));
                                     }};
  return result;
}

// The ops of every stage as they run, round by round; `times` are of one micro-batch.
StageOrders ops_in_rounds(PipelineTimes times, int microbatches, int round, const Options& options) {
  for (auto* seconds : {&times.forward, &times.backward, &times.forward_channel, &times.backward_channel})
    for (double& s : *seconds) s *= round;
  const int rounds = (microbatches + round - 1) / round;
  return stage_orders(list_schedule(times, rounds, execution_options(options)), microbatches, round);
}

PlannedPipeline plan_of(const Problem& problem, const Options& options, const ReplicationProblem& p,
                        const std::vector<ReplicatedStage>& stages, const std::vector<int>& device_order) {
  Plan plan{.stages = {}, .micro_batch = problem.costs.micro_batch};
  int round = 1;
  for (const ReplicatedStage& s : stages) {
    PlanStage& stage = plan.stages.emplace_back();
    stage.layers = layers_of(p.chain, s.first_group, s.last_group);
    for (int d = s.first_device; d < s.last_device; ++d) stage.devices.emplace_back(device_order[d]);
    round = std::max(round, s.replicas());
  }
  if (options.text("order") != "ready") return plan;
  return {plan, ops_in_rounds(pipeline_times(p, stages), problem.microbatches, round, options)};
}

[[noreturn]] void reject(const Problem& problem, const Options& options, int groups) {
  std::string what = "no plan";
  if (options.integer("stages") > 0) what += " of " + std::to_string(options.integer("stages")) + " stages";
  what += " of " + std::to_string(groups) + " cuttable layers";
  what += options.flag("all_devices") ? " uses all of " : " fits on ";
  what += std::to_string(problem.devices) + " devices with at most " + std::to_string(problem.microbatches) +
          " replicas a stage, one a micro-batch";
  if (options.flag("memory")) what += ", within the devices' memory";
  throw InputError("spp", what, "use more micro-batches, fewer devices, or all_devices=no");
}

// For every number of stages the best.
std::vector<PlannedPipeline> spp_plans(const Problem& problem, const Options& options) {
  const double begin = thread_seconds();
  if (static_cast<std::size_t>(problem.devices) > problem.cluster.devices.size())
    throw InputError("spp",
                     std::to_string(problem.devices) + " ranks on a cluster of " +
                         std::to_string(problem.cluster.devices.size()) + " devices",
                     "use fewer ranks or a larger cluster");
  const LayerChain chain = layer_chain(problem.costs);
  const SquareMatrix bandwidths = pair_bandwidths(problem.cluster, problem.devices);
  std::vector<std::vector<int>> device_orders = {recursive_min_cut_order(bandwidths)};
  if (options.text("orient") == "both")
    device_orders.emplace_back(device_orders.front().rbegin(), device_orders.front().rend());

  SearchReport report{.objective_name = "iteration time of its own model"};
  std::vector<PlannedPipeline> plans;
  for (const std::vector<int>& device_order : device_orders) {
    ReplicationProblem p = replication_problem(problem, options, chain, bandwidths, device_order);
    p.table_bytes = std::int64_t{options.integer("table_limit")} * 1024 * 1024;
    p.stop = [&] { return thread_seconds() - begin > problem.search_seconds; };
    const ReplicatedPartitions found = partition_and_replicate(p);
    report.states = found.states;
    report.complete = found.complete;
    for (const auto& partition : found.by_stages) {  // fewer stages first: they keep a tie
      if (!partition) continue;
      report.objective =
          list_schedule(pipeline_times(p, partition->stages), problem.microbatches, execution_options(options))
              .makespan;
      plans.push_back(plan_of(problem, options, p, partition->stages, device_order));
      plans.back().plan.search = report;
    }
  }
  if (plans.empty()) {
    if (!report.complete)
      throw InputError("spp", "the search was cut short before it found a plan", "raise search_seconds or table_limit");
    reject(problem, options, chain.groups());
  }
  return plans;
}

int round_of(const Placement& placement) {
  std::size_t most = 1;
  for (const auto& replicas : placement.stages) most = std::max(most, replicas.size());
  return static_cast<int>(most);
}

// The strict order needs no times. The ready order is the plan's own; without a plan it is that of
// equal stages (F : B = 1 : 2) and free channels.
StageOrders ops_of_stages(const ScheduleProblem& problem, const Options& options) {
  if (!problem.order.empty()) return problem.order;
  const std::size_t stages = problem.graph.size();
  const PipelineTimes equal{.forward = std::vector<double>(stages, 1),
                            .backward = std::vector<double>(stages, 2),
                            .all_reduce = std::vector<double>(stages, 0),
                            .forward_channel = std::vector<double>(stages - 1, 0),
                            .backward_channel = std::vector<double>(stages - 1, 0)};
  return ops_in_rounds(equal, problem.microbatches, round_of(problem.placement), options);
}

Schedule spp_schedule(const ScheduleProblem& problem, const Options& options) {
  return orders::on_ranks(ops_of_stages(problem, options), problem.placement, problem.ranks, problem.microbatches);
}

// Micro-batches on replica k of r when a stage has forwarded `depth` rounds more than it has gone
// back through, counted where they are most. 0 rounds: forward and backward in turn.
int max_in_flight(int microbatches, int round, int depth, int replica, int replicas) {
  if (depth == 0) return 1;
  const auto before = [&](int m) {  // of the replica's micro-batches
    return m <= replica ? 0 : (m - replica + replicas - 1) / replicas;
  };
  int most = 0;
  for (int end = std::min(depth * round, microbatches);; end += round) {
    const int last = std::min(end, microbatches);
    most = std::max(most, before(last) - before(std::max(0, end - depth * round)));
    if (end >= microbatches) return most;
  }
}

// No formula for what is in flight where times decide the order.
Theory spp_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = flush_theory(problem.ranks);
  const int stages = static_cast<int>(problem.graph.size()), m = problem.microbatches;
  const auto up = [](int a, int b) { return (a + b - 1) / b; };
  if (stages == problem.ranks)
    theory.bubble_ratio = static_cast<double>(stages - 1) / (m + stages - 1);
  else if (stages == 1)
    theory.bubble_ratio = 1 - static_cast<double>(m) / (up(m, problem.ranks) * problem.ranks);
  if (options.text("order") != "strict") return theory;
  theory.in_flight.assign(problem.ranks, 0);
  for (int s = 0; s < stages; ++s) {
    const auto& replicas = problem.placement.stages[s];
    for (std::size_t k = 0; k < replicas.size(); ++k)
      theory.in_flight[replicas[k].index()] =
          max_in_flight(m, round_of(problem.placement), list_schedule_depth(stages, s, options.flag("merge_last")),
                        static_cast<int>(k), static_cast<int>(replicas.size()));
  }
  return theory;
}

}  // namespace

extern const System spp;
const System spp = {
    .name = "spp",
    .aliases = {},
    .title = "SPP",
    .citation =
        "Luo et al., Efficient Pipeline Planning for Expedited Distributed DNN Training, INFOCOM "
        "2022 (arXiv 2204.10562)",
    .written_from = {WrittenFrom::memory,
                     {{"rounds of whole micro-batches", WrittenFrom::ours},
                      {"ties of cuts", WrittenFrom::ours},
                      {"limit of memory=yes", WrittenFrom::ours}},
                     "Rounds of whole micro-batches for replicas, how the cuts decide ties, and the memory limit are "
                     "ours."},
    .synchronous = true,
    .one_size_only = "its planner's objective is for micro-batches of one size",
    .options =
        {{"order",
          "strict",
          "each stage's order: strict (by key, waiting where needed) or ready (the lowest key of the ops that could "
          "run)",
          {"strict", "ready"}},
         {"channel",
          "shared",
          "transfers down and up a channel: shared (one after the other; the paper's model, as remembered) or duplex "
          "(at the same time)",
          {"shared", "duplex"}},
         {"merge_last", "yes", "the last stage's forward and backward count as one block", kYesNo},
         {"orient",
          "paper",
          "direction of the device order: paper (one, as remembered) or both (also reversed; the better plan wins)",
          {"paper", "both"}},
         rank_option(),
         {"all_devices", "yes", "every plan uses all devices; no: it may use fewer", kYesNo},
         {"memory", "no",
          "leave out plans whose stages (weights, gradients, an optimizer state, outputs in "
          "flight) exceed a device's memory; no such limit is remembered of the paper",
          kYesNo},
         {"stages", "0", "number of stages; 0: try every number", {}, 0},
         search_seconds_option(),
         {"table_limit", "2048", "MiB of search tables, after which the search ends with the best so far"}},
    .own_cuts = [](const Options&) { return true; },
    .candidates = spp_plans,
    .schedule = spp_schedule,
    .theory = spp_theory,
    .replicates = [](const Options&) { return true; },
};

}  // namespace sluice
