#include "harness/exec/torch/stage_weights.h"

#include <cmath>
#include <stdexcept>

namespace sluice {

Optimizer::Optimizer(const OptimizerSpec& spec, std::int64_t elements,
                     const at::TensorOptions& options)
    : spec_(spec) {
  if (spec.state_tensors() > 0) first_ = at::zeros({elements}, options);
  if (spec.state_tensors() > 1) second_ = at::zeros({elements}, options);
}

void Optimizer::step(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient,
                     double learning_rate) {
  ++steps_;
  at::Tensor g = gradient;
  if (spec_.weight_decay != 0 && spec_.kind != OptimizerSpec::Kind::adamw)
    g = at::add(gradient, from, spec_.weight_decay);
  if (spec_.kind == OptimizerSpec::Kind::sgd) {
    if (spec_.momentum == 0) {
      at::add_out(to, from, g, -learning_rate);
      return;
    }
    if (spec_.momentum_ema) {
      first_.mul_(spec_.momentum).add_(g, 1 - spec_.momentum);
    } else if (steps_ == 1) {
      first_.copy_(g);
    } else {
      first_.mul_(spec_.momentum).add_(g);
    }
    at::add_out(to, from, first_, -learning_rate);
    return;
  }
  first_.mul_(spec_.beta1).add_(g, 1 - spec_.beta1);
  second_.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
  const double correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(steps_));
  const at::Tensor denominator = at::sqrt(second_).div_(std::sqrt(correction2)).add_(spec_.epsilon);
  if (spec_.kind == OptimizerSpec::Kind::adamw && spec_.weight_decay != 0) {
    at::mul_out(to, from,
                at::scalar_tensor(1 - learning_rate * spec_.weight_decay, from.options()));
    to.addcdiv_(first_, denominator, -learning_rate / correction1);
  } else {
    at::addcdiv_out(to, from, first_, denominator, -learning_rate / correction1);
  }
}

StageWeights::StageWeights(const std::vector<ParameterSpec>& parameters,
                           std::span<const at::Tensor> initial, const OptimizerSpec& optimizer,
                           const at::TensorOptions& options, MemoryCounters* counters)
    : parameters_(parameters), options_(options), counters_(counters), optimizer_([&] {
        const MemoryScope scope(counters, MemoryKind::optimizer);
        std::int64_t n = 0;
        for (const ParameterSpec& p : parameters) n += elements(p.shape);
        return Optimizer(optimizer, n, options);
      }()) {
  {
    const MemoryScope scope(counters, MemoryKind::weights);
    versions_.push_back(make_version());
    for (std::size_t i = 0; i < initial.size(); ++i) versions_.back().views[i].copy_(initial[i]);
  }
  const MemoryScope scope(counters, MemoryKind::gradients);
  gradient_ = at::zeros_like(versions_.back().flat);
  gradient_views_ = views_of(gradient_);
}

StageWeights::Version StageWeights::make_version() const {
  std::int64_t n = 0;
  for (const ParameterSpec& p : parameters_) n += elements(p.shape);
  Version version;
  version.flat = at::empty({n}, options_);
  version.views = views_of(version.flat);
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

void StageWeights::begin(std::span<const int> uses) {
  if (versions_.size() != 1)
    throw std::logic_error("a program begins while old weight versions are in use");
  uses_.assign(uses.begin(), uses.end());
  versions_.back().number = 0;
  versions_.back().uses = uses_.empty() ? 0 : uses_[0];
}

std::span<const at::Tensor> StageWeights::version(std::int32_t number) {
  for (std::size_t k = versions_.size(); k-- > 0;)
    if (versions_[k].number == number) return versions_[k].views;
  throw std::logic_error("weight version " + std::to_string(number) + " does not exist any more");
}

void StageWeights::used(std::int32_t number) {
  for (std::size_t k = 0; k < versions_.size(); ++k) {
    if (versions_[k].number != number) continue;
    if (--versions_[k].uses == 0 && k + 1 < versions_.size()) {
      spare_.push_back(std::move(versions_[k]));
      versions_.erase(versions_.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return;
  }
}

std::span<const at::Tensor> StageWeights::gradients() {
  if (clear_gradient_) gradient_.zero_();
  clear_gradient_ = false;
  return gradient_views_;
}

const at::Tensor& StageWeights::gradients_flat() { return gradient_; }

void StageWeights::step(double learning_rate) {
  const std::int32_t next = versions_.back().number + 1;
  if (versions_.back().uses == 0) {
    Version& only = versions_.back();
    optimizer_.step(only.flat, only.flat, gradient_, learning_rate);
  } else {
    // Recounted before the new buffer is there, so that no peak shows the old version as weights;
    // the optimizer's temporaries are not weights either.
    recount(versions_.back().flat, counters_, MemoryKind::versions);
    Version fresh;
    if (spare_.empty()) {
      const MemoryScope scope(counters_, MemoryKind::weights);
      fresh = make_version();
    } else {
      fresh = std::move(spare_.back());
      spare_.pop_back();
      recount(fresh.flat, counters_, MemoryKind::weights);
    }
    optimizer_.step(fresh.flat, versions_.back().flat, gradient_, learning_rate);
    versions_.push_back(std::move(fresh));
  }
  versions_.back().number = next;
  versions_.back().uses =
      static_cast<std::size_t>(next) < uses_.size() ? uses_[static_cast<std::size_t>(next)] : 0;
  clear_gradient_ = true;
}

}  // namespace sluice
