// A schedule's and a program's rules, one function or class a rule and a dry run for deadlocks;
// long because there are many.
#include "harness/program/check.h"

#include <algorithm>
#include <map>
#include <set>

namespace sluice {

namespace {

std::string on_rank(std::size_t rank) { return "rank " + std::to_string(rank) + ": "; }

// How often each kind of op was seen for every (stage, micro-batch).
struct Counts {
  std::vector<std::uint8_t> seen;
  std::size_t micros;
  std::uint8_t& at(const Op& op) { return at(op.kind, op.stage, op.micro); }
  std::uint8_t& at(OpKind kind, StageId stage, Micro micro) {
    return seen[(stage.index() * micros + micro.index()) * 4 + static_cast<std::size_t>(kind)];
  }
};

void check_each_once(const Schedule& schedule, const StageGraph& graph, const Placement& placement, Counts& counts,
                     std::vector<Violation>& found) {
  using Kind = Violation::Kind;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    for (const Op& op : schedule.ranks[r]) {
      if (op.stage.value < 0 || op.stage.index() >= graph.size() || op.micro.value < 0 ||
          op.micro.value >= schedule.microbatches / graph.micros_per_op_of(op.stage)) {
        found.push_back(
            {Kind::wrong_rank, on_rank(r) + to_text(op) + " names a stage or micro-batch that does not exist"});
        continue;
      }
      const Rank home = placement.rank_of(op);
      if (home != Rank(r))
        found.push_back(
            {Kind::wrong_rank, on_rank(r) + to_text(op) + " belongs to rank " + std::to_string(home.value)});
      std::uint8_t& n = counts.at(op);
      if (n == 1) found.push_back({Kind::duplicate_op, on_rank(r) + to_text(op) + " is run twice"});
      n = static_cast<std::uint8_t>(std::min(n + 1, 2));
    }
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto& ops = schedule.ranks[r];
    for (std::size_t k = 0; k < ops.size(); ++k)
      if (ops[k].overlapped && (k + 1 == ops.size() || ops[k + 1].overlapped))
        found.push_back({Kind::wrong_order, on_rank(r) + to_text(ops[k]) + " is half a pair: it overlaps " +
                                                (k + 1 == ops.size() ? "nothing" : "the half of another")});
  }
  for (std::size_t s = 0; s < graph.size(); ++s)
    for (int m = 0; m < schedule.microbatches / graph.micros_per_op_of(StageId(s)); ++m) {
      const auto has = [&](OpKind kind) { return counts.at(kind, StageId(s), Micro(m)) > 0; };
      const auto missing = [&](OpKind kind) {
        found.push_back({Kind::missing_op, to_text(Op{kind, StageId(s), Micro(m)}) + " is run by no rank"});
      };
      if (!has(OpKind::forward)) missing(OpKind::forward);
      const bool split = has(OpKind::input_gradient) || has(OpKind::weight_gradient);
      if (!split && !has(OpKind::backward)) missing(OpKind::backward);
      if (split && !has(OpKind::input_gradient)) missing(OpKind::input_gradient);
      if (split && !has(OpKind::weight_gradient)) missing(OpKind::weight_gradient);
      if (split && has(OpKind::backward))
        found.push_back({Kind::duplicate_op, to_text(Op{OpKind::backward, StageId(s), Micro(m)}) +
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
        micros_(static_cast<std::size_t>(schedule.microbatches)),
        done_(graph.size() * micros_, 0),
        next_(schedule.ranks.size(), 0),
        waiters_(graph.size() * micros_) {}

  void run(std::vector<Violation>& found) {
    std::vector<std::size_t> ready(schedule_.ranks.size());
    for (std::size_t r = 0; r < ready.size(); ++r) ready[r] = ready.size() - 1 - r;
    while (!ready.empty()) {
      const std::size_t r = ready.back();
      ready.pop_back();
      const auto& ops = schedule_.ranks[r];
      while (next_[r] < ops.size()) {
        Op needed;
        if (step_blocked(r, &needed) != nullptr) {
          waiters_[slot(needed)].push_back(r);
          break;
        }
        bool more = true;  // ops of the step
        for (; more; ++next_[r]) {
          const Op& op = ops[next_[r]];
          more = op.overlapped;
          done_[slot(op)] |= bit(op.kind);
          for (const std::size_t waiter : waiters_[slot(op)]) ready.push_back(waiter);
          waiters_[slot(op)].clear();
        }
      }
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < schedule_.ranks[r].size()) report(r, found);
  }

 private:
  static std::uint8_t bit(OpKind kind) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind)); }
  std::size_t slot(const Op& op) const { return op.stage.index() * micros_ + op.micro.index(); }
  bool is_done(OpKind kind, StageId stage, Micro micro) const {
    return (done_[stage.index() * micros_ + micro.index()] & bit(kind)) != 0;
  }
  bool gradient_done(StageId stage, Micro micro) const {
    return is_done(OpKind::backward, stage, micro) || is_done(OpKind::input_gradient, stage, micro);
  }

