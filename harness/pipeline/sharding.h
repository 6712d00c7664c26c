// Sharding: what ZeRO (FSDP) adds to an order for a stage that is sharded over the ranks of a data-parallel group:
// gathers of weights before they are used and reduce-scatters of gradients.
//
// The group of a stage is Placement::stages[s], the sharded stages are those with more than one rank there. A stage's
// parameters are one flat vector, its tensors in the order of the layers, padded to a multiple of the group's size;
// member k of the group holds the k-th slice, of shard_elements() values: the shard. A rank keeps of a sharded stage
//   weights     its shard, always; the gathered copy (all slices) from a gather to the next free. With
//               Gather::after_step instead of both the whole vector, always.
//   gradients   its shard's, always; the whole vector's from the first weight gradient since the last reduce-scatter to
//               the next one.
//   optimizer   its shard's state.
// A gather is issued `prefetch` compute ops before the first op that needs it (but after the free of an earlier copy of
// the same stage), so that it can overlap them. A free follows the last op of a visit that reads the weights, a
// reduce-scatter the last gradient that it sums. Steps are at the program's end, after every op, by stage. A gathered
// copy ends before its version's step: the next run of the program gathers again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

struct Sharding {
  enum class Gather {
    never,       // every rank holds its stages' weights whole
    once,        // gathered at first use, kept until the update
    on_visit,    // kept until the rank turns to another of its stages: one chunk resident
    on_use,      // freed after every F, B and I
    after_step,  // always whole, but each member updates its shard only, so the new weights are gathered after the
                 // step: ZeRO-1
  };
  enum class Reduce {
    never,
    per_microbatch,  // after each weight gradient
    accumulated,     // after the last weight gradient of every microbatches_per_reduction micro-batches of a stage
  };
  Gather gather = Gather::never;
  Reduce reduce = Reduce::never;
  int microbatches_per_reduction = 0;  // for Reduce::accumulated; 0: all of the update
  int prefetch = 1;                    // compute ops between a gather and its first use; 0: directly before it
  bool active() const { return gather != Gather::never; }
};

// Parameters that each of `ranks` members holds of a stage of `parameters`.
constexpr std::int64_t shard_elements(std::int64_t parameters, std::size_t ranks) {
  const auto n = static_cast<std::int64_t>(ranks);
  return (parameters + n - 1) / n;
}

// The gather of `stage` is before op `op` of a rank's list, a reduction after it.
struct Collective {
  std::size_t op;
  StageId stage;
};

struct RankCollectives {
  std::vector<Collective> gathers, reductions;  // each in order
};

// Per rank. A W needs no weights: it reads the stash. With Reduce::accumulated and u micro-batches per reduction, the
// k-th reduction of a stage sums its micro-batches [k u, (k + 1) u) in the order of their numbers on that rank.
std::vector<RankCollectives> collectives(const Schedule& schedule, const Sharding& sharding);

}  // namespace sluice
