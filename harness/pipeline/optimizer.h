// OptimizerSpec: the optimizer of a training with its constants, and the additional state of weight prediction. The
// executor runs it (harness/exec/torch/stage/optimizer.h); planners and the virtual clock count its memory.
#pragma once

#include "harness/base/choice.h"
#include "harness/base/ids.h"
#include "harness/model/model.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

class Json;

enum class OptimizerKind { sgd, adam, adamw, rmsprop, nadam, nadamw, muon, rotated_adam };

// Which weight matrices muon and rotated_adam treat as matrices; all other parameters get AdamW. Embeddings, biases,
// normalisations and convolutions are never included. hidden: also without the matrices of the model's first and last
// layers that have parameters.
enum class MatrixParameters { hidden, all };

// muon: the factor of the orthogonal direction of a matrix of r rows and c columns.
enum class MuonScale {
  original,         // sqrt(max(1, r / c))
  match_rms_adamw,  // 0.2 sqrt(max(r, c))
  spectral,         // sqrt(r / c)
};

// muon: the number format of the Newton-Schulz iteration: that of the training, or bfloat16 (as PyTorch's Muon).
enum class NewtonSchulzPrecision { training, bfloat16 };

// rotated_adam: which sides of a matrix are rotated, and the source of the rotation: the eigenvectors of moving
// averages of G G^T and G^T G (second), or the singular vectors of the first moment (first).
enum class RotationSides { both, smaller };
enum class RotationSource { second, first };

template <>
struct Choices<OptimizerKind> {
  static constexpr Choice<OptimizerKind> all[] = {
      {OptimizerKind::sgd, "sgd"},     {OptimizerKind::adam, "adam"},
      {OptimizerKind::adamw, "adamw"}, {OptimizerKind::rmsprop, "rmsprop"},
      {OptimizerKind::nadam, "nadam"}, {OptimizerKind::nadamw, "nadamw"},
      {OptimizerKind::muon, "muon"},   {OptimizerKind::rotated_adam, "rotated_adam"}};
};
template <>
struct Choices<MatrixParameters> {
  static constexpr Choice<MatrixParameters> all[] = {{MatrixParameters::hidden, "hidden"},
                                                     {MatrixParameters::all, "all"}};
};
template <>
struct Choices<MuonScale> {
  static constexpr Choice<MuonScale> all[] = {{MuonScale::original, "original"},
                                              {MuonScale::match_rms_adamw, "match_rms_adamw"},
                                              {MuonScale::spectral, "spectral"}};
};
template <>
struct Choices<NewtonSchulzPrecision> {
  static constexpr Choice<NewtonSchulzPrecision> all[] = {{NewtonSchulzPrecision::training, "training"},
                                                          {NewtonSchulzPrecision::bfloat16, "bfloat16"}};
};
template <>
struct Choices<RotationSides> {
  static constexpr Choice<RotationSides> all[] = {{RotationSides::both, "both"}, {RotationSides::smaller, "smaller"}};
};
template <>
struct Choices<RotationSource> {
  static constexpr Choice<RotationSource> all[] = {{RotationSource::second, "second"},
                                                   {RotationSource::first, "first"}};
};

struct OptimizerSpec {
  using Kind = OptimizerKind;
  Kind kind = Kind::sgd;
  double learning_rate = 0.1;
  double momentum = 0;        // sgd: v = mu v + (1 - dampening) g, the first v = g
  double dampening = 0;       // sgd
  bool nesterov = false;      // sgd: steps by g + mu v
  bool momentum_ema = false;  // sgd: v = mu v + (1 - mu) g from the first step on (SpecTrain's form)
  double weight_decay = 0;    // sgd, adam, rmsprop: added to the gradient; adamw: decoupled
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double alpha = 0.99;            // rmsprop
  double momentum_decay = 0.004;  // nadam, nadamw: psi of beta1 (1 - 0.5 * 0.96^(t psi))
  // muon (also momentum, nesterov) and rotated_adam (also beta1, beta2, epsilon); weight_decay is decoupled.
  MatrixParameters matrices = MatrixParameters::hidden;
  double other_rate = 1;  // rate of the parameters that get AdamW / rate of the matrices
  MuonScale scale = MuonScale::original;
  NewtonSchulzPrecision newton_schulz = NewtonSchulzPrecision::training;
  int refresh_every = 10;  // rotated_adam: updates
  RotationSides sides = RotationSides::both;
  RotationSource source = RotationSource::second;
  // rotated_adam, one side: as the authors' program, which refreshes at every update if that side is the right one.
  bool refresh_as_released = false;

  // Limit of the norm over the gradients of the whole model: if it is larger, all are multiplied by clip_norm / (norm +
  // 1e-6), as by torch.nn.utils.clip_grad_norm_. 0: none. The setting clip_norm of a case.
  double clip_norm = 0;

  // Whether some parameters are treated as matrices: their state is then not a flat tensor that can be cut anywhere.
  bool treats_matrices() const { return kind == OptimizerKind::muon || kind == OptimizerKind::rotated_adam; }
  // Number of state tensors with the size of the weights. For optimizers that treat matrices it depends on their shapes
  // (state_elements); this is the number for a square matrix.
  int state_tensors() const;
};

// Whether the optimizer treats this parameter of a layer of the model as a matrix.
bool is_matrix(const OptimizerSpec& optimizer, const ModelGraph& model, int layer, const ParameterSpec& parameter);

// The optimizer's state of a layer, in elements.
std::int64_t state_elements(const OptimizerSpec& optimizer, const ModelGraph& model, int layer);

// An optimizer with its rate. Members that few optimizers have are written only if they differ from the default, so
// that the digests of older records stay the same.
Json to_json(const OptimizerSpec& optimizer);

// Its form in JSON: see harness/base/json_fields.h.
template <class V>
void fields(V& v, OptimizerSpec& o) {
  const OptimizerSpec usual;
  const bool muon = o.kind == OptimizerKind::muon, rotated = o.kind == OptimizerKind::rotated_adam;
  v("kind", o.kind);
  v("learning_rate", o.learning_rate);
  v("momentum", o.momentum);
  v("weight_decay", o.weight_decay);
  v.where(o.beta1 != usual.beta1, "beta1", o.beta1);
  v.where(o.beta2 != usual.beta2, "beta2", o.beta2);
  v.where(o.epsilon != usual.epsilon, "epsilon", o.epsilon);
  v.where(muon || rotated, "matrices", o.matrices);
  v.where(muon || rotated, "other_rate", o.other_rate);
  v.where(muon || o.nesterov, "nesterov", o.nesterov);
  v.where(muon, "scale", o.scale);
  v.where(muon, "newton_schulz", o.newton_schulz);
  v.where(rotated, "refresh_every", o.refresh_every, {"Updates.", 1, 1e9});
  v.where(rotated, "sides", o.sides);
  v.where(rotated, "source", o.source);
  v.where(rotated && o.refresh_as_released, "refresh_as_released", o.refresh_as_released);
  v.where(!muon && o.momentum_ema, "momentum_ema", o.momentum_ema);
  v.where(!muon && o.dampening != 0, "dampening", o.dampening);
}

// Number of additional tensors with a stage's size for weight prediction: the direction of the last step, unless it is
// the optimizer's momentum buffer (so that a forward's prediction is one fused pass), and PipeMare's moving average.
int delta_tensors(const OptimizerSpec& optimizer, const WeightRule& rule, StageId stage);

// Whether the rule predicts weights of this stage, for forwards or for backwards, in the given direction.
bool uses_delta(const WeightRule& rule, StageId stage, WeightRule::Delta delta);

}  // namespace sluice
