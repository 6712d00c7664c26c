#include "harness/program/lowering.h"

#include <algorithm>
#include <set>
#include <span>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/program/check_schedule.h"
#include "harness/program/messages.h"
#include "harness/program/sharding_instructions.h"
#include "harness/program/weight_reads.h"

namespace sluice {

namespace {

bool makes_weight_gradient(const Op& op) { return makes_weight_gradient(opcode_of(op.kind)); }
bool makes_input_gradient(const Op& op) { return op.kind == OpKind::backward || op.kind == OpKind::input_gradient; }

constexpr Opcode opcode_of(StashMove::Kind kind) {
  return static_cast<Opcode>(static_cast<int>(Opcode::stash_out) + static_cast<int>(kind));
}
static_assert(opcode_of(StashMove::Kind::back) == Opcode::stash_back);

Instruction compute(const Op& op, Opcode opcode, const WeightRead& read) {
  return {.opcode = opcode,
          .overlapped = op.overlapped && opcode != Opcode::recompute,
          .horizon = read.horizon,
          .stage = op.stage,
          .micro = op.micro,
          .version = read.version,
          .prediction = read.prediction};
}

Instruction collective_of_step(Opcode opcode, const Instruction& step) {
  Instruction result = step;
  result.opcode = opcode;
  result.channel = step.stage.value;
  return result;
}

// How far the rank that is being written is. One for all ranks: a rank has few of the stages and channels.
struct Progress {
  struct OfStage {
    Micro last_forward{-1};                         // of this rank's
    int gradients_done = 0, gradients_to_come = 0;  // B and W on this rank
    // Where the stage's W run on another rank: sums that this rank has sent; I that it has run, steps it has made.
    int sums_sent = 0, input_gradients_done = 0, late_steps = 0;
  };
  std::vector<OfStage> stages;         // of this rank; others are from earlier ranks
  std::vector<std::int32_t> received;  // per channel: messages taken so far; each has one receiver
};

// Writes the instructions of one rank.
class RankLowering {
 public:
  RankLowering(const Schedule& schedule, const Offload& offload, Rank rank, const Messages& messages,
               WeightReads& reads, Program& program, Progress& progress)
      : rank_(rank),
        ops_(schedule.ranks[rank.index()]),
        moves_(offload.ranks.empty() ? std::span<const StashMove>() : offload.ranks[rank.index()]),
        messages_(messages),
        reads_(reads),
        program_(program),
        rule_(program.rule),
        out_(program.ranks[rank.index()]),
        sharding_(sharding_instructions(program, ops_)),
        progress_(progress) {
    for (const Op& op : ops_) progress_.stages[op.stage.index()] = {};
    for (const Op& op : ops_) {
      if (makes_weight_gradient(op)) ++of(op).gradients_to_come;
      if (op.kind == OpKind::forward) of(op).last_forward = op.micro;
    }
  }

  void run() {
    out_.reserve(ops_.size() * 3 + 8);
    for (std::size_t first = 0; first < ops_.size();) {
      check_stop();
      const std::size_t last = ops_[first].overlapped ? first + 1 : first;
      write_step(first, last);
      first = last + 1;
    }
    flush();
    if (!program_.forward_only && program_.policy.step_barrier && program_.rank_count() > 1) wait_for_every_step();
  }

 private:
  Progress::OfStage& of(const Op& op) const { return progress_.stages[op.stage.index()]; }

  // The ops from `first` to `last`: one, or an overlapped pair with the inputs of both before and the outputs of both
  // after it.
  void write_step(std::size_t first, std::size_t last) {
    move_stashes(last);
    if (!sharding_.empty()) append(sharding_.before[first]);
    for (std::size_t k = first; k <= last; ++k) take_late_steps(ops_[k]);
    // A recomputation needs nothing from other ranks, so before a flush it stands before the wait for them (GPipe); the
    // asynchronous systems' code waits for the gradient first.
    if (rule_.synchronous())
      for (std::size_t k = first; k <= last; ++k) recompute(k);
    for (std::size_t k = first; k <= last; ++k) receive_inputs(ops_[k]);
    for (std::size_t k = first; k <= last; ++k) messages_.add_credits(ops_[k], out_);
    for (std::size_t k = first; k <= last; ++k) {
      if (!rule_.synchronous()) recompute(k);
      write_compute(k);
      if (k == last)
        for (std::size_t done = first; done <= last; ++done) messages_.add_sends(ops_[done], out_);
      if (!sharding_.empty()) append(sharding_.after[k]);
      if (makes_weight_gradient(ops_[k])) finish_gradient(ops_[k]);
      if (ops_[k].kind == OpKind::input_gradient) ++of(ops_[k]).input_gradients_done;
    }
  }

