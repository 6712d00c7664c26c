#include "harness/core/program.h"

#include <algorithm>
#include <map>

#include "harness/core/check.h"
#include "harness/core/error.h"

namespace sluice {

std::string to_text(const Instruction& i) {
  const std::string edge =
      std::to_string(i.stage.value) + "->" + std::to_string(i.peer_stage.value);
  const std::string from =
      std::to_string(i.peer_stage.value) + "->" + std::to_string(i.stage.value);
  const std::string micro = std::to_string(i.micro.value);
  const std::string stage = std::to_string(i.stage.value);
  switch (i.what) {
    case Do::forward:
      return stage + "F" + micro;
    case Do::backward:
      return stage + "B" + micro;
    case Do::input_gradient:
      return stage + "I" + micro;
    case Do::weight_gradient:
      return stage + "W" + micro;
    case Do::send_activation:
      return "send_activation " + edge + " " + micro;
    case Do::receive_activation:
      return "receive_activation " + from + " " + micro;
    case Do::send_gradient:
      return "send_gradient " + edge + " " + micro;
    case Do::receive_gradient:
      return "receive_gradient " + from + " " + micro;
    case Do::reduce_gradients:
      return "reduce " + stage;
    case Do::optimizer_step:
      return "step " + stage;
  }
  return "?";
}

namespace {

// One activation (down an edge of the stage DAG) or gradient (up it) of one micro-batch that
// changes ranks.
struct MessageKey {
  std::int32_t edge, micro;
  bool gradient;
};

class Lowering {
 public:
  Lowering(const Schedule& schedule, const StageGraph& graph, const Placement& placement,
           const WeightRule& rule)
      : schedule_(schedule),
        graph_(graph),
        micros_(static_cast<std::size_t>(schedule.microbatches)) {
    program_.graph = graph;
    program_.placement = placement;
    program_.microbatches = schedule.microbatches;
    program_.rule = rule;
    program_.ranks.resize(schedule.ranks.size());
    edges_of_.resize(graph.size());
    for (std::size_t s = 0; s < graph.size(); ++s)
      for (const StageId t : graph.successors[s]) {
        edges_of_[s].down.push_back(edges_.size());
        edges_of_[t.index()].up.push_back(edges_.size());
        edges_.push_back({StageId(s), t});
      }
    index_.assign(edges_.size() * micros_ * 2, 0);
  }

  Program run() {
    number_messages();
    assign_versions();
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) emit(r);
    return std::move(program_);
  }

 private:
  struct StageEdges {
    std::vector<std::size_t> down, up;  // edges to successors, from predecessors
  };

  Rank rank_of(StageId stage, Micro micro) const {
    return program_.placement.rank_of(stage, micro);
  }
  std::int32_t& message_index(std::size_t edge, Micro micro, bool gradient) {
    return index_[(edge * micros_ + micro.index()) * 2 + (gradient ? 1 : 0)];
  }

  int channel(Rank from, Rank to) {
    const auto [found, fresh] =
        channel_of_.try_emplace({from, to}, static_cast<int>(program_.channels.size()));
    if (fresh) {
      program_.channels.push_back({from, to, 0});
      messages_.emplace_back();
    }
    return found->second;
  }

  // Numbers every message in the order its sender makes it; calls visit(edge, gradient) for each
  // that changes ranks.
  template <class Visit>
  void for_each_send(const Op& op, Visit visit) {
    const auto& stage = edges_of_[op.stage.index()];
    if (op.kind == OpKind::forward) {
      for (const std::size_t e : stage.down)
        if (rank_of(edges_[e].second, op.micro) != rank_of(op.stage, op.micro)) visit(e, false);
    } else if (op.kind != OpKind::weight_gradient) {
      for (const std::size_t e : stage.up)
        if (rank_of(edges_[e].first, op.micro) != rank_of(op.stage, op.micro)) visit(e, true);
    }
  }

  void number_messages() {
    for (const auto& ops : schedule_.ranks)
      for (const Op& op : ops)
        for_each_send(op, [&](std::size_t e, bool gradient) {
          const StageId target = gradient ? edges_[e].first : edges_[e].second;
          const int c = channel(rank_of(op.stage, op.micro), rank_of(target, op.micro));
          auto& list = messages_[static_cast<std::size_t>(c)];
          message_index(e, op.micro, gradient) = static_cast<std::int32_t>(list.size());
          list.push_back({static_cast<std::int32_t>(e), op.micro.value, gradient});
          program_.channels[static_cast<std::size_t>(c)].messages++;
        });
  }

  // newest_[stage][micro]: updates of the stage before its forward; injected_: carried from stage 0
  // on.
  void assign_versions() {
    forward_version_.assign(graph_.size() * micros_, 0);
    if (program_.rule.synchronous()) {
      program_.updates = 1;
      return;
    }
    const auto accumulate = program_.rule.accumulate;
    for (const auto& ops : schedule_.ranks) {
      std::vector<int> backwards(graph_.size(), 0);
      for (const Op& op : ops) {
        if (op.kind == OpKind::forward)
          forward_version_[op.stage.index() * micros_ + op.micro.index()] =
              backwards[op.stage.index()] / accumulate;
        else if (op.kind != OpKind::input_gradient)
          ++backwards[op.stage.index()];
      }
    }
    program_.updates = schedule_.microbatches / accumulate;
    if (program_.rule.forward == WeightRule::Forward::injected) {
      // Stages in topological order: a stage's number of predecessors still to come reaches zero.
      std::vector<std::size_t> waiting(graph_.size()), ready;
      for (std::size_t s = 0; s < graph_.size(); ++s)
        if ((waiting[s] = graph_.predecessors[s].size()) == 0) ready.push_back(s);
      // A batch enters all stages that only read data as one: a decoder's first stage may be one.
      for (std::size_t i = 0; i < micros_; ++i) {
        std::int32_t entered = INT32_MAX;
        for (const std::size_t s : ready)
          entered = std::min(entered, forward_version_[s * micros_ + i]);
        for (const std::size_t s : ready) forward_version_[s * micros_ + i] = entered;
      }
      while (!ready.empty()) {
        const std::size_t s = ready.back();
        ready.pop_back();
        for (const StageId t : graph_.successors[s]) {
          for (std::size_t i = 0; i < micros_; ++i)
            forward_version_[t.index() * micros_ + i] = std::min(
                forward_version_[t.index() * micros_ + i], forward_version_[s * micros_ + i]);
          if (--waiting[t.index()] == 0) ready.push_back(t.index());
        }
      }
    }
  }

