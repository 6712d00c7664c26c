// EdgePipe (Hu et al., arXiv 2110.14895; released as PipeEdge, usc-isi/PipeEdge, and published at DSD 2022): inference
// over devices of unequal speed, memory and links. Its plan is the exact partition of a chain over types of devices
// (typed_partition.h); the rest is the pipeline itself: every stage takes the micro-batches in order, and a stage that
// is ahead waits once its queue is full (RunPolicy::queue). p = 3 on devices that take 1, 2 and 1:
//
//   device 0  F0F1F2F3..F4..F5
//   device 1  ..F0F0F1F1F2F2F3F3
//   device 2  ......F0..F1..F2..    a micro-batch every 2: the slowest stage's time
//
// planner=exact is the paper's optimum. planner=released is what the released scheduler computes: it lists the types of
// the devices, one entry a device, and looks a type up in that list by the type's own number, so that of 4 + 4 devices
// of two types the second type is costed as the second device, which is of the first. planner=even gives every device
// in the cluster's order the same number of layers, whatever its speed.
//
// The planner believes that transfers overlap computing wholly and wait for nobody, as the paper does. The virtual
// clock knows latencies and shared network cards.
#include <algorithm>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/system.h"
#include "harness/plan/layer_groups.h"
#include "systems/edgepipe/device_types.h"
#include "systems/edgepipe/typed_partition.h"

namespace sluice {

namespace {

enum class Planner { exact, released, even };

const ChoiceOption<Planner> planner_option("planner",
                                           "how layers are given to devices: exact (the paper's optimum), released "
                                           "(with the released scheduler's lookup of device types) "
                                           "or even (the same number of layers for every device in order)",
                                           {{"exact", Planner::exact},
                                            {"released", Planner::released},
                                            {"even", Planner::even}});

// The layers of a model as a chain, and the cluster by types.
class EdgePlanner {
 public:
  EdgePlanner(const Problem& problem, const Options& options)
      : problem_(problem),
        groups_(layer_groups(problem.costs)),
        bandwidths_(problem.cluster, problem.devices),
        types_(device_types(problem.cluster, bandwidths_)),
        scale_(options.text("units") == "binary" ? 1048576.0 / 1e6 : 1.0),
        buffers_{options.integer("buffers_in"), options.integer("buffers_out")} {
    chain_.layers = count_of(groups_.groups);
    chain_.bytes = bytes_over_cuts(groups_);
    chain_.bytes.front() = input_bytes();
    chain_.bytes.back() = groups_.groups.back().output;
    for (const DeviceType& type : types_) {
      chain_.counts.push_back(count_of(type.devices));
      chain_.seconds.push_back(seconds_on(type.devices.front()));
      auto& row = chain_.bandwidth.emplace_back();
      for (const DeviceType& other : types_) row.push_back(scale_ * bandwidth(type, other));
    }
    sum_weights();
    chain_.fits = [this](int type, int first, int last) { return fits(type, first, last); };
  }

  Plan run(Planner planner) {
    Plan plan = planner == Planner::even ? even() : planned(planner == Planner::released);
    plan.micro_batch = problem_.costs.micro_batch;
    plan.search.objective_name = "slowest stage or transfer, seconds a micro-batch";
    return plan;
  }

 private:
  double input_bytes() const {
    double sum = 0;
    for (const LayerCost& layer : problem_.costs.layers)
      for (std::size_t k = 0; k < layer.input_bytes.size(); ++k)
        if (layer.inputs[k] < 0) sum += static_cast<double>(layer.input_bytes[k].value);
    return sum;
  }

  std::vector<double> seconds_on(DeviceId device) const {
    Plan one_each;
    for (const LayerGroup& group : groups_.groups)
      one_each.stages.push_back({.layers = group.layers, .devices = {device}});
    std::vector<double> seconds;
    for (const StageCost& cost : stage_costs(one_each, problem_.costs, problem_.cluster))
      seconds.push_back(cost.forward.value);
    return seconds;
  }

  // Of the slowest pair: two types whose pairs differ would not be types.
  double bandwidth(const DeviceType& a, const DeviceType& b) const {
    double slowest = std::numeric_limits<double>::infinity();
    for (const DeviceId x : a.devices)
      for (const DeviceId y : b.devices)
        if (x != y) slowest = std::min(slowest, bandwidths_.between(x, y));
    return slowest;
  }

  void sum_weights() {
    weights_.assign(1, 0);
    for (const LayerGroup& group : groups_.groups) weights_.push_back(weights_.back() + group.parameters);
  }

  bool fits(int type, int first, int last) const {
    const Device& device = problem_.cluster.devices[types_[type].devices.front().index()];
    const auto memory = static_cast<double>(device.memory.value) * scale_;
    const double weights = (weights_[last] - weights_[first]) * scale_;
    if (!fits_with_buffers(memory, weights, chain_.bytes, first, last, buffers_)) return false;
    if (!problem_.footprint) return true;
    // Layers hold more while they run than comes in and goes out.
    const Problem::Footprint held = problem_.footprint(layers_of(groups_, first, last));
    const double waiting = (first > 0 ? buffers_.in * chain_.bytes[first] : 0) +
                           (last < chain_.layers ? buffers_.out * chain_.bytes[last] : 0);
    const auto live = static_cast<double>((held.always + held.per_micro_batch).value) +
                      static_cast<double>(held.per_sample.value * problem_.costs.micro_batch);
    return live + waiting <= static_cast<double>(device.memory.value);
  }

