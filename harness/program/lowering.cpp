#include "harness/program/lowering.h"

#include <algorithm>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/program/check_schedule.h"
#include "harness/program/messages.h"
#include "harness/program/sharding_instructions.h"
#include "harness/program/weight_reads.h"

namespace sluice {

namespace {

bool makes_weight_gradient(const Op& op) { return makes_weight_gradient(opcode_of(op.kind)); }
bool makes_input_gradient(const Op& op) { return op.kind == OpKind::backward || op.kind == OpKind::input_gradient; }

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

// Writes the instructions of one rank.
class RankLowering {
 public:
  RankLowering(const Schedule& schedule, Rank rank, const Messages& messages, WeightReads& reads, Program& program)
      : rank_(rank),
        ops_(schedule.ranks[rank.index()]),
        messages_(messages),
        reads_(reads),
        program_(program),
        rule_(program.rule),
        out_(program.ranks[rank.index()]),
        sharding_(sharding_instructions(program, ops_)),
        received_(messages.channels().size(), 0),
        gradients_done_(program.graph.size(), 0),
        gradients_to_come_(program.graph.size(), 0) {
    for (const Op& op : ops_)
      if (makes_weight_gradient(op)) ++gradients_to_come_[op.stage.index()];
  }

  void run() {
    out_.reserve(ops_.size() * 3 + 8);
    for (std::size_t first = 0; first < ops_.size();) {
      const std::size_t last = ops_[first].overlapped ? first + 1 : first;
      write_step(first, last);
      first = last + 1;
    }
    flush_replicated_stages();
    step_after_weight_gradient_ranks();
    if (program_.policy.step_barrier && program_.rank_count() > 1) wait_for_every_step();
  }

 private:
  // The ops from `first` to `last`: one, or an overlapped pair with the inputs of both before and the outputs of both
  // after it.
  void write_step(std::size_t first, std::size_t last) {
    if (!sharding_.empty()) append(sharding_.before[first]);
    // A recomputation needs nothing from other ranks, so before a flush it stands before the wait for them (GPipe); the
    // asynchronous systems' code waits for the gradient first.
    if (rule_.synchronous())
      for (std::size_t k = first; k <= last; ++k) recompute(k);
    for (std::size_t k = first; k <= last; ++k) receive_inputs(ops_[k]);
    for (std::size_t k = first; k <= last; ++k) {
      if (!rule_.synchronous()) recompute(k);
      write_compute(k);
      if (k == last)
        for (std::size_t done = first; done <= last; ++done) messages_.add_sends(ops_[done], out_);
      if (!sharding_.empty()) append(sharding_.after[k]);
      if (makes_weight_gradient(ops_[k])) finish_gradient(ops_[k]);
    }
  }

  void write_compute(std::size_t k) {
    const Op& op = ops_[k];
    const int now = reads_.newest_after(gradients_done_[op.stage.index()]);
    switch (op.kind) {
      case OpKind::forward:
        out_.push_back(compute(op, Opcode::forward, reads_.of_forward(op)));
        out_.back().checkpoint = keeps_input_only(k);
        return;
      case OpKind::weight_gradient:
        out_.push_back(compute(op, Opcode::weight_gradient, {.version = now}));
        return;
      case OpKind::backward:
      case OpKind::input_gradient:
        out_.push_back(compute(op, opcode_of(op.kind), reads_.of_backward(op, now)));
        return;
    }
  }

  // Before a backward whose forward kept the stage's input only.
  void recompute(std::size_t k) {
    const Op& op = ops_[k];
    if (!makes_input_gradient(op) || !keeps_input_only(k)) return;
    const int now = reads_.newest_after(gradients_done_[op.stage.index()]);
    out_.push_back(compute(op, Opcode::recompute, reads_.of_recomputation(op, now)));
  }

  // Whether op k's forward (op k itself, or that of the backward k) keeps the stage's input only: its activations are
  // made again. With WeightRule::keep_if_next a forward whose backward is the rank's next op keeps them all the same.
  bool keeps_input_only(std::size_t k) const {
    if (!rule_.recomputes(ops_[k].stage.index())) return false;
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
    std::int32_t& next = received_[static_cast<std::size_t>(message.channel)];
    for (; next <= message.position; ++next) out_.push_back(receives[static_cast<std::size_t>(next)]);
  }

