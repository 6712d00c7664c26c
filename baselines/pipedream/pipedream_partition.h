// PipeDream's planner (Narayanan et al., SOSP 2019, section 3.1), from memory: cuts a model into stages,
// replicates each, level by level of the machine hierarchy, so that the slowest stage takes the
// least time per mini-batch in the steady state. m_k components of level k are joined at B_k
// bytes/s:
//
//   T^k(i->j, m) = 1/m max( A^{k-1}(i->j, m_{k-1}), 2(m-1) sum|w| / B_k )
//   A^k(i->j, m) = min( T^k(i->j, m), min over s, m' of max( A^k(i->s, m-m'), 2 a_s / B_k,
//                                                            T^k(s+1->j, m') ) )
//
// form=code is what the released optimizer_graph_hierarchical.py computes instead: computation and
// synchronisation are added, the latter is 4(r-1)W/(B r), divided by r once more; a whole level
// without a cut divides it by the level below's size too; activations cost nothing unless
// compressed.
// The layers of a DAG are cut at its antichain states (antichain_states.h).
#pragma once

#include <limits>

#include "baselines/pipedream/antichain_states.h"
#include "harness/plan/search.h"

namespace sluice {

struct MachineLevel {
  int count = 1;         // of what is one level below, in each of these; level 0 holds devices
  double bandwidth = 0;  // bytes/s between two of them
};

struct PipeDreamOptions {
  enum class Form { paper, code } form = Form::paper;
  std::vector<MachineLevel> levels;                    // inner first
  int max_replicas = std::numeric_limits<int>::max();  // of a stage
  bool fewer_machines = false;                         // may leave some idle
  double memory = 0;         // bytes of a device; 0: no limit (the code's test of section 3.2 there)
  SearchLimits limits = {};  // of its seconds: what was not cut by then stays whole
};

struct PipeDreamStage {
  int first = 0, last = 0;    // states [first, last)
  std::vector<int> machines;  // that share it, per level, inner first; replicas: their product
};

struct PipeDreamResult {
  double seconds = 0;                                 // of the slowest stage; infinity: nothing fits
  std::vector<PipeDreamStage> stages;                 // cut on all levels
  std::vector<std::vector<PipeDreamStage>> by_level;  // cut down to this level only, inner first
  std::int64_t states = 0;                            // (i, j, m) visited
  bool complete = true;
};

// The states for which the tables of these levels (all pairs of states, for every number of
// machines) keep to `bytes`; never fewer than one.
std::int64_t states_within(std::int64_t bytes, const std::vector<MachineLevel>& levels);

PipeDreamResult pipedream_partition(const AntichainStates& states, const PipeDreamOptions& options);

}  // namespace sluice
