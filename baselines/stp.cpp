// STP, synergistic tensor and pipeline parallelism (Qi et al., 2025, arXiv 2510.27257; the published code): tensor
// parallelism inside the stages, and an order made of pairs, so that the all-reduces of one op hide behind the products
// of the other ("braided" passes; on the virtual clock with tensor=t and a cluster's pairs=overlap). Stages r and 2p -
// 1 - r on rank r, a V. Backwards are divided into I and W where W can fill a gap later (w: the oldest that waits).
// Rank r of p runs, for m micro-batches (0 and 1: its two stages):
//
//   1  2(p - 1 - r) times           F0
//   2  r + 1                        F0 F1
//   3  r + 1 times F0               one alone where r + 1 is odd, then pairs (F0;F0)
//   4  p - 1 - r                    (F1;I1) (F0;w)
//   5  N = 2(m - 3p + 1) + 1 + 2r   (F1;B1) and (F0;B0) in turn; I in place of B in the last r of them
//   6  m - p - 1 - floor(N / 2)     B0 (F1;I1)
//   7  r + 1                        B0 B1
//   8  1 + 2(p - 1 - r)             B0 and w w in turn
//   9  2r                           w
//
// p = 2, m = 5, F = I = W; small letters are the second stage of a rank:
//
//   time 0
//   rank 0  F0-F1-F2-f0-F3-f1-i0+F4-w0+...f2-b1+---B0----f3-i2+B1----f4-i3+B2----b4-
//   rank 1  ...F0-f0-F1-f1-F2-F3+f2-b0+---F4-B0+---f3-i1+B1----f4-i2+B2----b3----B3-
//   time 24
//   rank 0  ---B3----w2-w3-B4----
//   rank 1  ---b4----B4----w1-w2-
//
// The released code asserts m >= 2p, but below m = 3p - 1 its list takes weight gradients that no input gradient has
// made, or leaves forwards out: such problems are rejected. Bubble (p - 1)(F + I - W) of a stage, a pair as long as its
// two ops; 3p + 1 half as long stages held on every rank (the paper's table: 3p). Its offloading to the host is not
// written.
#include <deque>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/pipeline/system.h"

namespace sluice {

namespace {

void require_enough(int ranks, int microbatches, const Options&) {
  const int least = 3 * ranks - 1;
  if (microbatches < least)
    throw InputError("stp", std::to_string(microbatches) + " micro-batches on " + std::to_string(ranks) + " ranks",
                     "use at least " + std::to_string(least) + ", or dualpipe with variant=v from " +
                         std::to_string(2 * ranks) + " on");
}

// One rank's list.
class RankOrder {
 public:
  RankOrder(int ranks, int rank) : stage_{rank, 2 * ranks - 1 - rank} {}

  std::vector<Op> build(int p, int r, int m) {
    const int behind = p - 1 - r, pairs = 2 * (m - 3 * p + 1) + 1 + 2 * r;
    for (int k = 0; k < 2 * behind; ++k) forward(0);
    for (int k = 0; k < r + 1; ++k) {
      forward(0);
      forward(1);
    }
    for (int k = 0; k < r + 1; ++k) {
      forward(0);
      ops_.back().overlapped = (r + 1 - k) % 2 == 0;
    }
    for (int k = 0; k < behind; ++k) {
      in_pair(1);
      input_gradient(1);
      in_pair(0);
      weight_gradient();
    }
    for (int k = 0; k < pairs; ++k) {
      const int half = k % 2 == 0 ? 1 : 0;
      in_pair(half);
      k < pairs - r ? backward(half) : input_gradient(half);
    }
    for (int k = 0; k < m - p - 1 - pairs / 2; ++k) {
      backward(0);
      in_pair(1);
      input_gradient(1);
    }
    for (int k = 0; k < r + 1; ++k) {
      backward(0);
      backward(1);
    }
    for (int k = 0; k < 1 + 2 * behind; ++k) {
      if (k % 2 == 0) {
        backward(0);
      } else {
        weight_gradient();
        weight_gradient();
      }
    }
    for (int k = 0; k < 2 * r; ++k) weight_gradient();
    return std::move(ops_);
  }

 private:
  void forward(int half) { ops_.push_back(forward_op(stage_[half], next_forward_[half]++)); }
  // A forward that is one with the op after it.
  void in_pair(int half) {
    forward(half);
    ops_.back().overlapped = true;
  }
  void backward(int half) { ops_.push_back(backward_op(stage_[half], next_backward_[half]++)); }
  void input_gradient(int half) {
    const int micro = next_backward_[half]++;
    ops_.push_back(input_gradient_op(stage_[half], micro));
    waiting_.push_back(weight_gradient_op(stage_[half], micro));
  }
  void weight_gradient() {
    ops_.push_back(waiting_.front());
    waiting_.pop_front();
  }

  int stage_[2], next_forward_[2] = {0, 0}, next_backward_[2] = {0, 0};
  std::deque<Op> waiting_;
  std::vector<Op> ops_;
};

Schedule stp_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < problem.ranks; ++r)
    schedule.ranks[r] = RankOrder(problem.ranks, r).build(problem.ranks, r, problem.microbatches);
  return schedule;
}

Theory stp_theory(const ScheduleProblem& problem, const Options&) {
  const int p = problem.ranks;
  Theory theory = flush_theory(p);
  theory.bubble_ratio = (p - 1.0) / (6.0 * problem.microbatches + p - 1);
  theory.in_flight.assign(p, 3 * p + 1);
  return theory;
}

}  // namespace

extern const System stp = {
    .name = "stp",
    .title = "STP",
    .citation = "Qi et al., Synergistic Tensor and Pipeline Parallelism, 2025 (arXiv 2510.27257)",
    .written_from = {WrittenFrom::code,
                     {{"minimum of micro-batches", WrittenFrom::ours}},
                     "At least 3p - 1 micro-batches are asked for: with fewer, the released order is incomplete, "
                     "although it asserts 2p."},
    .require = require_enough,
    .chunks = [](const Options&) { return 2; },
    .chunk_placement = ChunkPlacement::wave,
    .schedule = stp_schedule,
    .theory = stp_theory,
    .pairs = [](const Options&) { return true; },
};

}  // namespace sluice
