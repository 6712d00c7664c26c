// StageMemory: the bytes that a stage holds, from the layers of its model or, for a model with costs and no layers (a
// published profile), from its costs.
#pragma once

#include <vector>

#include "harness/base/quantities.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"
#include "harness/pipeline/optimizer.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/weight_rule.h"
#include "harness/sim/interface_values.h"

namespace sluice {

// Peak allocation of a running op of a stage above the memory before it, including the stash that it makes, as measured
// inside a run. 0: not measured.
struct Temporaries {
  Bytes forward, unstashed;  // unstashed: a forward that keeps its input only
  Bytes backward, input_gradient, weight_gradient, step;
  bool any() const { return forward.value > 0; }
};

// Of a whole stage, not of a shard.
struct StageMemory {
  Bytes weights;  // of one version
  Bytes gradients;
  Bytes optimizer;     // momentum, Adam's moments, state of predictions; fp32 copies of mixed precision
  Bytes stash;         // of one micro-batch between F and the end of I or B
  Bytes weight_stash;  // of one micro-batch between I and the end of W
  Bytes input;         // of one micro-batch between F and its recomputation, if F keeps no stash
  // Inference: peak of one forward, including its inputs and outputs; and waiting messages: half of a full queue at
  // each of its ends.
  Bytes live = Bytes(0), waiting = Bytes(0);
  // The part of the stash that the previous or next stage on the same rank also holds.
  InterfaceValues interface = {};
  Temporaries temporaries = {};
  // Number of micro-batches whose weight gradients wait, with their stashes, for one product, which
  // temporaries.weight_gradient measures. 0: each by itself.
  int batched_microbatches = 0;
  // With sequence chunks, for a chunk: gradients of its keys and values, to which the backwards of later chunks add
  // before its own; and the same stage with each chunk in place of a micro-batch (empty: as the whole).
  Bytes key_value_gradients = {};
  std::vector<StageMemory> sequence_chunks = {};
  // The same stage for each of Program::sizes.distinct(), if they differ: this one is for the largest.
  std::vector<StageMemory> of_size = {};
  Bytes weight_element = Bytes(4);  // of one parameter of `weights`
  // Frozen weights: one copy, on every rank of a sharded stage.
  Bytes frozen = Bytes(0);
};

// One per stage of the plan. micro_batch: samples.
std::vector<StageMemory> stage_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                      const OptimizerSpec& optimizer, const WeightRule& rule,
                                      const Storage& storage = {});

// Sets the layers' measurements; costs: for the plan's micro-batches.
void add_temporaries(std::vector<StageMemory>& stages, const Plan& plan, const CostGraph& costs);

// Activations are those of the plan's variants, else the layers' outputs; W keeps nothing of its own.
std::vector<StageMemory> stage_memory(const CostGraph& costs, const Plan& plan, const OptimizerSpec& optimizer);

// For inference, with queues of RunPolicy::queue micro-batches: weights, live tensors and waiting messages.
std::vector<StageMemory> inference_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                          int queue, const Storage& storage = {});
std::vector<StageMemory> inference_memory(const CostGraph& costs, const Plan& plan, int queue);

}  // namespace sluice
