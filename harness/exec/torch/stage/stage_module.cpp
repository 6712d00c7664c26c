// The constructor works out once which slot each layer reads and writes, when a value is last read, which layer may
// overwrite its input, and where gradients are needed. A micro-batch is then a plain loop over the layers.
#include "harness/exec/torch/stage/stage_module.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "harness/base/stop.h"
#include "harness/exec/torch/layers/divided_product.h"
#include "harness/exec/torch/layers/expert_group.h"
#include "harness/exec/torch/stage/memory_counter.h"
#include "harness/model/cost_graph.h"
#include "harness/model/expert_spread.h"
#include "harness/pipeline/gradient_buckets.h"

namespace sluice {
namespace {

// Adds up the gradients of a value's readers. In place only where nobody else sees the first.
void accumulate(at::Tensor& sum, at::Tensor&& gradient) {
  if (!gradient.defined()) return;
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (sum.use_count() == 1 && sum.storage().use_count() == 1) {
    sum.add_(gradient);
  } else {
    sum = sum + gradient;
  }
}

}  // namespace

struct StageModule::Impl {
  struct Step {
    std::unique_ptr<Layer> layer;
    std::vector<std::size_t> inputs;                 // slots
    std::size_t output = 0;                          // slot
    std::size_t first_weight = 0, weight_count = 0;  // its own
    std::optional<std::size_t> tied;                 // the weight of another layer, which comes before its own
    std::vector<std::size_t> last_reads;             // slots that nobody reads after this step
    std::vector<bool> needs_input;                   // gradients wanted of it
    bool may_overwrite = false;
    bool is_loss = false;
    bool hides_stash = false;   // what it keeps is autograd's
    bool joins_chunks = false;  // a later chunk of the sequence reads what it keeps
    bool learns = false;        // it has weights, its own or a tied one, that are trained
    bool drops_input = false;   // frozen: the input that it keeps first would be for W only
    bool has_gradient = false;  // anything at or before it learns
  };

  std::vector<Step> steps;
  std::vector<ParameterSpec> parameters;
  std::size_t frozen_count = 0;           // see frozen_count()
  std::vector<int> borrowed;              // see borrowed()
  std::vector<std::size_t> sends;         // slots
  std::vector<bool> needs_received;       // gradients wanted of the received values
  std::vector<at::Tensor> values, grads;  // by slot: the received ones, then the layers' outputs
  std::vector<at::Tensor> gathered;       // inputs of a layer with several
  std::vector<at::Tensor> with_tied;      // weights, or their gradients, of a tied layer
  std::vector<LayerStash*> with_stash;
  at::TensorOptions options;
  at::Tensor loss_gradient;  // the scalar of the last call: the scale rarely changes
  double loss_scale = 0;
  std::vector<int> layers;  // indices into the model's
  LayerSpec first_layer;    // and what it reads
  Shape first_input;
  int passed_channels = 0;
  Passed passed;
  Probe* probe = nullptr;
  MemoryCounters* counters = nullptr;
  StageId stage{-1};

  ProbeSample sample_of(ProbeSample::Kind kind, std::size_t step, std::size_t microbatches = 1) const {
    return {.kind = kind, .stage = stage, .layer = layers[step], .microbatches = static_cast<int>(microbatches)};
  }

  std::span<const at::Tensor> inputs_of(const Step& step) {
    if (step.inputs.size() == 1) return {&values[step.inputs[0]], 1};
    gathered.clear();
    for (const std::size_t slot : step.inputs) gathered.push_back(values[slot]);
    return gathered;
  }

  // What a layer takes of the stage's weights or gradients; valid until the next call.
  std::span<const at::Tensor> of_step(std::span<const at::Tensor> all, const Step& step) {
    const std::span<const at::Tensor> own = all.subspan(step.first_weight, step.weight_count);
    if (!step.tied) return own;
    with_tied.assign(own.begin(), own.end());
    with_tied.insert(with_tied.begin(), all[*step.tied]);
    return with_tied;
  }

  // Of the first layer: the gradient of the channels that are not passed on; sets `passed`, and what W needs in `kept`.
  at::Tensor divided_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights, LayerStash& kept) {
    steps.front().layer->input_gradient(dy, weights, {false}, kept);
    const std::int64_t all = weights[0].size(1), own = all - passed_channels;
    passed = {dy, channels_of_weight(weights[0], own, passed_channels)};
    return channel_gradient(first_layer, dy, channels_of_weight(weights[0], 0, own), first_input);
  }

  std::size_t weight_count() const { return parameters.size() + frozen_count + borrowed.size(); }

