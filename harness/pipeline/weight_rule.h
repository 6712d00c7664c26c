// WeightRule: which weights each F, B, I reads, and when a stage's optimizer steps.
//
// A version is the number of the stage's own updates that it contains (0 = initial). Rules are static: the order of a
// rank's ops fixes the number of updates before each of them, for any times. So lowering writes the versions into every
// instruction, and neither clock has to compute them.
//
// Prediction: instead of version v, an op may read v - s * lr * Delta, where Delta is the optimizer's last step per
// unit of learning rate and s, the prediction horizon, is a number of updates. A prediction starts from the newest
// version at that moment and is a separate tensor while it is used.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// PipeMare (Yang et al., MLSys 2021): corrects stale gradients by the delay of their stage. T1: stage k's rate is lr /
// delay^p, p = 1 - min(update / anneal_updates, 1). T2: a moving average of W_new - W_old, whose decay is
// moving_average_decay^(1 / delay), is the direction of the backward's prediction (Delta::weight_moving_average).
struct PipeMareCorrections {
  std::vector<double> delay = {};                    // per stage, updates; empty: no corrections
  int anneal_updates = 0;                            // 0: T1 off
  double moving_average_decay = 0.1353352832366127;  // e^-2
};

// Ajanthan et al. (ICML 2025), as released: changes of the optimizer's constants per stage. With d the updates between
// a batch's forward and its own update, stage k's rate is lr / d^(1 - min((1 + i) / discount_updates, 1)). i counts the
// stage's updates from 0 over all runs, without the last d updates of a run that ends with an empty pipe.
struct StageCorrections {
  std::vector<int> delay = {};          // d per stage; empty: no discount of the rate
  int discount_updates = 0;             // 0: no discount
  std::vector<double> beta1_rise = {};  // per stage r: beta1 is b + r (0.99 - b), b the optimizer's; empty: b
};

struct WeightRule {
  enum class Update {
    flush,           // once, after the last backward of the schedule (synchronous systems)
    every_backward,  // after each `accumulate` backwards of the stage
  };
  enum class Forward {
    newest,
    vertical_sync,  // PipeDream's vertical sync: the version of stage 0 when the batch entered
    previous,       // double buffering (2BW): update b's micro-batches read version max(b - 1, 0)
  };
  enum class Backward {
    same_as_forward,  // weight stashing: the forward's tensor, predicted or not
    newest,           // the newest (naive 1F1B), or predicted from it
    ring,             // PipeDream's released code: stashes by position in a ring that a drained pipe does not refresh,
                      // so the first batches of a later epoch read versions of the epoch before
  };
  // The direction of predictions, from the optimizer's state after its last update; zero before the first.
  enum class Delta {
    state,                  // the last update / the learning rate: the buffer v of SGD with momentum, mhat /
                            // (sqrt(vhat) + eps) of Adam
    state_plus_gradient,    // the released codes' forward: momentum * buffer + last gradient
    momentum_only,          // SpecTrain's released code's backward: momentum * buffer
    first_moment,           // SpecTrain's smoothed gradient: the buffer v of SGD with momentum, m of Adam
    weight_moving_average,  // PipeMare's T2: mean of W_new - W_old; not multiplied by the rate
    update_moving_average,  // LayerPipe2: mean of (W_old - W_new) / rate; for plain SGD that of the gradient
  };
  // Which weights recompute the stage's activations in a backward, if F keeps the stage's input only.
  enum class Recompute { none, forward_weights, newest };

  Update update = Update::flush;
  Forward forward = Forward::newest;
  Backward backward = Backward::same_as_forward;
  int accumulate = 1;  // micro-batches per update
  Recompute recompute = Recompute::none;
  std::vector<bool> recomputing = {};  // which stages recompute; empty: all
  bool recomputes(std::size_t stage) const {
    return recompute != Recompute::none && (recomputing.empty() || recomputing[stage]);
  }
  // A forward followed directly by its backward, the rank's next op, keeps its activations.
  bool keep_if_next = false;
  // The last micro-batch of a rank's forwards of a stage keeps its activations (torchgpipe).
  bool keep_last = false;

  // Prediction horizons s per stage, in updates; empty: no prediction. Negative: towards older weights.
  std::vector<int> forward_horizon, backward_horizon;
  Delta forward_delta = Delta::state, backward_delta = Delta::state;
  // Number of micro-batches that share one forward prediction, which the first of them makes.
  int microbatches_per_prediction = 1;
  // Per stage, updates between a batch's forward and its own update in steady state. If given, s is reduced by the
  // difference while the pipe fills and the true lag is shorter.
  std::vector<int> clip_to_lag;
  // Error feedback at updates (Zmushko et al., 2026): the weights change by -(2 u - v), where u is what the optimizer
  // subtracts now and v what it subtracted in the previous update. In the first update v = 0 (double_first) or v = u.
  enum class ErrorFeedback { none, double_first, plain_first };
  ErrorFeedback error_feedback = ErrorFeedback::none;
  bool decay_in_feedback = true;    // decoupled weight decay is part of u; false: it is applied once, separately
  bool decay_in_delta = false;      // AdamW: predictions contain the decoupled weight decay
  bool momentum_sgd_only = false;   // reject other optimizers: the paper has no rule for them
  bool nesterov_adam_only = false;  // likewise
  PipeMareCorrections pipemare = {};
  StageCorrections corrections = {};
  // Delta::update_moving_average: per stage, avg = decay avg + (1 - decay) (W_old - W_new) / rate at every update.
  std::vector<double> update_average_decay = {};
  // For stages whose W run on another rank (Placement::weight_gradient_ranks), with updates after every backward: a
  // stage steps before its first op that follows this many I beyond those of the update.
  int weight_gradient_delay = 0;

  bool synchronous() const { return update == Update::flush; }
  bool predicts() const { return !forward_horizon.empty() || !backward_horizon.empty(); }
};

}  // namespace sluice
