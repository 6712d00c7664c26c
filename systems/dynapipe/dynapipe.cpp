// DynaPipe (Jiang et al., EuroSys 2024, arXiv 2311.10418): micro-batches of different sizes.
//
// After its released planner (cyclic_schedule.py, execution_planner.py): the order by cycles (cyclic_order.h), which
// warms up with twice 1F1B's forwards, so that a long micro-batch does not stop its neighbours; and the order in which
// micro-batches enter (injection.h): of the given one and those that the permutations of 4 clusters make (3 above 20
// micro-batches) the fastest whose activations fit. Where none fits, the same with the limit inside the order: a
// forward waits until what it adds fits.
//
// Sizes 3 and 1 in turn, F 1/2 and B 1 of a sample, 4 ranks, 16 micro-batches: 1F1B takes 82, the cyclic order 61.
//
// Its dynamic program that forms micro-batches of samples sorted by length (sample_groups.h) is that of `sluice
// schedule --sample-lengths`; a case has its micro-batches (microbatch_sizes), since samples of a workload have one
// length.
//
// Not here: its choice of recomputation for each batch. Where it departs: its times of stages are the run's costs, and
// k-means starts from quantiles.
#include <algorithm>
#include <functional>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/order_timing.h"
#include "systems/dynapipe/cyclic_order.h"
#include "systems/dynapipe/injection.h"
#include "systems/dynapipe/sample_groups.h"

namespace sluice {

namespace {

constexpr int kClusters = 4, kClustersOfMany = 3, kMany = 20;

enum class Injection { clusters, given };

const ChoiceOption<Injection> injection_option(
    "injection",
    "order in which micro-batches enter: clusters (of the given order and the permutations of clusters of similar "
    "times, the fastest that fits) or given",
    {{"clusters", Injection::clusters}, {"given", Injection::given}});

// What one pipeline's micro-batches take and hold on every stage.
struct Micros {
  ChainSeconds times;
  HoldingLimit bytes;    // and its devices' memory
  HoldingLimit samples;  // and option samples_held

