// The checks on a model's graph, what crosses its cuts, and what a stage keeps. Bytes are added up over storages, not
// over layers: a tensor that two layers keep, or that is a view of another, or that was written over it, counts once.
#include "harness/model/model.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "harness/base/error.h"

namespace sluice {
namespace {

std::string where(const ModelGraph& model, const LayerSpec& layer) {
  return "model '" + model.name + "', layer '" + layer.name + "'";
}

void check_graph(const ModelGraph& model) {
  const int count = static_cast<int>(model.layers.size());
  if (count == 0) throw InputError("model '" + model.name + "'", "has no layers");
  std::set<std::string> names;
  std::vector<bool> is_read(model.layers.size(), false);
  for (int i = 0; i < count; ++i) {
    const LayerSpec& layer = model.layers[i];
    if (!names.insert(layer.name).second) {
      throw InputError(where(model, layer), "another layer has this name", "give every layer a name of its own");
    }
    if (is_loss(layer.kind) && i + model.members < count) {
      throw InputError(where(model, layer), "a loss that is not the last layer");
    }
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const int input = layer.inputs[k];
      const bool wants_ids = takes_ids(layer.kind, static_cast<int>(k));
      bool has_ids = false;
      if (input < 0) {
        const auto number = static_cast<std::size_t>(-(input + 1));
        if (number >= model.inputs.size()) {
          throw InputError(where(model, layer), "reads model input " + std::to_string(number) + ", the model has " +
                                                    std::to_string(model.inputs.size()));
        }
        has_ids = model.inputs[number].is_token_ids;
      } else if (input >= count) {
        throw InputError(where(model, layer),
                         "reads layer " + std::to_string(input) + ", the model has " + std::to_string(count));
      } else if (input >= i) {
        const std::string& other = model.layers[input].name;
        throw InputError(where(model, layer), "reads '" + other + "', which does not come before it",
                         "list layers after the layers they read; cycles are not possible");
      } else {
        is_read[input] = true;
      }
      if (has_ids != wants_ids) {
        const std::string number = "input " + std::to_string(k);
        throw InputError(where(model, layer), number + (wants_ids ? " must be token ids (a model input)"
                                                                  : " cannot be token ids; an Embedding reads them"));
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    if (model.layers[i].tied_to < 0) continue;
    if (const std::string fault = tie_fault(model, i); !fault.empty())
      throw InputError(where(model, model.layers[i]), fault);
  }
  for (int i = 0; i + model.members < count; ++i) {
    if (!is_read[i]) {
      throw InputError(where(model, model.layers[i]), "nobody reads its output", "remove it or use it");
    }
  }
}

bool may_be_tied(const LayerKind& kind) {
  return std::holds_alternative<Linear>(kind) || std::holds_alternative<Embedding>(kind);
}

const Shape& shape_of(const ModelGraph& model, std::span<const Shape> shapes, int producer) {
  return producer < 0 ? model.inputs.at(-(producer + 1)).shape : shapes[producer];
}

// Whether the layer keeps its output; whether that has no storage of its own. Shapes do not matter.
bool keeps_output(const LayerKind& kind) {
  if (const auto* activation = std::get_if<Activation>(&kind)) return backward_reads_output(*activation);
  return std::holds_alternative<Lstm>(kind);
}

bool is_view(const LayerKind& kind) { return std::holds_alternative<Flatten>(kind); }

bool passes_gradient_on(const LayerKind& kind) {
  return is_view(kind) || std::holds_alternative<Add>(kind) || std::holds_alternative<PositionEmbedding>(kind);
}

}  // namespace

std::vector<Shape> input_shapes(const ModelGraph& model, std::span<const Shape> shapes, const LayerSpec& layer) {
  std::vector<Shape> result;
  result.reserve(layer.inputs.size());
  for (const int input : layer.inputs) result.push_back(shape_of(model, shapes, input));
  return result;
}

std::vector<Shape> ModelGraph::shapes() const {
  check_graph(*this);
  std::vector<Shape> result;
  result.reserve(layers.size());
  for (const LayerSpec& layer : layers) {
    try {
      result.push_back(output_shape(layer, input_shapes(*this, result, layer)));
    } catch (const InputError& error) {
      throw InputError("model '" + name + "'", error.what());
    }
  }
  return result;
}

std::int64_t parameter_count(const ModelGraph& model) {
  std::int64_t count = 0;
  for (const LayerSpec& layer : model.layers) count += parameter_count(layer);
  return count;
}

std::int64_t vocabulary(const ModelGraph& model, int input) {
  std::int64_t smallest = INT64_MAX;
  for (const LayerSpec& layer : model.layers) {
    const auto* table = std::get_if<Embedding>(&layer.kind);
    const auto* module = std::get_if<Module>(&layer.kind);
    for (std::size_t k = 0; k < layer.inputs.size(); ++k)
      if (layer.inputs[k] == -1 - input && takes_ids(layer.kind, static_cast<int>(k)) && (table || module))
        smallest = std::min(smallest, table ? table->vocabulary : module->vocabulary);
  }
  return smallest;
}

std::vector<bool> without_gradient(const ModelGraph& model) {
  if (std::ranges::none_of(model.layers, &LayerSpec::frozen)) return std::vector<bool>(model.layers.size());
  std::vector<std::vector<int>> inputs;
  for (const LayerSpec& layer : model.layers) inputs.push_back(layer.inputs);
  return without_gradient(
      inputs, [&](std::size_t l) { return learns(model.layers[l]); },
      [&](std::size_t l) { return model.layers[l].frozen && parameter_count(untied(model.layers[l])) > 0; });
}

std::vector<bool> without_gradient(const std::vector<std::vector<int>>& inputs,
                                   const std::function<bool(std::size_t)>& learns,
                                   const std::function<bool(std::size_t)>& is_frozen) {
  std::vector<bool> trained(inputs.size()), frozen(inputs.size()), result(inputs.size());  // at or before
  for (std::size_t l = 0; l < inputs.size(); ++l) {
    trained[l] = learns(l);
    frozen[l] = is_frozen(l);
    for (const int input : inputs[l]) {
      if (input < 0) continue;
      trained[l] = trained[l] || trained[input];
      frozen[l] = frozen[l] || frozen[input];
    }
    result[l] = frozen[l] && !trained[l];
  }
  return result;
}

ModelGraph untied(ModelGraph model) {
  for (LayerSpec& layer : model.layers) layer.tied_to = -1;
  return model;
}

std::string tie_fault(const ModelGraph& model, int index) {
  const LayerSpec& layer = model.layers[index];
  if (layer.tied_to >= index) return "is tied to a layer that does not come before it";
  const LayerSpec& other = model.layers[layer.tied_to];
  for (const LayerSpec* one : {&layer, &other})
    if (!may_be_tied(one->kind))
      return "is tied to '" + other.name + "', and '" + one->name + "' is a layer of kind " + kind_name(one->kind) +
             "; the weights of Linear and Embedding can be tied";
  if (other.tied_to >= 0)
    return "is tied to '" + other.name + "', which is itself tied to '" + model.layers[other.tied_to].name +
           "'; name that one";
  const Shape own = parameters(untied(layer)).front().shape, weight = parameters(other).front().shape;
  if (layer.frozen != other.frozen)
    return "is tied to '" + other.name + "', and one of the two is frozen; freeze both or none";
  if (own != weight)
    return "is tied to '" + other.name + "', whose weight is " + to_text(weight) + ", and needs one of " + to_text(own);
  return "";
}

ModelGraph with_copies(ModelGraph model, std::span<const int> stage_of,
                       const std::function<bool(int reader, int owner)>& lends) {
  std::map<std::pair<int, int>, int> copies;  // weight's layer and stage, to the layer that has the copy
  for (int i = 0; i < static_cast<int>(model.layers.size()); ++i) {
    LayerSpec& layer = model.layers[i];
    const int owner = layer.tied_to;
    if (owner < 0 || stage_of[i] == stage_of[owner] || (!layer.frozen && lends(stage_of[i], stage_of[owner]))) continue;
    const auto [copy, is_first] = copies.try_emplace({owner, stage_of[i]}, i);
    layer.tied_to = is_first ? -1 : copy->second;
    if (is_first) layer.copy_of = owner;
  }
  return model;
}

std::vector<int> copied_layers(const ModelGraph& model) {
  std::set<int> owners;
  for (const LayerSpec& layer : model.layers)
    if (layer.copy_of >= 0 && !layer.frozen) owners.insert(layer.copy_of);
  return {owners.begin(), owners.end()};
}

bool holds_weight_of(const ModelGraph& model, int layer, int owner) {
  return layer == owner || model.layers[layer].copy_of == owner;
}

std::vector<StageInterface> interfaces(const ModelGraph& model, std::span<const int> stage_of, int stages) {
  if (stage_of.size() != model.layers.size()) {
    throw std::invalid_argument("interfaces: one stage per layer is needed");
  }
  for (const int stage : stage_of) {
    if (stage < 0 || stage >= stages) throw std::invalid_argument("interfaces: no such stage");
  }
  const auto count = static_cast<std::size_t>(stages);
  std::vector<std::set<int>> data(count), receives(count), sends(count);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto stage = static_cast<std::size_t>(stage_of[i]);
    for (const int input : model.layers[i].inputs) {
      if (input < 0) {
        data[stage].insert(-input);
      } else if (stage_of[input] != stage_of[i]) {
        receives[stage].insert(input);
        sends[stage_of[input]].insert(input);
      }
    }
  }
  std::vector<StageInterface> result(count);
  for (std::size_t s = 0; s < count; ++s) {
    for (const int number : data[s]) result[s].receives.push_back(-number);
    result[s].receives.insert(result[s].receives.end(), receives[s].begin(), receives[s].end());
    result[s].sends.assign(sends[s].begin(), sends[s].end());
  }
  return result;
}

Bytes output_bytes(const ModelGraph& model, std::span<const Shape> shapes, int producer, std::int64_t batch,
                   const Storage& storage) {
  const bool is_token_ids = producer < 0 && model.inputs.at(-(producer + 1)).is_token_ids;
  const Bytes element = is_token_ids ? Bytes(8) : storage.activation;
  return exact_product(batch, elements(shape_of(model, shapes, producer))) * element;
}

std::vector<bool> overwrites(const ModelGraph& model, std::span<const int> layers) {
  std::vector<int> readers(model.layers.size(), 0);
  for (const LayerSpec& layer : model.layers) {
    for (const int input : layer.inputs) {
      if (input >= 0) ++readers[input];
    }
  }
  std::vector<bool> in_stage(model.layers.size(), false);
  for (const int layer : layers) in_stage[layer] = true;
  std::vector<bool> result;
  result.reserve(layers.size());
  for (const int index : layers) {
    const LayerSpec& layer = model.layers[index];
    bool may = std::holds_alternative<Activation>(layer.kind) && keeps_output(layer.kind);
    for (int value = layer.inputs.empty() ? -1 : layer.inputs[0]; may;) {
      const auto producer = static_cast<std::size_t>(value);
      may = value >= 0 && in_stage[producer] && readers[producer] == 1 && !keeps_output(model.layers[producer].kind);
      if (!may || !is_view(model.layers[producer].kind)) break;
      value = model.layers[producer].inputs[0];
    }
    result.push_back(may);
  }
  return result;
}

Bytes live_bytes(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                 std::int64_t batch, const Storage& storage) {
  // When a value was last read: the place in `layers`; what other stages read lives to the end. A view keeps alive what
  // it looks at.
  std::map<int, std::size_t> last_read;
  const std::size_t end = layers.size();
  std::vector<bool> in_stage(model.layers.size(), false);
  for (const int l : layers) in_stage[l] = true;
  const auto tensor_of = [&](int value) {
    while (value >= 0 && in_stage[value] && is_view(model.layers[value].kind)) value = model.layers[value].inputs[0];
    return value;
  };
  std::map<int, Bytes> alive;
  const auto begin_life = [&](int value) { alive[value] = output_bytes(model, shapes, value, batch, storage); };
  for (std::size_t k = 0; k < end; ++k)
    for (const int input : model.layers[layers[k]].inputs) {
      last_read[tensor_of(input)] = k;
      if (input < 0 || !in_stage[input]) begin_life(input);
    }
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    for (const int input : model.layers[i].inputs)
      if (!in_stage[i] && input >= 0 && in_stage[input]) last_read[tensor_of(input)] = end;
  Bytes most;
  for (std::size_t k = 0; k < end; ++k) {
    const LayerSpec& layer = model.layers[layers[k]];
    if (!is_view(layer.kind)) begin_life(layers[k]);
    const StashSpec own = stash(layer, input_shapes(model, shapes, layer), storage);
    Bytes sum = batch * own.extra + own.extra_per_microbatch;
    for (const auto& [value, bytes] : alive) sum += bytes;
    most = std::max(most, sum);
    std::erase_if(alive, [&](const auto& entry) {
      const auto read = last_read.find(entry.first);
      return read == last_read.end() || read->second <= k;
    });
  }
  return most;
}

StageStash stage_stash(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                       std::int64_t batch, const Storage& storage) {
  return StageStashes(model, shapes, storage).of(layers).of(batch);
}

StageStashes::StageStashes(const ModelGraph& model, std::span<const Shape> shapes, const Storage& storage)
    : layers_(model.layers.size()) {
  const std::vector<bool> no_gradient = without_gradient(model);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    if (!no_gradient[i]) layers_[i].keeps = stash(layer, input_shapes(model, shapes, layer), storage);
    layers_[i].output = output_bytes(model, shapes, static_cast<int>(i), 1, storage);
    layers_[i].inputs = layer.inputs;
    layers_[i].keeps_output = sluice::keeps_output(layer.kind);
    layers_[i].is_view = sluice::is_view(layer.kind);
    layers_[i].passes_gradient_on = sluice::passes_gradient_on(layer.kind);
    layers_[i].may_overwrite = std::holds_alternative<Activation>(layer.kind) && layers_[i].keeps_output;
    for (const int input : layer.inputs)
      if (input >= 0) layers_[input].readers.push_back(int(i));
  }
}

