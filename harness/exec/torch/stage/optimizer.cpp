#include "harness/exec/torch/stage/optimizer.h"

#include <cmath>

namespace sluice {

using Delta = WeightRule::Delta;

Optimizer::Optimizer(const OptimizerSpec& spec, std::int64_t elements, const at::TensorOptions& options)
    : spec_(spec), options_(options), elements_(elements) {
  const bool adam = spec.kind == OptimizerSpec::Kind::adam || spec.kind == OptimizerSpec::Kind::adamw;
  if (adam || has_momentum()) first_ = at::zeros({elements}, options);
  if (adam || spec.kind == OptimizerSpec::Kind::rmsprop) second_ = at::zeros({elements}, options);
}

Delta Optimizer::effective(Delta kind) const { return has_momentum() ? kind : Delta::state; }

void Optimizer::track(Delta kind, bool decay_in_delta) {
  decay_in_delta_ = decay_in_delta;
  kind = effective(kind);
  if (kind == Delta::state && has_momentum() && !spec_.nesterov) return;  // first_ is it
  if (!kept(kind).defined()) kept(kind) = at::zeros({elements_}, options_);
}

const at::Tensor& Optimizer::delta(Delta kind) const {
  const at::Tensor& own = deltas_[static_cast<std::size_t>(effective(kind))];
  return own.defined() ? own : first_;
}

std::vector<at::Tensor> Optimizer::state() const {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor* t : {&first_, &second_, &deltas_[0], &deltas_[1], &deltas_[2]})
    if (t->defined()) tensors.push_back(*t);
  return tensors;
}

void Optimizer::step(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double learning_rate) {
  ++steps_;
  if (spec_.kind == OptimizerSpec::Kind::sgd) {
    sgd(to, from, gradient, learning_rate);
  } else {
    adaptive(to, from, gradient, learning_rate);
  }
}

void Optimizer::sgd(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate) {
  at::Tensor g = gradient;
  if (spec_.weight_decay != 0) g = at::add(gradient, from, spec_.weight_decay);
  if (!has_momentum()) {
    if (kept(Delta::state).defined()) kept(Delta::state).copy_(g);
    at::add_out(to, from, g, -rate);
    return;
  }
  const double mu = spec_.momentum;
  if (spec_.momentum_ema) {
    first_.mul_(mu).add_(g, 1 - mu);
  } else if (steps_ == 1) {
    first_.copy_(g);
  } else {
    first_.mul_(mu).add_(g, 1 - spec_.dampening);
  }
  // As in the released programs of SpecTrain and PipeOptim: the last gradient, which is in the buffer already, is added
  // once more, without its weight decay.
  const double again = spec_.momentum_ema ? 1 - mu : 1 - spec_.dampening;
  if (at::Tensor& d = kept(Delta::state_plus_gradient); d.defined())
    at::mul_out(d, first_, at::scalar_tensor(mu, options_)).add_(gradient, again);
  if (at::Tensor& d = kept(Delta::momentum_only); d.defined()) at::mul_out(d, first_, at::scalar_tensor(mu, options_));
  if (!spec_.nesterov) {
    at::add_out(to, from, first_, -rate);
  } else if (at::Tensor& d = kept(Delta::state); d.defined()) {
    at::add_out(d, g, first_, mu);
    at::add_out(to, from, d, -rate);
  } else {
    at::add_out(to, from, at::add(g, first_, mu), -rate);
  }
}

// Adam, AdamW, RMSprop: a direction numerator / denominator.
void Optimizer::adaptive(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate) {
  const bool decoupled = spec_.kind == OptimizerSpec::Kind::adamw;
  at::Tensor g = gradient;
  if (spec_.weight_decay != 0 && !decoupled) g = at::add(gradient, from, spec_.weight_decay);
  at::Tensor numerator = g, denominator;
  double correction1 = 1;
  if (spec_.kind == OptimizerSpec::Kind::rmsprop) {
    second_.mul_(spec_.alpha).addcmul_(g, g, 1 - spec_.alpha);
    denominator = at::sqrt(second_).add_(spec_.epsilon);
  } else {
    first_.mul_(spec_.beta1).add_(g, 1 - spec_.beta1);
    second_.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
    correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(steps_));
    const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(steps_));
    denominator = at::sqrt(second_).div_(std::sqrt(correction2)).add_(spec_.epsilon);
    numerator = first_;
  }
  const at::Tensor* start = &from;
  at::Tensor decayed;
  if (decoupled && spec_.weight_decay != 0) {
    if (decay_in_delta_) decayed = from.clone();
    at::mul_out(to, from, at::scalar_tensor(1 - rate * spec_.weight_decay, options_));
    start = &to;
  }
  if (at::Tensor& d = kept(Delta::state); d.defined()) {
    // Kept as a tensor, so that a prediction costs one pass and no square roots.
    at::div_out(d, numerator, denominator.mul_(correction1));
    at::add_out(to, *start, d, -rate);
    if (decayed.defined()) d.add_(decayed, spec_.weight_decay);
  } else {
    at::addcdiv_out(to, *start, numerator, denominator, -rate / correction1);
  }
}

}  // namespace sluice
