// Costs: how long the ops of every stage take on the virtual clock, and how much its messages hold.
#pragma once

#include <vector>

#include "harness/model/cluster.h"
#include "harness/pipeline/plan.h"

namespace sluice {

struct SimulatedEdge {
  StageId from, to;
  Bytes bytes;  // of one micro-batch's activation; its gradient has the same size. A message between stages whose ops
                // both take several micro-batches has that many times as much
};

struct Costs {
  std::vector<StageCost> stages;     // per stage, on the device it runs on
  std::vector<SimulatedEdge> edges;  // missing edge: 0 bytes
  // Per stage, of one micro-batch: what a W on another rank is sent (outputs of the layers with weights, and of those
  // before them); empty: 0 bytes.
  std::vector<Bytes> weight_stash = {};
};

// Costs of a plan with micro-batches of plan.micro_batch samples, as the cost graph's.
Costs costs_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster);

// Equal stages (`sluice schedule --costs F/I/W`), seconds.
Costs uniform_costs(int stages, double forward, double input_gradient, double weight_gradient);

}  // namespace sluice
