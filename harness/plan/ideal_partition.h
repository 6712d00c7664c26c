// The exact reference for pipelined placement (Tarnawski et al., NeurIPS 2020, section 5.1): the
// contiguous split of an operator graph over accelerators and CPUs that minimises the largest load.
//
//   accelerator: latencies + the send costs of all outside operators that feed it (once each) + those of its own
//                operators that feed others (once each); its memory is a hard limit
//   CPU:         latencies only
//
// Dynamic program over down-sets of the forward pass; gradients follow by colour:
//
//   D[c][a][I] = min( D[c-1][a][I], D[c][a-1][I], min over J in I of max( D[one fewer][J], load(I\J) ) )
#pragma once

#include "harness/model/operator_graph.h"
#include "harness/plan/search.h"

namespace sluice {

struct PlacedDevice {
  bool accelerator = true;
  std::vector<int> operators;
  double load = 0;
};

struct IdealPartition {
  std::vector<PlacedDevice> devices;  // in the order of the data
  double load = 0;                    // the largest; infinity: no placement fits
  std::int64_t down_sets = 0, pairs = 0;
  bool complete = true;
};

IdealPartition ideal_partition(const OperatorGraph& graph, const SearchLimits& limits = {});

// Load of one device that holds `operators`.
double device_load(const OperatorGraph& graph, const std::vector<int>& operators, bool accelerator);

}  // namespace sluice
