#include "harness/exec/torch/stage/stage_weights.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/base/error.h"

namespace sluice {

static std::int64_t size_of(const std::vector<ParameterSpec>& parameters) {
  std::int64_t n = 0;
  for (const ParameterSpec& p : parameters) n += elements(p.shape);
  return n;
}

// Where the parameters lie in the flat tensors.
static std::vector<FlatParameter> places_of(const std::vector<ParameterSpec>& parameters,
                                            const std::vector<bool>& matrices) {
  std::vector<FlatParameter> places;
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Shape& shape = parameters[k].shape;
    const bool matrix = k < matrices.size() && matrices[k];
    places.push_back({offset, matrix ? shape[0] : elements(shape), matrix ? shape[1] : 0});
    offset += elements(shape);
  }
  return places;
}

StageWeights::StageWeights(const std::vector<ParameterSpec>& parameters, std::span<const at::Tensor> initial,
                           const OptimizerSpec& optimizer, const at::TensorOptions& options, MemoryCounters* counters,
                           const Share& share, bool learns, const std::vector<bool>& matrices)
    : parameters_(parameters),
      size_(size_of(parameters)),
      share_(share),
      options_(options),
      counters_(counters),
      optimizer_([&] {
        const MemoryScope scope(counters, MemoryKind::optimizer);
        return Optimizer(learns ? optimizer : OptimizerSpec{}, slice(), options, places_of(parameters, matrices));
      }()) {
  if (sharded()) {
    const std::int64_t all = slice() * static_cast<std::int64_t>(share_.members);
    const auto views = [this](const at::Tensor& flat) { return views_of(flat); };
    whole_weights_ = ResizableStorage(all, options, views);
    whole_gradient_ = ResizableStorage(all, options, views);
    whole_weights_.allocate(counters, MemoryKind::weights);
    whole_weights_.flat().zero_();  // the padding stays zero under every optimizer
    for (std::size_t i = 0; i < initial.size(); ++i) whole_weights_.views()[i].copy_(initial[i]);
    const at::Tensor own = own_slice(whole_weights_.flat());
    const MemoryScope scope(counters, MemoryKind::weights);
    versions_.emplace_back().flat = share_.keeps_whole ? own : own.clone();
    if (share_.keeps_whole) {
      gathered_ = 0;
    } else {
      whole_weights_.release();
    }
  } else {
    const MemoryScope scope(counters, MemoryKind::weights);
    versions_.push_back(make_version());
    for (std::size_t i = 0; i < initial.size(); ++i) versions_.back().views[i].copy_(initial[i]);
  }
  if (!learns) return;
  const MemoryScope scope(counters, MemoryKind::gradients);
  gradient_ = at::zeros_like(versions_.back().flat);
  if (!sharded()) gradient_views_ = views_of(gradient_);
}

std::int64_t StageWeights::slice() const { return sharded() ? shard_elements(size_, share_.members) : size_; }

at::Tensor StageWeights::own_slice(const at::Tensor& all) const {
  return all.narrow(0, slice() * static_cast<std::int64_t>(share_.member), slice());
}

at::Tensor StageWeights::own_part(const at::Tensor& whole) const {
  if (!sharded()) return whole;
  const std::int64_t padding = slice() * static_cast<std::int64_t>(share_.members) - size_;
  return own_slice(at::constant_pad_nd(whole, {0, padding}));
}

StageWeights::Version StageWeights::make_version() const {
  Version version;
  version.flat = at::empty({slice()}, options_);
  if (!sharded()) version.views = views_of(version.flat);
  return version;
}

std::vector<at::Tensor> StageWeights::views_of(const at::Tensor& flat) const {
  std::vector<at::Tensor> views;
  std::int64_t offset = 0;
  for (const ParameterSpec& p : parameters_) {
    const std::int64_t n = elements(p.shape);
    views.push_back(flat.narrow(0, offset, n).view(p.shape));
    offset += n;
  }
  return views;
}

StageWeights::Version StageWeights::take_buffer(MemoryKind kind) {
  if (spare_.empty()) {
    const MemoryScope scope(counters_, kind);
    return make_version();
  }
  Version buffer = std::move(spare_.back());
  spare_.pop_back();
  recount(buffer.flat, counters_, kind);
  return buffer;
}

void StageWeights::release(Version& version) {
  recount(version.flat, counters_, MemoryKind::versions);
  spare_.push_back(std::move(version));
  version = {};
}

