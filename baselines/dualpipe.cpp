// DualPipe and DualPipeV (DeepSeek, 2024-25; the published code of DeepSeek-V3's training, arXiv 2412.19437, section
// 3.2.1). A forward and a backward of different micro-batches run as one overlapped step, so that the communication of
// each hides behind the computation of the other.
//
// variant=bidirectional: stage s on rank s for the first half of the micro-batches and on rank p - 1 - s for the
//   second; every rank holds two stages, twice the weights. Even p and m, m >= 2 p. A rank and its mirror image run the
//   same with the two directions exchanged.
// variant=v (DualPipeV): stages r and 2p - 1 - r on rank r, one replica of each; m >= 2 p.
//
// With h = p / 2 ranks on each side (v: h = p), r the rank's distance from the end where direction 0 enters, n
// micro-batches in each direction, a rank runs eight phases (0 and 1: the directions; w: the oldest weight gradient
// that waits):
//
//   1  2(h - 1 - r) times      F0
//   2  r + 1                   F0 F1
//   3  h - 1 - r               I1 w F1
//   4  n - 2h + r + 1          (F0;B1) (F1;B0)     the first pair apart on the middle rank
//   5  h - 1 - r               B1 (F1;B0)
//   6  r + 1                   B1 B0, from the middle on I1 I0
//   7  h - 1 - r               w I0
//   8  r + 1                   w
//
// variant=v, p = 2, m = 5, F = I = W; small letters are the second stage of a rank:
//
//   rank 0  F0F1F2f0i0w0f1F3b1--..f2B0--F4b2--f3B1--b3--..f4B2--b4--I3W3I4W4
//   rank 1  ..F0f0F1f1F2b0--f2B0--F3b1--f3B1--F4b2--f4B2--b3--B3--..i4I4w4W4
//
// Bubble (h - 1)(F&B + B - 3 W), F&B being a pair that takes F + B: confirmed at F = I = W; at other times a pair that
// waits as one shifts the critical path. Makespan at F = I = W and any F&B: 3 h F + (2n - h - 2) F&B + (2h - 1) I + W
// + 2 B. p + 1 activations on every rank (v: 2 p + 1 of the half as long stages).
#include <algorithm>
#include <deque>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

enum class Variant { bidirectional, v };

const ChoiceOption<Variant> variant_option(
    "variant", "bidirectional (two copies of every stage) or v (DualPipeV: two stages a rank)",
    {{"bidirectional", Variant::bidirectional}, {"v", Variant::v}});

void require_enough(int ranks, int microbatches, const Options& options) {
  if (variant_option(options) == Variant::bidirectional && (ranks % 2 != 0 || microbatches % 2 != 0))
    throw InputError(
        "dualpipe",
        std::to_string(ranks) + " ranks and " + std::to_string(microbatches) + " micro-batches for two directions",
        "use even numbers, or set variant=v");
  if (microbatches < 2 * ranks)
    throw InputError("dualpipe", std::to_string(microbatches) + " micro-batches on " + std::to_string(ranks) + " ranks",
                     "use at least " + std::to_string(2 * ranks) + ", or zero_bubble with variant=v");
}

// One rank's list. stage0, first0: its stage and first micro-batch in direction 0.
class RankOrder {
 public:
  RankOrder(int stage0, int stage1, int first0, int first1)
      : stage_{stage0, stage1}, next_forward_{first0, first1}, next_backward_{first0, first1} {}

