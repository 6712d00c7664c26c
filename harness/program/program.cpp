// Lowering in one class, and so a long file: one walk over the orders places sends, receives,
// gathers and steps, so that both ends of every message agree.
#include "harness/program/program.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/program/check.h"
#include "harness/program/sharded_places.h"

namespace sluice {

std::string to_text(const Instruction& i) {
  const std::string edge = std::to_string(i.stage.value) + "->" + std::to_string(i.peer_stage.value);
  const std::string from = std::to_string(i.peer_stage.value) + "->" + std::to_string(i.stage.value);
  const std::string micro = std::to_string(i.micro.value);
  const std::string stage = std::to_string(i.stage.value);
  switch (i.opcode) {
    case Opcode::forward:
      return stage + "F" + micro;
    case Opcode::backward:
      return stage + "B" + micro;
    case Opcode::input_gradient:
      return stage + "I" + micro;
    case Opcode::weight_gradient:
      return stage + "W" + micro;
    case Opcode::recompute:
      return stage + "R" + micro;
    case Opcode::send_activation:
      return "send_activation " + edge + " " + micro;
    case Opcode::receive_activation:
      return "receive_activation " + from + " " + micro;
    case Opcode::send_gradient:
      return "send_gradient " + edge + " " + micro;
    case Opcode::receive_gradient:
      return "receive_gradient " + from + " " + micro;
    case Opcode::send_stash:
      return "send_stash " + stage + " " + micro;
    case Opcode::receive_stash:
      return "receive_stash " + stage + " " + micro;
    case Opcode::send_weight_gradient:
      return "send_weight_gradient " + stage;
    case Opcode::receive_weight_gradient:
      return "receive_weight_gradient " + stage;
    case Opcode::send_stepped:
      return "send_stepped";
    case Opcode::receive_stepped:
      return "receive_stepped";
    case Opcode::reduce_gradients:
      return "reduce " + stage;
    case Opcode::optimizer_step:
      return "step " + stage;
    case Opcode::gather_weights:
      return "gather " + stage;
    case Opcode::free_weights:
      return "free " + stage;
    case Opcode::reduce_scatter:
      return "reduce_scatter " + stage;
  }
  return "?";
}

namespace {

// One activation (down an edge of the stage DAG) or gradient (up it) of one micro-batch that
// changes ranks. Of what else changes ranks (`what` says so), `edge` is the stage.
struct MessageKey {
  std::int32_t edge, micro;
  bool gradient;
  Opcode opcode = Opcode::receive_activation;  // receive_stash, ...: as named
};

// What a compute instruction reads: fields of Instruction.
struct Read {
  std::int32_t version = 0;
  std::int16_t horizon = 0;
  std::int32_t prediction = -1;
};

class Lowering {
 public:
  Lowering(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
           const Sharding& sharding, const RunPolicy& policy)
      : schedule_(schedule), graph_(graph), micros_(static_cast<std::size_t>(schedule.microbatches)) {
    program_.graph = graph;
    program_.placement = placement;
    program_.microbatches = schedule.microbatches;
    program_.rule = rule;
    program_.sharding = sharding;
    program_.policy = policy;
    program_.ranks.resize(schedule.ranks.size());
    edges_of_.resize(graph.size());
    for (std::size_t s = 0; s < graph.size(); ++s)
      for (const StageId t : graph.successors[s]) {
        edges_of_[s].down.push_back(edges_.size());
        edges_of_[t.index()].up.push_back(edges_.size());
        edges_.push_back({StageId(s), t});
      }
    index_.assign(edges_.size() * micros_ * 2, 0);
    if (!placement.weight_gradient_ranks.empty()) {
      stash_index_.assign(graph.size() * micros_, 0);
      sum_index_.assign(graph.size(), 0);
    }
  }

  Program run() {
    number_messages();
    note_kept();
    assign_reads();
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) emit(r);
    return std::move(program_);
  }

 private:
  struct StageEdges {
    std::vector<std::size_t> down, up;  // edges to successors, from predecessors
  };

  Rank rank_of(StageId stage, Micro micro) const { return program_.placement.rank_of(stage, micro); }
  std::int32_t& message_index(std::size_t edge, Micro micro, bool gradient) {
    return index_[(edge * micros_ + micro.index()) * 2 + (gradient ? 1 : 0)];
  }

