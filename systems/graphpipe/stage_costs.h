// What a set of operators costs as one stage of GraphPipe's (Jeon et al., ASPLOS 2025, section 5), for the search:
//
//   T(F) + T(B)  of an op that takes n of the run's micro-batches: the sum over its operators, measured or computed
//                for that size where the problem can say so, else in proportion
//   messages     each tensor that crosses the stage's edge, as an activation and as a gradient, on a link as links are
//                on average between neighbouring devices
//   all-reduce   of the parameters in a ring of d consecutive devices: 2 (d - 1) (parameters / d / bandwidth + latency)
//   memory       what the harness counts for real stages, where the problem can say so; else weights, gradients and
//                the operators' outputs
#pragma once

#include <map>
#include <span>
#include <vector>

#include "harness/pipeline/system.h"
#include "systems/graphpipe/operators.h"
#include "systems/graphpipe/stage_search_space.h"

namespace sluice {

class StageCosts {
 public:
  // Both must outlive it. Throws InputError if the cluster has too few devices.
  StageCosts(const Problem& problem, const Operators& operators);

  Bytes memory() const { return machine_.memory; }  // of a device

  // Sets the space's memory and costs, which are its own until the next call. The rest of it is given.
  void give(StageSearchSpace& space);

 private:
  // What operators and messages cost at one size of op; seconds.
  struct CostsPerOp {
    std::vector<double> compute;  // of every operator
    std::vector<double> message;  // of every layer's output
  };

  CostsPerOp costs_per_op(const CostGraph& graph) const;
  CostsPerOp costs_at(int microbatches_per_op) const;
  void classify();
  const LinkCost& ring(int degree);
  StageWork work(std::span<const int> vertices, std::span<const int> degrees);
  StageFootprint footprint(std::span<const int> vertices) const;
  std::vector<double> signature(std::span<const int> vertices) const;

  const Problem& problem_;
  const Operators& operators_;
  NeighbourMachine machine_;
  std::vector<double> parameters_;        // bytes of every operator
  std::map<int, CostsPerOp> known_;       // by number of micro-batches per op
  std::vector<const CostsPerOp*> sizes_;  // of the space, ascending
  std::vector<double> class_;             // of every operator: a number that operators of equal costs share
  std::map<int, LinkCost> rings_;         // by degree
};

}  // namespace sluice
