// An order of one's own on the virtual clock, next to published ones: 1F1B whose ranks run `ahead` more forwards first.
#include <fmt/core.h>

#include <algorithm>

#include "harness/pipeline/orders.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

using namespace sluice;

static Schedule eager_1f1b(const ScheduleProblem& problem, const Options&) {
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, m = problem.microbatches, ahead = 2;
  for (int r = 0; r < p; ++r)
    orders::one_forward_one_backward(
        m, std::min(p - 1 - r + ahead, m), [&](int i) { schedule.ranks[r].push_back(forward_op(r, i)); },
        [&](int i) { schedule.ranks[r].push_back(backward_op(r, i)); });
  return schedule;
}

int main() {
  System mine = find_system("1f1b", "main");
  mine.name = "mine", mine.schedule = eager_1f1b;
  const Cluster cluster = latency_cluster(4, Seconds(0.5));  // a message takes half as long as a forward
  const StageCost stage{.forward = Seconds(1), .input_gradient = Seconds(1), .weight_gradient = Seconds(1)};
  for (const System* system : {&find_system("gpipe", "main"), &find_system("1f1b", "main"), &std::as_const(mine)}) {
    const Options options = resolve_options(system->options, {}, system->name);
    const ScheduleProblem problem = uniform_chain(*system, options, cluster, 4, 8, stage, Seconds(0.5)).problem;
    const Program program =
        lower(system->schedule(problem, options), problem.graph, problem.placement, system->weights(problem, options));
    const Simulation run = simulate(program, {std::vector<StageCost>(4, stage)}, cluster, identity_devices(4));
    fmt::print("{:12} makespan {:.1f}, bubble {:.1f} %\n", system->name, run.end, 100 * run.bubble.bubble_ratio);
  }
}