  int channel(Rank from, Rank to) {
    const auto [found, fresh] = channel_of_.try_emplace({from, to}, static_cast<int>(program_.channels.size()));
    if (fresh) {
      program_.channels.push_back({from, to, 0});
      messages_.emplace_back();
    }
    return found->second;
  }

  // The rank at the other end of a message between `stage` and `peer`.
  Rank rank_of_message(StageId peer, Micro message, StageId stage) const {
    return rank_of(peer, op_of_message(graph_, peer, message, stage));
  }

  // Numbers every message in the order its sender makes it; calls visit(edge, message, gradient)
  // for each that changes ranks.
  template <class Visit>
  void for_each_send(const Op& op, Visit visit) {
    const auto& stage = edges_of_[op.stage.index()];
    const auto to = [&](std::size_t e, StageId peer, bool gradient) {
      const auto [first, last] = messages_of(graph_, op.stage, op.micro, peer);
      for (Micro m(first); m.value < last; ++m.value)
        if (rank_of_message(peer, m, op.stage) != rank_of(op.stage, op.micro)) visit(e, m, gradient);
    };
    if (op.kind == OpKind::forward) {
      for (const std::size_t e : stage.down) to(e, edges_[e].second, false);
    } else if (op.kind != OpKind::weight_gradient) {
      for (const std::size_t e : stage.up) to(e, edges_[e].first, true);
    }
  }

  bool has_weight_gradient_rank(const Op& op) const { return program_.placement.has_weight_gradient_rank(op.stage); }
  Rank weight_gradient_rank_of(StageId stage) const { return program_.placement.weight_gradient_ranks[stage.index()]; }

  // Numbers a message that travels along no edge; returns its place in its channel.
  std::int32_t number_message(Rank from, Rank to, const MessageKey& key) {
    const auto c = static_cast<std::size_t>(channel(from, to));
    messages_[c].push_back(key);
    return program_.channels[c].messages++;
  }

  void number_messages() {
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      const auto& ops = schedule_.ranks[r];
      std::vector<int> weight_gradients(graph_.size(), 0);
      for (const Op& op : ops) {
        for_each_send(op, [&](std::size_t e, Micro message, bool gradient) {
          const StageId target = gradient ? edges_[e].first : edges_[e].second;
          const int c = channel(rank_of(op.stage, op.micro), rank_of_message(target, message, op.stage));
          auto& list = messages_[static_cast<std::size_t>(c)];
          message_index(e, message, gradient) = static_cast<std::int32_t>(list.size());
          list.push_back({static_cast<std::int32_t>(e), message.value, gradient});
          program_.channels[static_cast<std::size_t>(c)].messages++;
        });
        if (!has_weight_gradient_rank(op)) continue;
        const std::size_t s = op.stage.index();
        if (op.kind == OpKind::input_gradient)
          stash_index_[place(op.stage, op.micro)] =
              number_message(Rank(r), weight_gradient_rank_of(op.stage),
                             {op.stage.value, op.micro.value, false, Opcode::receive_stash});
        if (op.kind == OpKind::weight_gradient &&
            ++weight_gradients[s] == schedule_.microbatches / graph_.micros_per_op_of(op.stage))
          sum_index_[s] = number_message(Rank(r), program_.placement.stages[s].front(),
                                         {op.stage.value, 0, false, Opcode::receive_weight_gradient});
      }
      if (program_.policy.step_barrier && r > 0) number_message(Rank(r), Rank(0), {0, 0, false, Opcode::receive_stepped});
    }
    if (program_.policy.step_barrier)
      for (std::size_t r = 1; r < schedule_.ranks.size(); ++r)
        number_message(Rank(0), Rank(r), {0, 0, false, Opcode::receive_stepped});
  }

  std::size_t place(StageId stage, Micro micro) const { return stage.index() * micros_ + micro.index(); }

