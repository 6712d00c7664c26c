// ModelGraph: a model as a DAG of LayerSpecs in topological order, plus what its stages look like: which tensors cross
// a cut, and how many bytes a stage stashes per micro-batch.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/model/layer_spec.h"

namespace sluice {

struct ModelInput {
  Shape shape;                // without the batch dimension
  bool is_token_ids = false;  // int64 instead of floating point; takes no gradient
};

struct ModelGraph {
  std::string name;
  std::vector<ModelInput> inputs;
  std::vector<LayerSpec> layers;  // every layer's inputs come before it; a loss is last
  int members = 1;                // of TensorModel::all: as many models in parallel, each with a loss

  // Output shape of every layer. Throws InputError: cyclic or dangling input, shape that does not fit, duplicate name,
  // loss that is not last, a layer whose output nobody reads.
  std::vector<Shape> shapes() const;
};

// Of what the layer reads. shapes: of the model's layers.
std::vector<Shape> input_shapes(const ModelGraph& model, std::span<const Shape> shapes, const LayerSpec& layer);

std::int64_t parameter_count(const ModelGraph& model);  // a tied weight once

// Every layer that reads this model input, from 0, takes the token ids below it.
std::int64_t vocabulary(const ModelGraph& model, int input);

// The model with a weight for every layer.
ModelGraph untied(ModelGraph model);

// Per layer: nobody needs the gradient of its output, since something at or before it is frozen and nothing there
// learns.
std::vector<bool> without_gradient(const ModelGraph& model);
// The same of any graph. inputs: per layer, those that it reads; learns, is_frozen: of the layer itself.
std::vector<bool> without_gradient(const std::vector<std::vector<int>>& inputs,
                                   const std::function<bool(std::size_t)>& learns,
                                   const std::function<bool(std::size_t)>& is_frozen);

// What is wrong with LayerSpec::tied_to of layer `index`, which has one: "" or a sentence.
std::string tie_fault(const ModelGraph& model, int index);

// The model as the stages of a plan run it; stage_of[i]: the stage of layer i. Where a tied layer and the one whose
// weight it uses are in two stages, the first such layer of each stage has a copy of it (LayerSpec::copy_of), which the
// stage's others use, too. lends(reader, owner): stage `reader` uses the weight of stage `owner` without a copy (a
// trained one: every stage has frozen weights of its own).
ModelGraph with_copies(ModelGraph model, std::span<const int> stage_of,
                       const std::function<bool(int reader, int owner)>& lends);
// The layers of such a model whose weights are trained and have copies, ascending.
std::vector<int> copied_layers(const ModelGraph& model);
// Whether the layer's first parameter is the weight of `owner`, its own or a copy.
bool holds_weight_of(const ModelGraph& model, int layer, int owner);

// The values that a stage hands to others or receives, each named by the layer that makes it (a model input: negative).
struct StageInterface {
  std::vector<int> receives;  // producers outside the stage whose output the stage reads,
                              // ascending; model inputs (negative) come first as -1, -2, ...
  std::vector<int> sends;     // layers of the stage whose output another stage reads, ascending
};

// stage_of[i] = stage of layer i. Result: one per stage.
std::vector<StageInterface> interfaces(const ModelGraph& model, std::span<const int> stage_of, int stages);

// Bytes of the output of `producer` (layer index, or negative model input) for `batch` samples.
Bytes output_bytes(const ModelGraph& model, std::span<const Shape> shapes, int producer, std::int64_t batch,
                   const Storage& storage = {});

// One flag per entry of `layers` (the layers of a stage): an activation that may write over its input, because the
// input is made inside the stage by a layer that does not keep it (views looked through), and nothing else in the model
// reads it. Accounting and the real stage both ask here.
std::vector<bool> overwrites(const ModelGraph& model, std::span<const int> layers);

// What the given layers keep for one micro-batch of `batch` samples between F and the end of I/B (`forward`), and
// between I and W once split (`weight`). Tensors shared by several layers count once; a received input counts for the
// stage that keeps it; the model's own input data and the loss's target do not: whoever feeds the pipeline holds them
// anyway.
struct StageStash {
  Bytes forward, weight;
};
// The most bytes that are alive at a time while the layers (ascending) run forward and nothing is kept for a backward:
// what comes in, what is made and still read or sent on, and a layer's own tensors while it runs.
Bytes live_bytes(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                 std::int64_t batch, const Storage& storage = {});

// So much for every sample, and so much for a micro-batch of any size.
struct GrowingStash {
  StageStash per_sample, per_micro_batch;
  StageStash of(std::int64_t batch) const {
    return {per_micro_batch.forward + batch * per_sample.forward, per_micro_batch.weight + batch * per_sample.weight};
  }
};
StageStash stage_stash(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                       std::int64_t batch, const Storage& storage = {});

// The same for whoever asks for many stages of one model, in time that grows with the stage alone.
class StageStashes {
 public:
  StageStashes(const ModelGraph& model, std::span<const Shape> shapes, const Storage& storage = {});
  GrowingStash of(std::span<const int> layers) const;

 private:
  struct Layer {
    StashSpec keeps;
    Bytes output;  // of one sample
    std::vector<int> inputs;
    std::vector<int> readers;  // once for every time it is read
    bool keeps_output = false, is_view = false, passes_gradient_on = false;
    bool may_overwrite = false;  // where what it reads allows it
  };
  const Layer& at(int layer) const { return layers_[layer]; }

  std::vector<Layer> layers_;
};

}  // namespace sluice
