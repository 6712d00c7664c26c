// Expert parallelism: the experts of a layer are spread over the d data-parallel replicas of its stage (Lepikhin et
// al., GShard, arXiv 2006.16668; Rajbhandari et al., DeepSpeed-MoE, arXiv 2201.05596; Megatron-LM's
// --expert-model-parallel-size). Replica r holds experts [r E / d, (r + 1) E / d) and the whole router. With T tokens
// in the micro-batch of each replica, of `features` numbers each, and R = T top_k rows (fewer with a capacity):
//
//   F   route the own tokens; all-to-all (R features elements): every row to the replica that holds its expert; the
//       experts; all-to-all (R features): their outputs back; weight them by p and add them up
//   I   all-to-all (R features): the output gradients times p; the experts; all-to-all (R (features + 1)): their input
//       gradients back, and a number for every row, which the router's gradient is made of
//   W   no exchange: the rows that were received are kept
//
// In brackets: elements that a replica hands to the all-to-all where every expert gets the same number of rows; it
// sends (d - 1) / d of them and keeps the rest. How many rows go where depends on the data, so every F begins with an
// exchange of counts, which is not counted. Gradients of experts have seen the tokens of all replicas and are not
// reduced; those of routers and all other layers are.
//
// Design. A replica runs the model below, whose Experts layers hold a part (Experts::spread), so costs, memory and
// optimizer follow from the layers as everywhere. The group of an all-to-all is the stage's group of replicas, and the
// exchange is inside the op. The other candidate, members of a tensor-parallel group with everything but the experts
// whole, would need members whose micro-batches differ and a reduction over them; this one needs neither.
//
// The k-th op on every replica meets the k-th of the others, so all replicas must run their ops in one order. They do:
// the replicas of a pipeline are copies of one program. No deadlock: the program alone runs to its end in some order of
// its instructions (check_program.h). All copies can take that order together, instruction by instruction, and meet in
// every exchange; and since a rank has no choice of what it does next, every other order of events ends as well.
#pragma once

#include <vector>

#include "harness/model/model.h"

namespace sluice {

// The model of one of `replicas` replicas. Throws InputError: no layer of the kind Experts, a frozen one, or one whose
// experts the replicas do not divide.
ModelGraph spread_experts(ModelGraph model, int replicas);
// The same with all experts in every layer.
ModelGraph with_whole_experts(ModelGraph model);
// Number of replicas of a layer's experts; 1: they are whole, or it has none.
int replicas_of_experts(const LayerSpec& layer);
int replicas_of_experts(const ModelGraph& model);
// Whether parameter `parameter` of the layer is a part: an expert's matrix, not the router.
bool is_part_of_experts(const LayerSpec& layer, std::size_t parameter);

// Elements of one sample that a replica hands to the all-to-alls of a layer in an F and in an I, own share included, in
// their order; nothing for other layers.
struct ExpertExchanges {
  std::vector<std::int64_t> forward, input_gradient;
};
std::vector<ExpertExchanges> expert_exchanges(const ModelGraph& model);  // by layer

}  // namespace sluice