  // What every forward reads.
  void assign_reads() {
    const WeightRule& rule = program_.rule;
    const std::size_t stages = graph_.size();
    forward_.assign(stages * micros_, {});
    program_.predictions.assign(stages, 0);
    program_.retained_versions.assign(stages, 0);
    if (rule.synchronous()) {
      program_.updates = 1;
      program_.micros_per_update = schedule_.microbatches;
      program_.micros_per_step.assign(stages, schedule_.microbatches);
      return;
    }
    for (const auto& replicas : program_.placement.stages)
      program_.micros_per_step.push_back(rule.accumulate * static_cast<int>(replicas.size()));
    program_.micros_per_update = std::ranges::max(program_.micros_per_step);
    for (std::size_t s = 0; s < stages; ++s) {
      const int n = program_.micros_per_step[s];
      const bool replicated = program_.placement.stages[s].size() > 1;
      if (program_.micros_per_update % n != 0 || (replicated && schedule_.microbatches % n != 0))
        throw InputError("schedule",
                         std::to_string(schedule_.microbatches) + " micro-batches, " +
                             std::to_string(program_.micros_per_update) +
                             " an update, are no whole number of the steps of stage " + std::to_string(s) +
                             ", which take " + std::to_string(n) + " each",
                         "choose replicas and micro-batches that divide one another");
    }
    const bool partial = program_.policy.leftover == RunPolicy::Leftover::partial;
    program_.updates =
        (schedule_.microbatches + (partial ? program_.micros_per_update - 1 : 0)) / program_.micros_per_update;
    for (const auto& ops : schedule_.ranks) {
      std::vector<int> backwards(stages, 0);
      for (const Op& op : ops) {
        if (op.kind == OpKind::forward)
          forward_[place(op.stage, op.micro)].version = newest(backwards[op.stage.index()]);
        else if (op.kind != OpKind::input_gradient)
          ++backwards[op.stage.index()];
      }
    }
    if (rule.forward == WeightRule::Forward::vertical_sync) retain_vertical_sync_versions();
    if (rule.forward == WeightRule::Forward::previous) {
      for (std::size_t s = 0; s < stages; ++s)
        for (std::size_t i = 0; i < micros_; ++i) {
          Read& read = forward_[s * micros_ + i];
          const int wanted = std::max(static_cast<int>(i) / program_.micros_per_step[s] - 1, 0);
          if (wanted > read.version)
            throw InputError("schedule",
                             "stage " + std::to_string(s) + " needs weight version " + std::to_string(wanted) +
                                 " for micro-batch " + std::to_string(i) + ", and has made " +
                                 std::to_string(read.version) + " by then",
                             "use at least as many micro-batches per update as there are stages");
          read.version = wanted;
        }
    }
    if (!rule.forward_horizon.empty()) predict_forwards();
    if (rule.backward == WeightRule::Backward::ring)
      for (std::size_t s = 0; s < stages; ++s) program_.retained_versions[s] = lag(s);
  }

  // A stage's version after `backwards` gradients of one of its replicas.
  int newest(int backwards) const { return backwards / program_.rule.accumulate; }

  // Updates between a stage's forward and backward of one batch once the pipe is full, for the
  // ring: one for each stage after it.
  int lag(std::size_t stage) const { return static_cast<int>(graph_.size() - 1 - stage); }

  // Every stage reads the version stage 0 read: the smallest of its predecessors', in topological
  // order.
  void retain_vertical_sync_versions() {
    std::vector<std::size_t> waiting(graph_.size()), ready;
    for (std::size_t s = 0; s < graph_.size(); ++s)
      if ((waiting[s] = graph_.predecessors[s].size()) == 0) ready.push_back(s);
    // A batch enters all stages that only read data as one: a decoder's first stage may be one.
    for (std::size_t i = 0; i < micros_; ++i) {
      std::int32_t entered = INT32_MAX;
      for (const std::size_t s : ready) entered = std::min(entered, forward_[s * micros_ + i].version);
      for (const std::size_t s : ready) forward_[s * micros_ + i].version = entered;
    }
    while (!ready.empty()) {
      const std::size_t s = ready.back();
      ready.pop_back();
      for (const StageId t : graph_.successors[s]) {
        for (std::size_t i = 0; i < micros_; ++i) {
          std::int32_t& version = forward_[t.index() * micros_ + i].version;
          version = std::min(version, forward_[s * micros_ + i].version);
        }
        if (--waiting[t.index()] == 0) ready.push_back(t.index());
      }
    }
  }