  void emit(std::size_t r) {
    auto& out = program_.ranks[r];
    const auto& ops = schedule_.ranks[r];
    out.reserve(ops.size() * 3 + 8);
    std::vector<std::size_t> last_gradient(graph_.size(),
                                           0);  // position + 1 of the stage's last B or W
    for (std::size_t k = 0; k < ops.size(); ++k)
      if (ops[k].kind == OpKind::backward || ops[k].kind == OpKind::weight_gradient)
        last_gradient[ops[k].stage.index()] = k + 1;
    std::map<int, std::size_t> received;
    std::vector<int> gradients_done(graph_.size(), 0);
    std::vector<Instruction> reduced;  // steps of replicated stages

    const auto receive = [&](std::size_t edge, Micro micro, bool gradient, StageId peer) {
      const Rank from = rank_of(peer, micro);
      if (from == Rank(r)) return;
      const int c = channel_of_.at({from, Rank(r)});
      const auto needed = static_cast<std::size_t>(message_index(edge, micro, gradient));
      for (std::size_t& next = received[c]; next <= needed; ++next) {
        const MessageKey& m = messages_[static_cast<std::size_t>(c)][next];
        const auto [head, tail] = edges_[static_cast<std::size_t>(m.edge)];
        Instruction i{m.gradient ? Do::receive_gradient : Do::receive_activation};
        i.stage = m.gradient ? head : tail;
        i.peer_stage = m.gradient ? tail : head;
        i.micro = Micro(m.micro);
        i.channel = c;
        out.push_back(i);
      }
    };

    for (std::size_t k = 0; k < ops.size(); ++k) {
      const Op& op = ops[k];
      const std::size_t s = op.stage.index();
      if (op.kind == OpKind::forward) {
        for (const std::size_t e : edges_of_[s].up) receive(e, op.micro, false, edges_[e].first);
      } else if (op.kind != OpKind::weight_gradient) {
        for (const std::size_t e : edges_of_[s].down) receive(e, op.micro, true, edges_[e].second);
      }
      Instruction compute{static_cast<Do>(op.kind), op.stage, op.micro};
      const int newest =
          program_.rule.synchronous() ? 0 : gradients_done[s] / program_.rule.accumulate;
      const int forward = forward_version_[s * micros_ + op.micro.index()];
      const bool reads_forward = op.kind == OpKind::forward ||
                                 program_.rule.backward == WeightRule::Backward::same_as_forward;
      compute.version = reads_forward ? forward : newest;
      out.push_back(compute);
      for_each_send(op, [&](std::size_t e, bool gradient) {
        Instruction send{gradient ? Do::send_gradient : Do::send_activation, op.stage, op.micro};
        send.peer_stage = gradient ? edges_[e].first : edges_[e].second;
        send.channel = channel_of_.at({Rank(r), rank_of(send.peer_stage, op.micro)});
        out.push_back(send);
      });
      if (op.kind == OpKind::backward || op.kind == OpKind::weight_gradient) {
        ++gradients_done[s];
        const bool update = program_.rule.synchronous()
                                ? last_gradient[s] == k + 1
                                : gradients_done[s] % program_.rule.accumulate == 0;
        if (update) {
          Instruction step{Do::optimizer_step, op.stage};
          step.version =
              program_.rule.synchronous() ? 1 : gradients_done[s] / program_.rule.accumulate;
          step.micro = Micro(step.version - 1);
          (program_.placement.stages[s].size() > 1 ? reduced : out).push_back(step);
        }
      }
    }
    // All-reduces block. They stand at the end, by stage on every rank: anywhere earlier, a rank
    // could wait in one for a rank that waits for its next op.
    std::ranges::sort(reduced, {}, &Instruction::stage);
    for (const Instruction& step : reduced) {
      Instruction reduce = step;
      reduce.what = Do::reduce_gradients;
      reduce.channel = step.stage.value;
      out.push_back(reduce);
      out.push_back(step);
    }
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  std::size_t micros_;
  Program program_;
  std::vector<std::pair<StageId, StageId>> edges_;
  std::vector<StageEdges> edges_of_;
  std::vector<std::int32_t> index_;
  std::map<std::pair<Rank, Rank>, int> channel_of_;
  std::vector<std::vector<MessageKey>> messages_;
  std::vector<std::int32_t> forward_version_;
};

}  // namespace

Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement,
              const WeightRule& rule) {
  const auto violations = check(schedule, graph, placement);
  if (!violations.empty()) throw InputError("schedule", violations.front().text);
  if (!rule.synchronous()) {
    for (std::size_t s = 0; s < placement.stages.size(); ++s)
      if (placement.stages[s].size() > 1)
        throw InputError("plan",
                         "stage " + std::to_string(s) +
                             " is replicated, and the system updates after every backward",
                         "give it one device");
  }
  return Lowering(schedule, graph, placement, rule).run();
}

}  // namespace sluice
