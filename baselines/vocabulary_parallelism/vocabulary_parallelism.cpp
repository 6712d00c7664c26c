// Vocabulary Parallelism (Yeung, Qi, Lin et al., 2025, arXiv 2411.05288; the published code): 1F1B whose head and
// embedding are cut by words into a slice for every rank, so that neither lengthens one stage. Rank r has stage r of
// the other layers, its slice of the head and, in models with one, its slice of the embedding. A slice is a stage of
// its own: the head's slices read the last stage, and its backward waits for the input gradients of all of them.
//
// Per micro-batch every rank runs its slice of the head once (S in the paper): F the logits with maximum and sum of the
// exponentials, I the input gradient, W the weight gradient. Slot s of a rank is
//
//   variant=one_barrier (default; vocab-2 in the paper's table)    W of s - 1, F and I of s
//   variant=two_barriers (vocab-1)                                 I and W of s - 1, F of s
//
// so that B of micro-batch i waits for slot i, or i + 1. Rank r of p runs:
//
//   1  p - r times F, slot 0, F; two_barriers: slot 1, F
//   2  n_r slots
//   3  until forwards end: B, slot, F or B, F, slot
//   4  B and slot in turn, then the slots that are left
//
// Which of the two orders a rank has and n_r follow from f and b, the seconds of F and B of a stage, so that the slots
// of all ranks coincide (SlotOrder below). The passes of the embedding are in the slots, too: from slot n_0 on each has
// one F, from slot n_0 + 2 on one B (two_barriers: one slot later); before that rank r runs r + 1 F, then one before
// each F of its stage in phase 1.
//
// variant=interlaced (nnScaler's order, in the published code as the baseline to compare with): the head is tensor
// parallel: F, I and W of a micro-batch at once. 3p/2 - r times F, p - r slots, then B and slots, a B and an F each.
//
// one_barrier, p = 2, m = 4; F = 1, B = 2, a slot 3 (F, I and W of a slice 1 each); small letters are the slices:
//
//   rank 0  F0F1f0i0F2w0f1i1B0--w1f2i2F3B1--w2f3i3B2--B3--w3
//   rank 1  --F0f0i0F1B0--w0f1i1F2B1--w1f2i2F3B2--w2f3i3B3--w3
//
// Bubble of every variant (p - 1)(f + b), exactly that of 1F1B, where stages and slices are equal: makespan
// (m + p - 1)(f + b) + m s. Micro-batches in flight in a stage: p + 1 - r (two_barriers: p + 2 - r, interlaced:
// 3p/2 - r), in a slice one.
//
// What differs from the published code: it sums by all-reduces on a stream of its own; here the output of the last
// stage, the input gradients of the slices and the outputs of the embedding's slices are messages between the rank that
// has the stage and all others, and the all-reduce of maxima and sums is part of a slice's F, on both clocks. An I and
// a W wait for their own rank's F only, which changes no time where the slots coincide.
#include <algorithm>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

enum class Variant { one_barrier, two_barriers, interlaced };

const ChoiceOption<Variant> variant_option(
    "variant",
    "one_barrier (vocab-2: input gradients in the slot of their forward), two_barriers (vocab-1: in the next slot) or "
    "interlaced (the head as tensor parallelism)",
    {{"one_barrier", Variant::one_barrier},
     {"two_barriers", Variant::two_barriers},
     {"interlaced", Variant::interlaced}});

void require_ranks(int ranks, int, const Options&) {
  if (ranks < 2)
    throw InputError("vocabulary_parallelism", "one rank has all words, so that there is nothing to divide",
                     "use at least 2 ranks, or 1f1b");
}