  // The first micro-batch of a group predicts, from the version that is newest then; the others
  // read what it made.
  void predict_forwards() {
    const WeightRule& rule = program_.rule;
    const auto group = static_cast<std::size_t>(rule.micros_per_prediction);
    for (std::size_t s = 0; s < graph_.size(); ++s) {
      for (std::size_t i = 0; i < micros_; ++i) {
        Read& read = forward_[s * micros_ + i];
        if (i % group != 0) {
          read = forward_[s * micros_ + i - i % group];
          continue;
        }
        int horizon = rule.forward_horizon[s];
        if (!rule.clip_to_lag.empty()) {
          const int behind = static_cast<int>(i) / program_.micros_per_step[s] - read.version;
          horizon -= std::max(rule.clip_to_lag[s] - behind, 0);
        }
        if (horizon == 0) continue;
        read.horizon = static_cast<std::int16_t>(horizon);
        read.prediction = program_.predictions[s]++;
      }
    }
  }

  // What a backward reads. `newest`: the stage's version when it runs.
  Read backward_read(const Op& op, int newest_version) {
    const WeightRule& rule = program_.rule;
    const std::size_t s = op.stage.index();
    const Read forward = forward_[place(op.stage, op.micro)];
    switch (rule.backward) {
      case WeightRule::Backward::same_as_forward:
        return forward;
      case WeightRule::Backward::ring:
        return op.micro.value < lag(s) ? Read{op.micro.value - lag(s), 0, -1} : forward;
      case WeightRule::Backward::newest:
        break;
    }
    Read read{newest_version, 0, -1};
    if (rule.backward_horizon.empty() || rule.backward_horizon[s] == 0) return read;
    read.horizon = static_cast<std::int16_t>(rule.backward_horizon[s]);
    // Between two steps the prediction stays the same.
    const auto [found, fresh] = backward_prediction_.try_emplace({op.stage, newest_version}, 0);
    if (fresh) found->second = program_.predictions[s]++;
    read.prediction = found->second;
    return read;
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
    const ShardedPlaces places = sharded_places(program_, ops);
    const auto emit_all = [&](const std::vector<Instruction>& list) {
      out.insert(out.end(), list.begin(), list.end());
    };

    const auto receive_until = [&](int c, std::int32_t index) {
      const auto needed = static_cast<std::size_t>(index);
      for (std::size_t& next = received[c]; next <= needed; ++next) {
        const MessageKey& m = messages_[static_cast<std::size_t>(c)][next];
        if (m.opcode != Opcode::receive_activation) {
          Instruction i{.opcode = m.opcode, .stage = StageId(m.edge), .micro = Micro(m.micro)};
          i.peer_stage = i.stage;
          i.channel = c;
          out.push_back(i);
          continue;
        }
        const auto [head, tail] = edges_[static_cast<std::size_t>(m.edge)];
        Instruction i{.opcode = m.gradient ? Opcode::receive_gradient : Opcode::receive_activation};
        i.stage = m.gradient ? head : tail;
        i.peer_stage = m.gradient ? tail : head;
        i.micro = Micro(m.micro);
        i.channel = c;
        out.push_back(i);
      }
    };
    const auto receive_one = [&](std::size_t edge, Micro micro, bool gradient, Rank from) {
      if (from != Rank(r)) receive_until(channel_of_.at({from, Rank(r)}), message_index(edge, micro, gradient));
    };
    // What travels along no edge.
    const auto send_extra = [&](Opcode opcode, StageId stage, Micro micro, Rank to) {
      Instruction send{.opcode = opcode, .stage = stage, .micro = micro};
      send.peer_stage = stage;
      send.channel = channel_of_.at({Rank(r), to});
      out.push_back(send);
    };
    // All messages of an edge that the op needs.
    const auto receive = [&](std::size_t edge, const Op& op, bool gradient, StageId peer) {
      const auto [first, last] = messages_of(graph_, op.stage, op.micro, peer);
      for (Micro m(first); m.value < last; ++m.value)
        receive_one(edge, m, gradient, rank_of_message(peer, m, op.stage));
    };

    const auto receive_inputs = [&](const Op& op) {
      const StageEdges& edges = edges_of_[op.stage.index()];
      if (op.kind == OpKind::forward) {
        for (const std::size_t e : edges.up) receive(e, op, false, edges_[e].first);
      } else if (op.kind != OpKind::weight_gradient) {
        for (const std::size_t e : edges.down) receive(e, op, true, edges_[e].second);
      } else if (has_weight_gradient_rank(op)) {
        receive_until(channel_of_.at({rank_of(op.stage, op.micro), Rank(r)}), stash_index_[place(op.stage, op.micro)]);
      }
    };
    const auto send_outputs = [&](const Op& op) {
      for_each_send(op, [&](std::size_t e, Micro message, bool gradient) {
        Instruction send{
            .opcode = gradient ? Opcode::send_gradient : Opcode::send_activation, .stage = op.stage, .micro = message};
        send.peer_stage = gradient ? edges_[e].first : edges_[e].second;
        send.channel = channel_of_.at({Rank(r), rank_of_message(send.peer_stage, message, op.stage)});
        out.push_back(send);
      });
      if (op.kind == OpKind::input_gradient && has_weight_gradient_rank(op))
        send_extra(Opcode::send_stash, op.stage, op.micro, weight_gradient_rank_of(op.stage));
    };
    const auto recompute = [&](const Op& op) {
      const WeightRule& rule = program_.rule;
      const bool backward = op.kind == OpKind::backward || op.kind == OpKind::input_gradient;
      if (!backward || !is_checkpoint(op)) return;
      const int now = rule.synchronous() ? 0 : newest(gradients_done[op.stage.index()]);
      out.push_back(reading(
          op, Opcode::recompute,
          rule.recompute == WeightRule::Recompute::newest ? Read{now, 0, -1} : forward_[place(op.stage, op.micro)]));
    };

    for (std::size_t k = 0; k < ops.size(); ++k) {
      const Op& op = ops[k];
      const std::size_t s = op.stage.index();
      // An overlapped pair: inputs of both, both ops, outputs of both.
      const WeightRule& rule = program_.rule;
      // A recomputation needs nothing from other ranks, so before a flush it stands before the wait
      // for them (GPipe); the asynchronous systems' code waits for the gradient first.
      const bool second = k > 0 && ops[k - 1].overlapped;
      if (!second && places.active()) emit_all(places.before[k]);
      if (rule.synchronous() && !second) recompute(op);
      if (rule.synchronous() && op.overlapped) recompute(ops[k + 1]);
      if (!second) receive_inputs(op);
      if (op.overlapped) receive_inputs(ops[k + 1]);
      if (!rule.synchronous()) recompute(op);
      const int now = rule.synchronous() ? 0 : newest(gradients_done[s]);
      if (op.kind == OpKind::forward) {
        out.push_back(reading(op, Opcode::forward, forward_[place(op.stage, op.micro)]));
        out.back().checkpoint = is_checkpoint(op);
      } else if (op.kind == OpKind::weight_gradient) {
        out.push_back(reading(op, Opcode::weight_gradient, {now, 0, -1}));
      } else {
        out.push_back(reading(op, static_cast<Opcode>(op.kind), backward_read(op, now)));
      }
      if (second) send_outputs(ops[k - 1]);
      if (!op.overlapped) send_outputs(op);
      if (places.active()) emit_all(places.after[k]);
      if (op.kind == OpKind::backward || op.kind == OpKind::weight_gradient) {
        ++gradients_done[s];
        const bool last = last_gradient[s] == k + 1;
        const bool full = !rule.synchronous() && gradients_done[s] % rule.accumulate == 0;
        const bool partial = last && program_.policy.leftover == RunPolicy::Leftover::partial;
        if (last && has_weight_gradient_rank(op)) {
          send_extra(Opcode::send_weight_gradient, op.stage, Micro(0), rank_of(op.stage, op.micro));
        } else if (rule.synchronous() ? last : full || partial) {
          Instruction step{.opcode = Opcode::optimizer_step, .stage = op.stage};
          step.version = rule.synchronous() ? 1 : newest(gradients_done[s] + (full ? 0 : rule.accumulate));
          step.micro = Micro((step.version * program_.micros_per_step[s] - 1) / program_.micros_per_update);
          const bool replicated = program_.placement.stages[s].size() > 1;
          if (replicated && rule.synchronous()) {
            reduced.push_back(step);
          } else {
            if (replicated) out.push_back(reduction(step));
            out.push_back(step);
          }
        }
      }
    }
    // All-reduces block. Those of a flush stand at the end, by stage on every rank: anywhere
    // earlier, a rank could wait in one for a rank that waits for its next op.
    std::ranges::sort(reduced, {}, &Instruction::stage);
    for (const Instruction& step : reduced) {
      const bool sharded = program_.sharded(step.stage);
      if (!sharded) out.push_back(reduction(step));
      out.push_back(step);
      if (sharded && program_.sharding.gather == Sharding::Gather::after_step) {
        Instruction gather = reduction(step);
        gather.opcode = Opcode::gather_weights;
        out.push_back(gather);
      }
    }
    for (std::size_t s = 0; s < graph_.size(); ++s) {
      const StageId stage(s);
      if (!program_.placement.has_weight_gradient_rank(stage) || program_.placement.stages[s].front() != Rank(r))
        continue;
      receive_until(channel_of_.at({weight_gradient_rank_of(stage), Rank(r)}), sum_index_[s]);
      out.push_back({.opcode = Opcode::optimizer_step, .stage = stage, .micro = Micro(0), .version = 1});
    }
    if (!program_.policy.step_barrier || program_.rank_count() == 1) return;
    const auto last_message = [&](Rank from) {
      const int c = channel_of_.at({from, Rank(r)});
      receive_until(c, program_.channels[static_cast<std::size_t>(c)].messages - 1);
    };
    if (r > 0) send_extra(Opcode::send_stepped, StageId(0), Micro(0), Rank(0));
    if (r > 0) last_message(Rank(0));
    for (std::size_t other = 1; r == 0 && other < program_.rank_count(); ++other) last_message(Rank(other));
    for (std::size_t other = 1; r == 0 && other < program_.rank_count(); ++other)
      send_extra(Opcode::send_stepped, StageId(0), Micro(0), Rank(other));
  }

