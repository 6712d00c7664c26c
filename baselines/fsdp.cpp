// Fully sharded data parallelism, ZeRO-3 (Rajbhandari et al., SC 2020, arXiv 1910.02054; PyTorch FSDP), section 5:
// every rank runs its share of the micro-batches through the whole model, one after the other, and holds 1/p of the
// parameters, gathered where they are used and freed again. What ZeroPP and breadth-first pipelines are measured
// against. p = 2, m = 4:
//
//   rank 0  F0 B0 F1 B1
//   rank 1  F2 B2 F3 B3
//
// The order is the same whatever is gathered when; moved per rank and update, in units of the model's parameters times
// (p - 1) / p:
// accumulation=reshard: weights are gathered before F and before B of every micro-batch, gradients reduce-scattered
//   after it: 3 m moved. The default.
// accumulation=keep: gathered once, kept and reduced once over the update: 2 moved, but a full copy of weights and
//   gradients is resident.
// accumulation=no_sync: weights as reshard, gradients as keep: 2 m + 1 moved.
//
// chunks=v: the model in v parts, FSDP's units, gathered one after the other, so that a part's gather can overlap
//   the ops of the part before and only a part or two are resident.
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/chunks_option.h"

namespace sluice {

namespace {

enum class Accumulation { reshard, keep, no_sync };

const ChoiceOption<Accumulation> accumulation_option(
    "accumulation",
    "between micro-batches: reshard (weights and gradients are divided again), keep (both stay whole) or no_sync "
    "(gradients stay whole)",
    {{"reshard", Accumulation::reshard}, {"keep", Accumulation::keep}, {"no_sync", Accumulation::no_sync}});

// The rank of every micro-batch. Contiguous shares, as even as can be: the first m mod p ranks have one more.
std::vector<std::size_t> shares(int ranks, int microbatches) {
  std::vector<std::size_t> result;
  for (int r = 0; r < ranks; ++r)
    result.insert(result.end(), microbatches / ranks + (r < microbatches % ranks ? 1 : 0), r);
  return result;
}

Plan fsdp_plan(const Problem& problem, const Options& options) {
  const auto all = list_of(problem.devices, [](int d) { return DeviceId(d); });
  Plan plan = chain_on(problem, std::vector(given_chunks(options), all), "fsdp");
  plan.replica_of = shares(problem.devices, problem.microbatches);
  return plan;
}

Theory fsdp_theory(const ScheduleProblem& problem, const Options&) {
  Theory theory = flush_theory(problem.ranks);
  theory.bubble_ratio = data_parallel_bubble(problem.ranks, problem.microbatches);
  theory.in_flight.assign(problem.ranks, problem.stages());
  return theory;
}

Sharding fsdp_sharding(const ScheduleProblem&, const Options& options) {
  const Accumulation chosen = accumulation_option(options);
  return {.gather = chosen == Accumulation::keep ? Sharding::Gather::once : Sharding::Gather::on_use,
          .reduce = chosen == Accumulation::reshard ? Sharding::Reduce::per_microbatch : Sharding::Reduce::accumulated};
}

}  // namespace

extern const System fsdp = {
    .name = "fsdp",
    .aliases = {"zero3"},
    .title = "FSDP (ZeRO-3)",
    .citation =
        "Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020 (arXiv "
        "1910.02054)",
    .written_from =
        {WrittenFrom::memory,
         {{"accumulation", WrittenFrom::ours}, {"chunks", WrittenFrom::ours}},
         "Which tensors stay whole between micro-batches, and the bytes that each form moves, are derived here."},
    .data_parallel = true,
    .options = {replicas_only(accumulation_option.spec()),
                {"chunks", "1", "parts of the model that are gathered one after the other"}},
    .require = [](int ranks, int microbatches,
                  const Options&) { require_a_micro_batch_for_every_rank("fsdp", ranks, microbatches); },
    .chunks = given_chunks,
    .plan = fsdp_plan,
    .schedule = [](const ScheduleProblem& problem,
                   const Options&) { return orders::one_micro_batch_at_a_time(problem); },
    .theory = fsdp_theory,
    .sharding = fsdp_sharding,
};

}  // namespace sluice
