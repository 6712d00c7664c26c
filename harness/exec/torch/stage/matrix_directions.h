// MatrixDirections: the steps of Muon and Adam in a rotated basis, optimizers that treat a weight matrix as a matrix
// and give every other parameter AdamW. With a matrix G of gradients, r rows and c columns, t = 1, 2, ... updates:
//
//   muon          M = mu M + (1 - mu) G;   D = mu M + (1 - mu) G (Nesterov), else M
//                 direction  s NS(D): five steps of the Newton-Schulz iteration towards the nearest orthogonal matrix,
//                 s from MuonScale
//   rotated_adam  L = b2 L + (1 - b2) G G^T;   R = b2 R + (1 - b2) G^T G          (source: second)
//                 every `refresh_every` updates: U, V from L, R by one step of power iteration and a QR decomposition;
//                 at the first update their eigenvectors
//                 M = b1 M + (1 - b1) G;   S = b2 S + (1 - b2) (U^T G V)^2
//                 direction  sqrt(1 - b2^t) / (1 - b1^t) U [U^T M V / (sqrt(S) + epsilon)] V^T
//
// Sources: Muon as in PyTorch's torch.optim; rotated_adam as in the program of Jung, Shin and Lee (arXiv 2602.03515).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "harness/pipeline/optimizer.h"

namespace sluice {

// A parameter's place in a stage's flat tensors.
struct FlatParameter {
  std::int64_t offset = 0, rows = 0, columns = 0;  // for a parameter that is not a matrix, rows is its size, columns 0
  bool matrix() const { return columns > 0; }
  std::int64_t size() const { return matrix() ? rows * columns : rows; }
};

// Five steps (or `steps`) of Y = a Y + (b Y Y^T + c (Y Y^T)^2) Y from D / max(|D|, 1e-7), with Muon's coefficients.
at::Tensor newton_schulz(const at::Tensor& d, NewtonSchulzPrecision precision, int steps = 5);

class MatrixDirections {
 public:
  // spec.treats_matrices(). parameters: every one of the stage.
  MatrixDirections(const OptimizerSpec& spec, std::vector<FlatParameter> parameters, const at::TensorOptions& options);

  // Update t (from 1): writes what the step subtracts per unit of the matrices' rate, without decay. Both are flat.
  void write(at::Tensor& direction, const at::Tensor& gradient, std::int64_t t);
  // The decoupled weight decay of a step at this rate of the matrices, in place.
  void decay(at::Tensor& weights, double rate) const;

  std::vector<at::Tensor> state() const;  // what a checkpoint must hold

 private:
  struct Basis {  // of one matrix; an undefined tensor is the identity
    at::Tensor left_average, right_average, left, right;
  };
  void adamw(at::Tensor direction, const at::Tensor& gradient, at::Tensor first, at::Tensor second,
             std::int64_t t) const;
  at::Tensor muon(const at::Tensor& gradient, at::Tensor& first) const;
  at::Tensor rotated(const at::Tensor& gradient, at::Tensor& first, at::Tensor& second, Basis& basis,
                     std::int64_t t) const;
  void refresh(const at::Tensor& first, at::Tensor& second, Basis& basis, bool begin) const;

  OptimizerSpec spec_;
  std::vector<FlatParameter> parameters_;
  std::vector<at::Tensor> first_, second_;  // per parameter; Muon's matrices have no second moment
  std::vector<Basis> bases_;                // per parameter
};

}  // namespace sluice