GrowingStash StageStashes::of(std::span<const int> layers) const {
  struct State {
    bool in_stage = false, is_alias = false;
    bool forward = false, weight = false, gradient = false;  // counted
  };
  std::vector<State> states(layers_.size());
  const auto state = [&](int layer) -> State& { return states[layer]; };
  for (const int l : layers) state(l).in_stage = true;
  // As overwrites().
  const auto writes_over = [&](int layer) {
    if (!at(layer).may_overwrite || at(layer).inputs.empty()) return false;
    for (int value = at(layer).inputs[0];; value = at(value).inputs[0]) {
      if (value < 0 || !state(value).in_stage || at(value).readers.size() != 1 || at(value).keeps_output) return false;
      if (!at(value).is_view) return true;
    }
  };
  for (const int l : layers) state(l).is_alias = at(l).is_view || writes_over(l);
  const auto storage = [&](int value) {
    while (value >= 0 && state(value).is_alias) value = at(value).inputs[0];
    return value;
  };
  // Gradients of a value's readers are added up, so only a single reader, in the stage, can hand its own output
  // gradient on without a new tensor.
  const auto gradient_storage = [&](int value) {
    for (;;) {
      const auto& readers = at(value).readers;
      if (readers.size() != 1 || !state(readers[0]).in_stage || !at(readers[0]).passes_gradient_on) return value;
      value = readers[0];
    }
  };

  GrowingStash result;
  StageStash& samples = result.per_sample;
  const auto count = [&](int value, bool State::*counted, Bytes& bytes) {
    if (value < 0 || state(value).*counted) return;
    state(value).*counted = true;
    bytes += at(value).output;
  };
  for (const int l : layers) {
    const StashSpec& keeps = at(l).keeps;
    for (const int input : at(l).inputs) {
      if (keeps.keeps_input) count(storage(input), &State::forward, samples.forward);
      if (keeps.input_until_weight_gradient) count(storage(input), &State::weight, samples.weight);
    }
    if (keeps.keeps_output) count(storage(l), &State::forward, samples.forward);
    if (keeps.output_until_weight_gradient) count(storage(l), &State::weight, samples.weight);
    if (keeps.output_gradient_until_weight_gradient) count(gradient_storage(l), &State::gradient, samples.weight);
    samples.forward += keeps.extra;
    samples.weight += keeps.extra_until_weight_gradient;
    result.per_micro_batch.forward += keeps.extra_per_microbatch;
    result.per_micro_batch.weight += keeps.extra_until_weight_gradient_per_microbatch;
  }
  return result;
}

}  // namespace sluice
