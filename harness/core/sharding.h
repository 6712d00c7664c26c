// Sharding: what ZeRO-3 (FSDP) adds to an order where a stage's parameters are spread over the
// ranks of a data-parallel group: gathers of weights before they are used and reduce-scatters of
// gradients (specs/sync_schedules.md sections 1, 2, 10). Data only: where they stand in a schedule.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/core/schedule.h"

namespace sluice {

struct Sharding {
  enum class Gather {
    never,     // every rank holds its stages' weights whole
    once,      // gathered at first use, kept until the update
    on_visit,  // kept until the rank turns to another of its stages: one chunk resident
    on_use,    // freed after every F, B and I
  };
  enum class Reduce {
    never,
    per_microbatch,  // after each weight gradient
    per_unit,        // after the last weight gradient of every `unit` micro-batches of a stage
  };
  Gather gather = Gather::never;
  Reduce reduce = Reduce::never;
  int unit = 0;  // micro-batches; 0: all of the update
};

// Op `op` of a rank's list: a gather of `stage` stands before it, a reduction after it.
struct Collective {
  std::size_t op;
  StageId stage;
};

struct RankCollectives {
  std::vector<Collective> gathers, reductions;  // each in order
};

// Per rank. A W needs no weights: it reads the stash. With per_unit, unit k of a stage is its
// micro-batches [k unit, (k + 1) unit) in the order of their numbers on that rank.
std::vector<RankCollectives> collectives(const Schedule& schedule, const Sharding& sharding);

}  // namespace sluice
