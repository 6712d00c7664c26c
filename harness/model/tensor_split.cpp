#include "harness/model/tensor_split.h"

#include <algorithm>
#include <optional>

#include "harness/base/error.h"

namespace sluice {

namespace {

using Rule = LayerSplit::Rule;

class Splitter {
 public:
  Splitter(const ModelGraph& model, int degree) : model_(model), degree_(degree), shapes_(model.shapes()) {
    for (const LayerSpec& layer : model.layers)
      if (layer.tied_to >= 0)
        throw InputError("model '" + model.name + "'",
                         "'" + layer.name + "' uses the weight of '" + model.layers[layer.tied_to].name +
                             "', and tensor parallelism divides layers with weights of their own",
                         "leave tensor out, or leave tied_to out");
    split_.degree = degree;
    split_.whole = split_.member = model;
    split_.layers.resize(model.layers.size());
    readers_.resize(model.layers.size());
    learns_.resize(model.layers.size());
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      bool learns = sluice::learns(model.layers[l]);
      for (const int input : model.layers[l].inputs) {
        if (input < 0) continue;
        readers_[input].push_back(static_cast<int>(l));
        learns = learns || learns_[input];
      }
      learns_[l] = learns;
    }
  }

  TensorModel run() {
    for (int l = 0; l < static_cast<int>(model_.layers.size()); ++l) {
      if (rule(l) != Rule::whole) continue;  // the second of a pair
      if (const auto* attention = std::get_if<Attention>(&of(l).kind)) divide(l, *attention);
      if (const auto* attention = std::get_if<CrossAttention>(&of(l).kind)) divide(l, *attention);
      if (const auto* attention = std::get_if<RelativeAttention>(&of(l).kind)) divide(l, *attention);
      if (const auto* experts = std::get_if<Experts>(&of(l).kind)) divide(l, *experts);
      if (const auto* table = std::get_if<Embedding>(&of(l).kind)) divide(l, *table);
      if (is_product(l)) divide_product(l);
    }
    if (degree_ > 1 && std::ranges::all_of(split_.layers, [](const LayerSplit& s) { return s.rule == Rule::whole; }))
      throw InputError("model '" + model_.name + "'", "has no layer that devices can share", "leave tensor out");
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {  // parameters that no rule divides
      const std::size_t count = parameters(model_.layers[l]).size();
      split_.layers[l].parameters.resize(count);
    }
    put_beside_each_other();
    return std::move(split_);
  }

 private:
  const LayerSpec& of(int l) const { return model_.layers[l]; }
  LayerSplit& split(int l) { return split_.layers[l]; }
  Rule rule(int l) const { return split_.layers[l].rule; }
  LayerKind& member(int l) { return split_.member.layers[l].kind; }
  std::int64_t output_elements(int l) const { return elements(shapes_[l]); }

  std::int64_t part(int l, std::int64_t size, const char* what) const {
    if (size % degree_ != 0)
      throw InputError(
          "layer '" + of(l).name + "'",
          std::to_string(size) + " " + what + " cannot be divided among " + std::to_string(degree_) + " devices",
          "choose a degree that divides them");
    return size / degree_;
  }

  // Of every input gradient that somebody wants, of the first `inputs` inputs: its elements.
  std::vector<std::int64_t> gradients(int l, std::size_t inputs) const {
    std::vector<std::int64_t> sums;
    for (std::size_t i = 0; i < inputs; ++i)
      if (const int input = of(l).inputs[i]; input >= 0 && learns_[input]) sums.push_back(output_elements(input));
    return sums;
  }

  void divide(int l, const Attention& k) {
    Attention own = k;
    own.heads = part(l, k.heads, "heads");
    if (k.kv_heads > 0) own.kv_heads = part(l, k.kv_heads, "key and value heads");
    own.inner = k.heads_width() / degree_;
    member(l) = own;
    const ParameterPart qkv{0, {k.queries_per_kv(), 1, 1}};
    std::vector<ParameterPart> parts{qkv};
    if (k.qkv_bias) parts.push_back(qkv);
    parts.push_back({1});
    if (k.proj_bias) parts.push_back({});
    split(l) = {.rule = Rule::heads,
                .parameters = parts,
                .added_once = k.proj_bias ? static_cast<int>(parts.size()) - 1 : -1,
                .forward_sums = {output_elements(l)},
                .input_gradient_sums = gradients(l, 1)};
  }