// The layers that are no slice, balanced over all ranks; the slices of a rank that read the model's input, and those
// behind a layer of the pipeline, in a stage each.
Plan vocabulary_plan(const Problem& problem, const Options&) {
  const int layers = count_of(problem.costs.layers), ranks = problem.devices;
  if (problem.word_slices.empty())
    throw InputError("vocabulary_parallelism", "the problem does not say which layers are slices of the words",
                     "give Problem::word_slices");
  std::vector<int> body, number(problem.costs.layers.size(), -1);
  std::vector<PlanStage> embedding(static_cast<std::size_t>(ranks)), head(embedding);
  for (int l = 0; l < layers; ++l) {
    const int slice = problem.word_slices[l];
    if (slice < 0) {
      number[l] = count_of(body);
      body.push_back(l);
    } else {
      const bool reads_input = problem.costs.layers[l].inputs.front() < 0;
      (reads_input ? embedding : head)[slice].layers.push_back(l);
    }
  }
  CostGraph costs = problem.costs;
  costs.layers.clear();
  costs.larger.clear();
  for (const int l : body) {
    LayerCost& layer = costs.layers.emplace_back(problem.costs.layers[l]);
    for (int& input : layer.inputs) input = input < 0 ? input : number[input];
  }
  const auto in_body = [&](const std::vector<int>& before) {
    std::vector<int> cuts;
    for (const int l : before) {
      const int cut = static_cast<int>(std::ranges::lower_bound(body, l) - body.begin());
      if (cut > 0 && cut < count_of(body) && (cuts.empty() || cuts.back() < cut)) cuts.push_back(cut);
    }
    return cuts;
  };
  Problem chain{costs, problem.cluster, ranks, problem.batch, problem.microbatches, {}};
  chain.cuts_count_messages = problem.cuts_count_messages;
  chain.cut_before = in_body(problem.cut_before);
  chain.first_layers = in_body(problem.first_layers);
  chain.sizes = problem.sizes;
  Plan plan = balanced_chain(chain, ranks, "vocabulary_parallelism");
  for (PlanStage& stage : plan.stages)
    for (int& layer : stage.layers) layer = body[layer];
  const auto add = [&](std::vector<PlanStage>& slices, auto place) {
    if (slices.front().layers.empty()) return;
    for (int r = 0; r < ranks; ++r) slices[r].devices = {DeviceId(r)};
    plan.stages.insert(place, slices.begin(), slices.end());
  };
  add(head, plan.stages.end());
  add(embedding, plan.stages.begin());
  return plan;
}

// Where the slots of the ranks stand, so that they coincide: walking from the last rank to the first, a rank has its
// forward before the one of the next rank as long as it then begins no earlier than a B before the slot.
struct SlotOrder {
  std::vector<bool> slot_before_forward;  // per rank: B, slot, F; otherwise B, F, slot
  std::vector<int> slots;                 // n_r, between phase 1 and the first B

  SlotOrder(int ranks, double f, double b)
      : slot_before_forward(static_cast<std::size_t>(ranks), true), slots(static_cast<std::size_t>(ranks), 0) {
    double offset = 0;  // of the rank's steps against those of the last rank
    for (int r = ranks - 2; r >= 0; --r) {
      const bool after_forward_before_slot = !slot_before_forward[r + 1];
      if (after_forward_before_slot) {
        offset += b - f;
      } else if (offset - f >= -b) {
        offset -= f;
      } else {
        slot_before_forward[r] = false;
      }
      slots[r] = slots[r + 1] + (after_forward_before_slot ? 0 : 1);
    }
  }
};

// One rank's list. Its stages: of the chain, of the head's slices and, where there is one (not -1), of the embedding's.
class RankOrder {
 public:
  RankOrder(int embedding, int stage, int head, int microbatches, Variant variant)
      : embedding_(embedding), stage_(stage), head_(head), m_(microbatches), variant_(variant) {}

  std::vector<Op> with_barriers(int p, int r, const SlotOrder& order) {
    const int late = variant_ == Variant::two_barriers ? 1 : 0;
    first_embedding_ = order.slots.front() + late;
    first_embedding_gradient_ = first_embedding_ + 2;
    for (int k = 0; k <= r; ++k) embed();
    for (int k = 0; k < p - r; ++k) {
      embed();
      forward();
    }
    slot();
    if (late == 1) embed();
    forward();
    if (late == 1) {
      slot();
      forward();
    }
    for (int k = 0; k < order.slots[r] && slots_ < m_ + late; ++k) slot();
    while (forwards_ < m_) {
      backward();
      if (order.slot_before_forward[r]) slot();
      forward();
      if (!order.slot_before_forward[r]) slot();
    }
    while (backwards_ < m_) {
      backward();
      if (slots_ < m_ + late) slot();
    }
    if (slots_ == m_) slot();
    while (embedding_gradients_ < m_ && embedding_ >= 0) embedding_gradient();
    return std::move(ops_);
  }

  std::vector<Op> interlaced(int p, int r) {
    const int warm_up = std::min(3 * p / 2 - r, m_), last = std::min(p - r, m_),
              waiting = std::max(0, warm_up - last - (p - r - 1) / 2);
    first_embedding_ = std::min(p, m_) - 1;
    first_embedding_gradient_ = first_embedding_ + (p % 2 == 0 ? 2 : 1);
    for (int k = 0; k <= r; ++k) embed();
    for (int k = 0; k < warm_up; ++k) {
      embed();
      forward();
    }
    for (int k = 0; k < last; ++k) slot();
    for (int k = 0; k < waiting; ++k) {
      backward();
      slot();
    }
    while (forwards_ < m_) {
      const bool forward_first = r % 2 == p % 2;
      if (forward_first) forward();
      backward();
      if (!forward_first) forward();
      slot();
    }
    while (backwards_ < m_) {
      backward();
      if (slots_ < m_) slot();
    }
    while (embedding_gradients_ < m_ && embedding_ >= 0) embedding_gradient();
    return std::move(ops_);
  }

