#include "harness/program/check_schedule.h"

#include <algorithm>

#include "harness/base/stop.h"
#include "harness/program/wait_cycle.h"

namespace sluice {

namespace {

constexpr std::size_t kKinds = 4;
constexpr std::size_t place_of(OpKind kind) { return static_cast<std::size_t>(kind); }
static_assert(place_of(OpKind::weight_gradient) == kKinds - 1);

// A number for every op that a schedule could have: how often it was seen.
class OpCounts {
 public:
  OpCounts(std::size_t stages, int microbatches)
      : microbatches_(static_cast<std::size_t>(microbatches)), counts_(stages * microbatches_ * kKinds, 0) {}
  // Of a stage and micro-batch.
  std::size_t slot(StageId stage, Micro micro) const { return stage.index() * microbatches_ + micro.index(); }
  std::uint8_t& of(const Op& op) { return counts_[slot(op.stage, op.micro) * kKinds + place_of(op.kind)]; }
  bool has(OpKind kind, StageId stage, Micro micro) const {
    return counts_[slot(stage, micro) * kKinds + place_of(kind)] > 0;
  }

 private:
  std::size_t microbatches_;
  std::vector<std::uint8_t> counts_;
};

// As the schedule writes an op.
std::string text_of(const Schedule& schedule, const Op& op) { return to_text(op, schedule.sequence_chunks); }

// Ops that do not exist, are on a wrong rank or come twice.
void check_every_op(const Schedule& schedule, const StageGraph& graph, const Placement& placement, OpCounts& counts,
                    std::vector<Violation>& found) {
  using Kind = Violation::Kind;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    for (const Op& op : schedule.ranks[r]) {
      check_stop();
      if (op.stage.value < 0 || op.stage.index() >= graph.size() || op.micro.value < 0 ||
          op.micro.value >= schedule.microbatches / graph.microbatches_per_op_of(op.stage)) {
        found.push_back({Kind::wrong_rank,
                         on_rank(r) + text_of(schedule, op) + " names a stage or micro-batch that does not exist"});
        continue;
      }
      const Rank home = placement.rank_of(op);
      if (home != Rank(r))
        found.push_back(
            {Kind::wrong_rank, on_rank(r) + text_of(schedule, op) + " belongs to rank " + std::to_string(home.value)});
      std::uint8_t& n = counts.of(op);
      if (n == 1) found.push_back({Kind::duplicate_op, on_rank(r) + text_of(schedule, op) + " is run twice"});
      n = static_cast<std::uint8_t>(std::min(n + 1, 2));
    }
}

// An op that overlaps the next one is the first of two.
void check_pairs(const Schedule& schedule, std::vector<Violation>& found) {
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto& ops = schedule.ranks[r];
    for (std::size_t k = 0; k < ops.size(); ++k)
      if (ops[k].overlapped && (k + 1 == ops.size() || ops[k + 1].overlapped))
        found.push_back({Violation::Kind::wrong_order, on_rank(r) + text_of(schedule, ops[k]) +
                                                           " is half a pair: it overlaps " +
                                                           (k + 1 == ops.size() ? "nothing" : "the half of another")});
  }
}

// Every micro-batch has an F on every stage, and either a B or an I and a W; in inference nothing but the F. Ends after
// a thousand violations: a file of one line can name a micro-batch that leaves a million missing.
void check_nothing_is_missing(const Schedule& schedule, const StageGraph& graph, const OpCounts& counts,
                              std::vector<Violation>& found) {
  using Kind = Violation::Kind;
  for (std::size_t s = 0; s < graph.size(); ++s)
    for (int m = 0; m < schedule.microbatches / graph.microbatches_per_op_of(StageId(s)); ++m) {
      check_stop();
      if (found.size() >= 1000) return;
      const auto seen = [&](OpKind kind) { return counts.has(kind, StageId(s), Micro(m)); };
      const auto missing = [&](OpKind kind) {
        found.push_back({Kind::missing_op, text_of(schedule, Op{kind, StageId(s), Micro(m)}) + " is run by no rank"});
      };
      if (!seen(OpKind::forward)) missing(OpKind::forward);
      if (schedule.forward_only) {
        for (const OpKind kind : {OpKind::backward, OpKind::input_gradient, OpKind::weight_gradient})
          if (seen(kind))
            found.push_back({Kind::wrong_order, text_of(schedule, Op{kind, StageId(s), Micro(m)}) +
                                                    " is no op of inference, which has forwards only"});
        continue;
      }
      const bool split = seen(OpKind::input_gradient) || seen(OpKind::weight_gradient);
      if (!split && !seen(OpKind::backward)) missing(OpKind::backward);
      if (split && !seen(OpKind::input_gradient)) missing(OpKind::input_gradient);
      if (split && !seen(OpKind::weight_gradient)) missing(OpKind::weight_gradient);
      if (split && seen(OpKind::backward))
        found.push_back({Kind::duplicate_op, text_of(schedule, Op{OpKind::backward, StageId(s), Micro(m)}) +
                                                 " is run both whole and split into I and W"});
    }
}

// Runs the schedule without time: every rank advances until its next op waits for another rank.
class Dependencies {
 public:
  Dependencies(const Schedule& schedule, const StageGraph& graph, const Placement& placement)
      : schedule_(schedule),
        graph_(graph),
        placement_(placement),
        done_(graph.size(), schedule.microbatches),
        next_(schedule.ranks.size(), 0),
        waiters_(graph.size() * static_cast<std::size_t>(schedule.microbatches)) {}

