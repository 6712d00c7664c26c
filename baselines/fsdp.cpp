// Fully sharded data parallelism, ZeRO-3 (Rajbhandari et al., SC 2020, arXiv 1910.02054; PyTorch
// FSDP): every rank runs its share of the micro-batches through the whole model, one after the
// other, and holds 1/p of the parameters, gathered where they are used and freed again. What
// ZeroPP and breadth-first pipelines are measured against.
//
// accumulation=reshard: weights are gathered before F and before B of every micro-batch, gradients
//   reduce-scattered after it: 3 m parameters moved per rank and update. The default.
// accumulation=keep: gathered once, kept and reduced once over the update: 2 parameters moved, but
//   a full copy of weights and gradients is resident.
// accumulation=no_sync: weights as reshard, gradients as keep: 2 m + 1 parameters moved.
//
// (In units of the model's parameters, times (p - 1) / p.) The order is the same for all three:
//
//   rank 0  F0 B0 F1 B1
//   rank 1  F2 B2 F3 B3
//
// chunks=v: the model in v parts, FSDP's units, gathered one after the other, so that a part's
// gather can run beside the ops of the part before and only a part or two are resident.
#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

// Contiguous shares, as even as can be: the first m mod p ranks have one more.
std::vector<std::size_t> shares(int ranks, int microbatches) {
  if (microbatches < ranks)
    throw InputError("fsdp", std::to_string(microbatches) + " micro-batches for " + std::to_string(ranks) + " ranks",
                     "give every rank at least one micro-batch");
  std::vector<std::size_t> result;
  for (int r = 0; r < ranks; ++r)
    for (int k = 0; k < microbatches / ranks + (r < microbatches % ranks ? 1 : 0); ++k)
      result.push_back(static_cast<std::size_t>(r));
  return result;
}

Plan fsdp_plan(const Problem& problem, const Options& options) {
  std::vector<DeviceId> all;
  for (int d = 0; d < problem.devices; ++d) all.emplace_back(d);
  const auto parts = static_cast<std::size_t>(options.integer("chunks"));
  Plan plan = chain_on(problem, std::vector(parts, all), "fsdp");
  plan.replica_of = shares(problem.devices, problem.microbatches);
  return plan;
}

Schedule fsdp_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches);
  const std::vector<std::size_t> share = shares(problem.ranks, problem.microbatches);
  const auto parts = static_cast<int>(problem.graph.size());
  for (std::size_t i = 0; i < share.size(); ++i) {
    auto& ops = schedule.ranks[share[i]];
    for (int s = 0; s < parts; ++s) ops.push_back(forward_op(s, static_cast<int>(i)));
    for (int s = parts; s-- > 0;) ops.push_back(backward_op(s, static_cast<int>(i)));
  }
  return schedule;
}

Theory fsdp_theory(const ScheduleProblem& problem, const Options&) {
  const auto p = static_cast<std::size_t>(problem.ranks);
  const int m = problem.microbatches;
  const int most = (m + problem.ranks - 1) / problem.ranks;
  return {.bubble_ratio = 1 - static_cast<double>(m) / (static_cast<double>(most) * problem.ranks),
          .in_flight = std::vector<int>(p, static_cast<int>(problem.graph.size())),
          .weight_versions = std::vector<int>(p, 1),
          .staleness = std::vector<int>(p, 0)};
}

Sharding fsdp_sharding(const ScheduleProblem&, const Options& options) {
  const std::string& mode = options.text("accumulation");
  return {.gather = mode == "keep" ? Sharding::Gather::once : Sharding::Gather::on_use,
          .reduce = mode == "reshard" ? Sharding::Reduce::per_microbatch : Sharding::Reduce::per_unit};
}

}  // namespace

extern const System fsdp;
const System fsdp = {
    .name = "fsdp",
    .aliases = {"zero3"},
    .title = "FSDP (ZeRO-3)",
    .citation =
        "Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, "
        "SC 2020 (arXiv 1910.02054)",
    .synchronous = true,
    .data_parallel = true,
    .options = {{"accumulation",
                 "reshard",
                 "over micro-batches: reshard (weights and gradients after each), keep (both whole) "
                 "or no_sync (gradients whole)",
                 {"reshard", "keep", "no_sync"}},
                {"chunks", "1", "parts of the model that are gathered one after the other"}},
    .plan = fsdp_plan,
    .schedule = fsdp_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory = fsdp_theory,
    .chunks = [](const Options& options) { return options.integer("chunks"); },
    .sharding = fsdp_sharding,
};

}  // namespace sluice
