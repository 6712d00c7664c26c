// OperatorGraph: a model in the form of placement papers (Tarnawski et al., NeurIPS 2020): operators of the forward and
// the backward pass with a latency on an accelerator and on a CPU, a cost of sending their output to another device,
// and colours: operators of one colour stay on one device (a layer's forward and its gradient, shared weights).
// Latencies and costs are in the unit of the profile.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct Operator {
  std::string name;
  double accelerator = 0, cpu = 0;  // latency
  double send = 0;                  // of its output, paid once by each device that needs it and once by its own
  double bytes = 0;                 // of memory
  bool on_accelerator = true;       // false: only a CPU runs it
  bool backward = false;
  int color = -1;  // -1: its own
};

struct OperatorGraph {
  std::vector<Operator> operators;
  std::vector<std::pair<int, int>> edges;  // source, reader
};

// Operators that must share a device: those of one colour, and colours whose forward operators depend on one another in
// a cycle. A group without latency that depends on a single other group joins it. Groups are in a topological order of
// their forward parts.
struct OperatorGroups {
  std::vector<std::vector<int>> members;       // operators, ascending
  std::vector<std::vector<int>> predecessors;  // groups
};
OperatorGroups group_operators(const OperatorGraph& graph);

}  // namespace sluice