  bool is_checkpoint(const Op& op) const {
    return program_.rule.recomputes(op.stage.index()) && (kept_.empty() || !kept_[place(op.stage, op.micro)]);
  }
  // Forwards whose backward is the rank's next op keep what it needs.
  void note_kept() {
    if (program_.rule.recompute == WeightRule::Recompute::none || !program_.rule.keep_if_next) return;
    kept_.assign(graph_.size() * micros_, false);
    for (const auto& ops : schedule_.ranks)
      for (std::size_t k = 0; k + 1 < ops.size(); ++k)
        if (ops[k].kind == OpKind::forward && ops[k + 1].kind != OpKind::weight_gradient &&
            ops[k + 1].kind != OpKind::forward && ops[k].stage == ops[k + 1].stage && ops[k].micro == ops[k + 1].micro)
          kept_[place(ops[k].stage, ops[k].micro)] = true;
  }

  static Instruction reading(const Op& op, Opcode opcode, const Read& read) {
    Instruction i{.opcode = opcode, .horizon = read.horizon, .stage = op.stage, .micro = op.micro};
    i.overlapped = op.overlapped && opcode != Opcode::recompute;
    i.version = read.version;
    i.prediction = read.prediction;
    return i;
  }
  static Instruction reduction(const Instruction& step) {
    Instruction reduce = step;
    reduce.opcode = Opcode::reduce_gradients;
    reduce.channel = step.stage.value;
    return reduce;
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  std::size_t micros_;
  Program program_;
  std::vector<std::pair<StageId, StageId>> edges_;
  std::vector<StageEdges> edges_of_;
  std::vector<std::int32_t> index_;
  std::vector<std::int32_t> stash_index_;  // [stage][micro], sum_index_ [stage]: with weight-gradient ranks for W
  std::vector<std::int32_t> sum_index_;
  std::vector<bool> kept_;  // [stage][micro]; empty: none
  std::map<std::pair<Rank, Rank>, int> channel_of_;
  std::vector<std::vector<MessageKey>> messages_;
  std::vector<Read> forward_;                                   // [stage][micro]
  std::map<std::pair<StageId, int>, int> backward_prediction_;  // (stage, version) -> id
};

}  // namespace

Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
              const Sharding& sharding, const RunPolicy& policy) {
  const auto violations = check(schedule, graph, placement);
  if (!violations.empty()) throw InputError("schedule", violations.front().text);
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
  Program program = Lowering(schedule, graph, placement, rule, sharding, policy).run();
  if (replicated && (sharding.active() || !rule.synchronous())) {
    // Collectives stand between the ops: whether they meet depends on the order.
    const auto found = check(program);
    if (!found.empty()) throw InputError("schedule", found.front().text);
  }
  return program;
}

}  // namespace sluice