  void expect(std::size_t got, std::size_t wanted, const char* what) const {
    if (got != wanted) {
      throw std::invalid_argument(std::string("StageModule: ") + std::to_string(wanted) + " " + what +
                                  " expected, got " + std::to_string(got));
    }
  }
};

StageModule::StageModule(const ModelGraph& model, std::vector<int> layers, const StageInterface& interface,
                         const at::TensorOptions& options, const TensorShare& tensor, ExpertGroup* experts)
    : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.options = options;
  impl.layers = layers;
  const std::vector<Shape> shapes = model.shapes();
  const std::vector<bool> in_place = overwrites(model, layers);
  const std::vector<bool> no_gradient = without_gradient(model);
  std::unordered_map<int, std::size_t> slot_of;  // producer -> slot
  std::vector<bool> wants_gradient;              // by slot
  for (const int producer : interface.receives) {
    slot_of[producer] = wants_gradient.size();
    const bool wants = producer >= 0 && !no_gradient[producer];
    wants_gradient.push_back(wants);
    impl.needs_received.push_back(wants);
  }
  std::unordered_map<std::size_t, std::size_t> last_reader;  // slot -> step
  std::unordered_map<int, std::size_t> weight_of;            // layer -> its first weight
  std::size_t trained = 0;
  for (const int index : layers) {
    const LayerSpec& spec = model.layers[index];
    trained += trained_parameters(spec).size();
    if (spec.frozen) impl.frozen_count += sluice::parameters(spec).size();
  }
  std::size_t next_frozen = trained;
  for (const int index : layers) {
    const LayerSpec& spec = model.layers[index];
    Impl::Step step;
    std::vector<Shape> input_shapes;
    for (const int input : spec.inputs) {
      const auto found = slot_of.find(input);
      if (found == slot_of.end()) {
        throw std::invalid_argument("StageModule: layer '" + spec.name +
                                    "' reads a value that the stage neither makes nor receives");
      }
      input_shapes.push_back(input < 0 ? model.inputs[-(input + 1)].shape : shapes[input]);
      step.inputs.push_back(found->second);
      step.needs_input.push_back(wants_gradient[found->second]);
      step.has_gradient = step.has_gradient || wants_gradient[found->second];
      last_reader[found->second] = impl.steps.size();
    }
    step.layer = tensor.model ? make_member_layer(*tensor.model, index, input_shapes, options, *tensor.group)
                 : replicas_of_experts(spec) > 1 ? make_spread_experts(std::get<Experts>(spec.kind), *experts)
                                                 : make_layer(spec, input_shapes, index, options);
    if (spec.tied_to >= 0) {
      const auto weight = weight_of.find(spec.tied_to);
      if (weight != weight_of.end()) {
        step.tied = weight->second;
      } else {  // behind the stage's own
        step.tied = trained + impl.frozen_count + impl.borrowed.size();
        weight_of[spec.tied_to] = *step.tied;
        impl.borrowed.push_back(spec.tied_to);
      }
    }
    step.first_weight = spec.frozen ? next_frozen : impl.parameters.size();
    weight_of[index] = step.first_weight;
    if (impl.steps.empty()) {
      impl.first_layer = spec;
      if (!input_shapes.empty()) impl.first_input = input_shapes.front();
    }
    step.is_loss = is_loss(spec.kind);
    step.hides_stash = std::holds_alternative<Module>(spec.kind);
    step.joins_chunks = std::holds_alternative<Attention>(spec.kind);
    step.may_overwrite = in_place[impl.steps.size()];
    for (ParameterSpec& parameter : sluice::parameters(spec)) {
      if (!spec.frozen) impl.parameters.push_back(std::move(parameter));
      ++step.weight_count;
    }
    if (spec.frozen) next_frozen += step.weight_count;
    step.learns = learns(spec);
    step.drops_input = spec.frozen && keeps_input_for_weights_only(spec.kind);
    step.has_gradient = step.has_gradient || step.learns;
    step.output = wants_gradient.size();
    slot_of[index] = step.output;
    wants_gradient.push_back(step.has_gradient);
    impl.steps.push_back(std::move(step));
  }
  for (const int layer : interface.sends) impl.sends.push_back(slot_of.at(layer));
  for (const auto& [slot, step] : last_reader) {
    if (std::find(impl.sends.begin(), impl.sends.end(), slot) == impl.sends.end()) {
      impl.steps[step].last_reads.push_back(slot);
    }
  }
  impl.values.resize(wants_gradient.size());
  impl.grads.resize(wants_gradient.size());
}

StageModule::~StageModule() = default;
StageModule::StageModule(StageModule&&) noexcept = default;