  void run(std::vector<Violation>& found) {
    std::vector<std::size_t> ready(schedule_.ranks.size());
    for (std::size_t r = 0; r < ready.size(); ++r) ready[r] = ready.size() - 1 - r;
    while (!ready.empty()) {
      const std::size_t r = ready.back();
      ready.pop_back();
      const auto& ops = schedule_.ranks[r];
      while (next_[r] < ops.size()) {
        check_stop();  // a rank may wait for no other
        Op needed;
        if (step_blocked(r, &needed) != nullptr) {
          waiters_[slot(needed)].push_back(r);
          break;
        }
        bool more = true;  // ops of the step
        for (; more; ++next_[r]) {
          const Op& op = ops[next_[r]];
          more = op.overlapped;
          done_.of(op) = 1;
          for (const std::size_t waiter : waiters_[slot(op)]) ready.push_back(waiter);
          waiters_[slot(op)].clear();
        }
      }
    }
    const std::optional<Violation> cycle = wait_cycle(next_.size(), [&](std::size_t r) { return wait_of(r); });
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < schedule_.ranks[r].size()) report(r, cycle.has_value(), found);
    if (cycle) found.push_back(*cycle);
  }

 private:
  std::size_t slot(const Op& op) const { return done_.slot(op.stage, op.micro); }
  bool is_done(OpKind kind, StageId stage, Micro micro) const { return done_.has(kind, stage, micro); }
  bool gradient_done(StageId stage, Micro micro) const {
    return is_done(OpKind::backward, stage, micro) || is_done(OpKind::input_gradient, stage, micro);
  }

  // Chunks of a sequence, on one stage: a forward reads the keys and values of the chunks before it, and a backward
  // needs what the backwards of the chunks after it add to the gradients of its own.
  bool waits_for_chunk(const Op& op, Op* needed) const {
    const int chunks = schedule_.sequence_chunks, chunk = op.micro.value % chunks;
    const bool forward = op.kind == OpKind::forward;
    if (op.kind == OpKind::weight_gradient || chunk == (forward ? 0 : chunks - 1)) return false;
    const Micro other(op.micro.value + (forward ? -1 : 1));
    if (forward ? is_done(OpKind::forward, op.stage, other) : gradient_done(op.stage, other)) return false;
    *needed = {forward ? OpKind::forward : OpKind::backward, op.stage, other};
    return true;
  }

  bool blocked(const Op& op, Op* needed) const {
    const auto need = [&](OpKind kind, StageId stage, Micro micro) {
      *needed = {kind, stage, micro};
      return true;
    };
    if (waits_for_chunk(op, needed)) return true;
    if (op.kind == OpKind::forward) {
      for (const StageId p : graph_.predecessors[op.stage.index()]) {
        const auto [first, last] = neighbour_ops(graph_, op.stage, op.micro, p);
        for (Micro m(first); m.value < last; ++m.value)
          if (!is_done(OpKind::forward, p, m)) return need(OpKind::forward, p, m);
      }
      return false;
    }
    if (op.kind == OpKind::weight_gradient)
      return is_done(OpKind::input_gradient, op.stage, op.micro) ? false
                                                                 : need(OpKind::input_gradient, op.stage, op.micro);
    if (!is_done(OpKind::forward, op.stage, op.micro)) return need(OpKind::forward, op.stage, op.micro);
    for (const StageId s : graph_.successors[op.stage.index()]) {
      const auto [first, last] = neighbour_ops(graph_, op.stage, op.micro, s);
      for (Micro m(first); m.value < last; ++m.value)
        if (!gradient_done(s, m)) return need(OpKind::backward, s, m);
    }
    return false;
  }

  // The op that keeps the rank from its next step (an op, or a pair as one); none: it can go on.
  const Op* step_blocked(std::size_t r, Op* needed) const {
    const Op* op = &schedule_.ranks[r][next_[r]];
    if (blocked(*op, needed)) return op;
    return op->overlapped && blocked(op[1], needed) ? op + 1 : nullptr;
  }

