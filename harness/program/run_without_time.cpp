#include <algorithm>
#include <set>

#include "harness/base/stop.h"
#include "harness/program/check_program_parts.h"
#include "harness/program/wait_cycle.h"

namespace sluice {

namespace {

class DryRun {
 public:
  DryRun(const Program& program, SendEnd sends, InstructionText text)
      : program_(program),
        sends_(sends),
        text_(text),
        microbatches_(static_cast<std::size_t>(program.microbatches)),
        next_(program.ranks.size(), 0),
        in_transit_(program.channels.size(), 0),
        groups_(collective_groups(program)),
        arrived_at_(groups_.size(), 0),
        round_end_(program.ranks.size(), 0),
        waiting_(program.ranks.size(), false),
        is_awake_(program.ranks.size(), false) {
    for (std::size_t s = 0; s < program.graph.size(); ++s) {
      first_edge_.push_back(edges_);
      edges_ += program.graph.successors[s].size();
    }
    has_.assign(edges_ * microbatches_ * 2, false);
  }

  void run(std::vector<Violation>& found) {
    for (std::size_t r = 0; r < next_.size(); ++r) wake(next_.size() - 1 - r);
    while (!awake_.empty()) {
      check_stop();
      const std::size_t r = awake_.back();
      awake_.pop_back();
      is_awake_[r] = false;
      while (next_[r] < program_.ranks[r].size() && execute(r, found)) ++next_[r];
    }
    if (const auto cycle = wait_cycle(next_.size(), [&](std::size_t r) { return wait_of(r); })) {
      found.push_back(*cycle);
      return;
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < program_.ranks[r].size())
        found.push_back({Violation::Kind::deadlock, on_rank(r) + text_(at(r)) + " waits for ever" + others_of(r)});
  }

 private:
  // Where the value of an edge stands once its receiver's rank has it.
  std::size_t slot(StageId from, StageId to, Micro micro, bool gradient) const {
    const auto& list = program_.graph.successors[from.index()];
    const auto k = static_cast<std::size_t>(std::ranges::find(list, to) - list.begin());
    return ((first_edge_[from.index()] + k) * microbatches_ + micro.index()) * 2 + (gradient ? 1 : 0);
  }
  // Whether the op that takes a message of `a` at `b` is on the rank of `a`'s op.
  bool local(StageId a, Micro op, StageId b, Micro message) const {
    return program_.placement.rank_of(a, op) ==
           program_.placement.rank_of(b, op_of_message(program_.graph, b, message, a));
  }

  const Instruction& at(std::size_t r) const { return program_.ranks[r][next_[r]]; }
  bool at_end(std::size_t r) const { return next_[r] == program_.ranks[r].size(); }
  bool at_collective_of(std::size_t r, std::int32_t group) const {
    return !at_end(r) && is_collective(at(r).opcode) && at(r).channel == group;
  }
  const std::vector<Rank>& members_of(const Instruction& collective) const {
    return groups_[static_cast<std::size_t>(collective.channel)];
  }

  void wake(std::size_t r) {
    if (is_awake_[r]) return;
    is_awake_[r] = true;
    awake_.push_back(r);
  }

  Wait wait_of(std::size_t r) const {
    if (at_end(r)) return {};
    const Instruction& i = at(r);
    if (is_message(i.opcode)) {
      const Channel& channel = program_.channels[i.channel];
      return {(is_send(i.opcode) ? channel.to : channel.from).value, text_(i), text_(other_end(i))};
    }
    for (const Rank member : members_of(i))
      if (member.index() != r && !at_collective_of(member.index(), i.channel)) return {member.value, text_(i), ""};
    return {};
  }

  // Where the members of the group are that rank r waits for in a collective.
  std::string others_of(std::size_t r) const {
    const Instruction& i = at(r);
    std::string text;
    if (!is_collective(i.opcode)) return text;
    for (const Rank member : members_of(i)) {
      const std::size_t m = member.index();
      if (m == r || at_collective_of(m, i.channel)) continue;
      text += (text.empty() ? ": rank " : ", rank ") + std::to_string(m) + " is at " +
              (at_end(m) ? "its end" : text_(at(m)));
    }
    return text;
  }