  // The gradient of the memory is a part as well.
  void divide(int l, const CrossAttention& k) {
    CrossAttention own = k;
    own.heads = part(l, k.heads, "heads");
    own.inner = k.heads_width() / degree_;
    member(l) = own;
    const ParameterPart q{0}, kv{0, {1, 1}}, proj{1};
    split(l) = {.rule = Rule::heads,
                .parameters = k.bias ? std::vector{q, q, kv, kv, proj, {}} : std::vector{q, kv, proj},
                .added_once = k.bias ? 5 : -1,
                .forward_sums = {output_elements(l)},
                .input_gradient_sums = gradients(l, 2)};
  }

  void divide(int l, const RelativeAttention& k) {
    RelativeAttention own = k;
    own.heads = part(l, k.heads, "heads");
    own.inner = k.heads_width() / degree_;
    member(l) = own;
    split(l) = {.rule = Rule::heads,
                .parameters = {{0, {1, 1, 1}}, {0}, {0}, {0}, {1}},
                .forward_sums = {output_elements(l)},
                .input_gradient_sums = gradients(l, 1)};
  }

  void divide(int l, const Experts& k) {
    Experts own = k;
    own.held = part(l, k.experts, "experts");
    member(l) = own;
    split(l) = {.rule = Rule::experts, .parameters = {{}, {0}, {0}}, .forward_sums = {output_elements(l)}};
    if (k.gated) split(l).parameters.push_back({0});
    if (learns_[l]) split(l).input_gradient_sums = {output_elements(l) / k.features * k.top_k};
    for (const std::int64_t sum : gradients(l, 1)) split(l).input_gradient_sums.push_back(sum);
  }

  void divide(int l, const Embedding& k) {
    member(l) = Embedding{part(l, k.vocabulary, "rows"), k.width};
    split(l) = {.rule = Rule::rows, .parameters = {{0}}, .forward_sums = {output_elements(l)}};
  }

  // The only layer that reads `l`, if it has one reader that reads it once.
  std::optional<int> only_reader(int l) const {
    const auto& readers = readers_[l];
    return readers.size() == 1 ? std::optional(readers.front()) : std::nullopt;
  }

  // A linear layer, or a convolution in which every output channel reads all input channels.
  bool is_product(int l) const {
    const auto* convolution = std::get_if<Conv2d>(&of(l).kind);
    return std::holds_alternative<Linear>(of(l).kind) || (convolution && convolution->groups == 1);
  }
  bool is_convolution(int l) const { return std::holds_alternative<Conv2d>(of(l).kind); }

  // Whether layer `l` works on every output of `first`, or channel, by itself, so that a device can run it on its part.
  bool works_on_parts(int l, int first) const {
    const bool one_dimension = shapes_[l].size() == 1;
    const LayerKind& kind = of(l).kind;
    if (std::holds_alternative<Activation>(kind)) return true;
    if (const auto* dropout = std::get_if<Dropout>(&kind))
      return dropout->channels || !is_convolution(first) || one_dimension;  // draws by channel or last dimension
    if (std::holds_alternative<Pool2d>(kind) || std::holds_alternative<Upsample>(kind) ||
        std::holds_alternative<InstanceNorm>(kind))
      return is_convolution(first);
    if (std::holds_alternative<Flatten>(kind)) return is_convolution(first) || one_dimension;  // channels come first
    return std::holds_alternative<BatchNorm>(kind) && (is_convolution(first) || one_dimension);
  }

  void take_outputs(int l, std::int64_t own) {
    bool bias = false;
    if (auto* linear = std::get_if<Linear>(&member(l))) linear->out = own, bias = linear->bias;
    if (auto* convolution = std::get_if<Conv2d>(&member(l))) convolution->out = own, bias = convolution->bias;
    split(l).rule = Rule::outputs;
    split(l).parameters.assign(bias ? 2 : 1, {0});
    split(l).input_gradient_sums = gradients(l, 1);
  }

  void take_inputs(int l) {
    bool bias = false;
    if (auto* linear = std::get_if<Linear>(&member(l))) linear->in /= degree_, bias = linear->bias;
    if (auto* convolution = std::get_if<Conv2d>(&member(l))) convolution->in /= degree_, bias = convolution->bias;
    split(l) = {
        .rule = Rule::inputs, .parameters = {{1}}, .added_once = bias ? 1 : -1, .forward_sums = {output_elements(l)}};
  }

  bool multiplies(int l) const { return std::holds_alternative<Multiply>(of(l).kind); }