  // The op that `needed` stands for in the order: a whole backward may be an I there. None: no rank runs it.
  const Op* listed(const Op& needed) const {
    const auto& ops = schedule_.ranks[placement_.rank_of(needed).index()];
    const auto position = std::ranges::find_if(ops, [&](const Op& o) {
      const bool same_kind =
          o.kind == needed.kind || (needed.kind == OpKind::backward && o.kind == OpKind::input_gradient);
      return same_kind && o.stage == needed.stage && o.micro == needed.micro;
    });
    return position == ops.end() ? nullptr : &*position;
  }
  std::string text_of_needed(const Op& needed) const {
    const Op* op = listed(needed);
    return text_of(schedule_, op == nullptr ? needed : *op);
  }

  Wait wait_of(std::size_t r) const {
    if (next_[r] == schedule_.ranks[r].size()) return {};
    Op needed;
    const Op& op = *step_blocked(r, &needed);
    return {placement_.rank_of(needed).value, text_of(schedule_, op), text_of_needed(needed)};
  }

  // in_cycle: the cycle says why ranks wait for others, so that only faults of the rank's own order are added.
  void report(std::size_t r, bool in_cycle, std::vector<Violation>& found) const {
    Op needed;
    const Op& op = *step_blocked(r, &needed);
    const auto home = placement_.rank_of(needed).index();
    if (home == r) {
      const Op* other = listed(needed);
      const bool one_step = other != nullptr && other->overlapped && &op == other + 1;
      found.push_back({Violation::Kind::wrong_order, on_rank(r) + text_of(schedule_, op) +
                                                         (one_step ? " overlaps " : " comes before ") +
                                                         text_of_needed(needed) + ", which it needs"});
    } else if (!in_cycle) {
      const auto& ops = schedule_.ranks[home];
      const std::string at = next_[home] < ops.size() ? text_of(schedule_, ops[next_[home]]) : "its end";
      found.push_back({Violation::Kind::deadlock, on_rank(r) + text_of(schedule_, op) + " is blocked: it waits for " +
                                                      text_of_needed(needed) + " of rank " + std::to_string(home) +
                                                      ", which is blocked at " + at});
    }
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  const Placement& placement_;
  OpCounts done_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<std::size_t>> waiters_;
};

// Where micro-batches are given to replicas by name, every replica must get one.
void check_replicas(const Placement& placement, std::size_t stage, int microbatches, std::vector<Violation>& found) {
  using Kind = Violation::Kind;
  const auto m = static_cast<std::size_t>(microbatches);
  if (placement.replica_of.size() != m) {
    if (stage == 0)
      found.push_back({Kind::wrong_rank, "the placement gives " + std::to_string(placement.replica_of.size()) +
                                             " micro-batches to replicas, the schedule has " +
                                             std::to_string(microbatches)});
    return;
  }
  const std::size_t replicas = placement.stages[stage].size();
  if (replicas < 2) return;
  std::vector<bool> used(replicas, false);
  for (const std::size_t replica : placement.replica_of) used[replica % replicas] = true;
  const auto idle = std::ranges::find(used, false);
  if (idle != used.end())
    found.push_back({Kind::missing_op, "stage " + std::to_string(stage) + ": replica " +
                                           std::to_string(idle - used.begin()) +
                                           " has no micro-batch, hence no gradient to reduce"});
}

// Stages that take several micro-batches at once must take all of them, a whole number of times.
void check_microbatches_per_op(const StageGraph& graph, int microbatches, std::vector<Violation>& found) {
  for (std::size_t s = 0; s < graph.microbatches_per_op.size(); ++s)
    if (graph.microbatches_per_op[s] < 1 || microbatches % graph.microbatches_per_op[s] != 0)
      found.push_back({Violation::Kind::missing_op, "stage " + std::to_string(s) + " takes " +
                                                        std::to_string(graph.microbatches_per_op[s]) +
                                                        " micro-batches at once, which " +
                                                        std::to_string(microbatches) + " micro-batches do not allow"});
}

// Chunks of sequences: every micro-batch has all of them, and a stage takes one of one micro-batch at a time.
void check_sequence_chunks(const Schedule& schedule, const StageGraph& graph, std::vector<Violation>& found) {
  const int chunks = schedule.sequence_chunks;
  if (chunks == 1) return;
  if (chunks < 1 || schedule.microbatches % chunks != 0) {
    found.push_back({Violation::Kind::missing_op, std::to_string(schedule.microbatches) +
                                                      " chunks are no whole number of sequences of " +
                                                      std::to_string(chunks) + " chunks"});
    return;
  }
  for (std::size_t s = 0; s < graph.microbatches_per_op.size(); ++s)
    if (graph.microbatches_per_op[s] != 1)
      found.push_back({Violation::Kind::missing_op, "stage " + std::to_string(s) +
                                                        " takes several micro-batches at once, and sequences are cut "
                                                        "into chunks"});
}

// The keys and values of a sequence stay on one rank: all its chunks run there.
void check_homes_of_chunks(const Schedule& schedule, const Placement& placement, std::vector<Violation>& found) {
  const int chunks = schedule.sequence_chunks;
  for (std::size_t s = 0; chunks > 1 && s < placement.stages.size(); ++s)
    for (int m = 0; m < schedule.microbatches; ++m) {
      const Rank home = placement.rank_of(StageId(s), Micro(m)),
                 first = placement.rank_of(StageId(s), Micro(m / chunks * chunks));
      if (home == first) continue;
      found.push_back(
          {Violation::Kind::wrong_rank, "stage " + std::to_string(s) + ": chunk " + micro_text(Micro(m), chunks) +
                                            " is on rank " + std::to_string(home.value) +
                                            ", the first of its sequence on rank " + std::to_string(first.value)});
      return;
    }
}

// The ranks of one stage: there are some, each once, and each has a micro-batch.
void check_ranks_of_stage(const Schedule& schedule, const StageGraph& graph, const Placement& placement, std::size_t s,
                          std::vector<Violation>& found) {
  std::vector<Rank> ranks = placement.stages[s];
  std::ranges::sort(ranks);
  const std::string stage = "stage " + std::to_string(s);
  if (ranks.empty() || ranks.front() < Rank(0))
    found.push_back({Violation::Kind::wrong_rank, stage + " has no rank"});
  else if (std::ranges::adjacent_find(ranks) != ranks.end())
    found.push_back({Violation::Kind::wrong_rank, stage + " is on one rank twice"});
  else if (const int ops = s < graph.size() ? schedule.microbatches / graph.microbatches_per_op_of(StageId(s))
                                            : schedule.microbatches;
           ranks.size() > 1 && ranks.size() > static_cast<std::size_t>(ops))
    found.push_back({Violation::Kind::missing_op, stage + " has " + std::to_string(ranks.size()) + " replicas for " +
                                                      std::to_string(ops) +
                                                      " micro-batches: one of them would have no gradient to reduce"});
  else if (!placement.replica_of.empty())
    check_replicas(placement, s, schedule.microbatches, found);
  if (placement.has_weight_gradient_rank(StageId(s)) && schedule.forward_only)
    found.push_back({Violation::Kind::wrong_rank, stage + " has a rank for weight gradients, and inference has none"});
  if (placement.has_weight_gradient_rank(StageId(s)) &&
      (ranks.size() != 1 || ranks.front() == placement.weight_gradient_ranks[s]))
    found.push_back({Violation::Kind::wrong_rank, stage + " runs its weight gradients on rank " +
                                                      std::to_string(placement.weight_gradient_ranks[s].value) +
                                                      ", which must be another than the one rank of the stage"});
}

void check_placement(const Schedule& schedule, const StageGraph& graph, const Placement& placement,
                     std::vector<Violation>& found) {
  if (static_cast<std::size_t>(placement.rank_count()) > schedule.ranks.size())
    found.push_back({Violation::Kind::wrong_rank, "the placement has " + std::to_string(placement.rank_count()) +
                                                      " ranks, the schedule " + std::to_string(schedule.ranks.size())});
  if (placement.stages.size() != graph.size())
    found.push_back({Violation::Kind::wrong_rank, "the placement has " + std::to_string(placement.stages.size()) +
                                                      " stages, the stage graph " + std::to_string(graph.size())});
  if (!placement.weight_gradient_ranks.empty() && placement.weight_gradient_ranks.size() != placement.stages.size()) {
    found.push_back({Violation::Kind::wrong_rank,
                     "the placement has " + std::to_string(placement.weight_gradient_ranks.size()) +
                         " ranks for weight gradients, and " + std::to_string(placement.stages.size()) + " stages"});
    return;
  }
  for (std::size_t s = 0; s < placement.stages.size(); ++s) check_ranks_of_stage(schedule, graph, placement, s, found);
}

}  // namespace

std::vector<Violation> check(const Schedule& schedule, const StageGraph& graph, const Placement& placement) {
  std::vector<Violation> found;
  check_microbatches_per_op(graph, schedule.microbatches, found);
  check_sequence_chunks(schedule, graph, found);
  if (!found.empty()) return found;
  check_placement(schedule, graph, placement, found);
  if (found.empty()) check_homes_of_chunks(schedule, placement, found);
  if (!found.empty()) return found;
  OpCounts counts(graph.size(), schedule.microbatches);
  check_every_op(schedule, graph, placement, counts, found);
  check_pairs(schedule, found);
  check_nothing_is_missing(schedule, graph, counts, found);
  if (found.empty()) Dependencies(schedule, graph, placement).run(found);
  return found;
}

}  // namespace sluice
