#include "baselines/pipedream_2bw/two_bw_plan.h"

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/machines.h"

namespace sluice {

namespace {

// The model with micro-batches of one size, as sums over its groups before each of them.
class SizedModel {
 public:
  SizedModel(const CostGraph& costs, double scale)
      : graph_(layer_groups(costs)), crossing_(bytes_over_cuts(graph_)), sums_(1) {
    for (double& bytes : crossing_) bytes *= scale;
    for (const LayerGroup& group : graph_.groups) {
      Sum sum = sums_.back();
      sum.forward += group.forward * scale;
      sum.backward += group.backward * scale;
      sum.parameters += group.parameters;
      sum.gradients += group.gradients;
      sum.resident += group.resident;
      sum.kept += group.kept * scale;
      sums_.push_back(sum);
    }
  }

  struct Sum {
    double forward = 0, backward = 0, parameters = 0, gradients = 0, resident = 0, kept = 0;
  };
  Sum between(int first, int last) const {
    const Sum &to = sums_[last], &from = sums_[first];
    return {to.forward - from.forward,     to.backward - from.backward, to.parameters - from.parameters,
            to.gradients - from.gradients, to.resident - from.resident, to.kept - from.kept};
  }
  // Cuts: the first group of every stage, and the number of groups at the end.
  Sum stage(const std::vector<int>& cuts, int s) const { return between(at(cuts, s), at(cuts, s + 1)); }
  double into(const std::vector<int>& cuts, int s) const { return crossing_[at(cuts, s)]; }
  std::vector<int> layers(const std::vector<int>& cuts, int s) const {
    return layers_of(graph_, at(cuts, s), at(cuts, s + 1));
  }
  int groups() const { return static_cast<int>(graph_.groups.size()); }

  std::vector<int> balanced(int depth) const {
    return partition_chain(groups(), depth, [&](int first, int last, int) {
      const Sum sum = between(first, last);
      return sum.forward + sum.backward;
    });
  }

 private:
  static int at(const std::vector<int>& cuts, int s) { return cuts[s]; }

  LayerGroupGraph graph_;
  std::vector<double> crossing_;
  std::vector<Sum> sums_;
};

class TwoBwSearch {
 public:
  TwoBwSearch(const CostGraph& costs, const Cluster& cluster, const TwoBwOptions& options)
      : costs_(costs),
        cluster_(cluster),
        options_(options),
        bandwidth_(Bandwidths(cluster, options.devices).slowest()),
        memory_(smallest_memory(cluster, options.devices)),
        deadline_(options.limits.seconds) {}

  std::vector<TwoBwPlan> run() {
    std::vector<std::int64_t> sizes = options_.micro_batches;
    if (sizes.empty()) sizes = {costs_.micro_batch};
    for (const std::int64_t b : sizes) {
      if (b < 1) continue;
      const SizedModel model = sized(b);
      for (int depth = 1; depth <= std::min(options_.devices, model.groups()); ++depth) {
        if (options_.devices % depth != 0) continue;
        // The first is looked at whatever the time: there must be a plan to fall back on.
        if (!best_.empty() && deadline_.passed()) {
          search_.complete = false;
          break;
        }
        try_depth(model, depth, b);
      }
    }
    std::vector<TwoBwPlan> plans;
    for (auto& [depth, found] : best_) {
      search_.objective = 1 / found.samples_per_second;
      found.plan.search = search_;
      plans.push_back(std::move(found));
    }
    return plans;
  }

 private:
  SizedModel sized(std::int64_t b) const {
    const bool own = b == costs_.micro_batch;
    const auto other = own || !options_.costs_at ? nullptr : options_.costs_at(b);
    return {costs_on_slowest(other ? *other : costs_, cluster_, options_.devices),
            own || other ? 1.0 : static_cast<double>(b) / static_cast<double>(costs_.micro_batch)};
  }

  void try_depth(const SizedModel& model, int depth, std::int64_t b) {
    check_stop();
    const int width = options_.devices / depth;
    if (width > options_.max_width || options_.batch % (b * width) != 0) return;
    const auto m = static_cast<int>(options_.batch / (b * width));
    if (m < depth) return;  // weight versions: the paper's condition
    const std::vector<int> cuts = model.balanced(depth);
    for (const bool recompute : {false, true}) {
      if (recompute ? !options_.may_recompute : options_.must_recompute) continue;
      ++search_.states;
      if (!fits(model, cuts, b, recompute)) continue;
      const double seconds = slowest(model, cuts, width, m, recompute);
      const double throughput = static_cast<double>(b) * width / seconds;
      TwoBwPlan& best = best_[depth];
      if (throughput <= best.samples_per_second) continue;
      best = {.plan = plan(model, cuts, width, b),
              .width = width,
              .depth = depth,
              .microbatches = m,
              .recompute = recompute,
              .samples_per_second = throughput};
    }
  }

  bool fits(const SizedModel& model, const std::vector<int>& cuts, std::int64_t b, bool recompute) const {
    const int depth = static_cast<int>(cuts.size()) - 1;
    for (int s = 0; s < depth; ++s) {
      const SizedModel::Sum sum = model.stage(cuts, s);
      double always = sum.resident, kept = sum.kept;
      if (options_.footprint) {
        const auto footprint = options_.footprint(model.layers(cuts, s));
        always = sum.parameters + static_cast<double>(footprint.always.value);
        kept = static_cast<double>((footprint.per_micro_batch + b * footprint.per_sample).value);
      }
      const double in_flight = depth - s;
      const double activations = recompute ? in_flight * model.into(cuts, s) + kept : in_flight * kept;
      if (always + activations > memory_) return false;
    }
    return true;
  }

  double slowest(const SizedModel& model, const std::vector<int>& cuts, int width, int m, bool recompute) const {
    double result = 0;
    for (int s = 0; s + 1 < static_cast<int>(cuts.size()); ++s) {
      const SizedModel::Sum sum = model.stage(cuts, s);
      // Activations come and go, and so do their gradients.
      const double bytes = 2 * (model.into(cuts, s) + model.into(cuts, s + 1));
      const double compute = sum.forward * (recompute ? 2 : 1) + sum.backward + bytes / bandwidth_;
      const double all_reduce = 2.0 * (width - 1) / width * sum.gradients / bandwidth_ / m;
      result = std::max({result, compute, all_reduce});
    }
    return result;
  }

  static Plan plan(const SizedModel& model, const std::vector<int>& cuts, int width, std::int64_t micro_batch) {
    Plan plan{.micro_batch = micro_batch};
    for (int s = 0; s + 1 < static_cast<int>(cuts.size()); ++s) {
      PlanStage stage{.layers = model.layers(cuts, s)};
      for (int d = 0; d < width; ++d) stage.devices.emplace_back(s * width + d);
      plan.stages.push_back(stage);
    }
    return plan;
  }

  const CostGraph& costs_;
  const Cluster& cluster_;
  const TwoBwOptions& options_;
  double bandwidth_, memory_;
  Deadline deadline_;
  std::map<int, TwoBwPlan> best_;  // by depth
  SearchReport search_{.objective_name = "seconds per sample of all copies"};
};

}  // namespace

std::vector<TwoBwPlan> two_bw_plans(const CostGraph& costs, const Cluster& cluster, const TwoBwOptions& options) {
  if (options.devices < 1 || options.batch < 1)
    throw InputError("pipedream_2bw", "no devices or no samples", "give at least one of each");
  return TwoBwSearch(costs, cluster, options).run();
}

}  // namespace sluice