  // The moves before op `last`, or the one that it is a pair with.
  void move_stashes(std::size_t last) {
    for (; !moves_.empty() && moves_.front().before <= last; moves_ = moves_.subspan(1)) {
      const StashMove& move = moves_.front();
      out_.push_back({.opcode = opcode_of(move.kind), .stage = move.stage, .micro = move.micro});
    }
  }

  // The stage's version when the rank comes to the op.
  int newest(const Op& op) const {
    return has_late_steps(op.stage) ? reads_.newest_after_delay(of(op).input_gradients_done)
                                    : reads_.newest_after(of(op).gradients_done);
  }

  void write_compute(std::size_t k) {
    const Op& op = ops_[k];
    const int now = newest(op);
    switch (op.kind) {
      case OpKind::forward:
        out_.push_back(compute(op, Opcode::forward, reads_.of_forward(op)));
        out_.back().checkpoint = keeps_input_only(k);
        break;
      case OpKind::weight_gradient:
        out_.push_back(compute(op, Opcode::weight_gradient, {.version = now}));
        break;
      case OpKind::backward:
      case OpKind::input_gradient:
        out_.push_back(compute(op, opcode_of(op.kind), reads_.of_backward(op, now)));
        break;
    }
    out_.back().in_pair = op.overlapped || (k > 0 && ops_[k - 1].overlapped);
  }

  // Before a backward whose forward kept the stage's input only.
  void recompute(std::size_t k) {
    const Op& op = ops_[k];
    if (!makes_input_gradient(op) || !keeps_input_only(k)) return;
    const int now = newest(op);
    out_.push_back(compute(op, Opcode::recompute, reads_.of_recomputation(op, now)));
  }

  // Whether op k's forward (op k itself, or that of the backward k) keeps the stage's input only: its activations are
  // made again. With WeightRule::keep_if_next a forward whose backward is the rank's next op keeps them all the same;
  // with keep_last the rank's last forward of the stage.
  bool keeps_input_only(std::size_t k) const {
    if (!rule_.recomputes(ops_[k].stage.index())) return false;
    if (rule_.keep_last && ops_[k].micro == of(ops_[k]).last_forward) return false;
    if (!rule_.keep_if_next) return true;
    const bool forward = ops_[k].kind == OpKind::forward;
    const std::size_t first = forward ? k : k - 1;
    return !backward_follows_at_once(first);
  }
  bool backward_follows_at_once(std::size_t k) const {
    if (k + 1 >= ops_.size()) return false;
    const Op &forward = ops_[k], &next = ops_[k + 1];
    return forward.kind == OpKind::forward && makes_input_gradient(next) && forward.stage == next.stage &&
           forward.micro == next.micro;
  }

  void receive_inputs(const Op& op) {
    awaited_.clear();
    messages_.add_inputs(op, awaited_);
    for (const Messages::Awaited& message : awaited_) receive_until(message);
  }
  void receive_until(const Messages::Awaited& message) {
    const auto& receives = messages_.receives(message.channel);
    std::int32_t& next = progress_.received[message.channel];
    for (; next <= message.position; ++next) out_.push_back(receives[next]);
  }

  // After a B or W: the step, where an update has all its gradients, or what stands in its place.
  void finish_gradient(const Op& op) {
    const int done = ++of(op).gradients_done;
    const bool last = --of(op).gradients_to_come == 0;
    if (program_.placement.has_weight_gradient_rank(op.stage)) {
      const bool full = !rule_.synchronous() && done % rule_.accumulate == 0;
      if ((full || last) && of(op).sums_sent < messages_.weight_gradient_sums(op.stage))
        out_.push_back(messages_.send_weight_gradient_sum(op.stage, of(op).sums_sent++));
      return;
    }
    const bool replicated = is_replicated(op.stage);
    if (rule_.synchronous()) {
      if (!last) return;
      const Instruction step{.opcode = Opcode::optimizer_step, .stage = op.stage, .micro = Micro(0), .version = 1};
      (replicated || waits_for_all() ? steps_at_flush_ : out_).push_back(step);
      return;
    }
    const bool full = done % rule_.accumulate == 0;
    const bool partial = last && program_.policy.leftover == RunPolicy::Leftover::partial;
    if (!full && !partial) return;
    const Instruction step = asynchronous_step(op.stage, reads_.newest_after(done + (full ? 0 : rule_.accumulate)));
    if (replicated) out_.push_back(collective_of_step(Opcode::reduce_gradients, step));
    out_.push_back(step);
  }