void StageWeights::follow(const WeightRule& rule, StageId stage) {
  rule_ = rule;
  stage_ = stage;
  const MemoryScope scope(counters_, MemoryKind::optimizer);
  using Kind = WeightRule::Delta;
  for (const Kind delta : {Kind::state, Kind::state_plus_gradient, Kind::momentum_only})
    if (uses_delta(rule, stage, delta)) optimizer_.track(delta, rule.decay_in_delta);
  averages_updates_ = uses_delta(rule, stage, Kind::update_moving_average);
  if ((averages_updates_ || uses_delta(rule, stage, Kind::weight_moving_average)) && !moving_average_.defined())
    moving_average_ = at::zeros_like(newest_flat());
  if (rule.error_feedback != WeightRule::ErrorFeedback::none && !last_update_.defined())
    last_update_ = at::zeros_like(newest_flat());
  if (!rule.corrections.beta1_rise.empty()) optimizer_.raise_beta1(rule.corrections.beta1_rise[stage.index()]);
}

// A stage that has made fewer versions than the program reaches back reads the first.
std::int32_t StageWeights::absolute(std::int32_t version) const { return std::max(base_ + version, 0); }

void StageWeights::begin(const Uses& uses) {
  base_ = versions_.back().number;
  updates_of_run_ = uses.updates;
  clear_gradient_ = true;  // gradients of a run's dropped end
  whole_gradient_.release();
  uses_.clear();
  for (const auto& [version, count] : uses.versions) uses_[absolute(version)] += count;
  for (Version& version : versions_) version.uses = uses_[version.number];
  for (std::size_t k = versions_.size() - 1; k-- > 0;) {
    if (versions_[k].uses > 0) continue;
    release(versions_[k]);
    versions_.erase(versions_.begin() + static_cast<std::ptrdiff_t>(k));
  }
  predictions_.assign(uses.predictions.size(), {});
  for (std::size_t id = 0; id < predictions_.size(); ++id) predictions_[id].uses = uses.predictions[id];
}

std::span<const at::Tensor> StageWeights::read(const Instruction& op, double learning_rate) {
  if (op.prediction >= 0) return predicted(op, learning_rate);
  if (sharded()) return gathered(op);
  const std::int32_t number = absolute(op.version);
  for (std::size_t k = versions_.size(); k-- > 0;)
    if (versions_[k].number == number) return versions_[k].views;
  throw std::logic_error("weight version " + std::to_string(number) + " does not exist any more");
}

std::span<const at::Tensor> StageWeights::predicted(const Instruction& op, double learning_rate) {
  Version& prediction = predictions_[op.prediction];
  if (prediction.flat.defined()) return prediction.views;
  const Version& newest = versions_.back();
  if (newest.number != absolute(op.version))
    throw std::logic_error("a prediction from version " + std::to_string(absolute(op.version)) +
                           ", but the newest is " + std::to_string(newest.number));
  const bool started = optimizer_.steps() > 0;
  if (!started && prediction.uses == 1) return newest.views;  // nothing to predict from yet
  const int uses = prediction.uses;
  prediction = take_buffer(MemoryKind::versions);
  prediction.uses = uses;
  const WeightRule::Delta kind = op.opcode == Opcode::forward || rule_.backward == WeightRule::Backward::same_as_forward
                                     ? rule_.forward_delta
                                     : rule_.backward_delta;
  if (!started) {
    prediction.flat.copy_(newest.flat);
  } else if (kind == WeightRule::Delta::weight_moving_average) {
    at::add_out(prediction.flat, newest.flat, moving_average_, op.horizon);
  } else if (kind == WeightRule::Delta::update_moving_average) {
    at::add_out(prediction.flat, newest.flat, moving_average_, -learning_rate * op.horizon);
  } else {
    at::add_out(prediction.flat, newest.flat, optimizer_.delta(kind), -learning_rate * op.horizon);
  }
  return prediction.views;
}