  std::vector<EndTimes> end_times() const {
    std::vector<EndTimes> result;
    const auto of = [&](std::size_t s, std::size_t m) { return times.forward[s][m] + times.backward[s][m]; };
    for (std::size_t m = 0; m < times.forward.front().size(); ++m)
      result.push_back({of(0, m), of(times.forward.size() - 1, m)});
    return result;
  }
};

std::int64_t size_of(const MicrobatchSizes& sizes, int micro, std::int64_t all_the_same) {
  return sizes.differ() ? sizes.of(Micro(micro)) : all_the_same;
}

// What a stage keeps always, and of a micro-batch of that many samples.
Problem::Footprint footprint_of(const Problem& problem, const PlanStage& stage) {
  if (problem.footprint) return problem.footprint(stage.layers);
  Problem::Footprint sum{};
  for (const int l : stage.layers) {
    const LayerCost& layer = problem.costs.layers[l];
    sum.always += problem.costs.resident(layer.parameters);
    sum.per_sample += Bytes(layer.kept().value / problem.costs.micro_batch);
  }
  return sum;
}

Micros microbatches_of(const Problem& problem, const Plan& plan, int samples_held) {
  Micros microbatches;
  const MicrobatchSizes& sizes = problem.sizes;
  std::vector<std::vector<StageCost>> costs;  // of each distinct size
  if (!sizes.differ()) costs.push_back(stage_costs(plan, problem.costs, problem.cluster));
  for (const std::int64_t size : sizes.distinct())
    costs.push_back(stage_costs(plan, problem.costs_at ? *problem.costs_at(size) : in_proportion(problem.costs, size),
                                problem.cluster));
  const auto add = [](auto& table) -> std::vector<double>& { return table.emplace_back(); };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Problem::Footprint footprint = footprint_of(problem, plan.stages[s]);
    const Device& device = problem.cluster.devices[plan.stages[s].devices.front().index()];
    microbatches.bytes.limit.push_back(static_cast<double>((device.memory - footprint.always).value));
    microbatches.samples.limit.push_back(samples_held);
    auto &forward = add(microbatches.times.forward), &backward = add(microbatches.times.backward),
         &bytes = add(microbatches.bytes.held), &samples = add(microbatches.samples.held);
    for (int m = 0; m < problem.microbatches; ++m) {
      const StageCost& cost = costs[sizes.differ() ? sizes.index_of(Micro(m)) : 0][s];
      const std::int64_t size = size_of(sizes, m, problem.costs.micro_batch);
      forward.push_back(cost.forward.value);
      backward.push_back((cost.input_gradient + cost.weight_gradient).value);
      bytes.push_back(static_cast<double>((footprint.per_micro_batch + size * footprint.per_sample).value));
      samples.push_back(static_cast<double>(size));
    }
  }
  return microbatches;
}

// The fastest of the injection orders; with `limit` inside the order, and `fits` after it. Empty: none.
StageOrders fastest(const Micros& microbatches, const std::vector<std::vector<int>>& injections,
                    const HoldingLimit* limit, const HoldingLimit& fits) {
  StageOrders best;
  double seconds = std::numeric_limits<double>::infinity();
  for (const std::vector<int>& entering : injections) {
    const auto orders = cyclic_order(count_of(microbatches.times.forward), entering, limit);
    if (!orders || !keeps(*orders, fits)) continue;
    const double own = time_order(*orders, microbatches.times).makespan;
    if (own < seconds) seconds = own, best = *orders;
  }
  return best;
}

PlannedPipeline dynapipe_plan(const Problem& problem, const Options& options) {
  Plan plan = balanced_chain(problem, problem.devices, "dynapipe");
  const int samples_held = options.integer("samples_held"), m = problem.microbatches;
  const Micros microbatches = microbatches_of(problem, plan, samples_held);
  std::vector<std::vector<int>> injections =
      injection_orders(microbatches.end_times(), m > kMany ? kClustersOfMany : kClusters);
  if (injection_option(options) == Injection::given) injections.resize(1);
  plan.search.states = count_of(injections);
  plan.search.objective_name = "makespan of the order";
  StageOrders order =
      fastest(microbatches, injections, samples_held > 0 ? &microbatches.samples : nullptr, microbatches.bytes);
  if (order.empty() && samples_held == 0)
    order = fastest(microbatches, injections, &microbatches.bytes, microbatches.bytes);
  if (order.empty())
    throw InputError("dynapipe",
                     samples_held > 0 ? "no order with at most " + std::to_string(samples_held) +
                                            " samples on a stage fits into the devices' memory"
                                      : std::string("a micro-batch alone does not fit into a device's memory"),
                     "use smaller micro-batches, more ranks or another limit");
  plan.search.objective = time_order(order, microbatches.times).makespan;
  return {plan, order};
}

std::vector<std::int64_t> dynapipe_groups(const SamplesToGroup& problem) {
  std::vector<std::int64_t> lengths = problem.lengths;
  std::ranges::sort(lengths, std::greater());
  const auto size = [&](int samples, std::int64_t longest) { return problem.overhead + samples * longest; };
  const auto groups = group_samples(
      lengths, problem.ranks,
      [&](int samples, std::int64_t longest) { return static_cast<double>(size(samples, longest)); }, problem.limit);
  if (!groups)
    throw InputError("dynapipe",
                     "a sample of length " + std::to_string(lengths.front()) + " is over the limit of " +
                         std::to_string(problem.limit) + " for a micro-batch",
                     "raise the limit, or leave the sample out");
  std::vector<std::int64_t> sizes;
  std::size_t first = 0;
  for (const int samples : groups->samples) {
    sizes.push_back(size(samples, lengths[first]));
    first += static_cast<std::size_t>(samples);
  }
  return sizes;
}

// The plan's order; without a plan, micro-batches enter as they are numbered.
StageOrders ops_of_stages(const ScheduleProblem& problem) {
  if (!problem.order.empty()) return problem.order;
  const std::vector<int> given = list_of(problem.microbatches, [](int i) { return i; });
  return *cyclic_order(problem.stages(), given);
}

Theory dynapipe_theory(const ScheduleProblem& problem, const Options&) {
  Theory theory = flush_theory(problem.ranks);
  if (problem.sizes.differ()) return theory;
  theory.bubble_ratio = fill_drain_bubble(problem.ranks, problem.microbatches);
  const StageOrders orders = ops_of_stages(problem);
  for (const std::vector<Op>& ops : orders) {
    int held = 0, peak = 0;
    for (const Op& op : ops) peak = std::max(peak, held += op.kind == OpKind::forward ? 1 : -1);
    theory.in_flight.push_back(peak);
  }
  return theory;
}

}  // namespace

extern const System dynapipe;
const System dynapipe = {
    .name = "dynapipe",
    .title = "DynaPipe",
    .citation =
        "Jiang et al., DynaPipe: Optimizing Multi-task Training through Dynamic Pipelines, EuroSys 2024 (arXiv "
        "2311.10418)",
    .written_from = {WrittenFrom::code,
                     {{"limit of samples", WrittenFrom::ours}, {"start of injection=clusters", WrittenFrom::ours}},
                     "The clusters' start from quantiles and the limit in samples are ours; DynaPipe's choice of "
                     "recomputation is left out."},
    .options = {injection_option.spec(),
                {.name = "samples_held",
                 .default_value = "0",
                 .help = "max samples whose activations a stage holds; 0: as many as fit into its memory",
                 .minimum = 0}},
    .group_samples = dynapipe_groups,
    .plan = dynapipe_plan,
    .schedule =
        [](const ScheduleProblem& problem, const Options&) {
          return orders::on_ranks(ops_of_stages(problem), problem.placement, problem.ranks, problem.microbatches);
        },
    .theory = dynapipe_theory,
};

}  // namespace sluice
