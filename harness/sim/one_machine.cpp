#include "harness/sim/one_machine.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <stdexcept>

#include "harness/sim/message_bytes.h"
#include "harness/sim/work.h"

namespace sluice {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds beside idle ranks, and how many times as long beside busy ones.
struct Cost {
  double seconds = 0, beside = 1;
};

class MachineEngine {
 public:
  MachineEngine(const Program& program, const Costs& costs, const Cluster::OneMachine& machine,
                const SimulateOptions& options)
      : program_(program),
        costs_(costs),
        own_(costs.machine.value()),
        message_bytes_(program, costs),
        machine_(machine),
        options_(options),
        ranks_(program.ranks.size()),
        channels_(program.channels.size()),
        groups_(program.placement.stages.size()) {
    if (options.spread_seed) random_.seed(*options.spread_seed);
    result_.update_end.assign(static_cast<std::size_t>(options.iterations) * program.updates, 0);
    if (options.trace) result_.trace.ranks.resize(ranks_.size());
    for (RankState& rank : ranks_) {
      rank.stages.resize(program.graph.size());
      for (std::size_t s = 0; s < rank.stages.size(); ++s)
        rank.stages[s].predicted.assign(program.predictions[s], false);
    }
  }

  Simulation run() {
    for (;;) {
      std::size_t next = 0;
      double time = kNever;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (const double t = ranks_[r].next_time(); t < time) time = t, next = r;
      if (time == kNever) break;
      go_on(next, time);
    }
    for (const RankState& rank : ranks_)
      if (rank.iteration < options_.iterations) throw std::logic_error("the simulated program is deadlocked");
    std::vector<BusyTime> compute;
    for (const RankState& rank : ranks_) compute.push_back(rank.compute);
    result_.bubble = bubbles_of(compute);
    return std::move(result_);
  }

 private:
  struct StageState {
    bool clear = true;   // the gradients must be zeroed before the first is added
    double pending = 0;  // micro-batches whose batched weight gradient is still to come
    std::vector<bool> predicted;
    std::uint64_t meetings = 0;  // of the stage's group, that the rank has come to
  };
  struct RankState {
    bool busy = false, waiting = false, done = false;
    double at = 0;  // when it goes on; of a busy rank its work says so
    double waiting_since = 0;
    Work work;
    double beside = 1;
    double started = 0;
    std::size_t next = 0;
    int iteration = 0;
    std::vector<StageState> stages;
    BusyTime compute;  // of iteration 0
    double next_time() const { return done || waiting ? kNever : busy ? work.end() : at; }
  };
  struct ChannelState {
    std::deque<double> arrivals;
    int waiting_rank = -1;
  };
  struct GroupState {
    std::vector<std::size_t> waiting;
    double latest = 0;
  };

  const Instruction& instruction(std::size_t r) const { return program_.ranks[r][ranks_[r].next]; }

  void go_on(std::size_t r, double now) {
    RankState& rank = ranks_[r];
    if (rank.busy) finish(r, now);
    while (!rank.busy && !rank.waiting && rank.at <= now) {
      if (rank.next == program_.ranks[r].size()) {
        rank.next = 0;
        for (StageState& s : rank.stages) s.predicted.assign(s.predicted.size(), false);
        if (++rank.iteration == options_.iterations || program_.ranks[r].empty()) {
          rank.iteration = options_.iterations;
          rank.done = true;
          result_.end = std::max(result_.end, now);
          return;
        }
      }
      begin(r, now);
    }
  }