 private:
  void forward() {
    if (forwards_ < m_) ops_.push_back(forward_op(stage_, forwards_++));
  }
  void backward() { ops_.push_back(backward_op(stage_, backwards_++)); }
  void embed() {
    if (embedding_ >= 0 && embedded_ < m_) ops_.push_back(forward_op(embedding_, embedded_++));
  }
  void embedding_gradient() { ops_.push_back(backward_op(embedding_, embedding_gradients_++)); }

  // The next slot; that of micro-batch m has only what is left of the last one.
  void slot() {
    const int s = slots_++;
    if (s > m_) return;
    if (variant_ != Variant::interlaced && s > 0) {
      if (variant_ == Variant::two_barriers) ops_.push_back(input_gradient_op(head_, s - 1));
      ops_.push_back(weight_gradient_op(head_, s - 1));
    }
    if (s < m_) {
      ops_.push_back(forward_op(head_, s));
      if (variant_ == Variant::one_barrier) ops_.push_back(input_gradient_op(head_, s));
      if (variant_ == Variant::interlaced) ops_.push_back(backward_op(head_, s));
    }
    if (s >= first_embedding_) embed();
    if (s >= first_embedding_gradient_ && embedding_ >= 0 && embedding_gradients_ < m_) embedding_gradient();
  }

  int embedding_, stage_, head_, m_;
  Variant variant_;
  int first_embedding_ = 0, first_embedding_gradient_ = 0;  // the first slots that have one
  int forwards_ = 0, backwards_ = 0, slots_ = 0, embedded_ = 0, embedding_gradients_ = 0;
  std::vector<Op> ops_;
};

bool has_embedding(const ScheduleProblem& problem) { return problem.stages() == 3 * problem.ranks; }

Schedule vocabulary_schedule(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, first = has_embedding(problem) ? p : 0;
  double f = 0, b = 0;  // of all stages of the chain
  for (int s = first; s < first + p; ++s) {
    f += problem.costs.empty() ? 1 : problem.costs[s].forward.value;
    b += problem.costs.empty() ? 2 : (problem.costs[s].input_gradient + problem.costs[s].weight_gradient).value;
  }
  const SlotOrder order(p, f / p, b / p);
  const Variant variant = variant_option(options);
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    RankOrder rank(first > 0 ? r : -1, first + r, first + p + r, problem.microbatches, variant);
    schedule.ranks[r] = variant == Variant::interlaced ? rank.interlaced(p, r) : rank.with_barriers(p, r, order);
  }
  return schedule;
}

// Stages and slices are equal at F = I = W: a slot is as long as F and B of a stage. In flight with the slice's one.
Theory vocabulary_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  if (has_embedding(problem)) return theory;
  theory.bubble_ratio = (p - 1.0) / (2.0 * m + p - 1);
  const Variant variant = variant_option(options);
  for (int r = 0; r < p; ++r) {
    const bool last = r == p - 1;
    const int in_stage = variant == Variant::interlaced     ? 3 * p / 2 - r
                         : variant == Variant::two_barriers ? p + 2 - r
                         : last                             ? 1
                                                            : p + 1 - r;
    theory.in_flight.push_back(std::min(in_stage, m) + 1);
  }
  return theory;
}

}  // namespace

extern const System vocabulary_parallelism = {
    .name = "vocabulary_parallelism",
    .aliases = {"vocab_parallel"},
    .title = "Vocabulary Parallelism",
    .citation =
        "Yeung et al., Balancing Pipeline Parallelism with Vocabulary Parallelism, MLSys 2025 (arXiv 2411.05288)",
    .written_from =
        {WrittenFrom::code,
         {{"messages and barriers", WrittenFrom::ours}},
         "Slices are stages that exchange messages with the first and the last one; the released code all-reduces."},
    .divides_words = true,
    .options = {variant_option.spec()},
    .require = require_ranks,
    .chunks = [](const Options&) { return 2; },
    .plan = vocabulary_plan,
    .schedule = vocabulary_schedule,
    .theory = vocabulary_theory,
};

}  // namespace sluice