void StageModule::observe(Probe* probe, MemoryCounters* counters, StageId stage) {
  impl_->probe = probe;
  impl_->counters = counters;
  impl_->stage = stage;
}

void StageModule::pass_channels(int channels) {
  const Impl& impl = *impl_;
  const auto reads_input = [](const Impl::Step& step) { return std::ranges::count(step.inputs, std::size_t{0}) > 0; };
  const auto readers = std::ranges::count_if(impl.steps, reads_input);
  if (impl.needs_received != std::vector<bool>{true} || readers != 1 || impl.steps.front().inputs.size() != 1 ||
      channels >= input_channels(impl.first_layer) || std::ranges::count(impl.sends, std::size_t{0}) > 0)
    throw std::invalid_argument("StageModule: " + std::to_string(channels) + " channels of layer '" +
                                impl.first_layer.name + "' cannot be passed on");
  impl_->passed_channels = channels;
}

StageModule::Passed StageModule::take_passed() { return std::exchange(impl_->passed, {}); }

int StageModule::last_layer() const { return impl_->layers.back(); }
const std::vector<ParameterSpec>& StageModule::parameters() const { return impl_->parameters; }
std::size_t StageModule::frozen_count() const { return impl_->frozen_count; }
const std::vector<int>& StageModule::borrowed() const { return impl_->borrowed; }

std::vector<at::Tensor> StageModule::forward(std::span<const at::Tensor> received, std::span<const at::Tensor> weights,
                                             const at::Tensor& target, const ForwardMode& mode,
                                             StageStashTensors* stash, at::Tensor* loss, at::Tensor* prediction) {
  Impl& impl = *impl_;
  impl.expect(received.size(), impl.needs_received.size(), "received values");
  impl.expect(weights.size(), impl.weight_count(), "weights");
  if (stash) stash->layers.resize(impl.steps.size());
  std::copy(received.begin(), received.end(), impl.values.begin());
  for (std::size_t i = 0; i < impl.steps.size(); ++i) {
    stop_now();
    const Impl::Step& step = impl.steps[i];
    const bool keeps = step.has_gradient || (step.joins_chunks && mode.chunk.count > 1);
    LayerStash* const kept = stash && keeps ? &stash->layers[i] : nullptr;
    if (kept) {
      kept->chunk = mode.chunk;
      kept->earlier = stash->earlier ? &stash->earlier->layers[i] : nullptr;
    }
    const ProbeScope scope(impl.probe, impl.counters, impl.sample_of(ProbeSample::Kind::forward, i));
    const std::span<const at::Tensor> in = impl.inputs_of(step);
    if (step.is_loss && prediction) *prediction = in[0];
    std::optional<Allocated> allocated;
    if (step.hides_stash && kept) allocated.emplace();
    at::Tensor y = step.layer->forward(in, impl.of_step(weights, step), target, mode, step.may_overwrite, kept);
    if (allocated) allocated->keep(y);
    if (step.drops_input && kept) kept->kept.front().reset();
    if (step.is_loss && loss) *loss = y;
    impl.gathered.clear();
    impl.values[step.output] = std::move(y);
    for (const std::size_t slot : step.last_reads) impl.values[slot].reset();
  }
  std::vector<at::Tensor> sent;
  sent.reserve(impl.sends.size());
  for (const std::size_t slot : impl.sends) sent.push_back(impl.values[slot]);
  for (at::Tensor& value : impl.values) value.reset();
  impl.with_tied.clear();
  return sent;
}

std::vector<at::Tensor> StageModule::input_gradient(std::span<const at::Tensor> sent_gradients, double loss_scale,
                                                    std::span<const at::Tensor> weights, StageStashTensors& stash) {
  Impl& impl = *impl_;
  impl.expect(sent_gradients.size(), impl.sends.size(), "gradients of sent values");
  impl.expect(weights.size(), impl.weight_count(), "weights");
  impl.expect(stash.layers.size(), impl.steps.size(), "layers in the stash");
  for (std::size_t i = 0; i < impl.sends.size(); ++i) impl.grads[impl.sends[i]] = sent_gradients[i];
  for (std::size_t i = impl.steps.size(); i-- > 0;) {
    stop_now();
    const Impl::Step& step = impl.steps[i];
    const ProbeScope scope(impl.probe, impl.counters, impl.sample_of(ProbeSample::Kind::input_gradient, i));
    LayerStash& kept = stash.layers[i];
    at::Tensor dy = std::move(impl.grads[step.output]);
    if (step.is_loss) {
      if (!impl.loss_gradient.defined() || impl.loss_scale != loss_scale) {
        impl.loss_gradient = at::full({}, loss_scale, impl.options);
        impl.loss_scale = loss_scale;
      }
      dy = impl.loss_gradient;
    }
    if (!step.has_gradient || !dy.defined()) {
      kept.kept.clear();
      continue;
    }
    std::vector<at::Tensor> dx;
    if (i == 0 && impl.passed_channels > 0) {
      dx.push_back(impl.divided_gradient(dy, impl.of_step(weights, step), kept));
    } else {
      dx = step.layer->input_gradient(dy, impl.of_step(weights, step), step.needs_input, kept);
    }
    if (!step.learns) kept.kept.clear();
    dy.reset();
    for (std::size_t j = 0; j < dx.size(); ++j) {
      accumulate(impl.grads[step.inputs[j]], std::move(dx[j]));
    }
  }
  std::vector<at::Tensor> result(impl.needs_received.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (impl.needs_received[i]) result[i] = std::move(impl.grads[i]);
  }
  for (at::Tensor& gradient : impl.grads) gradient.reset();
  impl.with_tied.clear();
  return result;
}

