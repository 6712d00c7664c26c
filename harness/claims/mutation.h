// Whether a claim's verdict depends on its scenario's inputs: the scenario is run again with changed inputs, and a
// figure that stays reproduced under every change is no evidence. By kind of scenario:
//   schedule     times and bytes x 1.3 and / 1.3; one rank more, half of them; one micro-batch more; one layer more;
//                the order of GPipe, 1F1B, PipeDream and Chimera
//   case         devices at 1 / 1.3 and 1.3 of their speed; one rank more, half of them; these four systems
//   model        a device at 1 / 1.3 and 1.3 of its speed; one rank more; these four systems; each size doubled
//   transformer  all that is not communication x 1.3 and / 1.3; one rank more; twice the tensor-parallel degree; twice
//                the layers
//   records      their times and bytes x 1.3 and / 1.3, as they are not rerun; those of GraphPipe and of Piper
//   formula      each argument x 1.3, p + 1
//   ratio        those of the numerator alone; numerator and denominator exchanged
//   largest, smallest, sum, mean   the same change in every scenario that allows it
// An order is mutated by those of each of its claims in turn.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/claims/outcome.h"

namespace sluice {

struct Mutation {
  std::string what;
  Json scenario;  // may be invalid or impossible to run: then the change does not apply
};

std::vector<Mutation> mutations(const Json& scenario);

struct UnmovedClaim {
  std::string group, name;
  std::vector<std::string> tried;  // the changes that could be run: none changes the verdict
};

struct MutationReport {
  int reproduced = 0;                 // figures recorded as reproduced: only these are mutated
  std::vector<UnmovedClaim> unmoved;  // those that stay reproduced under every change
};

// `stored`: the recorded outcomes of the claims, in the same order.
MutationReport mutate(const PaperClaims& claims, std::span<const Outcome> stored, ProfileStore& profiles);

}  // namespace sluice
