#include "harness/exec/torch/stage/optimizer.h"

#include <cmath>

namespace sluice {

using Delta = WeightRule::Delta;

Optimizer::Optimizer(const OptimizerSpec& spec, std::int64_t elements, const at::TensorOptions& options,
                     const std::vector<FlatParameter>& parameters)
    : spec_(spec), options_(options), elements_(elements) {
  using Kind = OptimizerSpec::Kind;
  if (spec.treats_matrices()) {
    directions_.emplace(spec, parameters, options);
    return;
  }
  const bool is_sgd = spec.kind == Kind::sgd;
  if (is_sgd ? has_momentum() : spec.kind != Kind::rmsprop) first_ = at::zeros({elements}, options);
  if (!is_sgd) second_ = at::zeros({elements}, options);
}

bool Optimizer::decays_apart() const {
  using Kind = OptimizerSpec::Kind;
  return spec_.weight_decay != 0 &&
         (spec_.kind == Kind::adamw || spec_.kind == Kind::nadamw || spec_.treats_matrices());
}

void Optimizer::decay(at::Tensor& weights, double learning_rate) const {
  if (directions_)
    directions_->decay(weights, learning_rate);
  else if (decays_apart())
    weights.mul_(1 - learning_rate * spec_.weight_decay);
}

double Optimizer::momentum_of(std::int64_t t) const {
  return spec_.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * spec_.momentum_decay));
}

void Optimizer::set_steps(std::int64_t steps) {
  steps_ = steps;
  momentum_product_ = 1;
  // The product is 0 in double precision long before a million updates.
  for (std::int64_t t = 1; t <= steps && momentum_product_ > 0; ++t) momentum_product_ *= momentum_of(t);
}

Delta Optimizer::effective(Delta kind) const { return has_momentum() ? kind : Delta::state; }

void Optimizer::track(Delta kind, bool decay_in_delta) {
  decay_in_delta_ = decay_in_delta;
  if (kind == Delta::first_moment) return;
  kind = effective(kind);
  if (kind == Delta::state && has_momentum() && !spec_.nesterov) return;  // first_ is it
  if (!kept(kind).defined()) kept(kind) = at::zeros({elements_}, options_);
}

const at::Tensor& Optimizer::delta(Delta kind) const {
  if (kind == Delta::first_moment) return first_;
  const at::Tensor& own = deltas_[static_cast<std::size_t>(effective(kind))];
  return own.defined() ? own : first_;
}

std::vector<at::Tensor> Optimizer::state() const {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor* t : {&first_, &second_, &deltas_[0], &deltas_[1], &deltas_[2]})
    if (t->defined()) tensors.push_back(*t);
  if (directions_)
    for (const at::Tensor& t : directions_->state()) tensors.push_back(t);
  return tensors;
}

void Optimizer::step(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double learning_rate) {
  ++steps_;
  if (spec_.kind == OptimizerSpec::Kind::sgd) {
    sgd(to, from, gradient, learning_rate);
  } else if (directions_) {
    by_matrix(to, from, gradient, learning_rate);
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

// Adam, AdamW, NAdam, RMSprop: a direction numerator / denominator.
void Optimizer::adaptive(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate) {
  using Kind = OptimizerSpec::Kind;
  const bool decoupled = decays_apart();
  at::Tensor g = gradient;
  if (spec_.weight_decay != 0 && !decoupled) g = at::add(gradient, from, spec_.weight_decay);
  at::Tensor numerator = g, denominator;
  double correction1 = 1;
  if (spec_.kind == Kind::rmsprop) {
    second_.mul_(spec_.alpha).addcmul_(g, g, 1 - spec_.alpha);
    denominator = at::sqrt(second_).add_(spec_.epsilon);
  } else {
    first_.mul_(spec_.beta1).add_(g, 1 - spec_.beta1);
    second_.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
    const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(steps_));
    denominator = at::sqrt(second_).div_(std::sqrt(correction2)).add_(spec_.epsilon);
    if (spec_.kind == Kind::nadam || spec_.kind == Kind::nadamw) {
      const double now = momentum_of(steps_), next = momentum_of(steps_ + 1);
      momentum_product_ *= now;
      numerator = at::mul(first_, next / (1 - momentum_product_ * next)).add_(g, (1 - now) / (1 - momentum_product_));
    } else {
      correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(steps_));
      numerator = first_;
    }
  }
  const at::Tensor* start = &from;
  at::Tensor decayed;
  if (decoupled) {
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

// Muon, rotated Adam.
void Optimizer::by_matrix(at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, double rate) {
  at::Tensor& tracked = kept(Delta::state);
  at::Tensor direction = tracked.defined() ? tracked : at::empty_like(gradient);
  MatrixDirections& directions = directions_.value();
  directions.write(direction, gradient, steps_);
  const at::Tensor before = decay_in_delta_ && tracked.defined() ? from.clone() : at::Tensor();
  if (!to.is_same(from)) to.copy_(from);
  directions.decay(to, rate);
  to.sub_(direction, rate);
  // What was subtracted over the rate, with the decay.
  if (before.defined()) at::sub_out(tracked, before, to).div_(rate);
}

}  // namespace sluice
