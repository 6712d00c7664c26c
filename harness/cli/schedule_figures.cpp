#include "harness/cli/schedule_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/case/size_rules.h"
#include "harness/model/cost_graph.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/program/pytorch_table.h"
#include "harness/sim/chain_clock.h"
#include "harness/sim/latency_cluster.h"
#include "results/comparison_rows.h"

namespace sluice {

// A file of costs has a layer for each stage.
static std::vector<OpCosts::OfStage> costs_in_file(const std::string& file) {
  std::vector<OpCosts::OfStage> stages;
  for (const LayerCost& layer : cost_graph_from_json(parse_json_file(file), file).layers) {
    const double both = layer.forward.value + layer.input_gradient.value + layer.weight_gradient.value;
    stages.push_back({layer.forward.value, layer.input_gradient.value, layer.weight_gradient.value});
    if (layer.pair_share) stages.back().pair = *layer.pair_share * both;
    if (both <= 0)
      throw InputError(file, "the layer '" + layer.name + "' takes no time",
                       "give costs with one layer for each stage");
  }
  return stages;
}

OpCosts parse_op_costs(const std::string& text) {
  const auto error = [&] {
    return InputError("--costs", "'" + text + "' is not F/I/W[/PAIR][+latency]",
                      "write 1/1/1, 10/12/8+1, 10/12/8/27 or, for every stage its own, 10/12/8,5/6/4+1; or name a file "
                      "of costs, costs.json or costs.json+1");
  };
  constexpr std::string_view kFileEnd = ".json";
  const std::size_t file_end = text.rfind(kFileEnd);
  const std::size_t file_size = file_end == std::string::npos ? 0 : file_end + kFileEnd.size();
  std::string_view rest = std::string_view(text).substr(file_size);
  const auto time = [&] {
    const std::optional<double> seconds = take_number(rest);
    if (!seconds) throw error();
    if (*seconds < 0 || *seconds > kMaxOpSeconds)
      throw InputError("--costs", fmt::format("{:g} seconds in '{}' is out of range", *seconds, text),
                       fmt::format("give 0 to {:g}", kMaxOpSeconds));
    return *seconds;
  };
  const auto take = [&](char mark) {
    const bool there = rest.starts_with(mark);
    if (there) rest.remove_prefix(1);
    return there;
  };
  OpCosts costs{.stages = {}};
  if (file_size > 0) costs.stages = costs_in_file(text.substr(0, file_size));
  for (bool more = file_size == 0; more; more = take(',')) {
    OpCosts::OfStage& stage = costs.stages.emplace_back();
    stage.forward = time();
    if (!take('/')) throw error();
    stage.input_gradient = time();
    if (!take('/')) throw error();
    stage.weight_gradient = time();
    const double backward = stage.input_gradient + stage.weight_gradient, both = stage.forward + backward;
    if (both <= 0)
      throw InputError("--costs", "the ops of '" + text + "' take no time",
                       "give at least one of F, I and W above 0, of every stage");
    if (!take('/')) continue;
    stage.pair = time();
    const double least = std::max(stage.forward, backward);
    if (*stage.pair < least || *stage.pair > kMaxPairShare * both)
      throw InputError("--costs", fmt::format("a pair of {:g} seconds", *stage.pair),
                       fmt::format("F and B of {:g} and {:g} seconds take {:g} to {:g} together", stage.forward,
                                   backward, least, kMaxPairShare * both));
  }
  if (take('+')) costs.latency = time();
  if (!rest.empty()) throw error();
  return costs;
}

static StageCost times(const OpCosts::OfStage& costs, double share) {
  StageCost cost{Seconds(costs.forward * share), Seconds(costs.input_gradient * share),
                 Seconds(costs.weight_gradient * share), Seconds(0), Bytes(0)};
  if (costs.pair) cost.pair_share = *costs.pair / (costs.forward + costs.input_gradient + costs.weight_gradient);
  return cost;
}

// Per stage: of one op. share: of each, where the costs are of a rank's share of the model.
static std::vector<StageCost> times_of_stages(const OpCosts& costs, std::size_t stages, CostsOf costs_of,
                                              const std::vector<double>& share) {
  const bool one_for_all = costs.stages.size() == 1;
  if (!one_for_all && costs.stages.size() != stages)
    throw InputError(
        "--costs",
        "has the times of " + std::to_string(costs.stages.size()) + " stages, and there are " + std::to_string(stages),
        "give one F/I/W for all of them, or one for each");
  if (!one_for_all && costs_of == CostsOf::rank)
    throw InputError("--costs", "has times for every stage, which are not those of a rank",
                     "give --costs-of stage, or one F/I/W");
  std::vector<StageCost> result;
  for (std::size_t s = 0; s < stages; ++s)
    result.push_back(times(costs.stages[one_for_all ? 0 : s], costs_of == CostsOf::rank ? share[s] : 1));
  return result;
}

OrderOfOps order_of(const System& system, const Options& options, int ranks, int microbatches,
                    const MicrobatchSizes& sizes, const OpCosts& costs, CostsOf costs_of, bool as_rule) {
  OrderOfOps order{.name = system.name, .system = &system, .options = options};
  order.latency = costs.latency;
  order.sizes = sizes;
  if (sizes.differ()) require_sizes_possible(system);
  const int chunks = stages_per_rank(system, options);
  const double layer_share = 1.0 / chunks;
  UniformChain uniform = uniform_chain(
      system, options, latency_cluster(ranks, Seconds(costs.latency)), ranks, microbatches,
      times(costs.stages.front(), costs_of == CostsOf::rank ? layer_share : 1), Seconds(costs.latency), sizes);
  if (sizes.differ()) require_sizes_possible(uniform.plan, system);
  ScheduleProblem& problem = uniform.problem;
  std::vector<double> of_an_op;
  for (const PlanStage& stage : uniform.plan.stages) {
    order.share.push_back(static_cast<double>(stage.layers.size()) * layer_share / stage.tensor);
    of_an_op.push_back(order.share.back() * stage.microbatches_per_op);
  }
  if (costs_of == CostsOf::rank || costs.stages.size() > 1)
    order.costs = times_of_stages(costs, problem.graph.size(), costs_of, of_an_op);
  else
    order.costs = std::vector(problem.graph.size(), times(costs.stages.front(), 1));
  const std::int64_t largest = sizes.differ() ? sizes.distinct().back() : 1;
  for (std::size_t s = 0; s < order.costs.size(); ++s) problem.costs[s] = of_samples(order.costs[s], largest);
  for (const double share : order.share)
    order.host_copies.emplace_back(costs.host_copy * (costs_of == CostsOf::rank ? share : 1));
  if (costs.host_copy > 0)
    for (const Seconds one : order.host_copies) problem.host_copies.push_back(one * static_cast<double>(largest));
  order.microbatches = microbatches;
  order.rule = system.weights(problem, options);
  order.theory = system.theory(problem, options);
  if (system.sharding) order.sharding = system.sharding(problem, options);
  if (as_rule && system.op_rule && !order.sharding.active() && order.rule.recompute == WeightRule::Recompute::none)
    order.rule_of_ops = system.op_rule(problem, options);
  if (!order.rule_of_ops) order.schedule = system.schedule(problem, options);
  if (system.offload) order.offload = system.offload(problem, order.schedule, options);
  order.devices = uniform.devices;
  order.graph = std::move(problem.graph);
  order.placement = std::move(problem.placement);
  return order;
}

OrderOfOps order_from_table(OrderFromTable table, const std::string& name, const MicrobatchSizes& sizes,
                            const OpCosts& costs, CostsOf costs_of) {
  if (sizes.differ() && std::ssize(sizes.samples()) != table.schedule.microbatches)
    throw InputError("--microbatch-sizes",
                     "has " + std::to_string(sizes.samples().size()) + ", and the table has " +
                         std::to_string(table.schedule.microbatches) + " micro-batches",
                     "give one for each");
  OrderOfOps order{.name = name};
  order.latency = costs.latency;
  order.sizes = sizes;
  const auto ranks = table.schedule.ranks.size(), stages = table.graph.size();
  order.share.assign(stages, static_cast<double>(ranks) / static_cast<double>(stages));
  order.costs = times_of_stages(costs, stages, costs_of, order.share);
  for (std::size_t r = 0; r < ranks; ++r) order.devices.emplace_back(r);
  order.schedule = std::move(table.schedule);
  order.graph = std::move(table.graph);
  order.placement = std::move(table.placement);
  return order;
}

// The program of several times the micro-batches; asynchronous systems only.
static Program longer_program(const OrderOfOps& order, int times) {
  const int ranks = static_cast<int>(order.schedule.ranks.size()), microbatches = order.schedule.microbatches;
  const System& system = *order.system;
  ScheduleProblem problem{order.graph,          order.placement, ranks,
                          times * microbatches, order.costs,     Seconds(order.latency)};
  problem.microbatches_per_update = system.accumulates ? microbatches : 1;
  return lower(system.schedule(problem, order.options), order.graph, order.placement,
               system.weights(problem, order.options));
}

static double seconds_of_later_microbatches(const OrderOfOps& order, const Program& program, const Cluster& cluster) {
  const double once = simulate(program, {order.costs, {}}, cluster, order.devices, {.trace = false}).end;
  const double twice =
      simulate(longer_program(order, 2), {order.costs, {}}, cluster, order.devices, {.trace = false}).end;
  return (twice - once) / order.schedule.microbatches;
}

static Costs costs_of_samples(const OrderOfOps& order, std::int64_t samples) {
  Costs costs;
  for (const StageCost& one : order.costs) costs.stages.push_back(of_samples(one, samples));
  for (const Seconds one : order.host_copies) costs.host_copies.push_back(one * static_cast<double>(samples));
  return costs;
}

static Costs costs_of(const OrderOfOps& order) {
  if (!order.sizes.differ()) return costs_of_samples(order, 1);
  Costs costs = costs_of_samples(order, order.sizes.distinct().back());
  for (const std::int64_t size : order.sizes.distinct()) costs.of_size.push_back(costs_of_samples(order, size));
  return costs;
}

// What a stage keeps of a micro-batch; `one`: of one sample, where sizes differ.
static StageMemory kept(Bytes one, const MicrobatchSizes& sizes) {
  const auto of = [](Bytes stash) { return StageMemory{.stash = stash, .weight_stash = stash}; };
  if (!sizes.differ()) return of(one);
  StageMemory memory = of(one * sizes.distinct().back());
  for (const std::int64_t size : sizes.distinct()) memory.of_size.push_back(of(one * size));
  return memory;
}

static ScheduleFigures figures_of_rule(const OrderOfOps& order) {
  ScheduleFigures f;
  ChainTimes times = time_chain(order.rule_of_ops, order.costs, count_of(order.devices), order.microbatches,
                                Seconds(order.latency), 3);
  f.update_free = times.update_end[2] - times.update_end[1];
  f.update_barrier = times.barrier_end;
  f.seconds_per_microbatch = f.update_free / order.microbatches;
  f.simulation.bubble = std::move(times.bubble);
  f.peak = std::move(times.peak);
  return f;
}

ScheduleFigures figures_of(const OrderOfOps& order, const WantedFigures& wanted) {
  if (order.rule_of_ops) return figures_of_rule(order);
  ScheduleFigures f;
  const Cluster cluster = latency_cluster(count_of(order.devices), Seconds(order.latency));
  f.program = checked(lower(order.schedule, order.graph, order.placement, order.rule, {}, {}, order.offload));
  f.program.sizes = order.sizes;
  const bool synchronous = order.rule.synchronous();
  f.simulation = simulate(f.program, costs_of(order), cluster, order.devices,
                          {.iterations = synchronous && wanted.repeated ? 3 : 1, .trace = wanted.trace});
  if (wanted.repeated && synchronous) {
    f.update_free = f.simulation.update_end[2] - f.simulation.update_end[1];
    Program with_barrier =
        lower(order.schedule, order.graph, order.placement, order.rule, {}, {.step_barrier = true}, order.offload);
    with_barrier.sizes = order.sizes;
    f.update_barrier = simulate(with_barrier, costs_of(order), cluster, order.devices, {.trace = false}).end;
    f.seconds_per_microbatch = f.update_free / order.schedule.whole_microbatches();
  } else if (wanted.repeated && order.system) {
    f.seconds_per_microbatch = seconds_of_later_microbatches(order, f.program, cluster);
  }
  f.peak = peaks(order.schedule);
  f.collectives = collectives(order.schedule, order.sharding);
  const std::vector<RankMemory> whole =
      memory(f.program, std::vector<StageMemory>(order.graph.size(), {.stash = Bytes(1), .weight_stash = Bytes(1)}));
  constexpr double unit = 1e6;  // bytes that stand for a micro-batch of a rank's share
  std::vector<StageMemory> shares;
  for (const double share : order.share) {
    const Bytes stash(static_cast<std::int64_t>(std::llround(share * unit / order.schedule.sequence_chunks)));
    shares.push_back(kept(stash, order.sizes));
  }
  const std::vector<RankMemory> held = memory(f.program, shares);
  for (std::size_t r = 0; r < held.size(); ++r) {
    f.whole_in_flight.push_back(static_cast<int>(whole[r].peak.activations.value));
    f.activations.push_back(static_cast<double>(held[r].peak.activations.value) / unit);
    f.weight_versions.push_back(held[r].peak_versions);
  }
  if (wanted.repeated && order.system && order.system->accumulates) {  // one update has one version
    const std::vector<RankMemory> later = memory(longer_program(order, 3), shares);
    for (std::size_t r = 0; r < later.size(); ++r) f.weight_versions[r] = later[r].peak_versions;
  }
  for (const Channel& channel : f.program.channels)
    if (channel.from != channel.to) f.messages += static_cast<std::size_t>(channel.messages);
  return f;
}

std::vector<std::string> reads_of(const std::vector<Instruction>& rank, int sequence_chunks) {
  std::vector<std::string> steps;
  bool second = false;
  for (const Instruction& i : rank) {
    if (!is_compute(i.opcode)) continue;
    std::string text = to_text(i, sequence_chunks);
    if (reads_weights(i.opcode)) {
      text += "@" + std::to_string(i.version);
      if (i.horizon != 0) text += (i.horizon > 0 ? "+" : "") + std::to_string(i.horizon);
    }
    if (second) {
      steps.back() += ";" + text + ")";
    } else {
      steps.push_back((i.overlapped ? "(" : "") + text);
    }
    second = i.overlapped;
  }
  return steps;
}

std::string chosen_options(const OrderOfOps& order) {
  std::string text;
  if (!order.system) return text;
  for (const OptionSpec& spec : order.system->options) {
    const std::string& value = order.options.text(spec.name);
    if (value != spec.default_value) text += (text.empty() ? "" : " ") + spec.name + "=" + value;
  }
  return text;
}

std::string schedule_comparison(const std::vector<OrderOfOps>& orders, const std::vector<ScheduleFigures>& figures) {
  std::vector<std::size_t> places(orders.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return figures[i].seconds_per_microbatch; });
  const auto label = [&](std::size_t i) {
    return title_of(orders[i].name, chosen_options(orders[i])) +
           (orders[i].rule.synchronous() ? "" : " (asynchronous)");
  };
  std::size_t wide = 6;
  for (const std::size_t i : places) wide = std::max(wide, label(i).size());
  std::string text =
      fmt::format("{:<{}}  {:>6} {:>13} {:>9} {:>7} {:>12} {:>11} {:>8} {:>8}\n", "system", wide, "stages",
                  "micro-batch", "makespan", "bubble", "update", "activations", "versions", "messages");
  for (const std::size_t i : places) {
    const ScheduleFigures& f = figures[i];
    text += fmt::format("{:<{}}  {:>6} {:>13.6g} {:>9.6g} {:>6.1f}% {:>12} {:>11.4g} {:>8} {:>8}\n", label(i), wide,
                        orders[i].graph.size(), f.seconds_per_microbatch, f.simulation.bubble.makespan,
                        100 * f.simulation.bubble.bubble_ratio,
                        orders[i].rule.synchronous() ? fmt::format("{:.6g}", f.update_free) : "-",
                        std::ranges::max(f.activations), std::ranges::max(f.weight_versions), f.messages);
  }
  return text;
}

}  // namespace sluice