  // After a B or W: the step, where an update has all its gradients, or what stands in its place.
  void finish_gradient(const Op& op) {
    const std::size_t s = op.stage.index();
    const int done = ++gradients_done_[s];
    const bool last = --gradients_to_come_[s] == 0;
    if (last && program_.placement.has_weight_gradient_rank(op.stage)) {
      out_.push_back(messages_.send_weight_gradient_sum(op.stage));
      return;
    }
    const bool replicated = program_.placement.stages[s].size() > 1;
    if (rule_.synchronous()) {
      if (!last) return;
      const Instruction step{.opcode = Opcode::optimizer_step, .stage = op.stage, .micro = Micro(0), .version = 1};
      (replicated ? steps_at_flush_ : out_).push_back(step);
      return;
    }
    const bool full = done % rule_.accumulate == 0;
    const bool partial = last && program_.policy.leftover == RunPolicy::Leftover::partial;
    if (!full && !partial) return;
    Instruction step{.opcode = Opcode::optimizer_step, .stage = op.stage};
    step.version = reads_.newest_after(done + (full ? 0 : rule_.accumulate));
    step.micro = Micro((step.version * program_.micros_per_step[s] - 1) / program_.micros_per_update);
    if (replicated) out_.push_back(collective_of_step(Opcode::reduce_gradients, step));
    out_.push_back(step);
  }

  // All-reduces block. Those of a flush stand at the end, by stage on every rank: anywhere earlier, a rank could wait
  // in one for a rank that waits for its next op.
  void flush_replicated_stages() {
    std::ranges::sort(steps_at_flush_, {}, &Instruction::stage);
    for (const Instruction& step : steps_at_flush_) {
      const bool sharded = program_.sharded(step.stage);
      if (!sharded) out_.push_back(collective_of_step(Opcode::reduce_gradients, step));
      out_.push_back(step);
      if (sharded && program_.sharding.gather == Sharding::Gather::after_step)
        out_.push_back(collective_of_step(Opcode::gather_weights, step));
    }
  }

  // The rank that holds the weights steps with the sum that the rank of the stage's W has sent it.
  void step_after_weight_gradient_ranks() {
    for (std::size_t s = 0; s < program_.graph.size(); ++s) {
      const StageId stage(s);
      if (!program_.placement.has_weight_gradient_rank(stage)) continue;
      if (program_.placement.stages[s].front() != rank_) continue;
      receive_until(messages_.weight_gradient_sum(stage));
      out_.push_back({.opcode = Opcode::optimizer_step, .stage = stage, .micro = Micro(0), .version = 1});
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
  const Messages& messages_;
  WeightReads& reads_;
  const Program& program_;
  const WeightRule& rule_;
  std::vector<Instruction>& out_;
  const ShardingInstructions sharding_;
  std::vector<std::int32_t> received_;                   // per channel: messages taken so far
  std::vector<int> gradients_done_, gradients_to_come_;  // per stage: B and W on this rank
  std::vector<Instruction> steps_at_flush_;              // of replicated stages
  std::vector<Messages::Awaited> awaited_;               // of the op that is being written
};

void refuse_what_cannot_be_lowered(const StageGraph& graph, const Placement& placement, const WeightRule& rule,
                                   const Sharding& sharding, const RunPolicy& policy) {
  if (!rule.synchronous() && std::ranges::any_of(graph.micros_per_op, [](int g) { return g > 1; }))
    throw InputError("plan",
                     "a stage takes several micro-batches at once, and the system updates after "
                     "every backward",
                     "give every stage one");
  if (!rule.synchronous() && (policy.step_barrier || !placement.weight_gradient_ranks.empty()))
    throw InputError("schedule",
                     "a step barrier, or weight gradients on ranks of their own, need a "
                     "system that updates once after all backwards");
  if (sharding.active() && !placement.weight_gradient_ranks.empty())
    throw InputError("sharding", "weight gradients run on ranks of their own, which hold no weights",
                     "leave sharding out");
  const bool replicated =
      std::ranges::any_of(placement.stages, [](const std::vector<Rank>& ranks) { return ranks.size() > 1; });
  if (replicated && sharding.active() && !rule.synchronous())
    throw InputError("sharding", "the system updates without a flush, which needs whole weights",
                     "use it with replicas");
  if (sharding.active() != (sharding.reduce != Sharding::Reduce::never))
    throw std::logic_error("a sharded stage both gathers weights and scatters gradients");
}

}  // namespace

Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
              const Sharding& sharding, const RunPolicy& policy) {
  const auto violations = check(schedule, graph, placement);
  if (!violations.empty()) throw InputError("schedule", violations.front().text);
  refuse_what_cannot_be_lowered(graph, placement, rule, sharding, policy);
  Program program{.graph = graph,
                  .placement = placement,
                  .microbatches = schedule.microbatches,
                  .rule = rule,
                  .policy = policy,
                  .sharding = sharding};
  program.ranks.resize(schedule.ranks.size());
  const Messages messages(schedule, program.graph, program.placement, policy.step_barrier);
  program.channels = messages.channels();
  WeightReads reads(schedule, program);
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    RankLowering(schedule, Rank(r), messages, reads, program).run();
  return program;
}

}  // namespace sluice
