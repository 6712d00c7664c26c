// OptimizerSpec: which optimizer trains a model and with which constants, and what weight prediction keeps besides its
// state. The executor carries it out (harness/exec/torch/stage/optimizer.h); planners and the virtual clock count its
// memory.
#pragma once

#include "harness/base/ids.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

enum class OptimizerKind { sgd, adam, adamw, rmsprop };

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
  double alpha = 0.99;  // rmsprop

  // How many state tensors of the size of the weights the optimizer keeps.
  int state_tensors() const;
};

// How many tensors of a stage's size weight prediction keeps besides: the direction of the last step where that is not
// the optimizer's momentum buffer (so that a forward's prediction is one fused pass), and PipeMare's moving average.
int delta_tensors(const OptimizerSpec& optimizer, const WeightRule& rule, StageId stage);

// Whether the rule predicts weights of this stage, for forwards or for backwards, in the given direction.
bool uses_delta(const WeightRule& rule, StageId stage, WeightRule::Delta delta);

}  // namespace sluice