  Instruction asynchronous_step(StageId stage, int version) const {
    const int microbatches = version * program_.microbatches_per_step[stage.index()];
    return {.opcode = Opcode::optimizer_step,
            .stage = stage,
            .micro = Micro((microbatches - 1) / program_.microbatches_per_update),
            .version = version};
  }

  // Whether a step needs gradients of other stages, so that all stand at the end.
  bool waits_for_all() const { return !program_.step_groups.empty() || !program_.graph.loans.empty(); }

  // All-reduces block. Those of a flush stand at the end, by stage on every rank: anywhere earlier, a rank could wait
  // in one for a rank that waits for its next op.
  void flush() {
    std::ranges::sort(steps_at_flush_, {}, &Instruction::stage);
    for (const Instruction& step : steps_at_flush_) {
      if (is_replicated(step.stage) && !program_.sharded(step.stage))
        out_.push_back(collective_of_step(Opcode::reduce_gradients, step));
      if (!waits_for_all()) write_step_at_flush(step);
    }
    take_the_late_steps_left();
    if (!waits_for_all() || steps_at_flush_.empty()) return;
    reduce_copies();
    if (program_.policy.clip_norm) {
      Instruction norm = steps_at_flush_.front();
      norm.opcode = Opcode::reduce_norm;
      norm.channel = program_.first_step_group() + static_cast<std::int32_t>(program_.step_groups.size()) - 1;
      out_.push_back(norm);
    }
    for (const Instruction& step : steps_at_flush_) write_step_at_flush(step);
  }
  // In one order on all ranks.
  void reduce_copies() {
    for (std::size_t k = 0; k < program_.graph.copies.size(); ++k) {
      const std::vector<StageId>& stages = program_.graph.copies[k];
      const auto own = std::ranges::find_if(
          steps_at_flush_, [&](const Instruction& step) { return std::ranges::count(stages, step.stage) > 0; });
      if (own == steps_at_flush_.end()) continue;
      Instruction reduction = *own;
      reduction.opcode = Opcode::reduce_copies;
      reduction.channel = program_.first_step_group() + static_cast<std::int32_t>(k);
      out_.push_back(reduction);
    }
  }
  void write_step_at_flush(const Instruction& step) {
    out_.push_back(step);
    if (program_.sharded(step.stage) && program_.sharding.gather == Sharding::Gather::after_step)
      out_.push_back(collective_of_step(Opcode::gather_weights, step));
  }
  bool is_replicated(StageId stage) const { return program_.placement.stages[stage.index()].size() > 1; }

  // A rank that holds a stage's weights, and whose W run elsewhere, steps with the sums that it is sent.
  bool has_late_steps(StageId stage) const { return program_.placement.has_weight_gradient_rank(stage); }
  void take_late_step(StageId stage) {
    int& done = progress_.stages[stage.index()].late_steps;
    receive_until(messages_.weight_gradient_sum(stage, done));
    ++done;
    if (!rule_.synchronous()) return out_.push_back(asynchronous_step(stage, done));
    const Instruction step{.opcode = Opcode::optimizer_step, .stage = stage, .micro = Micro(0), .version = 1};
    (waits_for_all() ? steps_at_flush_ : out_).push_back(step);
  }
  // The steps that are due before an op that reads the stage's weights.
  void take_late_steps(const Op& op) {
    if (op.kind == OpKind::weight_gradient || rule_.synchronous() || !has_late_steps(op.stage)) return;
    while (of(op).late_steps < newest(op)) take_late_step(op.stage);
  }
  void take_the_late_steps_left() {
    if (program_.placement.weight_gradient_ranks.empty()) return;
    for (std::size_t s = 0; s < program_.graph.size(); ++s) {
      const StageId stage(s);
      if (!has_late_steps(stage) || program_.placement.stages[s].front() != rank_) continue;
      while (progress_.stages[s].late_steps < messages_.weight_gradient_sums(stage)) take_late_step(stage);
    }
  }

