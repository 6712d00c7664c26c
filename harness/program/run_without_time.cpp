#include <algorithm>
#include <set>

#include "harness/base/stop.h"
#include "harness/program/check_program_parts.h"

namespace sluice {

namespace {

class DryRun {
 public:
  explicit DryRun(const Program& program)
      : program_(program),
        micros_(static_cast<std::size_t>(program.microbatches)),
        next_(program.ranks.size(), 0),
        in_transit_(program.channels.size(), 0),
        arrived_at_(program.placement.stages.size(), 0),
        round_end_(program.ranks.size(), 0),
        waiting_(program.ranks.size(), false) {
    for (std::size_t s = 0; s < program.graph.size(); ++s) {
      first_edge_.push_back(edges_);
      edges_ += program.graph.successors[s].size();
    }
    has_.assign(edges_ * micros_ * 2, false);
  }

  void run(std::vector<Violation>& found) {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next_.size(); ++r) {
        check_stop();
        while (next_[r] < program_.ranks[r].size() && execute(r, found)) {
          ++next_[r];
          moved = true;
        }
      }
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < program_.ranks[r].size())
        found.push_back({Violation::Kind::deadlock,
                         on_rank(r) + to_text(program_.ranks[r][next_[r]]) + " waits for ever" + others_of(r)});
  }

 private:
  // Where the value of an edge stands once its receiver's rank has it.
  std::size_t slot(StageId from, StageId to, Micro micro, bool gradient) const {
    const auto& list = program_.graph.successors[from.index()];
    const auto k = static_cast<std::size_t>(std::ranges::find(list, to) - list.begin());
    return ((first_edge_[from.index()] + k) * micros_ + micro.index()) * 2 + (gradient ? 1 : 0);
  }
  // Whether the op that takes a message of `a` at `b` is on the rank of `a`'s op.
  bool local(StageId a, Micro op, StageId b, Micro message) const {
    return program_.placement.rank_of(a, op) ==
           program_.placement.rank_of(b, op_of_message(program_.graph, b, message, a));
  }

  // Where the members of the group are that rank r waits for in a collective.
  std::string others_of(std::size_t r) const {
    const Instruction& i = program_.ranks[r][next_[r]];
    std::string text;
    if (!is_collective(i.opcode)) return text;
    for (const Rank member : program_.placement.stages[i.stage.index()]) {
      const std::size_t m = member.index();
      const bool done = next_[m] == program_.ranks[m].size();
      if (m == r ||
          (!done && is_collective(program_.ranks[m][next_[m]].opcode) && program_.ranks[m][next_[m]].stage == i.stage))
        continue;
      text += (text.empty() ? ": rank " : ", rank ") + std::to_string(m) + " is at " +
              (done ? "its end" : to_text(program_.ranks[m][next_[m]]));
    }
    return text;
  }

  bool execute(std::size_t r, std::vector<Violation>& found) {
    const Instruction& i = program_.ranks[r][next_[r]];
    if (is_collective(i.opcode)) return meet(r, i);
    if (is_receive(i.opcode)) return receive(i);
    if (is_send(i.opcode)) {
      ++in_transit_[i.channel];
      return true;
    }
    switch (i.opcode) {
      case Opcode::weight_gradient:
        if (program_.placement.has_weight_gradient_rank(i.stage) && has_stash_.erase({i.stage, i.micro}) == 0)
          found.push_back({Violation::Kind::wrong_order,
                           on_rank(r) + to_text(i) + " runs before what it reads has come from its stage"});
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
    if (i.opcode == Opcode::receive_stash) has_stash_.insert({i.stage, i.micro});
    if (i.opcode == Opcode::receive_gradient) has_[slot(i.stage, i.peer_stage, i.micro, true)] = true;
    if (i.opcode == Opcode::receive_activation) has_[slot(i.peer_stage, i.stage, i.micro, false)] = true;
    return true;
  }

  // A member of round n of a group's collectives may go on once all members have come n times.
  bool meet(std::size_t r, const Instruction& i) {
    const auto members = program_.placement.stages[i.stage.index()].size();
    std::size_t& arrived = arrived_at_[i.stage.index()];
    if (!waiting_[r]) {
      waiting_[r] = true;
      round_end_[r] = (arrived / members + 1) * members;
      ++arrived;
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
          found.push_back({Violation::Kind::wrong_order, on_rank(r) + to_text(i) +
                                                             " runs before its input from stage " +
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
  std::size_t micros_, edges_ = 0;
  std::vector<std::size_t> first_edge_, next_, in_transit_, arrived_at_, round_end_;
  std::vector<bool> has_, waiting_;
  std::set<std::pair<StageId, Micro>> has_stash_;
};

}  // namespace

void run_without_time(const Program& program, std::vector<Violation>& found) { DryRun(program).run(found); }

}  // namespace sluice
