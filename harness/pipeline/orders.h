// Orders that several systems share, and the pattern of 1F1B that more are made of.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

enum class BackwardOrder { fifo, lifo };

namespace orders {

// GPipe's order: every rank runs all micro-batches forward through its first stage, then all through its next one, and
// so on; then backward from its last stage to its first, the first micro-batch first (fifo) or last (lifo). For stages
// on one rank each.
Schedule fill_drain(const ScheduleProblem& problem, BackwardOrder backward);
OpRule fill_drain_rule(int microbatches, BackwardOrder backward);

// 1F1B: stage s of p runs min(p - 1 - s, m) forwards to warm up, then one forward and one backward in turn, then the
// backwards that are left. With `backward` input_gradient, the weight gradients are the caller's to add. For one stage
// a rank.
Schedule one_f_one_b(const ScheduleProblem& problem, OpKind backward = OpKind::backward);
OpRule one_f_one_b_rule(int stages, int microbatches, OpKind backward = OpKind::backward);

// A micro-batch forward through all stages and back again before the next one begins, on the rank that has its replica
// of each stage.
Schedule one_micro_batch_at_a_time(const ScheduleProblem& problem);

// The ops of every stage on its replicas' ranks, one stage after another where a rank holds several.
Schedule on_ranks(const StageOrders& orders, const Placement& placement, int ranks, int microbatches);

// What a rank does at one place of its order: its `number`-th op of a kind, from 0.
struct Turn {
  OpKind kind;
  std::int64_t number;
};

// The pattern of 1F1B on one rank, of op k: `warm_up` forwards, then one forward and one backward in turn, `count` of
// each in all.
Turn one_forward_one_backward(std::int64_t k, std::int64_t count, std::int64_t warm_up);
// The same of divided backwards, F and I in turn: from I number `delay` on, one W follows each, the oldest first.
Turn one_forward_one_backward_split(std::int64_t k, std::int64_t count, std::int64_t warm_up, std::int64_t delay);

// The ops of a rule on every rank.
Schedule by_rule(const ScheduleProblem& problem, const OpRule& rule);

// The pattern of 1F1B, op after op: forward(k) and backward(k) add the rank's k-th.
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