void StageWeights::used(const Instruction& op) {
  if (op.prediction >= 0) {
    Version& prediction = predictions_[op.prediction];
    if (--prediction.uses == 0 && prediction.flat.defined()) release(prediction);
    return;
  }
  const std::int32_t number = absolute(op.version);
  for (std::size_t k = 0; k < versions_.size(); ++k) {
    if (versions_[k].number != number) continue;
    if (--versions_[k].uses == 0 && k + 1 < versions_.size()) {
      release(versions_[k]);
      versions_.erase(versions_.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return;
  }
}

std::span<const at::Tensor> StageWeights::gathered(const Instruction& op) const {
  const std::int32_t number = absolute(op.version);
  if (gathered_ == number) return whole_weights_.views();
  throw std::logic_error(to_text(op) + " reads version " + std::to_string(number) + " of the weights of stage " +
                         std::to_string(op.stage.value) +
                         (gathered_ ? ", but gathered is version " + std::to_string(*gathered_)
                                    : std::string(", which are not gathered")));
}

const at::Tensor& StageWeights::begin_gather() {
  whole_weights_.allocate(counters_, MemoryKind::weights);
  if (!share_.keeps_whole) own_slice(whole_weights_.flat()).copy_(newest_flat());
  gathered_ = versions_.back().number;
  return whole_weights_.flat();
}

void StageWeights::free_gathered() {
  whole_weights_.release();
  gathered_.reset();
}

const at::Tensor& StageWeights::begin_reduce_scatter() {
  gradients();  // zeros where this rank had no micro-batch of its own
  return whole_gradient_.flat();
}

void StageWeights::end_reduce_scatter() { whole_gradient_.release(); }

void StageWeights::add_reduced(const at::Tensor& sum) {
  if (clear_gradient_) {
    gradient_.copy_(sum);
  } else {
    gradient_.add_(sum);
  }
  clear_gradient_ = false;
}

std::span<const at::Tensor> StageWeights::gradients() {
  if (sharded()) {
    if (!whole_gradient_.allocated()) {
      whole_gradient_.allocate(counters_, MemoryKind::gradients);
      whole_gradient_.flat().zero_();
    }
    return whole_gradient_.views();
  }
  if (clear_gradient_) gradient_.zero_();
  clear_gradient_ = false;
  return gradient_views_;
}

const at::Tensor& StageWeights::gradients_flat() { return gradient_; }

double StageWeights::squares(std::int64_t first, std::int64_t end) const {
  constexpr std::int64_t kBlock = 65536;
  const std::int64_t offset = slice() * static_cast<std::int64_t>(share_.member);
  first = std::max(first - offset, std::int64_t{0});
  end = std::min(end - offset, slice());
  double sum = 0;
  for (; first < end; first += kBlock) {
    const at::Tensor block = gradient_.narrow(0, first, std::min(kBlock, end - first)).to(at::kDouble);
    sum += block.dot(block).item<double>();
  }
  return sum;
}

// The rate of this stage's next step: PipeMare's T1, and StageCorrections.
double StageWeights::discounted(double learning_rate) const {
  if (!rule_.pipemare.delay.empty() && rule_.pipemare.anneal_updates > 0) {
    const double done = static_cast<double>(optimizer_.steps()) / rule_.pipemare.anneal_updates;
    learning_rate /= std::pow(rule_.pipemare.delay[stage_.index()], 1 - std::min(done, 1.0));
  }
  if (!rule_.corrections.delay.empty() && rule_.corrections.discount_updates > 0) {
    const int delay = rule_.corrections.delay[stage_.index()];
    const std::int64_t of_run = versions_.back().number - base_, before = optimizer_.steps() - of_run;
    const std::int64_t moved = std::min<std::int64_t>(of_run, std::max(0, updates_of_run_ - delay - 1));
    const double done = static_cast<double>(1 + before + moved) / rule_.corrections.discount_updates;
    if (delay > 0) learning_rate /= std::pow(static_cast<double>(delay), 1 - std::min(done, 1.0));
  }
  return learning_rate;
}

// Error feedback: the newest weights are `before` minus u; they become `before` minus 2 u - last_update_.
void StageWeights::correct(const at::Tensor& before, double learning_rate) {
  at::Tensor& newest = versions_.back().flat;
  at::Tensor start = before;
  if (!rule_.decay_in_feedback) {
    start = before.clone();
    optimizer_.decay(start, learning_rate);
  }
  const at::Tensor update = at::sub(start, newest);
  const bool plain = rule_.error_feedback == WeightRule::ErrorFeedback::plain_first && optimizer_.steps() == 1;
  if (!plain) newest.sub_(update).add_(last_update_);
  last_update_.copy_(update);
}

void StageWeights::step(double learning_rate, double gradient_scale) {
  if (gradient_scale != 1) gradient_.mul_(gradient_scale);
  learning_rate = discounted(learning_rate);
  double part = 0;  // of W_new - W_old in the moving average
  if (moving_average_.defined()) {
    double decay = 0;
    if (averages_updates_) {
      decay = rule_.update_average_decay[stage_.index()];
      part = learning_rate > 0 ? -(1 - decay) / learning_rate : 0;
    } else {  // PipeMare's T2
      decay = std::pow(rule_.pipemare.moving_average_decay, 1 / rule_.pipemare.delay[stage_.index()]);
      part = 1 - decay;
    }
    moving_average_.mul_(decay).sub_(newest_flat(), part);
  }
  const std::int32_t next = versions_.back().number + 1;
  const bool corrects = last_update_.defined(), in_place = versions_.back().uses == 0;
  const at::Tensor before =
      !corrects ? at::Tensor() : (in_place ? versions_.back().flat.clone() : versions_.back().flat);
  if (in_place) {
    Version& only = versions_.back();
    optimizer_.step(only.flat, only.flat, gradient_, learning_rate);
  } else {
    // Recounted before the new buffer is there, so that no peak shows the old version as weights;
    // the optimizer's temporaries are not weights either.
    recount(versions_.back().flat, counters_, MemoryKind::versions);
    Version fresh = take_buffer(MemoryKind::weights);
    optimizer_.step(fresh.flat, versions_.back().flat, gradient_, learning_rate);
    versions_.push_back(std::move(fresh));
  }
  if (corrects) correct(before, learning_rate);
  if (moving_average_.defined()) moving_average_.add_(newest_flat(), part);
  versions_.back().number = next;
  const auto uses = uses_.find(next);
  versions_.back().uses = uses == uses_.end() ? 0 : uses->second;
  clear_gradient_ = true;
  gathered_.reset();  // what was gathered is the version before
}

StageWeights::State StageWeights::state() const {
  State state;
  state.numbers = {optimizer_.steps(), static_cast<std::int64_t>(versions_.size())};
  for (const Version& version : versions_) {
    state.numbers.push_back(version.number);
    state.tensors.push_back(version.flat);
  }
  for (const at::Tensor& tensor : optimizer_.state()) state.tensors.push_back(tensor);
  for (const at::Tensor* tensor : {&moving_average_, &last_update_})
    if (tensor->defined()) state.tensors.push_back(*tensor);
  return state;
}

void StageWeights::restore(const State& state) {
  const auto wrong = [] {
    return InputError("checkpoint", "holds other weights than this stage has", "delete it, and the case starts anew");
  };
  if (state.numbers.size() < 3 || state.numbers[1] != static_cast<std::int64_t>(state.numbers.size()) - 2)
    throw wrong();
  const auto versions = static_cast<std::size_t>(state.numbers[1]);
  std::vector<at::Tensor> kept = optimizer_.state();
  for (const at::Tensor* tensor : {&moving_average_, &last_update_})
    if (tensor->defined()) kept.push_back(*tensor);
  if (state.tensors.size() != versions + kept.size()) throw wrong();
  for (std::size_t k = 0; k < state.tensors.size(); ++k) {
    const bool flat = k < versions || sharded();
    if (state.tensors[k].numel() != (flat ? size_ : kept[k - versions].numel())) throw wrong();
  }
  optimizer_.set_steps(state.numbers[0]);
  while (versions_.size() > 1) {
    release(versions_.front());
    versions_.erase(versions_.begin());
  }
  while (versions_.size() < versions) {
    recount(versions_.back().flat, counters_, MemoryKind::versions);
    versions_.push_back(take_buffer(MemoryKind::weights));
  }
  for (std::size_t k = 0; k < versions; ++k) {
    versions_[k].flat.copy_(own_part(state.tensors[k]));
    versions_[k].number = static_cast<std::int32_t>(state.numbers[k + 2]);
  }
  for (std::size_t k = 0; k < kept.size(); ++k) {
    at::Tensor target = kept[k];
    target.copy_(own_part(state.tensors[versions + k]).view_as(target));
  }
  gathered_.reset();
  if (share_.keeps_whole) {
    whole_weights_.flat().narrow(0, 0, size_).copy_(state.tensors[versions - 1]);
    gathered_ = versions_.back().number;
  }
}

}  // namespace sluice
