// Cutting a chain of layers into stages and replicating them over devices in a fixed order, so that
// the busiest resource of an iteration - a stage with its all-reduce, or a channel between two
// stages - is least busy: the partition and replication program of SPP (Luo et al., INFOCOM 2022,
// arXiv 2204.10562), for every number of stages at once. A stage splits each micro-batch evenly
// over its replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "systems/spp/layer_chain.h"
#include "systems/spp/list_schedule.h"
#include "systems/spp/min_cut.h"

namespace sluice {

// What one device must hold of a stage: `tensors_per_parameter` tensors for every parameter and the outputs of the
// micro-batches in flight on it. A filter, coarser than the real accounting (harness/sim/memory.h).
struct StageMemoryLimit {
  std::vector<double> capacity;                    // bytes, by position
  double tensors_per_parameter = 3;                // in fp32: weights, gradients, one optimizer state
  std::function<int(int stages_after)> in_flight;  // most micro-batches of a stage on one device
};

struct ReplicationProblem {
  LayerChain chain;
  SquareMatrix bandwidths;     // bytes/s, by position in the device order; symmetric
  std::vector<double> speeds;  // by position; a stage runs at its slowest device's
  int microbatches = 1;
  int max_replicas = 0;     // of a stage; 0: any
  bool all_devices = true;  // false: a plan may leave out devices at the end of the order
  int stages = 0;           // only this many; 0: every number
  std::optional<StageMemoryLimit> memory;
  std::int64_t table_bytes = std::int64_t{1} << 31;   // ends the search
  std::function<bool()> stop = [] { return false; };  // asked now and then; true ends the search
};

struct ReplicatedStage {
  int first_group, last_group;    // [first, last) of the chain
  int first_device, last_device;  // [first, last) of the device order
  int replicas() const { return last_device - first_device; }
  friend bool operator==(const ReplicatedStage&, const ReplicatedStage&) = default;
};

struct ReplicatedPartition {
  double workload = 0;  // of the busiest resource, seconds an iteration
  std::vector<ReplicatedStage> stages;
};

struct ReplicatedPartitions {
  std::vector<std::optional<ReplicatedPartition>> by_stages;  // [x - 1]: x stages; none: impossible
  std::int64_t states = 0;
  bool complete = true;  // false: ended by `stop` or `table_bytes`; larger numbers of stages missing
};

// Exact. Of equal partitions: the earliest last cut, then the fewest replicas of the stage before
// it, and so on backwards; then the fewest replicas of the last stage. O(S L V^2 (L + V)) time:
// which replication of the stage before is best does not depend on where the stage ends, so it is
// found once for every cut; a cut that leaves the last stage more work than the best plan's whole
// workload ends the scan. O(S L V^2) memory for the choices.
ReplicatedPartitions partition_and_replicate(const ReplicationProblem& problem);

// The times of these stages, each in its own right; workload() of them is what is minimised.
PipelineTimes pipeline_times(const ReplicationProblem& problem, const std::vector<ReplicatedStage>& stages);

// max over stages M (F + B) + all-reduce, over channels M (down + up).
double workload(const PipelineTimes& times, int microbatches);

}  // namespace sluice