  bool blocked(const Op& op, Op* needed) const {
    const auto need = [&](OpKind kind, StageId stage, Micro micro) {
      *needed = {kind, stage, micro};
      return true;
    };
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

  void report(std::size_t r, std::vector<Violation>& found) const {
    Op needed;
    const Op& op = *step_blocked(r, &needed);
    const auto home = placement_.rank_of(needed).index();
    const auto& ops = schedule_.ranks[home];
    const auto position = std::ranges::find_if(ops, [&](const Op& o) {
      const bool same_kind =
          o.kind == needed.kind || (needed.kind == OpKind::backward && o.kind == OpKind::input_gradient);
      return same_kind && o.stage == needed.stage && o.micro == needed.micro;
    });
    const std::string what = position == ops.end() ? to_text(needed) : to_text(*position);
    if (home == r) {
      const bool one_step = position != ops.end() && position->overlapped && &op == &*position + 1;
      found.push_back(
          {Violation::Kind::wrong_order,
           on_rank(r) + to_text(op) + (one_step ? " overlaps " : " comes before ") + what + ", which it needs"});
    } else {
      const std::string at = next_[home] < ops.size() ? to_text(ops[next_[home]]) : "its end";
      found.push_back({Violation::Kind::deadlock, on_rank(r) + to_text(op) + " is blocked: it waits for " + what +
                                                      " of rank " + std::to_string(home) + ", which is blocked at " +
                                                      at});
    }
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  const Placement& placement_;
  std::size_t micros_;
  std::vector<std::uint8_t> done_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<std::size_t>> waiters_;
};

}  // namespace

// Where micro-batches are given to replicas by name, every replica must get one.
static void check_replicas(const Placement& placement, std::size_t stage, int microbatches,
                           std::vector<Violation>& found) {
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

// Stages that take several micro-batches at once must take all of them, in whole groups.
static void check_micros_per_op(const StageGraph& graph, int microbatches, std::vector<Violation>& found) {
  for (std::size_t s = 0; s < graph.micros_per_op.size(); ++s)
    if (graph.micros_per_op[s] < 1 || microbatches % graph.micros_per_op[s] != 0)
      found.push_back({Violation::Kind::missing_op, "stage " + std::to_string(s) + " takes " +
                                                        std::to_string(graph.micros_per_op[s]) +
                                                        " micro-batches at once, which " +
                                                        std::to_string(microbatches) + " micro-batches do not allow"});
}

std::vector<Violation> check(const Schedule& schedule, const StageGraph& graph, const Placement& placement) {
  std::vector<Violation> found;
  check_micros_per_op(graph, schedule.microbatches, found);
  if (!found.empty()) return found;
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
    return found;
  }
  for (std::size_t s = 0; s < placement.stages.size(); ++s) {
    std::vector<Rank> ranks = placement.stages[s];
    std::ranges::sort(ranks);
    const std::string stage = "stage " + std::to_string(s);
    if (ranks.empty() || ranks.front() < Rank(0))
      found.push_back({Violation::Kind::wrong_rank, stage + " has no rank"});
    else if (std::ranges::adjacent_find(ranks) != ranks.end())
      found.push_back({Violation::Kind::wrong_rank, stage + " is on one rank twice"});
    else if (const int ops =
                 s < graph.size() ? schedule.microbatches / graph.micros_per_op_of(StageId(s)) : schedule.microbatches;
             ranks.size() > 1 && ranks.size() > static_cast<std::size_t>(ops))
      found.push_back({Violation::Kind::missing_op,
                       stage + " has " + std::to_string(ranks.size()) + " replicas for " + std::to_string(ops) +
                           " micro-batches: one of them would have no gradient to reduce"});
    else if (!placement.replica_of.empty())
      check_replicas(placement, s, schedule.microbatches, found);
    if (placement.has_weight_gradient_rank(StageId(s)) &&
        (ranks.size() != 1 || ranks.front() == placement.weight_gradient_ranks[s]))
      found.push_back({Violation::Kind::wrong_rank, stage + " runs its weight gradients on rank " +
                                                        std::to_string(placement.weight_gradient_ranks[s].value) +
                                                        ", which must be another than the one rank of the stage"});
  }
  if (!found.empty()) return found;
  const auto micros = static_cast<std::size_t>(schedule.microbatches);
  Counts counts{std::vector<std::uint8_t>(graph.size() * micros * 4, 0), micros};
  check_each_once(schedule, graph, placement, counts, found);
  if (found.empty()) Dependencies(schedule, graph, placement).run(found);
  return found;
}

namespace {

// Runs a program without time: data, messages and all-reduces.
class DryRun {
 public:
  explicit DryRun(const Program& program)
      : program_(program),
        micros_(static_cast<std::size_t>(program.microbatches)),
        next_(program.ranks.size(), 0),
        in_transit_(program.channels.size(), 0),
        arrived_at_(program.placement.stages.size(), 0),
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
      for (std::size_t r = 0; r < next_.size(); ++r)
        while (next_[r] < program_.ranks[r].size() && execute(r, found)) {
          ++next_[r];
          moved = true;
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
    const auto c = static_cast<std::size_t>(i.channel);
    switch (i.opcode) {
      case Opcode::send_activation:
      case Opcode::send_gradient:
      case Opcode::send_stash:
      case Opcode::send_weight_gradient:
      case Opcode::send_stepped:
        ++in_transit_[c];
        return true;
      case Opcode::receive_stash:
      case Opcode::receive_weight_gradient:
      case Opcode::receive_stepped:
        if (in_transit_[c] == 0) return false;
        --in_transit_[c];
        if (i.opcode == Opcode::receive_stash) has_stash_.insert({i.stage, i.micro});
        return true;
      case Opcode::receive_activation:
      case Opcode::receive_gradient:
        if (in_transit_[c] == 0) return false;
        --in_transit_[c];
        has_[i.opcode == Opcode::receive_gradient ? slot(i.stage, i.peer_stage, i.micro, true)
                                                  : slot(i.peer_stage, i.stage, i.micro, false)] = true;
        return true;
      case Opcode::reduce_gradients:
      case Opcode::gather_weights:
      case Opcode::reduce_scatter: {
        // Member k of round n may go on once all members have come n times.
        const auto members = program_.placement.stages[i.stage.index()].size();
        std::size_t& arrived = arrived_at_[i.stage.index()];
        if (!waiting_[r]) {
          waiting_[r] = true;
          round_end_.resize(next_.size());
          round_end_[r] = (arrived / members + 1) * members;
          ++arrived;
        }
        if (arrived < round_end_[r]) return false;
        waiting_[r] = false;
        return true;
      }
      case Opcode::weight_gradient:
        if (program_.placement.has_weight_gradient_rank(i.stage) && has_stash_.erase({i.stage, i.micro}) == 0)
          found.push_back({Violation::Kind::wrong_order,
                           on_rank(r) + to_text(i) + " runs before what it reads has come from its stage"});
        return true;
      case Opcode::optimizer_step:
      case Opcode::free_weights:
      case Opcode::recompute:
        return true;
      default:
        compute(r, i, found);
        return true;
    }
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

// Gathered copies and unsummed gradients of one rank's sharded stages, in program order.
void check_sharding(const Program& program, std::size_t r, std::vector<Violation>& found) {
  const bool kept = program.sharding.gather == Sharding::Gather::after_step;
  std::map<StageId, int> gathered;  // version of the copy that is there
  std::map<StageId, int> newest, unsummed;
  const auto says = [&](const std::string& text) {
    found.push_back({Violation::Kind::not_gathered, on_rank(r) + text});
  };
  for (const Instruction& i : program.ranks[r])
    if (kept && program.sharded(i.stage)) gathered[i.stage] = 0;
  for (const Instruction& i : program.ranks[r]) {
    if (!program.sharded(i.stage)) {
      if (i.opcode >= Opcode::gather_weights) says(to_text(i) + ", and the stage is not sharded");
      continue;
    }
    const auto copy = gathered.find(i.stage);
    const std::string weights = "weights of stage " + std::to_string(i.stage.value);
    if (reads_weights(i.opcode) && (copy == gathered.end() || copy->second != i.version))
      says(to_text(i) + " reads version " + std::to_string(i.version) + " of the " + weights +
           (copy == gathered.end() ? ", which are not gathered" : ", gathered is " + std::to_string(copy->second)));
    switch (i.opcode) {
      case Opcode::gather_weights:
        if (i.version != newest[i.stage])
          says(to_text(i) + " of version " + std::to_string(i.version) + ", the shards are at " +
               std::to_string(newest[i.stage]));
        if (copy != gathered.end() && !kept) says(to_text(i) + ": they are there");
        gathered[i.stage] = i.version;
        break;
      case Opcode::free_weights:
        if (copy == gathered.end()) says(to_text(i) + ": they are not there");
        gathered.erase(i.stage);
        break;
      case Opcode::backward:
      case Opcode::weight_gradient:
        ++unsummed[i.stage];
        break;
      case Opcode::reduce_scatter:
        unsummed[i.stage] = 0;
        break;
      case Opcode::optimizer_step:
        if (unsummed[i.stage] > 0)
          says(to_text(i) + " misses " + std::to_string(unsummed[i.stage]) +
               " gradients that no reduce_scatter has summed");
        newest[i.stage] = i.version;
        break;
      default:
        break;
    }
  }
  // The next run of the program reads the version that is then newest.
  for (const auto& [stage, version] : gathered)
    if (!kept || version != newest[stage])
      says("ends with version " + std::to_string(version) + " of the weights of stage " + std::to_string(stage.value) +
           " gathered" + (kept ? ", its step has made " + std::to_string(newest[stage]) : ""));
}

// The members of a group have the same collectives in the same order.
void check_collectives(const Program& program, std::vector<Violation>& found) {
  std::map<std::pair<StageId, Rank>, std::vector<const Instruction*>> lists;
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (const Instruction& i : program.ranks[r])
      if (is_collective(i.opcode)) lists[{i.stage, Rank(r)}].push_back(&i);
  for (std::size_t s = 0; s < program.placement.stages.size(); ++s) {
    const auto& members = program.placement.stages[s];
    const auto& first = lists[{StageId(s), members.front()}];
    for (const Rank member : members) {
      const auto& list = lists[{StageId(s), member}];
      const auto differs = std::ranges::mismatch(
          first, list, {}, [](const Instruction* i) { return i->opcode; },
          [](const Instruction* i) { return i->opcode; });
      if (differs.in1 == first.end() && differs.in2 == list.end()) continue;
      const auto at = [](const auto& it, const auto& of) {
        return it == of.end() ? std::string("at its end") : "at " + to_text(**it);
      };
      found.push_back({Violation::Kind::deadlock,
                       "collective " + std::to_string(differs.in1 - first.begin()) + " of stage " + std::to_string(s) +
                           ": rank " + std::to_string(members.front().value) + " is " + at(differs.in1, first) +
                           ", rank " + std::to_string(member.value) + " " + at(differs.in2, list) +
                           "; its ranks need the same number of micro-batches"});
      break;
    }
  }
}

}  // namespace

std::vector<Violation> check(const Program& program) {
  std::vector<Violation> found;
  std::vector<std::vector<Instruction>> sent(program.channels.size()), received(program.channels.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    std::map<StageId, std::int32_t> newest;
    std::set<std::pair<StageId, std::int32_t>> predicted;
    for (const Instruction& i : program.ranks[r]) {
      if (is_message(i.opcode)) {
        const bool sends = is_send(i.opcode);
        const bool exists = i.channel >= 0 && static_cast<std::size_t>(i.channel) < program.channels.size();
        if (!exists || (sends ? program.channels[static_cast<std::size_t>(i.channel)].from
                              : program.channels[static_cast<std::size_t>(i.channel)].to) != Rank(r)) {
          found.push_back(
              {Violation::Kind::wrong_rank, on_rank(r) + to_text(i) + " uses a channel that is not its own"});
          continue;
        }
      }
      if (is_message(i.opcode)) {
        (is_send(i.opcode) ? sent : received)[static_cast<std::size_t>(i.channel)].push_back(i);
        continue;
      }
      switch (i.opcode) {
        case Opcode::optimizer_step:
          newest[i.stage] = i.version;
          break;
        case Opcode::reduce_gradients:
        case Opcode::gather_weights:
        case Opcode::free_weights:
        case Opcode::reduce_scatter:
          break;
        default: {
          const std::int32_t now = newest[i.stage];
          const int retained_versions =
              i.stage.index() < program.retained_versions.size() ? program.retained_versions[i.stage.index()] : 0;
          const std::string reads = on_rank(r) + to_text(i) + " reads weight version " + std::to_string(i.version) +
                                    " of stage " + std::to_string(i.stage.value);
          if (i.version < -retained_versions || i.version > now)
            found.push_back({Violation::Kind::missing_version, reads + ", whose newest is " + std::to_string(now)});
          else if (i.prediction >= 0 && predicted.insert({i.stage, i.prediction}).second && i.version != now)
            found.push_back({Violation::Kind::missing_version,
                             reads + " to predict from, but the optimizer is at version " + std::to_string(now)});
        }
      }
    }
  }
  for (std::size_t c = 0; c < program.channels.size(); ++c) {
    const std::string name = "channel " + std::to_string(program.channels[c].from.value) + " -> " +
                             std::to_string(program.channels[c].to.value) + ": ";
    if (sent[c].size() != received[c].size()) {
      found.push_back({Violation::Kind::deadlock, name + std::to_string(sent[c].size()) + " sends, " +
                                                      std::to_string(received[c].size()) + " receives"});
      continue;
    }
    for (std::size_t k = 0; k < sent[c].size(); ++k) {
      const Instruction &s = sent[c][k], &d = received[c][k];
      const bool same_kind = static_cast<int>(d.opcode) == static_cast<int>(s.opcode) + 1;
      if (!same_kind || s.stage != d.peer_stage || s.peer_stage != d.stage || s.micro != d.micro) {
        found.push_back({Violation::Kind::wrong_order, name + "message " + std::to_string(k) + " is " + to_text(s) +
                                                           ", but its receiver expects " + to_text(d)});
        break;
      }
    }
  }
  if (program.sharding.active()) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) check_sharding(program, r, found);
    check_collectives(program, found);
  }
  if (found.empty()) DryRun(program).run(found);
  return found;
}

}  // namespace sluice
