// PipeDream's states of a DAG (its graph/graph.py, antichain_dag): the places where a stage may
// end. A state is an antichain of nodes; its stage takes in everything before and including them.
// States are walked from the first source, one node further at a time, and sorted topologically, so
// that a chain's states are its layers.
#pragma once

#include <vector>

#include "harness/plan/layer_groups.h"

namespace sluice {

struct AntichainStates {
  // Of everything up to and including the state:
  std::vector<std::vector<int>> groups;  // ascending
  std::vector<double> seconds, kept, parameters, gradients;
  std::vector<double> output;                  // bytes that leave it
  std::vector<std::vector<int>> predecessors;  // earlier states: where the stage before may end
  std::vector<std::vector<bool>> precedes;     // precedes[i][j]: i is a predecessor of j
  bool complete = true;                        // false: more than the cap; the states are the groups in their order
  std::size_t size() const { return seconds.size(); }
};

AntichainStates antichain_states(const LayerGroupGraph& graph, std::int64_t cap);

// At most `most` of a chain's states, evenly among them, the last one always: stages can end in
// fewer places. Marked as incomplete if any is left out.
AntichainStates thinned(const AntichainStates& chain, std::size_t most);

}  // namespace sluice
