// StageMemory: the bytes that a stage holds, from the layers of its model or, where a model has costs and no layers (a
// published profile), from those.
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

// What an op of a stage allocates while it runs, as measured inside a run: the most above what there was before, with
// the stash that it makes. 0: not measured.
struct Temporaries {
  Bytes forward, unstashed;  // unstashed: a forward that keeps its input only
  Bytes backward, input_gradient, weight_gradient, step;
  bool any() const { return forward.value > 0; }
};

// Of a whole stage, not of a shard.
struct StageMemory {
  Bytes weights;  // of one version
  Bytes gradients;
  Bytes optimizer;     // momentum, Adam's moments, what predictions keep; of mixed precision, fp32 copies
  Bytes stash;         // of one micro-batch between F and the end of I or B
  Bytes weight_stash;  // of one micro-batch between I and the end of W
  Bytes input;         // of one micro-batch between F and its recomputation, where F keeps no stash
  // Inference: the most that one forward holds at a time, its inputs and outputs included; and messages that wait, half
  // of a full queue at each of its ends.
  Bytes live = Bytes(0), waiting = Bytes(0);
  // Of the stash, what a stage before or after on the same rank holds too.
  InterfaceValues interface = {};
  Temporaries temporaries = {};
  // Weight gradients wait, with their stashes, for one product of several micro-batches; that number is what
  // temporaries.weight_gradient is of. 0: each by itself.
  int batched_microbatches = 0;
  // Where sequences are cut, a chunk's: of the gradients of its keys and values, which the backwards of later chunks
  // add up before its own; and the same stage with one chunk in a micro-batch's place, for each (empty: as the whole).
  Bytes key_value_gradients = {};
  std::vector<StageMemory> sequence_chunks = {};
  // The same stage with a micro-batch of each of Program::sizes.distinct(), where they differ: this one is of the
  // largest.
  std::vector<StageMemory> of_size = {};
  Bytes weight_element = Bytes(4);  // of one parameter of `weights`
  // Weights that are not trained: one copy, on every rank of a sharded stage.
  Bytes frozen = Bytes(0);
};

// One for every stage of the plan. micro_batch: samples.
std::vector<StageMemory> stage_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                      const OptimizerSpec& optimizer, const WeightRule& rule,
                                      const Storage& storage = {});

// Fills in what the layers' measurements say; costs: of the plan's micro-batches.
void add_temporaries(std::vector<StageMemory>& stages, const Plan& plan, const CostGraph& costs);

// Activations are those of the variants that the plan chose, else the layers' outputs; W keeps nothing of its own.
std::vector<StageMemory> stage_memory(const CostGraph& costs, const Plan& plan, const OptimizerSpec& optimizer);

// Of inference, with queues of RunPolicy::queue micro-batches: weights, and what lives and waits.
std::vector<StageMemory> inference_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                          int queue, const Storage& storage = {});
std::vector<StageMemory> inference_memory(const CostGraph& costs, const Plan& plan, int queue);

}  // namespace sluice