  // The rank's next instruction begins. Afterwards the rank is busy, waits, or goes on at `at`.
  void begin(std::size_t r, double now) {
    const Instruction& i = instruction(r);
    if (is_send(i.opcode)) return send(r, i, now);
    if (is_receive(i.opcode)) return receive(r, i, now);
    switch (i.opcode) {
      case Opcode::reduce_gradients:
        return meet(r, i, now, reduce_seconds(i));
      case Opcode::gather_weights:
        return meet(r, i, now, per_byte(own_.gather, own_.processes.gather) * others_slices(i));
      case Opcode::reduce_scatter:
        return meet(
            r, i, now,
            clear_seconds(r, i) + per_byte(own_.scatter, own_.processes.scatter) * others_slices(i) + whole_seconds(i));
      case Opcode::free_weights:
        return step_over(r, now);
      case Opcode::stash_out:  // the rank's thread copies
      case Opcode::stash_back:
        if (costs_.host_copies.empty()) throw std::logic_error("costs of this machine have no copies");
        return step_over(r, now + costs_.host_copies[i.stage.index()].value);
      case Opcode::stash_free:
        return step_over(r, now);
      default:
        break;
    }
    RankState& rank = ranks_[r];
    const Cost cost = cost_of(r, i);
    rank.busy = true;
    rank.started = now;
    rank.beside = cost.beside;
    rank.work = Work(cost.seconds * varied(i), now, 1);
    change_speeds(now);
  }

  void finish(std::size_t r, double now) {
    RankState& rank = ranks_[r];
    const Instruction& i = instruction(r);
    rank.busy = false;
    change_speeds(now);
    if (i.opcode == Opcode::optimizer_step) {
      rank.stages[i.stage.index()].clear = true;
      double& update = result_.update_end[rank.iteration * program_.updates + i.micro.value];
      update = std::max(update, now);
    } else if (rank.iteration == 0) {
      rank.compute.add(rank.started, now, now - rank.started);
    }
    record(r, i, rank.started, now);
    step_over(r, now);
  }

  void step_over(std::size_t r, double at) {
    RankState& rank = ranks_[r];
    ++rank.next;
    rank.at = at;
    rank.waiting = false;
    ++result_.instructions;
  }

  // Whenever the number of busy ranks changes, so does the speed of every op.
  void change_speeds(double now) {
    const auto busy = static_cast<int>(std::ranges::count(ranks_, true, &RankState::busy));
    const double core = std::min(1.0, static_cast<double>(machine_.cores) / std::max(busy, 1));
    for (RankState& rank : ranks_)
      if (rank.busy) rank.work.change_speed(now, core / slowdown(rank.beside, std::min(busy, machine_.cores) - 1));
  }
  // beside: with as many busy neighbours as in the measurement.
  double slowdown(double beside, int neighbours) const {
    if (own_.neighbours < 1) return 1;
    return std::max(1.0, 1 + (beside - 1) * neighbours / own_.neighbours);
  }

