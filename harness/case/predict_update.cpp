#include "harness/case/predict_update.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/sim/waiting_messages.h"
#include "results/steady_window.h"

namespace sluice {

// Batches of inference after which the pipe, with its queues, has been full for as long again.
static int batches_to_fill(const Prepared& p) {
  const int in_the_pipe = static_cast<int>(p.plan.stages.size()) * (p.queue + 1);
  return 2 * std::max(4, 2 * (in_the_pipe + p.microbatches_per_update - 1) / p.microbatches_per_update);
}

// Whether a program is one update, again and again: of synchronous systems that train.
static bool repeats_one_update(const Prepared& p) { return p.system->synchronous && !p.inference; }

Costs costs_of(const Prepared& p) {
  Costs costs = costs_of(p.plan, p.costs, p.cluster, p.gradient_bucket);
  costs.batched_weight_gradients = p.batched_weight_gradients;
  for (const CostGraph& of_size : p.size_costs)
    costs.of_size.push_back(costs_of(p.plan, of_size, p.cluster, p.gradient_bucket));
  return costs;
}

std::vector<RankMemory> predicted_memory(const Prepared& p, const Program& program, const OptimizerSpec& optimizer) {
  const std::vector<StageMemory> stages = stage_memory(p, optimizer, program.rule);
  const Costs costs = costs_of(p);
  if (p.inference || !costs.machine) return memory(program, stages);
  std::vector<RankMemory> result = memory(program, stages, true);
  add_waiting_messages(program, simulate(program, costs, p.cluster, p.ranks.devices).trace, result);
  return result;
}

static Program program_of(const Prepared& p, int updates) {
  return make_program(p, int_of(exact_product<std::int64_t>(p.microbatches_per_update, updates), "micro-batches"));
}

Program program_of_updates(const Prepared& p) {
  // Otherwise a run long enough that filling the pipe hardly counts.
  const int ranks = static_cast<int>(p.ranks.devices.size());
  return program_of(p, repeats_one_update(p) ? 1 : p.inference ? batches_to_fill(p) : std::max(16, 8 * ranks));
}

// Updates at the end that are faster because nothing follows them: those in the pipe at once.
static std::size_t last_updates(const Prepared& p) {
  if (repeats_one_update(p)) return 0;
  return p.inference ? static_cast<std::size_t>(batches_to_fill(p) / 2) : p.ranks.devices.size();
}

Seconds steady_update(const UpdateEnds& ends, std::size_t tail) {
  constexpr int kRuns = 5;  // each twice as long as the one before
  for (int run = 0;; ++run) {
    const std::vector<double> all = step_seconds_of(ends(1 << run));
    const std::span<const double> steps = std::span(all).subspan(1, all.size() - 1 - tail);
    if (const auto steady = steady_window(steps, tail > 0 ? kMinSteps : 2)) return Seconds(steady->step());
    if (run + 1 < kRuns) continue;
    const auto half = steps.subspan(steps.size() / 2);  // nothing repeats: by then the pipe is full
    return Seconds(std::accumulate(half.begin(), half.end(), 0.0) / static_cast<double>(half.size()));
  }
}

Seconds simulated_update(const Prepared& p, const Program& program) {
  const auto ends_of = [&p](const Program& updates, int iterations) {
    return simulate(updates, costs_of(p), p.cluster, p.ranks.devices, {.iterations = iterations, .trace = false})
        .update_end;
  };
  if (repeats_one_update(p)) return steady_update([&](int times) { return ends_of(program, 3 * times); });
  return steady_update(
      [&](int times) { return ends_of(times == 1 ? program : program_of(p, program.updates * times), 1); },
      last_updates(p));
}

}  // namespace sluice
