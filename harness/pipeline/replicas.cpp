#include "harness/pipeline/replicas.h"

#include <utility>

#include "harness/base/error.h"

namespace sluice {

int rank_in_replica(int rank, int replica, int ranks, const PipelineReplicas& replicas) {
  return replicas.layout == PipelineReplicas::Layout::pipelines ? replica * ranks + rank
                                                                : rank * replicas.count + replica;
}

static void reject_what_is_no_pipeline(const Plan& one) {
  const std::string remedy = "use one copy";
  const std::size_t replicas = one.stages.front().devices.size();
  for (const PlanStage& stage : one.stages) {
    if (stage.devices.size() != replicas)
      throw InputError("data_parallel", "the plan replicates its stages by itself, each as often as it wants to",
                       remedy);
    if (stage.tensor != 1) throw InputError("data_parallel", "the plan uses tensor parallelism", remedy);
    if (stage.microbatches_per_op != 1)
      throw InputError("data_parallel", "a stage takes several micro-batches at once", remedy);
  }
}

Plan replicate(const Plan& one, int devices, int microbatches, const PipelineReplicas& replicas) {
  if (replicas.count == 1) return one;
  reject_what_is_no_pipeline(one);
  const auto device_of = [&](DeviceId device, int replica) {
    return DeviceId(rank_in_replica(device.value, replica, devices, replicas));
  };
  Plan plan = one;
  for (PlanStage& stage : plan.stages) {
    const std::vector<DeviceId> home = std::exchange(stage.devices, {});
    for (int d = 0; d < replicas.count; ++d)
      for (const DeviceId device : home) stage.devices.push_back(device_of(device, d));
  }
  const std::vector<DeviceId> order = ranks_of(one).devices;
  plan.rank_order.resize(order.size() * static_cast<std::size_t>(replicas.count));
  const auto ranks = static_cast<int>(order.size());
  for (int d = 0; d < replicas.count; ++d)
    for (int r = 0; r < ranks; ++r) plan.rank_order[rank_in_replica(r, d, ranks, replicas)] = device_of(order[r], d);
  const std::size_t own_replicas = one.stages.front().devices.size();
  plan.replica_of.clear();
  for (int d = 0; d < replicas.count; ++d)
    for (std::size_t i = 0; i < static_cast<std::size_t>(microbatches) * one.sequence.count; ++i)
      plan.replica_of.push_back(static_cast<std::size_t>(d) * own_replicas +
                                (one.replica_of.empty() ? i : one.replica_of[i]) % own_replicas);
  return plan;
}

Schedule replicate(const Schedule& one, const PipelineReplicas& replicas) {
  Schedule all{replicate(one.ranks, replicas), one.microbatches * replicas.count};
  all.sequence_chunks = one.sequence_chunks;
  const auto ranks = static_cast<int>(one.ranks.size());
  for (int d = 0; d < replicas.count; ++d)
    for (int r = 0; r < ranks; ++r)
      for (Op& op : all.ranks[rank_in_replica(r, d, ranks, replicas)])
        op.micro = Micro(op.micro.value + d * one.microbatches);
  return all;
}

Offload replicate(const Offload& one, int microbatches, const PipelineReplicas& replicas) {
  Offload all{replicate(one.ranks, replicas)};
  const auto ranks = static_cast<int>(one.ranks.size());
  for (int d = 0; d < replicas.count; ++d)
    for (int r = 0; r < ranks; ++r)
      for (StashMove& move : all.ranks[rank_in_replica(r, d, ranks, replicas)])
        move.micro = Micro(move.micro.value + d * microbatches);
  return all;
}

}  // namespace sluice