  Cost cost_of(std::size_t r, const Instruction& i) {
    const StageCost& stage = costs_.stages[i.stage.index()];
    const StageCost::Shared& beside = stage.beside;
    StageState& state = ranks_[r].stages[i.stage.index()];
    const bool batched = costs_.batched_weight_gradients;
    const Costs::ChunkParts part = program_.sequence_chunks == 1 || !is_compute(i.opcode)
                                       ? Costs::ChunkParts{}
                                       : costs_.parts_of(program_, i.stage, program_.sequence_chunk_of(i.micro));
    const MachineCosts::Apart apart =
        program_.placement.has_weight_gradient_rank(i.stage) ? own_.apart : MachineCosts::Apart{};
    Cost cost;
    const auto add = [&](double seconds, double factor) {
      const double sum = cost.seconds + seconds;
      if (sum > 0) cost.beside = (cost.seconds * cost.beside + seconds * factor) / sum;
      cost.seconds = sum;
    };
    const auto add_batch = [&] {
      if (state.pending == 0) return;
      add(clear_seconds(r, i), beside.update);
      add(batched_seconds(stage, state.pending), beside.weight_gradient);
      state.pending = 0;
    };
    if (i.prediction >= 0 && !state.predicted[i.prediction]) {
      state.predicted[i.prediction] = true;
      add(static_cast<double>(stage.parameters.value) * own_.predict, beside.update);
    }
    switch (i.opcode) {
      case Opcode::forward:
      case Opcode::recompute:
        add((own_.forward_op.value + stage.forward.value * part.forward) * apart.forward, beside.forward);
        break;
      case Opcode::backward:
        add(own_.backward_op.value + stage.input_gradient.value * part.input_gradient, beside.input_gradient);
        if (batched) {
          state.pending += part.weight_gradient;
        } else {
          add(clear_seconds(r, i), beside.update);
          add(stage.weight_gradient.value * part.weight_gradient, beside.weight_gradient);
        }
        break;
      case Opcode::input_gradient:
        add((own_.backward_op.value + stage.input_gradient.value * part.input_gradient) * apart.input_gradient,
            beside.input_gradient);
        break;
      case Opcode::weight_gradient:
        add(own_.weight_gradient_op.value * apart.weight_gradient, beside.weight_gradient);
        if (!batched) {
          add(clear_seconds(r, i), beside.update);
          add(stage.split_weight_gradient.value * part.weight_gradient * apart.weight_gradient, beside.weight_gradient);
        } else {
          state.pending += part.weight_gradient;
          if (!next_is_weight_gradient(r, i.stage)) add_batch();
        }
        break;
      default:
        add_batch();
        add(stage.update.value / members(i.stage, program_.sharded(i.stage)), beside.update);
    }
    return cost;
  }

  // Of the weight gradients of `micros` micro-batches as one product: of one as it is measured by itself, of as many as
  // were measured together as it is measured there, between them a straight line.
  double batched_seconds(const StageCost& stage, double micros) const {
    const double together = stage.batched_weight_gradient.value, itself = stage.split_weight_gradient.value;
    const double measured = own_.batched_micros;
    if (measured < 2) return micros * together;
    return micros * together + (itself - together) * std::max(measured - micros, 0.0) / (measured - 1);
  }

  double members(StageId stage, bool count) const {
    return count ? static_cast<double>(program_.placement.stages[stage.index()].size()) : 1;
  }

  bool next_is_weight_gradient(std::size_t r, StageId stage) const {
    const std::vector<Instruction>& list = program_.ranks[r];
    for (std::size_t k = ranks_[r].next + 1; k < list.size(); ++k)
      if (is_compute(list[k].opcode)) return list[k].opcode == Opcode::weight_gradient && list[k].stage == stage;
    return false;
  }

  // Zeroing, if the next gradient is the first of an update.
  double clear_seconds(std::size_t r, const Instruction& i) {
    StageState& state = ranks_[r].stages[i.stage.index()];
    if (!state.clear) return 0;
    state.clear = false;
    return costs_.stages[i.stage.index()].clear.value;
  }

  // A factor of mean 1 as wide as the measured spread; quartiles of a normal distribution are 0.6745 deviations away.
  double varied(const Instruction& i) {
    if (!options_.spread_seed) return 1;
    const double deviation = costs_.stages[i.stage.index()].beside.spread / 0.6745;
    return std::exp(deviation * normal_(random_) - deviation * deviation / 2);
  }

  void send(std::size_t r, const Instruction& i, double now) {
    const double bytes = message_bytes_.of(i);
    double seconds = own_.send.value + own_.copy * message_bytes_.copied(i);
    double arrival = now + seconds;
    if (machine_.between_processes) {
      seconds += own_.processes.message.value + own_.processes.byte * bytes;
      arrival = now + seconds;
    }
    ChannelState& channel = channels_[i.channel];
    channel.arrivals.push_back(arrival);
    if (options_.trace && ranks_[r].iteration == 0 && has_values(i.opcode))
      result_.trace.messages.push_back(
          {i, program_.channels[i.channel].from, program_.channels[i.channel].to, now, arrival});
    if (channel.waiting_rank >= 0) {
      const auto receiver = static_cast<std::size_t>(channel.waiting_rank);
      channel.waiting_rank = -1;
      if (asleep(receiver, arrival)) seconds += own_.rouse.value;
      wake(receiver, arrival);
      take(receiver, instruction(receiver), ranks_[receiver].at);
    }
    step_over(r, now + seconds);
  }