  std::vector<Op> build(int h, int r, int n) {
    for (int k = 0; k < 2 * (h - 1 - r); ++k) forward(0);
    for (int k = 0; k < r + 1; ++k) {
      forward(0);
      forward(1);
    }
    for (int k = 0; k < h - 1 - r; ++k) {
      input_gradient(1);
      weight_gradient();
      forward(1);
    }
    for (int k = 0; k < n - 2 * h + r + 1; ++k) {
      const bool apart = k == 0 && r == h - 1;  // the middle rank has nothing to hide there
      forward(0);
      ops_.back().overlapped = !apart;
      backward(1);
      pair(1, 0);
    }
    for (int k = 0; k < h - 1 - r; ++k) {
      backward(1);
      pair(1, 0);
    }
    bool split = false;
    for (int k = 0; k < r + 1; ++k) {
      if (k == (r + 1) / 2 && r % 2 == 1) split = true;
      split ? input_gradient(1) : backward(1);
      if (k == (r + 1) / 2 && r % 2 == 0) split = true;
      split ? input_gradient(0) : backward(0);
    }
    for (int k = 0; k < h - 1 - r; ++k) {
      weight_gradient();
      input_gradient(0);
    }
    for (int k = 0; k < r + 1; ++k) weight_gradient();
    return std::move(ops_);
  }

 private:
  void forward(int direction) { ops_.push_back(forward_op(stage_[direction], next_forward_[direction]++)); }
  void backward(int direction) { ops_.push_back(backward_op(stage_[direction], next_backward_[direction]++)); }
  void pair(int forward_direction, int backward_direction) {
    forward(forward_direction);
    ops_.back().overlapped = true;
    backward(backward_direction);
  }
  void input_gradient(int direction) {
    const int micro = next_backward_[direction]++;
    ops_.push_back(input_gradient_op(stage_[direction], micro));
    waiting_.push_back(weight_gradient_op(stage_[direction], micro));
  }
  void weight_gradient() {
    ops_.push_back(waiting_.front());
    waiting_.pop_front();
  }

  int stage_[2], next_forward_[2], next_backward_[2];
  std::deque<Op> waiting_;
  std::vector<Op> ops_;
};

// Direction 0 for the first half of the micro-batches, 1 for the second.
std::vector<std::size_t> halves(int microbatches) {
  return list_of(microbatches, [&](int i) -> std::size_t { return i < microbatches / 2 ? 0 : 1; });
}

Plan dualpipe_plan(const Problem& problem, const Options& options) {
  return variant_option(options) == Variant::v ? chunked_chain(problem, 2, ChunkPlacement::wave, "dualpipe")
                                               : bidirectional_chain(problem, halves(problem.microbatches), "dualpipe");
}

Schedule dualpipe_schedule(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    const int mirror = p - 1 - r;
    if (variant_option(options) == Variant::v)
      schedule.ranks[r] = RankOrder(r, 2 * p - 1 - r, 0, 0).build(p, r, m);
    else if (r < p / 2)
      schedule.ranks[r] = RankOrder(r, mirror, 0, m / 2).build(p / 2, r, m / 2);
    else
      schedule.ranks[r] = RankOrder(mirror, r, m / 2, 0).build(p / 2, mirror, m / 2);
  }
  return schedule;
}

Theory dualpipe_theory(const ScheduleProblem& problem, const Options& options) {
  const bool v = variant_option(options) == Variant::v;
  const int p = problem.ranks, m = problem.microbatches;
  const int h = v ? p : p / 2, ops = v ? 6 * m : 3 * m;
  const double bubble = 2.0 * (h - 1);  // (F + I + W) + (I + W) - 3 W at F = I = W
  Theory theory = flush_theory(p);
  theory.bubble_ratio = bubble / (ops + bubble);
  theory.in_flight.assign(p, 2 * h + 1);
  return theory;
}

}  // namespace

extern const System dualpipe = {
    .name = "dualpipe",
    .title = "DualPipe",
    .citation = "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024 (arXiv 2412.19437)",
    .written_from = WrittenFrom::code,
    .options = {variant_option.spec()},
    .require = require_enough,
    .chunks = [](const Options& options) { return variant_option(options) == Variant::v ? 2 : 1; },
    .plan = dualpipe_plan,
    .schedule = dualpipe_schedule,
    .theory = dualpipe_theory,
    .replicates = [](const Options& options) { return variant_option(options) != Variant::v; },
    .pairs = [](const Options&) { return true; },
};

}  // namespace sluice