  // The type that the released scheduler's lookup gives instead of `type`: that of the device of this number.
  std::size_t looked_up(std::size_t type) const {
    for (std::size_t t = 0; t < types_.size(); ++t)
      if (std::ranges::count(types_[t].devices, DeviceId(type)) > 0) return t;
    return type;
  }

  TypedChain as_looked_up() const {
    TypedChain chain = chain_;
    const auto wrong = [this](int type) { return looked_up(static_cast<std::size_t>(type)); };
    for (std::size_t u = 0; u < types_.size(); ++u) {
      chain.seconds[u] = chain_.seconds[looked_up(u)];
      for (std::size_t v = 0; v < types_.size(); ++v)
        chain.bandwidth[u][v] = chain_.bandwidth[looked_up(u)][looked_up(v)];
    }
    chain.fits = [this, wrong](int type, int first, int last) {
      return fits(static_cast<int>(wrong(type)), first, last);
    };
    return chain;
  }

  Plan planned(bool released) const {
    const TypedPartition found = partition_over_types(released ? as_looked_up() : chain_);
    if (found.stages.empty())
      throw InputError("edgepipe", "no plan fits into the memory of " + std::to_string(problem_.devices) + " devices",
                       "use more devices, smaller micro-batches or a cluster with more memory");
    Plan plan;
    std::vector<std::size_t> next(types_.size(), 0);
    for (const TypedStage& stage : found.stages) {
      const auto type = static_cast<std::size_t>(stage.type);
      plan.stages.push_back(
          {.layers = layers_of(groups_, stage.first, stage.last), .devices = {types_[type].devices[next[type]++]}});
    }
    plan.search.objective = found.period;
    plan.search.states = found.states;
    return plan;
  }

  Plan even() const {
    Plan plan;
    const int n = std::min(problem_.devices, chain_.layers);
    std::vector<TypedStage> stages;
    for (int d = 0; d < n; ++d) {
      const int first = chain_.layers * d / n, last = chain_.layers * (d + 1) / n;
      plan.stages.push_back({.layers = layers_of(groups_, first, last), .devices = {DeviceId(d)}});
      for (std::size_t t = 0; t < types_.size(); ++t)
        if (std::ranges::count(types_[t].devices, DeviceId(d)) > 0)
          stages.push_back({static_cast<int>(t), first, last});
    }
    plan.search.objective = period_of(chain_, stages);
    return plan;
  }

  const Problem& problem_;
  LayerGroupGraph groups_;
  Bandwidths bandwidths_;
  std::vector<DeviceType> types_;
  double scale_;  // of a megabyte and a megabit, as the planner takes them
  StageBuffers buffers_;
  TypedChain chain_;
  std::vector<double> weights_;  // bytes of the layers before
};

std::vector<PlannedPipeline> edgepipe_plan(const Problem& problem, const Options& options) {
  return {EdgePlanner(problem, options).run(planner_option(options))};
}

// Every rank its stage's micro-batches in order.
Schedule edgepipe_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule = empty_schedule(problem);
  schedule.forward_only = true;
  for (int s = 0; s < problem.stages(); ++s)
    for (int i = 0; i < problem.microbatches / problem.graph.microbatches_per_op_of(StageId(s)); ++i)
      schedule.ops(problem.placement.rank_of(StageId(s), Micro(i))).push_back(forward_op(s, i));
  return schedule;
}

Theory no_theory(const ScheduleProblem&, const Options&) { return {}; }

}  // namespace

extern const System edgepipe;
const System edgepipe = {
    .name = "edgepipe",
    .aliases = {"pipeedge"},
    .title = "EdgePipe (inference)",
    .citation =
        "Hu et al., Pipeline Parallelism for Inference on Heterogeneous Edge Computing, 2021 (arXiv 2110.14895); "
        "PipeEdge, DSD 2022",
    .written_from = {WrittenFrom::code,
                     {{"planner=even", WrittenFrom::ours}, {"units=decimal", WrittenFrom::ours}},
                     "planner=even and units=decimal are ours."},
    .inference_only = true,
    .options = {planner_option.spec(),
                {"units",
                 "decimal",
                 "size of a megabyte and a megabit in the planner: decimal (10^6) or binary (2^20, as in the released "
                 "scheduler)",
                 {"decimal", "binary"}},
                {"buffers_in", "2", "buffers for received messages, counted in a stage's memory", {}, 0},
                {"buffers_out", "2", "buffers for messages to send, counted in a stage's memory", {}, 0}},
    .own_cuts = [](const Options&) { return true; },
    .candidates = edgepipe_plan,
    .schedule = edgepipe_schedule,
    .theory = no_theory,
};

}  // namespace sluice
