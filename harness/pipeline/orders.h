// Orders that several systems share, and the 1F1B pattern, from which many others are built.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

enum class BackwardOrder { fifo, lifo };

namespace orders {

// GPipe's order: every rank runs the forwards of all micro-batches through its first stage, then through its next one,
// and so on. Then it runs the backwards from its last stage to its first, the first micro-batch first (fifo) or last
// (lifo). For stages on one rank each.
Schedule fill_drain(const ScheduleProblem& problem, BackwardOrder backward);
OpRule fill_drain_rule(int microbatches, BackwardOrder backward);

// 1F1B: stage s of p runs min(p - 1 - s, m) forwards to warm up, then one forward and one backward in turn, then the
// remaining backwards. If `backward` is input_gradient, the caller adds the weight gradients. For one stage per rank.
Schedule one_f_one_b(const ScheduleProblem& problem, OpKind backward = OpKind::backward);
OpRule one_f_one_b_rule(int stages, int microbatches, OpKind backward = OpKind::backward);

// A micro-batch runs forward through all stages and back before the next one begins, on the rank that has its replica
// of each stage.
Schedule one_micro_batch_at_a_time(const ScheduleProblem& problem);

// The ops of every stage on its replicas' ranks; if a rank holds several stages, one stage after another.
Schedule on_ranks(const StageOrders& orders, const Placement& placement, int ranks, int microbatches);

// The op of a rank at one place of its order: the `number`-th of its kind, from 0.
struct Turn {
  OpKind kind;
  std::int64_t number;
};

// Op k of the 1F1B pattern on one rank: `warm_up` forwards, then one forward and one backward in turn, `count` of each
// in total.
Turn one_forward_one_backward(std::int64_t k, std::int64_t count, std::int64_t warm_up);
// The same with split backwards, F and I in turn: from I number `delay` on, one W follows each, the oldest first.
Turn one_forward_one_backward_split(std::int64_t k, std::int64_t count, std::int64_t warm_up, std::int64_t delay);

// The ops of a rule on every rank.
Schedule by_rule(const ScheduleProblem& problem, const OpRule& rule);

// The 1F1B pattern, op by op: forward(k) and backward(k) add the rank's k-th.
template <class Forward, class Backward>
void one_forward_one_backward(int count, int warm_up, Forward forward, Backward backward) {
  for (int k = 0; k < warm_up; ++k) forward(k);
  for (int k = 0; k < count; ++k) {
    if (warm_up + k < count) forward(warm_up + k);
    backward(k);
  }
}

}  // namespace orders
}  // namespace sluice