  // A send that waits for its receive: the end that comes second completes both. Both ends of a channel have its
  // messages in the same order, so whatever the other rank is at on this channel is the other end.
  bool meet_other_end(const Instruction& i) {
    const Channel& channel = program_.channels[i.channel];
    const std::size_t other = (is_send(i.opcode) ? channel.to : channel.from).index();
    if (at_end(other) || !is_message(at(other).opcode) || at(other).channel != i.channel) return false;
    note_receipt(is_send(i.opcode) ? at(other) : i);
    ++next_[other];
    wake(other);
    return true;
  }

  bool execute(std::size_t r, std::vector<Violation>& found) {
    const Instruction& i = at(r);
    if (is_collective(i.opcode)) return meet(r, i);
    if (is_message(i.opcode) && sends_ == SendEnd::rendezvous) return meet_other_end(i);
    if (is_receive(i.opcode)) return receive(i);
    if (is_send(i.opcode)) {
      ++in_transit_[i.channel];
      wake(program_.channels[i.channel].to.index());
      return true;
    }
    switch (i.opcode) {
      case Opcode::weight_gradient:
        if (program_.placement.has_weight_gradient_rank(i.stage) && has_stash_.erase({i.stage, i.micro}) == 0)
          found.push_back({Violation::Kind::wrong_order,
                           on_rank(r) + text_(i) + " runs before what it reads has come from its stage"});
        return true;
      case Opcode::forward:
      case Opcode::backward:
      case Opcode::input_gradient:
        compute(r, i, found);
        return true;
      default:
        return true;
    }
  }

  bool receive(const Instruction& i) {
    std::size_t& waiting = in_transit_[i.channel];
    if (waiting == 0) return false;
    --waiting;
    note_receipt(i);
    return true;
  }

  void note_receipt(const Instruction& i) {
    if (i.opcode == Opcode::receive_stash) has_stash_.insert({i.stage, i.micro});
    if (i.opcode == Opcode::receive_gradient) has_[slot(i.stage, i.peer_stage, i.micro, true)] = true;
    if (i.opcode == Opcode::receive_activation) has_[slot(i.peer_stage, i.stage, i.micro, false)] = true;
  }

  // A member of round n of a group's collectives may go on once all members have come n times.
  bool meet(std::size_t r, const Instruction& i) {
    const auto members = members_of(i).size();
    std::size_t& arrived = arrived_at_[static_cast<std::size_t>(i.channel)];
    if (!waiting_[r]) {
      waiting_[r] = true;
      round_end_[r] = (arrived / members + 1) * members;
      ++arrived;
      if (arrived == round_end_[r])
        for (const Rank member : members_of(i)) wake(member.index());
    }
    if (arrived < round_end_[r]) return false;
    waiting_[r] = false;
    return true;
  }

  void compute(std::size_t r, const Instruction& i, std::vector<Violation>& found) {
    const bool forward = i.opcode == Opcode::forward;
    const auto& sources =
        forward ? program_.graph.predecessors[i.stage.index()] : program_.graph.successors[i.stage.index()];
    const auto& targets =
        forward ? program_.graph.successors[i.stage.index()] : program_.graph.predecessors[i.stage.index()];
    for (const StageId source : sources) {
      const auto [first, last] = messages_of(program_.graph, i.stage, i.micro, source);
      for (Micro m(first); m.value < last; ++m.value)
        if (!has_[forward ? slot(source, i.stage, m, false) : slot(i.stage, source, m, true)])
          found.push_back({Violation::Kind::wrong_order, on_rank(r) + text_(i) + " runs before its input from stage " +
                                                             std::to_string(source.value) + " is there"});
    }
    for (const StageId target : targets) {
      const auto [first, last] = messages_of(program_.graph, i.stage, i.micro, target);
      for (Micro m(first); m.value < last; ++m.value)
        if (local(i.stage, i.micro, target, m))
          has_[forward ? slot(i.stage, target, m, false) : slot(target, i.stage, m, true)] = true;
    }
  }

  const Program& program_;
  const SendEnd sends_;
  const InstructionText text_;
  std::size_t microbatches_, edges_ = 0;
  std::vector<std::size_t> first_edge_, next_, in_transit_;
  const std::vector<std::vector<Rank>> groups_;
  std::vector<std::size_t> arrived_at_, round_end_;
  std::vector<std::size_t> awake_;  // ranks that may go on
  std::vector<bool> has_, waiting_, is_awake_;
  std::set<std::pair<StageId, Micro>> has_stash_;
};

}  // namespace

void run_without_time(const Program& program, SendEnd sends, InstructionText text, std::vector<Violation>& found) {
  DryRun(program, sends, text).run(found);
}

}  // namespace sluice
