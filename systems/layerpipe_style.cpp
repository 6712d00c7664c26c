// The intra-layer half of LayerPipe (Unnikrishnan & Parhi, ICCAD 2021, arXiv 2108.06629) with a flush: the weight
// gradient W and the input gradient I of a layer do not depend on one another, so they run on processors of their own.
// Two ranks a stage, F and I on the first in the order of 1F1B, W on the second as soon as its I is done. p = 2 stages
// on 4 ranks, m = 4, F = I = W:
//
//   rank 0  F0F1..I0F2I1F3I2..I3..
//   rank 1  ........W0..W1..W2..W3   W of rank 0's stage
//   rank 2  ..F0I0F1I1F2I2F3I3....
//   rank 3  ......W0..W1..W2..W3..
//
// A stage's period is F + I instead of F + I + W, for twice the ranks. Every I sends on what its W reads (the layers'
// inputs and output gradients); after its last W the second rank sends the summed weight gradient back to the first,
// which holds the weights and steps. Makespan (m + p - 1)(F + I) + W where W <= F + I.
//
// The paper's whole method, with delayed gradients, is systems/layerpipe/.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

static void require_pairs(int ranks, int, const Options&) {
  if (ranks % 2 != 0)
    throw InputError("layerpipe_style",
                     std::to_string(ranks) + " ranks do not make pairs, one for F and I and one for W of every stage",
                     "use an even number");
}

static Plan layerpipe_style_plan(const Problem& problem, const Options&) {
  std::vector<std::vector<DeviceId>> devices;
  for (int d = 0; d < problem.devices; d += 2) devices.push_back({DeviceId(d)});
  Plan plan = chain_on(problem, devices, "layerpipe_style");
  for (PlanStage& stage : plan.stages) stage.weight_gradient_device = DeviceId(stage.devices.front().value + 1);
  return plan;
}

static Schedule layerpipe_style_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule = orders::one_f_one_b(problem, OpKind::input_gradient);
  if (problem.placement.weight_gradient_ranks.empty()) return schedule;  // inference
  for (int s = 0; s < problem.stages(); ++s)
    for (int i = 0; i < problem.microbatches; ++i)
      schedule.ops(problem.placement.weight_gradient_ranks[s]).push_back(weight_gradient_op(s, i));
  return schedule;
}

static Theory layerpipe_style_theory(const ScheduleProblem& problem, const Options&) {
  const int p = problem.stages(), m = problem.microbatches;
  Theory theory = flush_theory(problem.ranks);
  theory.bubble_ratio = 1 - 3.0 * m / (2 * (2 * (m + p - 1) + 1));  // at F = I = W
  for (int s = 0; s < p; ++s) theory.in_flight.insert(theory.in_flight.end(), {std::min(m, p - s), 0});
  return theory;
}

extern const System layerpipe_style = {
    .name = "layerpipe_style",
    .title = "LayerPipe-style",
    .citation =
        "Unnikrishnan & Parhi, LayerPipe: Accelerating Deep Neural Network Training by Intra-Layer and Inter-Layer "
        "Gradient Pipelining and Multiprocessor Scheduling, ICCAD 2021 (arXiv 2108.06629)",
    .written_from = {WrittenFrom::abstract,
                     {{"schedule", WrittenFrom::ours}},
                     "The schedule with a flush is ours; of the method it has only the intra-layer half: W of a layer "
                     "on another rank than I."},
    .require = require_pairs,
    .plan = layerpipe_style_plan,
    .schedule = layerpipe_style_schedule,
    .theory = layerpipe_style_theory,
};

}  // namespace sluice