  void wait_for_every_step() {
    if (rank_ != Rank(0)) {
      out_.push_back(messages_.send_stepped(rank_, Rank(0)));
      receive_until(messages_.last_of(Rank(0), rank_));
      return;
    }
    for (std::size_t r = 1; r < program_.rank_count(); ++r) receive_until(messages_.last_of(Rank(r), rank_));
    for (std::size_t r = 1; r < program_.rank_count(); ++r) out_.push_back(messages_.send_stepped(rank_, Rank(r)));
  }

  void append(const std::vector<Instruction>& list) { out_.insert(out_.end(), list.begin(), list.end()); }

  const Rank rank_;
  const std::vector<Op>& ops_;
  std::span<const StashMove> moves_;  // still to come
  const Messages& messages_;
  WeightReads& reads_;
  const Program& program_;
  const WeightRule& rule_;
  std::vector<Instruction>& out_;
  const ShardingInstructions sharding_;
  Progress& progress_;
  std::vector<Instruction> steps_at_flush_;  // of replicated stages; of all where a step waits for other stages
  std::vector<Messages::Awaited> awaited_;   // of the op that is being written
};

// The first W of a stage make its first update, so they must be those of its first I.
void reject_weight_gradients_out_of_order(const Schedule& schedule, const Placement& placement) {
  std::vector<std::vector<Micro>> input(placement.stages.size()), weight(placement.stages.size());
  for (const auto& ops : schedule.ranks)
    for (const Op& op : ops) {
      if (!placement.has_weight_gradient_rank(op.stage)) continue;
      if (op.kind == OpKind::input_gradient) input[op.stage.index()].push_back(op.micro);
      if (op.kind == OpKind::weight_gradient) weight[op.stage.index()].push_back(op.micro);
    }
  for (std::size_t s = 0; s < input.size(); ++s)
    if (input[s] != weight[s])
      throw InputError("schedule",
                       "the W of stage " + std::to_string(s) +
                           " run on another rank in another order than its I, and the system updates before a flush",
                       "run them in the order of the I");
}

// Chunks of a sequence are one batch to the weights, and what they keep for one another is kept by their forwards
// alone.
void reject_with_sequence_chunks(const Schedule& schedule, const Placement& placement, const WeightRule& rule) {
  const auto reject = [](const char* what, const char* remedy) {
    throw InputError("schedule", std::string("sequences are cut into chunks, and ") + what, remedy);
  };
  if (!rule.synchronous()) reject("the system updates without a flush", "leave sequences whole");
  if (rule.recompute != WeightRule::Recompute::none) reject("activations are recomputed", "leave recomputation out");
  if (!placement.weight_gradient_ranks.empty())
    reject("weight gradients run on ranks of their own", "leave sequences whole");
  if (schedule.forward_only) reject("inference keeps nothing for the next chunk", "leave sequences whole");
}

void reject_what_cannot_be_offloaded(const Schedule& schedule, const Placement& placement, const WeightRule& rule,
                                     const Offload& offload) {
  const auto reject = [](const char* what, const char* remedy) {
    throw InputError("offload", std::string("stashes move to the host, and ") + what, remedy);
  };
  if (schedule.forward_only) reject("inference keeps none", "leave offload out");
  if (schedule.sequence_chunks > 1) reject("later chunks of a sequence read those of earlier ones", "leave one out");
  if (rule.recompute != WeightRule::Recompute::none) reject("recomputation keeps none", "leave one of them out");
  if (!placement.weight_gradient_ranks.empty())
    reject("weight gradients run on ranks of their own, which are sent them", "leave one of them out");
  if (offload.ranks.size() != schedule.ranks.size() || std::ranges::any_of(offload.ranks, [](const auto& moves) {
        return !std::ranges::is_sorted(moves, {}, &StashMove::before);
      }))
    throw std::logic_error("moves of stashes are listed for every rank, in the order of its ops");
}

void reject_what_cannot_be_lowered(const Schedule& schedule, const StageGraph& graph, const Placement& placement,
                                   const WeightRule& rule, const Sharding& sharding, const RunPolicy& policy) {
  if (!rule.synchronous() && std::ranges::any_of(graph.microbatches_per_op, [](int g) { return g > 1; }))
    throw InputError("plan",
                     "a stage takes several micro-batches at once, and the system updates after "
                     "every backward",
                     "give every stage one");
  if (!rule.synchronous() && policy.step_barrier)
    throw InputError("schedule", "a step barrier needs a system that updates once after all backwards");
  if (!rule.synchronous() && policy.clip_norm)
    throw InputError("clip_norm", "needs a system that updates once after all backwards");
  if (!rule.synchronous() && !placement.weight_gradient_ranks.empty())
    reject_weight_gradients_out_of_order(schedule, placement);
  if (schedule.sequence_chunks > 1) reject_with_sequence_chunks(schedule, placement, rule);
  if (sharding.active() && !placement.weight_gradient_ranks.empty())
    throw InputError("sharding", "weight gradients run on ranks of their own, which hold no weights",
                     "leave sharding out");
  const bool replicated =
      std::ranges::any_of(placement.stages, [](const std::vector<Rank>& ranks) { return ranks.size() > 1; });
  if (replicated && sharding.active() && !rule.synchronous())
    throw InputError("sharding", "the system updates without a flush, which needs whole weights",
                     "use it with replicas");
  if (schedule.forward_only &&
      (sharding.active() || !rule.synchronous() || rule.predicts() || rule.recompute != WeightRule::Recompute::none))
    throw InputError("schedule", "inference reads the newest weights, whole, and keeps nothing for a backward",
                     "leave sharding and weight rules out");
  if (sharding.active() != (sharding.reduce != Sharding::Reduce::never))
    throw std::logic_error("a sharded stage both gathers weights and scatters gradients");
}

// The groups that meet before a step, each ascending.
std::vector<std::vector<Rank>> step_groups(const StageGraph& graph, const Placement& placement, bool clip_norm) {
  std::vector<std::vector<Rank>> groups;
  const auto add = [&](const std::vector<StageId>& stages) {
    std::set<Rank> ranks;
    for (const StageId s : stages) ranks.insert(placement.stages[s.index()].begin(), placement.stages[s.index()].end());
    groups.emplace_back(ranks.begin(), ranks.end());
  };
  for (const std::vector<StageId>& stages : graph.copies) add(stages);
  std::vector<StageId> all;
  for (std::size_t s = 0; s < graph.size(); ++s) all.emplace_back(s);
  if (clip_norm) add(all);
  return groups;
}

void reject_sharded_copies(const StageGraph& graph, const Placement& placement, const Sharding& sharding) {
  const auto sharded = [&](StageId s) { return sharding.active() && placement.stages[s.index()].size() > 1; };
  std::vector<std::vector<StageId>> sharing = graph.copies;
  for (const auto& [reader, owner] : graph.loans) sharing.push_back({owner, reader});
  for (const std::vector<StageId>& stages : sharing)
    if (std::ranges::any_of(stages, sharded))
      throw InputError("sharding",
                       "stages " + std::to_string(stages.front().value) + " and " +
                           std::to_string(stages.back().value) +
                           " use one weight, and ranks of a sharded stage hold slices of it",
                       "leave sharding out, or leave tied_to out of the model");
}

}  // namespace

Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
              const Sharding& sharding, const RunPolicy& policy, const Offload& offload) {
  const auto violations = check(schedule, graph, placement);
  if (!violations.empty()) throw InputError("schedule", violations.front().text);
  reject_what_cannot_be_lowered(schedule, graph, placement, rule, sharding, policy);
  if (offload.active()) reject_what_cannot_be_offloaded(schedule, placement, rule, offload);
  Program program{.graph = graph,
                  .placement = placement,
                  .microbatches = schedule.microbatches,
                  .sequence_chunks = schedule.sequence_chunks,
                  .forward_only = schedule.forward_only,
                  .rule = rule,
                  .policy = policy,
                  .sharding = sharding,
                  .offloads = offload.active()};
  program.ranks.resize(schedule.ranks.size());
  reject_sharded_copies(graph, placement, sharding);
  if (!program.forward_only) program.step_groups = step_groups(graph, placement, policy.clip_norm);
  const Messages messages(schedule, program.graph, program.placement, program.rule, policy);
  program.channels = messages.channels();
  WeightReads reads(schedule, program);
  Progress progress{.stages = std::vector<Progress::OfStage>(graph.size()),
                    .received = std::vector<std::int32_t>(program.channels.size(), 0)};
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    RankLowering(schedule, offload, Rank(r), messages, reads, program, progress).run();
  return program;
}

}  // namespace sluice
