#include "harness/sim/simulate.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/base/stop.h"
#include "harness/sim/collectives.h"
#include "harness/sim/communication.h"
#include "harness/sim/compute_seconds.h"
#include "harness/sim/host_link.h"
#include "harness/sim/message_bytes.h"
#include "harness/sim/network.h"
#include "harness/sim/shared_cores.h"

namespace sluice {

namespace {

// A rank runs until it is blocked, so that the data of one rank stays in the cache. Where ranks share media, a send
// through such a medium is where the order between ranks matters: there a rank stops, and these sends are taken in
// order of time. Where ranks share cores, all instructions are: the seconds of an op depend on what other ranks do
// meanwhile.
class Engine {
  enum class Mode { run_ahead, sends_in_order, shared_cores };

 public:
  Engine(const Program& program, const Costs& costs, const Cluster& cluster, std::span<const DeviceId> devices,
         const SimulateOptions& options)
      : program_(program),
        costs_(costs),
        options_(options),
        message_bytes_(program, costs),
        network_(program, cluster, devices, options.interference, options.start),
        collectives_(program, costs, cluster, network_, ready_),
        host_links_(program, costs),
        ranks_(program.ranks.size()),
        channels_(program.channels.size()),
        members_(collective_groups(program)),
        groups_(members_.size()) {
    find_compute_seconds();
    if (const Interference* interference = options.interference; interference && !interference->empty()) {
      disturbed_ = true;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        speeds_.push_back(interference->device_speed(devices[r]).from(options.start));
    }
    sends_block_ = cluster.sends == Sends::blocking;
    all_ordered_ = options.time_ordered || collectives_.any_sharded() || cluster.all_reduce != AllReduce::apart;
    if (network_.shares_fairly()) queued_.resize(channels_.size());
    if (collectives_.in_buckets()) find_early_reductions();
    if (cluster.one_machine && costs.machine && !program.forward_only && !disturbed_)
      cores_ = std::make_unique<SharedCores>(program, costs, message_bytes_, *cluster.one_machine);
    result_.update_end.assign(static_cast<std::size_t>(options.iterations) * program.updates, 0);
    if (program.forward_only)
      result_.micro_batches = MicroBatchTimes(static_cast<std::size_t>(options.iterations) * program.microbatches);
    if (options.trace) {
      result_.trace.ranks.resize(ranks_.size());
      result_.trace.sequence_chunks = program.sequence_chunks;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        result_.trace.ranks[r].reserve(
            static_cast<std::size_t>(std::ranges::count_if(program.ranks[r], [](const Instruction& i) {
              return is_compute(i.opcode) || is_all_reduce(i.opcode) || i.opcode == Opcode::optimizer_step;
            })));
    }
  }

