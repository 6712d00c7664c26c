// DynPipe's decision during a run: from what the windows have shown of the ranks, another partition or none.
#pragma once

#include <optional>

#include "systems/dynpipe/detector.h"
#include "systems/dynpipe/forest.h"
#include "systems/dynpipe/partition.h"

namespace sluice {

struct AdaptOptions {
  DetectorOptions detector;
  CandidateOptions candidates;
  const Forest* forest = nullptr;  // null: a stage is slowed as its device was seen to be
  double lambda = 0;
  bool weighs_cost = true;  // false: changes whenever another partition is better, as the released code does
};

// The chain that a problem is for the first `devices` devices of its cluster. Throws InputError: the model has fewer
// layers that can be cut than there are devices.
DynPipeChain chain_of(const Problem& problem, double lambda);
Plan plan_of(const Problem& problem, const DynPipeChoice& choice);
Cuts cuts_of(const Problem& problem, const Plan& plan);  // in groups of layers
// The cuts before these layers, in groups of layers. Throws InputError: not one for each stage but the first, not
// ascending, or within a group.
Cuts cuts_before(const Problem& problem, const std::vector<int>& first_layers);

// Seconds per update that every device took over what its stage would take undisturbed, in one window. The first plan's
// calibration window says what undisturbed is.
std::vector<double> slowdowns_in(const ObservedWindow& window, const DynPipeChain& chain, const Cuts& cuts);

// Bytes that change their device, and the seconds it takes: the pipe drains and fills again, and every link carries
// what goes over it.
struct Move {
  double bytes = 0, seconds = 0;
};
Move move_between(const Problem& problem, const DynPipeChain& chain, const Cuts& from, const Cuts& to, double period);

// What a move would gain over keeping the plan, and the plan; none: it keeps it.
std::optional<Plan> adapted_plan(const Observations& observations, const Problem& problem, const AdaptOptions& options);

}  // namespace sluice
