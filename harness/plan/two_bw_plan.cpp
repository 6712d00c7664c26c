#include "harness/plan/two_bw_plan.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/machines.h"
#include "harness/plan/units.h"

namespace sluice {

namespace {

class TwoBwSearch {
 public:
  TwoBwSearch(const CostGraph& costs, const Cluster& cluster, const TwoBwOptions& options)
      : costs_(costs_on_slowest(costs, cluster, options.devices)),
        options_(options),
        graph_(units_of(costs_)),
        crossing_(bytes_over_cuts(graph_)),
        bandwidth_(Bandwidths(cluster, options.devices).slowest()),
        memory_(smallest_memory(cluster, options.devices)) {
    sums_.emplace_back();
    for (const Unit& unit : graph_.units) {
      Sum sum = sums_.back();
      sum.forward += unit.forward;
      sum.backward += unit.backward;
      sum.parameters += unit.parameters;
      sum.kept += unit.kept;
      sums_.push_back(sum);
    }
  }

  TwoBwPlan run() {
    TwoBwPlan best;
    SearchReport search{.objective_name = "slowest stage's seconds per micro-batch of every copy"};
    std::vector<std::int64_t> sizes = options_.micro_batches;
    if (sizes.empty()) sizes = {costs_.micro_batch};
    for (int depth = 1; depth <= options_.devices; ++depth) {
      if (options_.devices % depth != 0 || depth > static_cast<int>(graph_.units.size())) continue;
      const std::vector<int> cuts = balanced(depth);
      const int width = options_.devices / depth;
      for (const std::int64_t b : sizes) {
        if (b < 1 || options_.batch % (b * width) != 0) continue;
        const auto m = static_cast<int>(options_.batch / (b * width));
        if (m < depth) continue;  // weight versions: the paper's condition
        for (const bool recompute : {false, true}) {
          if (recompute && !options_.may_recompute) continue;
          ++search.states;
          const double scale = static_cast<double>(b) / static_cast<double>(costs_.micro_batch);
          if (!fits(cuts, scale, recompute)) continue;
          const double seconds = slowest(cuts, width, m, scale, recompute);
          const double throughput = static_cast<double>(b) * width / seconds;
          if (throughput <= best.samples_per_second) continue;
          best = {.plan = plan(cuts, width, b),
                  .width = width,
                  .depth = depth,
                  .microbatches = m,
                  .recompute = recompute,
                  .samples_per_second = throughput};
          search.objective = seconds;
        }
      }
    }
    report(best.plan, search);
    return best;
  }

 private:
  struct Sum {
    double forward = 0, backward = 0, parameters = 0, kept = 0;
  };

  Sum stage(const std::vector<int>& cuts, int s) const {
    const Sum& to = sums_[static_cast<std::size_t>(cuts[static_cast<std::size_t>(s) + 1])];
    const Sum& from = sums_[static_cast<std::size_t>(cuts[static_cast<std::size_t>(s)])];
    return {to.forward - from.forward, to.backward - from.backward, to.parameters - from.parameters,
            to.kept - from.kept};
  }
  double crossing(const std::vector<int>& cuts, int s) const {  // into stage s
    return crossing_[static_cast<std::size_t>(cuts[static_cast<std::size_t>(s)])];
  }

  std::vector<int> balanced(int depth) const {
    return partition_chain(static_cast<int>(graph_.units.size()), depth, [&](int f, int l, int) {
      const Sum &to = sums_[static_cast<std::size_t>(l)],
                &from = sums_[static_cast<std::size_t>(f)];
      return to.forward + to.backward - from.forward - from.backward;
    });
  }

  bool fits(const std::vector<int>& cuts, double scale, bool recompute) const {
    const int depth = static_cast<int>(cuts.size()) - 1;
    for (int s = 0; s < depth; ++s) {
      const Sum sum = stage(cuts, s);
      const double in_flight = depth - s;
      const double activations =
          recompute ? in_flight * crossing(cuts, s) + sum.kept : in_flight * sum.kept;
      if (2 * sum.parameters + activations * scale > memory_) return false;
    }
    return true;
  }

  double slowest(const std::vector<int>& cuts, int width, int m, double scale,
                 bool recompute) const {
    double result = 0;
    for (int s = 0; s + 1 < static_cast<int>(cuts.size()); ++s) {
      const Sum sum = stage(cuts, s);
      // Activations come and go, and so do their gradients.
      const double bytes = 2 * (crossing(cuts, s) + crossing(cuts, s + 1));
      const double compute =
          scale * (sum.forward * (recompute ? 2 : 1) + sum.backward + bytes / bandwidth_);
      const double all_reduce = 2.0 * (width - 1) / width * sum.parameters / bandwidth_ / m;
      result = std::max({result, compute, all_reduce});
    }
    return result;
  }

  Plan plan(const std::vector<int>& cuts, int width, std::int64_t micro_batch) const {
    Plan plan{.micro_batch = micro_batch};
    for (int s = 0; s + 1 < static_cast<int>(cuts.size()); ++s) {
      PlanStage stage{.layers = layers_of(graph_, cuts[static_cast<std::size_t>(s)],
                                          cuts[static_cast<std::size_t>(s) + 1])};
      for (int d = 0; d < width; ++d) stage.devices.emplace_back(s * width + d);
      plan.stages.push_back(stage);
    }
    return plan;
  }

  CostGraph costs_;
  const TwoBwOptions& options_;
  UnitGraph graph_;
  std::vector<double> crossing_;
  double bandwidth_, memory_;
  std::vector<Sum> sums_;
};

}  // namespace

TwoBwPlan two_bw_plan(const CostGraph& costs, const Cluster& cluster, const TwoBwOptions& options) {
  if (options.devices < 1 || options.batch < 1)
    throw InputError("pipedream_2bw", "no devices or no samples", "give at least one of each");
  return TwoBwSearch(costs, cluster, options).run();
}

}  // namespace sluice