  void receive(std::size_t r, const Instruction& i, double now) {
    ChannelState& channel = channels_[i.channel];
    if (channel.arrivals.empty()) {
      channel.waiting_rank = static_cast<int>(r);
      ranks_[r].waiting = true;
      ranks_[r].waiting_since = now;
      return;
    }
    ranks_[r].waiting_since = now;
    wake(r, std::max(now, channel.arrivals.front()));
    take(r, i, ranks_[r].at);
  }

  void take(std::size_t r, const Instruction& i, double at) {
    channels_[i.channel].arrivals.pop_front();
    double seconds = own_.receive.value;
    if (machine_.between_processes)
      seconds += own_.processes.message.value + own_.processes.byte * message_bytes_.of(i);
    step_over(r, at + seconds);
  }

  // Whether a rank that waits has fallen asleep. One that waits for another process does not.
  bool asleep(std::size_t r, double at) const {
    return !machine_.between_processes && at - ranks_[r].waiting_since > own_.patience.value;
  }

  // A rank that has waited goes on at `at`, later if it has fallen asleep.
  void wake(std::size_t r, double at) {
    RankState& rank = ranks_[r];
    rank.at = at + (asleep(r, at) ? own_.wake.value : 0);
    rank.waiting = false;
  }

  // All members come before one goes on.
  void meet(std::size_t r, const Instruction& i, double now, double seconds) {
    GroupState& group = groups_[i.stage.index()];
    const std::size_t all = program_.placement.stages[i.stage.index()].size();
    group.waiting.push_back(r);
    ranks_[r].waiting = true;
    ranks_[r].waiting_since = now;
    if (group.waiting.size() < all) return;
    for (const std::size_t member : group.waiting) {
      wake(member, now);
      const double end = ranks_[member].at + seconds;
      record(member, instruction(member), now, end);
      step_over(member, end);
    }
    group.waiting.clear();
  }

  double parameters(const Instruction& i) const {
    return static_cast<double>(costs_.stages[i.stage.index()].parameters.value);
  }
  // Each member sums its part of the vector and writes it to all.
  double reduce_seconds(const Instruction& i) const {
    return per_byte(own_.reduce, own_.processes.reduce) * parameters(i);
  }
  // Of a collective, where it costs so much between threads and so much, or 0 if nothing has measured it, between
  // processes.
  double per_byte(double threads, double processes) const {
    return machine_.between_processes && processes > 0 ? processes : threads;
  }
  // Bytes of the other members' slices.
  double others_slices(const Instruction& i) const {
    const double n = members(i.stage, true);
    return parameters(i) * (n - 1) / n;
  }
  // The whole gradients of a sharded stage are made anew for each reduce-scatter.
  double whole_seconds(const Instruction& i) const { return own_.copy * parameters(i) / 2; }

  void record(std::size_t r, const Instruction& i, double start, double end) {
    if (options_.trace && ranks_[r].iteration == 0) result_.trace.ranks[r].push_back({i, start, end});
  }

  const Program& program_;
  const Costs& costs_;
  const MachineCosts& own_;
  const MessageBytes message_bytes_;
  const Cluster::OneMachine machine_;
  const SimulateOptions options_;
  std::vector<RankState> ranks_;
  std::vector<ChannelState> channels_;
  std::vector<GroupState> groups_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Simulation result_;
};

}  // namespace

Simulation simulate_one_machine(const Program& program, const Costs& costs, const Cluster::OneMachine& machine,
                                const SimulateOptions& options) {
  return MachineEngine(program, costs, machine, options).run();
}

}  // namespace sluice