std::vector<StageModule::GradientBucket> StageModule::gradient_buckets(Bytes least) const {
  const auto element = static_cast<std::int64_t>(c10::elementSize(c10::typeMetaToScalarType(impl_->options.dtype())));
  std::vector<Bytes> gradients;
  std::vector<GradientBucket> made;  // per layer with weights of its own, from the last one on
  std::int64_t end = 0;
  for (const ParameterSpec& p : impl_->parameters) end += elements(p.shape);
  for (std::size_t i = impl_->steps.size(); i-- > 0;) {
    const Impl::Step& step = impl_->steps[i];
    if (step.weight_count == 0 || !step.learns) continue;
    std::int64_t count = 0;
    for (std::size_t k = 0; k < step.weight_count; ++k)
      count += elements(impl_->parameters[step.first_weight + k].shape);
    gradients.emplace_back(count * element);
    made.push_back({end - count, end, i});
    end -= count;
  }
  std::vector<GradientBucket> buckets;
  std::size_t begin = 0;
  for (const std::size_t last : gradient_bucket_ends(gradients, least)) {
    buckets.push_back({made[last - 1].first, made[begin].end, made[last - 1].step});
    begin = last;
  }
  return buckets;
}

void StageModule::weight_gradient(std::span<StageStashTensors* const> stashes, std::span<const at::Tensor> gradients,
                                  const std::function<void(std::size_t step)>& after_step) {
  Impl& impl = *impl_;
  impl.expect(gradients.size(), impl.weight_count(), "gradients");
  for (std::size_t i = impl.steps.size(); i-- > 0;) {
    stop_now();
    const Impl::Step& step = impl.steps[i];
    impl.with_stash.clear();
    for (StageStashTensors* stash : stashes) {
      if (step.learns && !stash->layers[i].kept.empty()) impl.with_stash.push_back(&stash->layers[i]);
    }
    if (!impl.with_stash.empty()) {
      const ProbeScope scope(impl.probe, impl.counters,
                             impl.sample_of(ProbeSample::Kind::weight_gradient, i, impl.with_stash.size()));
      step.layer->weight_gradient(impl.with_stash, impl.of_step(gradients, step));
    }
    if (after_step) after_step(i);
  }
  impl.with_tied.clear();
}

std::vector<at::Tensor> StageModule::buffers() const {
  std::vector<at::Tensor> result;
  for (const Impl::Step& step : impl_->steps) {
    for (at::Tensor& buffer : step.layer->buffers()) result.push_back(std::move(buffer));
  }
  return result;
}

std::vector<std::vector<at::Tensor>> StageModule::buffers_by_layer() const {
  std::vector<std::vector<at::Tensor>> result;
  for (const Impl::Step& step : impl_->steps) result.push_back(step.layer->buffers());
  return result;
}

std::int64_t StageModule::stash_bytes(const StageStashTensors& stash, std::span<const at::Tensor> exclude) {
  std::unordered_set<const void*> seen;
  for (const at::Tensor& tensor : exclude) {
    if (tensor.defined()) seen.insert(tensor.storage().unsafeGetStorageImpl());
  }
  std::int64_t bytes = 0;
  for (const LayerStash& layer : stash.layers) {
    for (const at::Tensor& tensor : layer.kept) {
      if (tensor.defined() && seen.insert(tensor.storage().unsafeGetStorageImpl()).second) {
        bytes += static_cast<std::int64_t>(tensor.storage().nbytes());
      }
    }
  }
  return bytes;
}

}  // namespace sluice
