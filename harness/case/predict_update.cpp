#include "harness/case/predict_update.h"

#include <algorithm>

#include "harness/base/index.h"
#include "harness/case/make_program.h"

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
  return costs;
}

Program program_of_updates(const Prepared& p) {
  // Otherwise a run long enough that filling the pipe hardly counts.
  const int ranks = static_cast<int>(p.ranks.devices.size());
  const int updates = repeats_one_update(p) ? 1 : p.inference ? batches_to_fill(p) : 8 * ranks;
  return make_program(p, int_of(exact_product<std::int64_t>(p.microbatches_per_update, updates), "micro-batches"));
}

Seconds simulated_update(const Prepared& p, const Program& program) {
  // Synchronous: updates follow one another without a barrier; the first has nothing before it.
  const int iterations = repeats_one_update(p) ? 3 : 1;
  const Simulation s =
      simulate(program, costs_of(p), p.cluster, p.ranks.devices, {.iterations = iterations, .trace = false});
  if (p.inference) {  // the second half: by then the pipe and its queues are full
    const std::size_t half = s.update_end.size() / 2;
    return Seconds((s.update_end.back() - s.update_end[half - 1]) / static_cast<double>(s.update_end.size() - half));
  }
  if (!p.system->synchronous) return Seconds(s.end / program.updates);
  return Seconds(s.update_end.back() - s.update_end[s.update_end.size() - 2]);
}

}  // namespace sluice
