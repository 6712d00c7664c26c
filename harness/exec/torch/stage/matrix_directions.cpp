#include "harness/exec/torch/stage/matrix_directions.h"

#include <cmath>

namespace sluice {

at::Tensor newton_schulz(const at::Tensor& d, NewtonSchulzPrecision precision, int steps) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = d.size(0) > d.size(1);
  at::Tensor y = precision == NewtonSchulzPrecision::bfloat16 ? d.to(at::kBFloat16) : d;
  if (tall) y = y.t();
  y = y / at::clamp_min(at::linalg_vector_norm(y), 1e-7);
  for (int step = 0; step < steps; ++step) {
    const at::Tensor square = at::mm(y, y.t());
    const at::Tensor factor = at::addmm(square, square, square, b, c);
    y = at::addmm(y, factor, y, a);
  }
  if (tall) y = y.t();
  return y.to(d.scalar_type());
}

MatrixDirections::MatrixDirections(const OptimizerSpec& spec, std::vector<FlatParameter> parameters,
                                   const at::TensorOptions& options)
    : spec_(spec), parameters_(std::move(parameters)), bases_(parameters_.size()) {
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const FlatParameter& p = parameters_[k];
    const std::vector<std::int64_t> sizes =
        p.matrix() ? std::vector<std::int64_t>{p.rows, p.columns} : std::vector<std::int64_t>{p.rows};
    first_.push_back(at::zeros(sizes, options));
    const bool muon = spec.kind == OptimizerKind::muon;
    second_.push_back(p.matrix() && muon ? at::Tensor() : at::zeros(sizes, options));
    if (!p.matrix() || muon) continue;
    const bool both = spec.sides == RotationSides::both, left = both || p.rows < p.columns, right = both || !left;
    Basis& basis = bases_[k];
    if (left) basis.left = at::zeros({p.rows, p.rows}, options);
    if (right) basis.right = at::zeros({p.columns, p.columns}, options);
    if (spec.source == RotationSource::first) continue;
    if (left) basis.left_average = at::zeros_like(basis.left);
    if (right) basis.right_average = at::zeros_like(basis.right);
  }
}

std::vector<at::Tensor> MatrixDirections::state() const {
  std::vector<at::Tensor> tensors;
  const auto add = [&](const at::Tensor& t) {
    if (t.defined()) tensors.push_back(t);
  };
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    add(first_[k]), add(second_[k]);
    const Basis& basis = bases_[k];
    add(basis.left_average), add(basis.right_average), add(basis.left), add(basis.right);
  }
  return tensors;
}

void MatrixDirections::decay(at::Tensor& weights, double rate) const {
  if (spec_.weight_decay == 0) return;
  for (const FlatParameter& p : parameters_)
    weights.narrow(0, p.offset, p.size()).mul_(1 - rate * (p.matrix() ? 1 : spec_.other_rate) * spec_.weight_decay);
}

void MatrixDirections::write(at::Tensor& direction, const at::Tensor& gradient, std::int64_t t) {
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const FlatParameter& p = parameters_[k];
    at::Tensor d = direction.narrow(0, p.offset, p.size());
    const at::Tensor g = gradient.narrow(0, p.offset, p.size());
    if (!p.matrix()) {
      adamw(d, g, first_[k], second_[k], t);
      continue;
    }
    const at::Tensor matrix = g.view({p.rows, p.columns});
    d.view({p.rows, p.columns})
        .copy_(spec_.kind == OptimizerKind::muon ? muon(matrix, first_[k])
                                                 : rotated(matrix, first_[k], second_[k], bases_[k], t));
  }
}

void MatrixDirections::adamw(at::Tensor direction, const at::Tensor& gradient, at::Tensor first, at::Tensor second,
                             std::int64_t t) const {
  first.mul_(spec_.beta1).add_(gradient, 1 - spec_.beta1);
  second.mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
  const double correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(t));
  const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(t));
  const at::Tensor denominator = at::sqrt(second).div_(std::sqrt(correction2)).add_(spec_.epsilon);
  at::div_out(direction, first, denominator).mul_(spec_.other_rate / correction1);
}

static double muon_scale(MuonScale scale, double rows, double columns) {
  switch (scale) {
    case MuonScale::original:
      return std::sqrt(std::max(1.0, rows / columns));
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonScale::spectral:
      return std::sqrt(rows / columns);
  }
  return 1;
}