  Simulation run() {
    if (cores_)
      run_ranks<Mode::shared_cores>();
    else if (all_ordered_ || !network_.exclusive())
      run_ranks<Mode::sends_in_order>();
    else
      run_ranks<Mode::run_ahead>();
    for (const RankState& rank : ranks_)
      if (rank.iteration < options_.iterations) throw std::logic_error("the simulated program is deadlocked");
    finish_bubbles();
    result_.end = std::max({result_.end, collectives_.end(), host_links_.end()});
    if (options_.trace && !cores_) {
      result_.trace.collectives = collectives_.first_iteration();
      result_.trace.host_copies = host_links_.first_iteration();
    }
    return std::move(result_);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct RankState {
    double clock = 0;
    std::size_t next = 0;
    int iteration = 0;
    BusyTime compute;       // of iteration 0
    std::uint64_t ops = 0;  // so far, where they vary
    bool reducing = false;  // has come to the all-reduce that it stands at
  };
  struct QueuedMessage {  // on a channel whose transfers share media fairly
    Instruction instruction{};
    double sent = 0;
    double bytes = 0;
    bool traced = false;
  };
  struct ChannelState {
    std::vector<double> arrivals;
    std::size_t taken = 0;
    int waiting_rank = -1;
    StageId stage{-1}, peer{-1};  // of the last message: most channels serve one edge
    double transfer = 0;          // seconds
  };
  struct GroupState {
    std::vector<std::size_t> waiting;
    double latest = 0;
  };

  // Ops of a stage have one duration for each chunk of a sequence and for each micro-batch of an update, where these
  // differ.
  void find_compute_seconds() {
    kinds_ = program_.sizes.differ() ? count_of(program_.sizes.samples()) : program_.sequence_chunks;
    for (std::size_t stage = 0; stage < costs_.stages.size(); ++stage)
      for (int kind = 0; kind < kinds_; ++kind)
        compute_seconds_.push_back(compute_seconds_of(program_, costs_, StageId(stage), Micro(kind)));
  }
  double compute_seconds(const Instruction& i) const {
    const int kind = kinds_ == 1 ? 0 : i.micro.value % kinds_;
    return compute_seconds_[i.stage.value * kinds_ + kind].of(i);
  }

  // Until no rank can go on.
  template <Mode kMode>
  void run_ranks() {
    for (std::size_t r = ranks_.size(); r-- > 0;) ready_.push_back(r);
    do {
      check_stop();
      while (!ready_.empty()) {
        check_stop();
        const std::size_t r = ready_.back();
        ready_.pop_back();
        advance<kMode>(r, -1);
      }
      const double of_ring = collectives_.pending() ? collectives_.next_time() : kNever;
      const double of_transfer = network_.fair().pending() ? network_.fair().next_end() : kNever;
      const TimedRank of_rank = delayed_.empty() ? TimedRank{kNever, 0} : delayed_.top();
      const TimedRank of_op = kMode == Mode::shared_cores ? cores_->next_end() : TimedRank{kNever, 0};
      if (of_transfer < kNever && of_transfer <= std::min(of_ring, of_rank.first)) {
        end_transfer(of_transfer);
        continue;
      }
      if (of_ring < kNever && of_ring <= of_rank.first) {
        collectives_.step();
        continue;
      }
      if (kMode == Mode::shared_cores && of_op < of_rank) {
        end_op(of_op.second, of_op.first);
        advance<kMode>(of_op.second, of_op.first);
        continue;
      }
      if (kMode == Mode::run_ahead || delayed_.empty()) return;
      delayed_.pop();
      advance<kMode>(of_rank.second, of_rank.first);
    } while (true);
  }

  // Runs rank r until it is blocked (and registered with what it waits for), or done, or at what must not run before
  // its time and is later than `now`: a send, or with shared cores any instruction.
  template <Mode kMode>
  void advance(std::size_t r, double now) {
    RankState& rank = ranks_[r];
    const std::vector<Instruction>& program = program_.ranks[r];
    double clock = rank.clock;
    std::size_t next = rank.next;
    constexpr bool kSharedCores = kMode == Mode::shared_cores;
    const auto stop = [&] {
      rank.clock = clock;
      rank.next = next;
      // Loads what the rank runs next while others run: no cache follows as many programs as there are ranks.
      for (std::size_t k = 0; k < 6; k += 2) __builtin_prefetch(program.data() + std::min(next + k, program.size()));
    };
    const auto delay = [&] {
      delayed_.push({clock, r});
      stop();
    };
    for (; rank.iteration < options_.iterations; ++rank.iteration, next = 0) {
      for (; next < program.size(); ++next) {
        const Instruction& i = program[next];
        if (kSharedCores && clock > now) return delay();
        switch (i.opcode) {
          case Opcode::receive_activation:
          case Opcode::receive_gradient:
          case Opcode::receive_stash:
          case Opcode::receive_weight_gradient:
          case Opcode::receive_stepped:
          case Opcode::receive_credit: {
            ChannelState& channel = channels_[i.channel];
            if (channel.taken == channel.arrivals.size()) {
              channel.waiting_rank = static_cast<int>(r);
              return stop();
            }
            const double since = clock;
            clock = std::max(clock, channel.arrivals[channel.taken++]);
            if (kSharedCores) clock = clock + cores_->wake_up_latency(since, clock) + cores_->receive_seconds(i);
            if (channel.taken == channel.arrivals.size()) {  // keeps the queue short
              channel.arrivals.clear();
              channel.taken = 0;
            }
            break;
          }
          case Opcode::send_activation:
          case Opcode::send_gradient:
          case Opcode::send_stash:
          case Opcode::send_weight_gradient:
          case Opcode::send_stepped:
          case Opcode::send_credit:
            if (kMode == Mode::sends_in_order && clock > now && (all_ordered_ || network_.shared(i.channel)))
              return delay();
            clock = kSharedCores ? send_from_core(i, clock, rank.iteration) : send(i, clock, rank.iteration);
            break;
          case Opcode::reduce_scatter:
            if (!kSharedCores && collectives_.in_buckets()) break;
            [[fallthrough]];
          case Opcode::gather_weights:
            if (!kSharedCores) {
              collectives_.issue(r, i, clock, rank.iteration == 0);
              break;
            }
            [[fallthrough]];
          case Opcode::reduce_gradients:
            if (!kSharedCores && collectives_.reduces()) {
              if (!collectives_.in_buckets() && !rank.reducing) collectives_.issue(r, i, clock, rank.iteration == 0);
              rank.reducing = !collectives_.reduced(r, i.stage, clock);
              if (rank.reducing) return stop();
              break;
            }
            [[fallthrough]];
          case Opcode::reduce_copies:
          case Opcode::reduce_norm:
            if (!kSharedCores && is_of_step_group(i.opcode) && !steps_are_ready(r, next, clock)) return stop();
            stop();
            if (!join(r, i)) return;
            clock = rank.clock;
            break;
          case Opcode::free_weights:
            break;
          case Opcode::stash_out:
          case Opcode::stash_free:
          case Opcode::stash_back:
            clock =
                kSharedCores ? clock + cores_->stash_seconds(i) : host_links_.move(r, i, clock, rank.iteration == 0);
            break;
          case Opcode::optimizer_step:
            if constexpr (!kSharedCores) {
              if (!collectives_.ready(r, i, clock)) return stop();
              const double start = clock;
              clock = end_of_work(r, clock, costs_.stages[i.stage.index()].update.value);
              finish_step(r, i, start, clock);
              break;
            }
            [[fallthrough]];
          default: {
            if constexpr (kSharedCores) {
              cores_->begin_op(r, next, rank.iteration, clock);
              return stop();
            }
            if (!collectives_.ready(r, i, clock)) return stop();
            clock = host_links_.ready(r, i, clock);
            const double start = clock;
            const double seconds = compute_seconds(i);
            clock = end_of_work(r, clock, seconds);
            if (rank.iteration == 0) {
              rank.compute.add(start, clock, disturbed_ ? clock - start : seconds);
              record(r, i, start, clock);
            }
            if (program_.forward_only) finish_forward(i, rank.iteration, start, clock);
            if (collectives_.in_buckets())
              if (const auto early = early_reductions_[r].find(next); early != early_reductions_[r].end())
                collectives_.issue_reduction(r, program[early->second], i.opcode, start, clock, rank.iteration == 0);
          }
        }
        ++result_.instructions;
      }
    }
    stop();
  }

  // When work of rank r that takes `seconds` undisturbed is done.
  double end_of_work(std::size_t r, double clock, double seconds) {
    if (!disturbed_) return clock + seconds;
    if (const double noise = options_.interference->op_noise; noise > 0)
      seconds *= noise_factor(options_.interference->seed, r, ranks_[r].ops++, noise);
    return speeds_[r].finish(clock, seconds);
  }

  void finish_step(std::size_t r, const Instruction& i, double start, double end) {
    record(r, i, start, end);
    double& update = result_.update_end[ranks_[r].iteration * program_.updates + i.micro.value];
    update = std::max(update, end);
  }

  // The op or step that rank r is at, on a shared core.
  void end_op(std::size_t r, double now) {
    RankState& rank = ranks_[r];
    cores_->end_op(r, now);
    const double start = std::exchange(rank.clock, now);
    const Instruction& i = program_.ranks[r][rank.next++];
    ++result_.instructions;
    if (i.opcode == Opcode::optimizer_step) return finish_step(r, i, start, now);
    if (rank.iteration == 0) rank.compute.add(start, now, now - start);
    record(r, i, start, now);
  }

  void finish_forward(const Instruction& i, int iteration, double start, double end) {
    result_.micro_batches.add(program_, i, iteration, start, end);
    if (!program_.graph.successors[i.stage.index()].empty()) return;
    const int batch = i.micro.value * program_.graph.microbatches_per_op_of(i.stage) / program_.microbatches_per_update;
    double& done = result_.update_end[iteration * program_.updates + batch];
    done = std::max(done, end);
  }

  // Per rank: the op that makes the last weight gradients that a reduction sums, to the reduction. Every reduction has
  // one (check_schedule.h: no replica without a micro-batch).
  void find_early_reductions() {
    early_reductions_.resize(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<std::size_t> last(program_.graph.size(), 0);
      for (std::size_t k = 0; k < program_.ranks[r].size(); ++k) {
        const Instruction& i = program_.ranks[r][k];
        if (makes_weight_gradient(i.opcode)) {
          last[i.stage.index()] = k;
          for (const auto& [reader, owner] : program_.graph.loans)
            if (reader == i.stage) last[owner.index()] = k;
        }
        if (i.opcode == Opcode::reduce_gradients || i.opcode == Opcode::reduce_scatter)
          early_reductions_[r][last[i.stage.index()]] = k;
      }
    }
  }

  // When the rank goes on.
  double send(const Instruction& i, double clock, int iteration) {
    const auto c = static_cast<std::size_t>(i.channel);
    if (network_.shares_fairly() && network_.shared(i.channel)) {
      queued_[c].push_back({i, clock, message_bytes_.of(i), options_.trace && iteration == 0 && has_values(i.opcode)});
      if (queued_[c].size() == 1) start_transfer(c, clock);
      return clock;
    }
    ChannelState& channel = channels_[c];
    const bool along_edge = is_along_edge(i.opcode);
    if (!along_edge || channel.stage != i.stage || channel.peer != i.peer_stage || kinds_ > 1) {
      channel.stage = along_edge ? i.stage : StageId(-1);
      channel.peer = i.peer_stage;
      channel.transfer = network_.transfer_seconds(c, message_bytes_.of(i));
    }
    const double arrival = network_.arrival(c, clock, channel.transfer);
    arrive(c, i, clock, arrival, options_.trace && iteration == 0 && has_values(i.opcode));
    return sends_block_ && has_values(i.opcode) ? arrival : clock;
  }

  double send_from_core(const Instruction& i, double clock, int iteration) {
    double seconds = cores_->send_seconds(i);
    const double arrival = clock + seconds;
    if (const int receiver = channels_[i.channel].waiting_rank; receiver >= 0) {
      double& waiting_since = ranks_[receiver].clock;
      seconds += cores_->notify_seconds(waiting_since, arrival);
      waiting_since = arrival + cores_->wake_up_latency(waiting_since, arrival);
    }
    arrive(static_cast<std::size_t>(i.channel), i, clock, arrival,
           options_.trace && iteration == 0 && has_values(i.opcode));
    return clock + seconds;
  }

  void arrive(std::size_t c, const Instruction& i, double sent, double arrival, bool traced) {
    ChannelState& channel = channels_[c];
    channel.arrivals.push_back(arrival);
    if (traced)
      result_.trace.messages.push_back(
          {i, program_.channels[c].from, program_.channels[c].to, sent, arrival, message_bytes_.of(i)});
    if (channel.waiting_rank >= 0) {
      ready_.push_back(static_cast<std::size_t>(channel.waiting_rank));
      channel.waiting_rank = -1;
    }
  }

  // A channel is one connection: its messages go one after the other.
  void start_transfer(std::size_t c, double now) {
    network_.fair().start(now, network_.route(c), queued_[c].front().bytes, static_cast<std::int64_t>(c));
  }

  void end_transfer(double now) {
    const std::int64_t owner = network_.fair().end_next();
    if (owner < 0) return collectives_.transfer_ended(owner, now);
    const auto c = static_cast<std::size_t>(owner);
    const QueuedMessage message = queued_[c].front();
    queued_[c].pop_front();
    if (!queued_[c].empty()) start_transfer(c, now);
    arrive(c, message.instruction, message.sent, now + network_.latency_of_next(c), message.traced);
  }

  // The last member to come starts the collective and sets the others free. False: r waits.
  bool join(std::size_t r, const Instruction& i) {
    GroupState& group = groups_[static_cast<std::size_t>(i.channel)];
    const std::size_t members = members_[static_cast<std::size_t>(i.channel)].size();
    const double seconds = cores_ ? cores_->collective_seconds(r, i) : 0;
    group.latest = std::max(group.latest, ranks_[r].clock);
    group.waiting.push_back(r);
    if (group.waiting.size() < members) return false;
    const double start = cores_ ? ranks_[r].clock : group.latest;
    const double end_of_ring =
        cores_ ? 0 : network_.all_reduce_end(i.channel, start, members, reduced_bytes(program_, i, costs_));
    for (const std::size_t member : group.waiting) {
      RankState& rank = ranks_[member];
      const double end = cores_ ? start + cores_->wake_up_latency(rank.clock, start) + seconds : end_of_ring;
      record(member, program_.ranks[member][rank.next], start, end);
      rank.clock = end;
      if (member == r) continue;
      ++rank.next;
      ++result_.instructions;
      ready_.push_back(member);
    }
    group = {};
    return true;
  }

  // Whether the gradients of all steps that follow instruction `next` are summed; moves the clock as ready() does.
  bool steps_are_ready(std::size_t r, std::size_t next, double& clock) {
    if (!collectives_.any_sharded()) return true;
    const auto& program = program_.ranks[r];
    return std::all_of(program.begin() + static_cast<std::ptrdiff_t>(next), program.end(), [&](const Instruction& i) {
      return i.opcode != Opcode::optimizer_step || collectives_.ready(r, i, clock);
    });
  }

  void record(std::size_t r, const Instruction& i, double start, double end) {
    if (options_.trace && ranks_[r].iteration == 0) result_.trace.ranks[r].push_back({i, start, end});
  }

  void finish_bubbles() {
    std::vector<BusyTime> compute;
    for (const RankState& rank : ranks_) {
      compute.push_back(rank.compute);
      result_.end = std::max(result_.end, rank.clock);
    }
    result_.bubble = bubbles_of(compute);
  }

  using TimedRank = std::pair<double, std::size_t>;

  const Program& program_;
  const Costs& costs_;
  SimulateOptions options_;
  MessageBytes message_bytes_;
  Network network_;
  Collectives collectives_;
  HostLinks host_links_;
  std::vector<RankState> ranks_;
  std::vector<std::unordered_map<std::size_t, std::size_t>> early_reductions_;  // empty without buckets
  std::vector<ChannelState> channels_;
  std::vector<std::deque<QueuedMessage>> queued_;  // per channel; the first is on its way
  std::vector<std::vector<Rank>> members_;         // of collective groups
  std::vector<GroupState> groups_;
  std::vector<ComputeSeconds> compute_seconds_;  // per stage and kind of op
  int kinds_ = 1;
  bool all_ordered_ = false;  // every send, not only those through shared media
  bool sends_block_ = false;
  bool disturbed_ = false;
  std::vector<PiecewiseSpeed> speeds_;                                              // per rank, where disturbed
  std::vector<std::size_t> ready_;                                                  // ranks that can go on
  std::priority_queue<TimedRank, std::vector<TimedRank>, std::greater<>> delayed_;  // until their time is the earliest
  std::unique_ptr<SharedCores> cores_;  // of one machine with measured costs
  Simulation result_;
};

}  // namespace

Simulation simulate(const Program& program, const Costs& costs, const Cluster& cluster,
                    std::span<const DeviceId> rank_devices, const SimulateOptions& options) {
  if (options.iterations < 1) throw InputError("simulation", "needs at least one iteration");
  if (rank_devices.size() < program.ranks.size() || costs.stages.size() < program.graph.size())
    throw std::logic_error("simulate() needs a device for every rank and a cost for every stage");
  for (const DeviceId device : rank_devices)
    if (device.value < 0 || device.index() >= cluster.devices.size())
      throw InputError("cluster '" + cluster.name + "'", "device " + std::to_string(device.value) + " does not exist",
                       "there are " + std::to_string(cluster.devices.size()));
  return Engine(program, costs, cluster, rank_devices, options).run();
}

}  // namespace sluice
