#include "harness/case/cut_sequences.h"

#include "harness/base/error.h"
#include "harness/model/sequence_chunks.h"

namespace sluice {

void cut_sequences(const Workload& workload, const std::string& system, Plan& plan, CostGraph& costs) {
  if (plan.sequence.count == 1) return;
  const ModelGraph& model = workload.model;
  if (const std::string fault = sequence_fault(model); !fault.empty())
    throw InputError(system, "sequences of '" + workload.name + "' cannot be cut into chunks: " + fault,
                     "use a workload of causal attention, such as gpt_tiny, or another system");
  plan.sequence_cut = plan.sequence.balanced ? balanced_cut(model, plan.sequence.count)
                                             : even_cut(sequence_length(model), plan.sequence.count);
  const std::vector<Shape> shapes = model.shapes();
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec& layer = model.layers[l];
    const Shape read = input_shapes(model, shapes, layer).front();
    const PairShares pairs = pair_shares(layer, {&read, 1});
    costs.layers[l].forward_pairs = pairs.forward;
    costs.layers[l].input_gradient_pairs = pairs.input_gradient;
  }
}

}  // namespace sluice