at::Tensor MatrixDirections::muon(const at::Tensor& gradient, at::Tensor& first) const {
  const double mu = spec_.momentum;
  first.mul_(mu).add_(gradient, 1 - mu);
  const at::Tensor d = spec_.nesterov ? first.mul(mu).add_(gradient, 1 - mu) : first;
  return newton_schulz(d, spec_.newton_schulz)
      .mul_(muon_scale(spec_.scale, static_cast<double>(d.size(0)), static_cast<double>(d.size(1))));
}

namespace {

// A product with a basis, or with the transposed one; an undefined basis is the identity.
at::Tensor left_product(const at::Tensor& basis, const at::Tensor& m, bool transposed) {
  return basis.defined() ? at::mm(transposed ? basis.t() : basis, m) : m;
}
at::Tensor right_product(const at::Tensor& m, const at::Tensor& basis, bool transposed) {
  return basis.defined() ? at::mm(m, transposed ? basis.t() : basis) : m;
}

at::Tensor descending(const at::Tensor& values) { return at::argsort(values, /*stable=*/true, 0, /*descending=*/true); }

at::Tensor orthonormal(const at::Tensor& m) { return std::get<0>(at::linalg_qr(m, "complete")); }

at::Tensor eigenvectors(const at::Tensor& symmetric) {  // the largest eigenvalue's first
  return std::get<1>(at::linalg_eigh(symmetric)).flip({1}).contiguous();
}

// One step of power iteration. What was the i-th vector of the basis becomes the one of order[i].
at::Tensor improved(const at::Tensor& average, const at::Tensor& basis, at::Tensor& order) {
  order = descending(at::sum(basis * at::mm(average, basis), 0));
  return orthonormal(at::mm(average, basis.index_select(1, order)));
}

}  // namespace

void MatrixDirections::refresh(const at::Tensor& first, at::Tensor& second, Basis& basis, bool begin) const {
  const bool left = basis.left.defined(), right = basis.right.defined();
  if (spec_.source == RotationSource::second) {
    at::Tensor order;
    if (begin) {
      if (left) basis.left.copy_(eigenvectors(basis.left_average));
      if (right) basis.right.copy_(eigenvectors(basis.right_average));
      return;
    }
    if (left) {
      basis.left.copy_(improved(basis.left_average, basis.left, order));
      second.copy_(second.index_select(0, order));
    }
    if (right) {
      basis.right.copy_(improved(basis.right_average, basis.right, order));
      second.copy_(second.index_select(1, order));
    }
    return;
  }
  if (begin) {
    const auto [u, s, vt] = at::linalg_svd(first, /*full_matrices=*/true);
    if (left) basis.left.copy_(u);
    if (right) basis.right.copy_(vt.t());
    return;
  }
  // Both from the bases before.
  const at::Tensor over_right = right_product(first, basis.right, false);
  const at::Tensor over_left = basis.left.defined() ? at::mm(first.t(), basis.left) : first.t();
  if (left) {
    const at::Tensor order = descending(over_right.square().sum(0));
    basis.left.copy_(orthonormal(over_right.index_select(1, order)));
    second.copy_(second.index_select(1, order));
  }
  if (right) {
    const at::Tensor order = descending(over_left.square().sum(0));
    basis.right.copy_(orthonormal(over_left.index_select(1, order)));
    second.copy_(second.index_select(0, order));
  }
}

at::Tensor MatrixDirections::rotated(const at::Tensor& gradient, at::Tensor& first, at::Tensor& second, Basis& basis,
                                     std::int64_t t) const {
  if (basis.left_average.defined())
    basis.left_average.mul_(spec_.beta2).add_(at::mm(gradient, gradient.t()), 1 - spec_.beta2);
  if (basis.right_average.defined())
    basis.right_average.mul_(spec_.beta2).add_(at::mm(gradient.t(), gradient), 1 - spec_.beta2);
  first.mul_(spec_.beta1).add_(gradient, 1 - spec_.beta1);
  // The authors' program asks whether the left basis is there, which it never is where only the right side is rotated.
  const bool at_every_update = spec_.refresh_as_released && !basis.left.defined();
  if (t == 1 || at_every_update || t % spec_.refresh_every == 0) refresh(first, second, basis, t == 1);
  const at::Tensor g = right_product(left_product(basis.left, gradient, true), basis.right, false);
  const at::Tensor m = right_product(left_product(basis.left, first, true), basis.right, false);
  second.mul_(spec_.beta2).addcmul_(g, g, 1 - spec_.beta2);
  const double correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(t));
  const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(t));
  const at::Tensor step = m / at::sqrt(second).add_(spec_.epsilon);
  return right_product(left_product(basis.left, step, false), basis.right, true)
      .mul(std::sqrt(correction2) / correction1);
}

}  // namespace sluice