  // The product of the kind of `first` whose outputs reach `l` and nothing else, each by itself; what is between is
  // added to `between`. Nothing: `l` mixes outputs, or others read them too.
  std::optional<int> product_before(int l, int first, std::vector<int>& between) const {
    for (; l >= 0 && rule(l) == Rule::whole && only_reader(l); l = of(l).inputs[0]) {
      if (is_product(l)) return is_convolution(l) == is_convolution(first) ? std::optional(l) : std::nullopt;
      if (!works_on_parts(l, first)) break;
      between.push_back(l);
    }
    return std::nullopt;
  }

  void divide_product(int l) {
    std::vector<int> firsts{l}, between;  // of the pair
    std::optional<int> next = only_reader(l);
    for (int before = l; next && (works_on_parts(*next, l) || multiplies(*next)); next = only_reader(before)) {
      if (multiplies(*next)) {
        const std::vector<int>& factors = of(*next).inputs;
        const auto other = product_before(factors[factors[0] == before ? 1 : 0], l, between);
        if (!other) return;
        firsts.push_back(*other);
      }
      between.push_back(before = *next);
    }
    if (!next) return;
    if (is_product(*next)) {
      const std::int64_t outputs =
          is_convolution(l) ? std::get<Conv2d>(of(l).kind).out : std::get<Linear>(of(l).kind).out;
      if (is_convolution(l) && outputs % degree_ != 0) return;
      for (const int first : firsts) take_outputs(first, part(first, outputs, "outputs"));
      for (const int b : between) {
        split(b).rule = Rule::outputs;
        if (auto* norm = std::get_if<BatchNorm>(&member(b))) {
          norm->features /= degree_;
          split(b).parameters = {{0}, {0}};
        }
        if (auto* norm = std::get_if<InstanceNorm>(&member(b))) norm->features /= degree_;
      }
      take_inputs(*next);
    } else if (between.empty() && !is_convolution(l) && std::holds_alternative<CrossEntropyLoss>(of(*next).kind)) {
      const std::int64_t classes = std::get<Linear>(of(l).kind).out;
      take_outputs(l, part(l, classes, "classes"));
      // A logarithm of a sum for every position and member, and the target's score.
      split(*next) = {.rule = Rule::classes, .forward_sums = {output_elements(l) / classes * (degree_ + 1)}};
    }
  }

  void put_beside_each_other() {
    split_.all = {.name = model_.name, .inputs = model_.inputs, .layers = {}, .members = degree_};
    for (const LayerSpec& layer : split_.member.layers)
      for (int k = 0; k < degree_; ++k) {
        if (k == 0) split_.first_parts.push_back(static_cast<int>(split_.all.layers.size()));
        split_.parts.push_back({static_cast<int>(split_.first_parts.size()) - 1, k});
        LayerSpec& own = split_.all.layers.emplace_back(layer);
        own.name += "/" + std::to_string(k);
        for (int& input : own.inputs)
          if (input >= 0) input = input * degree_ + k;
      }
  }

  const ModelGraph& model_;
  const int degree_;
  const std::vector<Shape> shapes_;
  TensorModel split_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> learns_;  // it, or a layer before it, has parameters
};

}  // namespace

int TensorModel::parts_of(int whole_layer) const {
  return static_cast<int>(std::ranges::count(parts, whole_layer, &Part::layer));
}

const LayerSplit& TensorModel::split_of(int layer) const {
  static const LayerSplit undivided;
  return whole_layer(layer) < 0 ? undivided : layers[whole_layer(layer)];
}

TensorModel split_tensors(const ModelGraph& model, int degree) {
  if (degree < 1) throw InputError("tensor", std::to_string(degree) + " devices cannot share a layer");
  return Splitter(model, degree).run();
}

static TensorSums sums_of(const TensorModel& model, std::span<const int> layers, std::int64_t element_bytes,
                          std::vector<std::int64_t> LayerSplit::*sums) {
  TensorSums all;
  for (const int l : layers)
    for (const std::int64_t elements_summed : model.split_of(l).*sums) all += {1, elements_summed * element_bytes};
  return all;
}

TensorSums forward_sums(const TensorModel& model, std::span<const int> layers, std::int64_t samples,
                        std::int64_t element) {
  return sums_of(model, layers, samples * element, &LayerSplit::forward_sums);
}
TensorSums input_gradient_sums(const TensorModel& model, std::span<const int> layers, std::int64_t samples,
                               std::int64_t element) {
  return sums_of(model, layers, samples * element, &LayerSplit::input_gradient_sums);
}

}  // namespace sluice
