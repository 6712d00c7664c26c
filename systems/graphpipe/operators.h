// What a planner of stage graphs sees of a problem: the operators that stages are made of (the paper's V_C and E_C),
// and the machine as average links between neighbouring devices.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "harness/pipeline/system.h"
#include "harness/plan/layer_groups.h"

namespace sluice {

// An operator is a group of layers that no stage parts: layer_groups_by_producer().
class Operators {
 public:
  explicit Operators(const CostGraph& costs);

  std::vector<LayerGroup> groups;          // of every operator
  std::vector<std::pair<int, int>> edges;  // between operators, each once, ascending

  int count() const { return static_cast<int>(groups.size()); }
  std::vector<int> layers_of(std::span<const int> operators) const;  // ascending
  // The layers whose output a stage of these operators receives or sends.
  std::vector<int> crossing(std::span<const int> operators) const;
  // Which of these operators, in this order, read one another's outputs and those of others, and how large these are.
  // Where two lists of operators have equal signatures, operators at equal places of both receive and send as many
  // bytes.
  std::vector<double> signature(std::span<const int> operators) const;

 private:
  // The output of a layer that operators other than its own read.
  struct Output {
    int layer = 0, from = 0;
    std::vector<int> to;  // ascending
    double bytes = 0;
  };
  std::vector<int> places(std::span<const int> operators) const;  // of all; -1: not among them

  std::vector<Output> outputs_;                    // by layer
  std::vector<std::vector<int>> sent_, received_;  // per operator: indices into outputs_
};

struct LinkCost {
  double latency = 0;           // seconds
  double seconds_per_byte = 0;  // of the slowest link of the path
};

// All devices as slow and as small as the worst of those used. Stages get devices in order, so a message mostly goes to
// a neighbour, and a stage's all-reduce is a ring of consecutive devices.
class NeighbourMachine {
 public:
  // The first problem.devices of the cluster. Throws InputError at `where` if it has fewer.
  NeighbourMachine(const Problem& problem, const std::string& where);

  double speed = 1;
  Bytes memory;
  LinkCost neighbour;         // on average
  LinkCost ring(int degree);  // its slowest hop, on average over where it may lie

 private:
  LinkCost between(int a, int b);

  const Cluster& cluster_;
  Paths paths_;
  int devices_;
  std::vector<LinkCost> hops_;  // from every device to the next
};

}  // namespace sluice
