// Every measurement of a profile, co-runs included: together, because all of them run the same session and read the
// same probes; a file more would need these as declarations of their own.
#include "harness/exec/run_profile.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/stop.h"
#include "harness/exec/co_runs.h"
#include "harness/exec/core_gauge.h"
#include "harness/exec/disturbance.h"
#include "harness/exec/profile_samples.h"
#include "harness/exec/threads.h"
#include "harness/exec/torch/session/across_processes.h"
#include "harness/exec/torch/session/libtorch.h"
#include "harness/exec/torch/session/torch_session.h"
#include "harness/exec/torch/stage/probe_scope.h"
#include "harness/exec/torch/stage/tensor_message.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"

namespace sluice {

namespace {

double now() { return Probe::now(); }

// A core of its own for each; nothing where there are too few, as in a container.
std::unique_ptr<Pinning> pin_if_possible(int ranks) {
  if (!hwloc_built() || ranks > static_cast<int>(std::thread::hardware_concurrency())) return nullptr;
  try {
    return pin_to_cores(ranks, nullptr);
  } catch (const InputError&) {
    return nullptr;
  }
}

// Of a sample within another one.
ProbeCost probe_cost() {
  static const ProbeCost cost = [] {
    MemoryCounters* counters = new_counters();
    constexpr int kSamples = 20'000;
    double least = 1, within = 1;
    for (int round = 0; round < 5; ++round) {  // what disturbs it only makes it slower
      Probe probe;
      const double begin = now();
      for (int k = 0; k < kSamples; ++k) const ProbeScope scope(&probe, counters, {});
      least = std::min(least, (now() - begin) / kSamples);
      std::vector<double> seconds;
      for (const ProbeSample& s : probe.samples()) seconds.push_back(s.end - s.start);
      within = std::min(within, median_of(std::move(seconds)));
    }
    return ProbeCost{.within = within, .whole = std::max(least, within)};
  }();
  return cost;
}

// What a chain runs: the whole model on every rank, or half of it on each of two.
struct ChainForm {
  int ranks = 1, microbatches_per_rank = 4;
  bool batched = false;    // weight gradients of the update as one product
  bool recompute = false;  // forwards keep their inputs
  bool split = false;      // the weight gradients come ops later than the input gradients
  bool halves = false;     // a pipeline of two stages
  bool apart = false;      // one rank more computes the weight gradients
  int spare_cores = 0;     // that are pinned to besides, after the ranks'
  Sharding sharding = {};
};

// Two micro-batches are in flight at most: F0 F1 B0 F2 B1 F3 B2 B3, which is no system's order on one rank; split:
// F0 F1 I0 F2 W0 I1 F3 W1 I2 W2 I3 W3.
Schedule whole_model_order(const ChainForm& form) {
  Schedule schedule = empty_schedule(form.ranks, form.ranks * form.microbatches_per_rank);
  for (int r = 0; r < form.ranks; ++r) {
    std::vector<Op>& ops = schedule.ops(Rank(r));
    const auto micro = [&](int k) { return k * form.ranks + r; };
    for (int k = 0; k <= form.microbatches_per_rank; ++k) {
      if (k < form.microbatches_per_rank) ops.push_back(forward_op(0, micro(k)));
      if (form.split && k > 1) ops.push_back(weight_gradient_op(0, micro(k - 2)));
      if (k == 0) continue;
      ops.push_back(form.split ? input_gradient_op(0, micro(k - 1)) : backward_op(0, micro(k - 1)));
    }
    if (form.split) ops.push_back(weight_gradient_op(0, micro(form.microbatches_per_rank - 1)));
  }
  return schedule;
}

// Three micro-batches are in flight on the first stage, two on the second, which is no system's order either.
Schedule two_stage_order(int microbatches) {
  Schedule schedule = empty_schedule(2, microbatches);
  for (int s = 0; s < 2; ++s) {
    const int in_flight = 3 - s;
    for (int k = 0; k < microbatches + in_flight - 1; ++k) {
      if (k < microbatches) schedule.ops(Rank(s)).push_back(forward_op(s, k));
      if (k >= in_flight - 1) schedule.ops(Rank(s)).push_back(backward_op(s, k - in_flight + 1));
    }
  }
  return schedule;
}

// F0 F1 I0 F2 I1 F3 I2 I3 on one rank and the weight gradients on the other.
Schedule order_of_two_ranks(int microbatches) {
  Schedule schedule = empty_schedule(2, microbatches);
  for (int k = 0; k <= microbatches; ++k) {
    if (k < microbatches) schedule.ops(Rank(0)).push_back(forward_op(0, k));
    if (k > 0) schedule.ops(Rank(0)).push_back(input_gradient_op(0, k - 1));
    if (k < microbatches) schedule.ops(Rank(1)).push_back(weight_gradient_op(0, k));
  }
  return schedule;
}

// The layer that begins the second half; 0 where no layer can.
std::size_t middle(const ModelGraph& model) {
  std::size_t cut = model.layers.size() / 2;
  while (cut > 0 && is_fused_with_predecessor(model.layers[cut])) --cut;
  return cut;
}

// One session and its program.
class Chain {
 public:
  // processes: hold the ranks, one each, and call the functions of the chain together; null: threads.
  Chain(const RunProfileSpec& spec, const ChainForm& form, ProcessGroup* processes = nullptr) : processes_(processes) {
    Plan plan;
    plan.micro_batch = spec.micro_batch;
    plan.stages.resize(form.halves ? 2 : 1);
    const std::size_t cut = form.halves ? middle(spec.model) : spec.model.layers.size();
    for (std::size_t l = 0; l < spec.model.layers.size(); ++l)
      plan.stages[l < cut ? 0 : 1].layers.push_back(static_cast<int>(l));
    for (int r = 0; r < form.ranks; ++r)
      plan.stages[form.halves ? static_cast<std::size_t>(r) : 0].devices.emplace_back(r);
    if (form.apart) plan.stages[0].weight_gradient_device = DeviceId(1);
    WeightRule rule;
    if (form.recompute) rule.recompute = WeightRule::Recompute::forward_weights;
    const int microbatches = form.halves ? form.microbatches_per_rank : form.ranks * form.microbatches_per_rank;
    const Schedule order = form.halves  ? two_stage_order(microbatches)
                           : form.apart ? order_of_two_ranks(microbatches)
                                        : whole_model_order(form);
    program_ = checked(lower(order, chain(form.halves ? 2 : 1), ranks_of(plan).placement, rule, form.sharding));
    samples_ = microbatches * spec.micro_batch;
    SessionSpec session;
    session.model = spec.model;
    session.plan = plan;
    session.optimizer = spec.optimizer;
    session.micro_batch = spec.micro_batch;
    session.batched_weight_gradients = form.batched;
    session.sharding = form.sharding;
    session.feed = spec.feed;
    session.synthetic_batch = samples_;
    session.processes = processes;
    if (spec.feed) train_samples_ = spec.feed->train_samples;
    session_ = libtorch::make_session(session);
    const auto ranks = static_cast<int>(program_.rank_count());
    if (!processes) pinning_ = pin_if_possible(ranks + form.spare_cores);
    // Processes do not wait for a quiet machine: each would decide by itself.
    gauge_ = CoreGauge(ranks, processes ? 0 : kMaxWaiting);
  }

  const Pinning* pinning() const { return pinning_.get(); }

  // As many updates as take about `seconds`, in some rounds.
  void run(double seconds) {
    const int rounds = std::clamp(updates_in(seconds, 400) / kFewestOfARound, 1, 4);
    const int updates = updates_in(seconds / rounds, 400) + 1;
    for (int round = 0; round < rounds; ++round) run_round(updates);
  }

  // Of its meetings only one is sampled a run: short ones, as many as take about `seconds`.
  void run_for_meetings(double seconds) {
    constexpr int kUpdates = 3, kMaxRuns = 12;
    const int runs = std::max(updates_in(seconds, kMaxRuns * kUpdates) / kUpdates, 3);
    for (int k = 0; k < runs; ++k) run_round(kUpdates);
  }

  // Adds the samples of the faster half of the rounds: what disturbs a machine only makes it slower.
  void add_rounds(std::span<const int> layer_of_input, ChainSamples& sum) {
    std::ranges::stable_sort(rounds_, {}, &Round::seconds);
    rounds_.resize((rounds_.size() + 1) / 2);
    for (const Round& round : rounds_) {
      for (const Probe& probe : round.probes) add_samples(sum, probe.samples(), layer_of_input, 1, probe_cost());
      if (round.probes.size() == 2) add_overlap(round.probes);
    }
  }

  // Of a rank of two: the part of the time of its ops in which the other one is busy too.
  double overlap(int rank) const { return busy_[rank] > 0 ? both_busy_ / busy_[rank] : 0; }

  // Adds the seconds of every layer's passes in as many updates as take about `seconds`, of all but the first. Returns
  // their micro-batches.
  int add_passes(double seconds, std::vector<double>& sum) {
    const int updates = updates_in(seconds, 20'000);
    std::vector<Probe> probes(program_.rank_count());
    execute(updates + 1, &probes);
    for (const Probe& probe : probes) {
      bool warm = false;
      for (const ProbeSample& s : probe.samples()) {
        using Kind = ProbeSample::Kind;
        if (warm && (s.kind == Kind::forward || s.kind == Kind::input_gradient || s.kind == Kind::weight_gradient))
          sum.at(static_cast<std::size_t>(s.layer)) += s.end - s.start;
        warm = warm || s.kind == Kind::step;
      }
    }
    return updates * program_.microbatches_per_update;
  }

  // Seconds of the ranks' meetings in such an instruction.
  double meeting(Opcode opcode) const {
    const auto found = meetings_.find(opcode);
    return found == meetings_.end() ? 0 : median_of(found->second);
  }

 private:
  int updates_in(double seconds, int most) {
    if (update_seconds_ == 0) {
      execute(1, nullptr);
      update_seconds_ = execute(1, nullptr).seconds;
      if (processes_)
        update_seconds_ = Json::parse(processes_->broadcast(Json(update_seconds_).dump(), 0)).get<double>();
    }
    return std::clamp(static_cast<int>(seconds / update_seconds_), 2, most);
  }

  Execution execute(int updates, std::vector<Probe>* probes) {
    stop_now();
    RunRequest request;
    request.timeout = time_left();
    request.iterations = updates;
    request.traced_iteration = updates / 2;
    request.probes = probes;
    request.pinning = pinning_.get();
    request.learning_rate = [](std::int64_t) { return 1e-12; };  // the same samples again and again
    if (train_samples_ > 0)
      for (std::int64_t k = 0; k < updates * samples_; ++k) request.order.push_back((at_ + k) % train_samples_);
    at_ += updates * samples_;
    try {
      return session_->run(program_, request).execution;
    } catch (const RunStopped&) {
      stop_now();  // the limit of the case, not of a run
      throw;
    }
  }

  // The first update is not sampled.
  void run_round(int updates) {
    Round round{.probes = std::vector<Probe>(program_.rank_count())};
    Execution run;
    do {
      if (!processes_) gauge_.wait();
      for (Probe& probe : round.probes) probe.clear();
      run = execute(updates, &round.probes);
    } while (gauge_.again());
    round.seconds = run.seconds / updates;
    rounds_.push_back(std::move(round));
    for (const Opcode opcode : {Opcode::reduce_gradients, Opcode::gather_weights, Opcode::reduce_scatter})
      add_meetings(run.trace, opcode);
  }

  static constexpr double kMaxWaiting = 1;
  static constexpr int kFewestOfARound = 8;  // updates

  struct Round {
    std::vector<Probe> probes;
    double seconds = 0;  // of an update
  };

  // Of two ranks, from the end of the first step on.
  void add_overlap(const std::vector<Probe>& probes) {
    using Kind = ProbeSample::Kind;
    std::vector<std::pair<double, double>> ops[2];
    for (int r = 0; r < 2; ++r) {
      bool warm = std::ranges::none_of(probes[r].samples(), [](const auto& s) { return s.kind == Kind::step; });
      for (const ProbeSample& s : probes[r].samples()) {
        if (warm && (s.kind == Kind::op || s.kind == Kind::step)) {
          ops[r].emplace_back(s.start, s.end);
          busy_[r] += s.end - s.start;
        }
        warm = warm || s.kind == Kind::step;
      }
    }
    for (auto a = ops[0].begin(), b = ops[1].begin(); a != ops[0].end() && b != ops[1].end();) {
      both_busy_ += std::max(std::min(a->second, b->second) - std::max(a->first, b->first), 0.0);
      a->second < b->second ? ++a : ++b;
    }
  }

  // From when the last rank has come to when the first goes on; of processes, whose clocks begin apart, the time that
  // it takes to the last one.
  void add_meetings(const Trace& trace, Opcode opcode) {
    double start = 0, end = 1e300, shortest = 1e300;
    int members = 0;
    for (const auto& rank : trace.ranks)
      for (const TraceEvent& e : rank)
        if (e.instruction.opcode == opcode) {
          start = std::max(start, e.start);
          end = std::min(end, e.end);
          shortest = std::min(shortest, e.end - e.start);
          ++members;
        }
    if (members > 1) meetings_[opcode].push_back(processes_ ? shortest : std::max(end - start, 0.0));
  }

  ProcessGroup* const processes_;
  Program program_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Pinning> pinning_;
  std::int64_t samples_ = 0, train_samples_ = 0, at_ = 0;
  double update_seconds_ = 0;
  std::vector<Round> rounds_;
  std::map<Opcode, std::vector<double>> meetings_;
  CoreGauge gauge_{1, 0};
  double busy_[2] = {}, both_busy_ = 0;  // seconds
};

// A thread on the core of a rank, joined when it goes.
std::jthread thread_on(const Pinning* pinning, int rank, std::function<void()> work) {
  return std::jthread([pinning, rank, work = std::move(work)] {
    if (pinning) pinning->bind(Rank(rank));
    work();
  });
}

// Messages between two threads through the executor's transport.
class Messages {
 public:
  explicit Messages(const Pinning* pinning) : pinning_(pinning) {
    program_.ranks.resize(2);
    program_.channels = {{Rank(0), Rank(1), kMax}, {Rank(1), Rank(0), kMax}};
    transport_ = make_thread_transport(program_);
  }

  // The receiver sleeps after the wait from which a message takes longer than twice what it takes to one that is
  // awake and half of what it takes to one that sleeps. Ranks of a pipeline wait for a part of a millisecond to some.
  void measure(MachineCosts& machine) {
    constexpr int kRepeats = 15;
    const Sample awake = sample(0, 5 * kRepeats);
    std::vector<double> arrivals, sends;
    for (const double wait : {200e-6, 400e-6, 800e-6, 1600e-6}) {
      const Sample asleep = sample(wait, kRepeats);
      arrivals.push_back(asleep.arrival);
      sends.push_back(asleep.send);
    }
    // What disturbs a message only makes it slower.
    const double asleep = std::ranges::min(arrivals), between = std::max(2 * awake.arrival, asleep / 2);
    machine.send = machine.receive = Seconds(awake.arrival / 2);
    machine.wake_up = Seconds(std::max(asleep - awake.arrival, 0.0));
    machine.notify = Seconds(std::max(std::ranges::min(sends) - awake.send, 0.0));
    double spin_time = 0;
    for (int tens = 1; tens <= 20; ++tens)  // of microseconds
      if (const double wait = tens * 10e-6; sample(wait, kRepeats).arrival < between) spin_time = wait;
    machine.spin_time = Seconds(asleep < 2 * awake.arrival ? 1.0 : spin_time + 5e-6);
  }

 private:
  static constexpr int kMax = 64;
  struct Sample {
    double arrival = 0;  // from a message of one thread to the other
    double send = 0;     // of the sender
  };

  // Of threads of which the receiver has waited for `wait` seconds.
  Sample sample(double wait, int repeats) {
    std::vector<double> sent(static_cast<std::size_t>(repeats)), arrivals, sends;
    {
      const std::jthread receiver = thread_on(pinning_, 1, [&] {
        for (int k = 0; k < repeats; ++k) {
          transport_->receive(0);
          arrivals.push_back(now() - sent[k]);
          transport_->send(1, {});
        }
      });
      const std::jthread sender = thread_on(pinning_, 0, [&] {
        for (double& at : sent) {
          const double until = now() + wait + 2e-6;
          while (now() < until) {
          }
          at = now();
          transport_->send(0, {});
          sends.push_back(now() - at);
          transport_->receive(1);
        }
      });
    }
    return {median_of(arrivals), median_of(sends)};
  }

  const Pinning* pinning_;
  Program program_;
  std::unique_ptr<Transport> transport_;
};

// Seconds of a message of `bytes` bytes from one process to the other, the median of many.
double message_seconds(ProcessGroup& processes, std::int64_t bytes) {
  constexpr int kTrips = 100;
  Program program;
  program.ranks.resize(2);
  program.channels = {{Rank(0), Rank(1), 1}, {Rank(1), Rank(0), 1}};
  TensorCodec codec;
  const std::unique_ptr<Transport> transport = processes.transport(program, codec);
  Message message{std::make_shared<TensorMessage>(TensorMessage{{at::ones({std::max<std::int64_t>(bytes / 4, 1)})}})};
  const bool first = processes.rank() == 0;
  std::vector<double> seconds;
  for (int k = 0; k < kTrips; ++k) {
    const double begin = now();
    if (first) transport->send(0, std::move(message));
    message = transport->receive(first ? 1 : 0);
    if (!first) transport->send(1, std::move(message));
    seconds.push_back((now() - begin) / 2);
  }
  return median_of(std::move(seconds));
}

// Seconds per byte of `work` on tensors of `bytes` bytes in all, one after the other.
double seconds_per_byte(std::int64_t bytes, const std::function<void(at::Tensor&)>& work) {
  const c10::InferenceMode no_autograd;
  constexpr std::int64_t kPiece = 256 << 10;
  std::vector<at::Tensor> pieces;
  for (std::int64_t k = 0; k < std::max<std::int64_t>(bytes / kPiece, 1); ++k)
    pieces.push_back(at::ones({std::min(bytes, kPiece) / 4}));
  std::vector<double> seconds;
  for (int round = 0; round < 4; ++round)
    for (at::Tensor& piece : pieces) {
      const double begin = now();
      work(piece);
      seconds.push_back((now() - begin) / static_cast<double>(piece.nbytes()));
    }
  return median_of(seconds);
}

std::vector<int> first_readers(const ModelGraph& model) {
  std::vector<int> readers(model.inputs.size(), 0);
  for (std::size_t l = model.layers.size(); l-- > 0;)
    for (const int input : model.layers[l].inputs)
      if (input < 0) readers[-1 - input] = static_cast<int>(l);
  return readers;
}

ChainSamples empty_samples(std::size_t layers) {
  ChainSamples samples;
  samples.layers.resize(layers);
  samples.load.resize(layers);
  samples.loaded.assign(layers, 0);
  return samples;
}

class RunProfile {
 public:
  explicit RunProfile(const RunProfileSpec& spec) : spec_(spec), readers_(first_readers(spec.model)) {
    const std::size_t layers = spec.model.layers.size();
    idle_ = busy_ = split_ = halves_ = apart_ = recomputed_ = batched_idle_ = batched_busy_ = empty_samples(layers);
  }

  CostGraph measure() {
    const int all = 1 + spec_.neighbours;
    {
      Chain alone(spec_, {});
      Chain split(spec_, {.split = true});
      Chain together(spec_, {.ranks = all});
      std::optional<Chain> halves, apart;
      if (spec_.neighbours > 0 && middle(spec_.model) > 0)
        halves.emplace(spec_, ChainForm{.ranks = 2, .microbatches_per_rank = 8, .halves = true});
      if (spec_.neighbours > 0) apart.emplace(spec_, ChainForm{.apart = true});
      for (int round = 0; round < spec_.rounds; ++round) {
        alone.run(kSeconds);
        split.run(kSeconds);
        if (spec_.neighbours > 0) together.run(kSeconds);
        if (halves) halves->run(kSeconds);
        if (apart) apart->run(kSeconds);
      }
      alone.add_rounds(readers_, idle_);
      split.add_rounds(readers_, split_);
      together.add_rounds(readers_, busy_);
      if (halves) halves->add_rounds(readers_, halves_);
      if (apart) apart->add_rounds(readers_, apart_);
      if (spec_.neighbours == 0) busy_ = idle_;
      reduce_ = together.meeting(Opcode::reduce_gradients);
      for (int r = 0; halves && r < 2; ++r) overlap_[r] = halves->overlap(r);
      for (int r = 0; apart && r < 2; ++r) apart_overlap_[r] = apart->overlap(r);
    }
    if (spec_.neighbours > 0) {
      Chain sharded(spec_, {.ranks = all,
                            .microbatches_per_rank = 1,
                            .sharding = {.gather = Sharding::Gather::once, .reduce = Sharding::Reduce::accumulated}});
      for (int round = 0; round < spec_.rounds; ++round) sharded.run(0);
      gather_ = sharded.meeting(Opcode::gather_weights);
      scatter_ = sharded.meeting(Opcode::reduce_scatter);
    }
    Chain recomputed(spec_, {.microbatches_per_rank = 2, .recompute = true});
    recomputed.run(0);
    recomputed.add_rounds(readers_, recomputed_);
    if (spec_.batched_microbatches > 0) {
      Chain alone(spec_, {.microbatches_per_rank = spec_.batched_microbatches, .batched = true});
      Chain together(spec_, {.ranks = all, .microbatches_per_rank = spec_.batched_microbatches, .batched = true});
      for (int round = 0; round < spec_.rounds; ++round) {
        alone.run(kSeconds);
        if (spec_.neighbours > 0) together.run(kSeconds);
      }
      alone.add_rounds(readers_, batched_idle_);
      together.add_rounds(readers_, batched_busy_);
    }
    return graph();
  }

 private:
  static constexpr double kSeconds = 0.25;

  static double contended(double busy, double idle) { return idle > 0 ? std::max(busy / idle, 0.5) : 1; }

  // How many times as long next to idle neighbours, in a rank that holds half of the layers. rank: of the two.
  double half(double in_halves, double whole, double contended, std::size_t rank) const {
    if (!(in_halves > 0 && whole > 0)) return 1;
    const double slower = 1 + (contended - 1) * overlap_[rank] / spec_.neighbours;
    return std::clamp(in_halves / std::max(slower, 0.5) / whole, 0.25, 4.0);
  }
  double half(const PassSamples& in_halves, const PassSamples& whole, double contended, std::size_t rank) const {
    return half(mean_of(in_halves.seconds), mean_of(whole.seconds), contended, rank);
  }

  // Of what an op takes in addition to its layers, the part that grows with their number: seconds of a layer. It takes
  // both from an op of all layers and one of half of them.
  double rest_of_layer(std::vector<double> ChainSamples::*rest) const {
    const double whole = mean_of(idle_.*rest), in_half = mean_of(halves_.*rest);
    if (in_half == 0) return 0;
    return std::clamp(2 * (whole - in_half), 0.0, whole) / static_cast<double>(spec_.model.layers.size());
  }
  double rest_of_op(std::vector<double> ChainSamples::*rest) const {
    return mean_of(idle_.*rest) - rest_of_layer(rest) * static_cast<double>(spec_.model.layers.size());
  }

  // How many times as long an op of the whole model takes next to idle neighbours, where a second rank computes the
  // weight gradients. rank: the one that it runs on.
  double apart(PassSamples LayerSamples::*pass, std::vector<double> ChainSamples::*rest, std::size_t rank) const {
    const auto layers = [&](const ChainSamples& samples) {
      double seconds = 0;
      for (const LayerSamples& layer : samples.layers) seconds += mean_of((layer.*pass).seconds);
      return seconds;
    };
    const double there = layers(apart_) + mean_of(apart_.*rest), here = layers(split_) + mean_of(split_.*rest);
    if (!(there > 0 && here > 0)) return 1;
    const double slower = 1 + (contended(layers(busy_), layers(idle_)) - 1) * apart_overlap_[rank] / spec_.neighbours;
    return std::clamp(there / std::max(slower, 0.5) / here, 0.25, 16.0);
  }

  PassMeasurement pass(const PassSamples& idle, const PassSamples& busy) const {
    return {.contended = contended(mean_of(busy.seconds), mean_of(idle.seconds)),
            .spread = spread_of(idle.seconds),
            .peak = Bytes(std::max(idle.peak, busy.peak)),
            .left = Bytes(idle.left)};
  }

  CostGraph graph() const {
    CostGraph graph{.model = spec_.model.name,
                    .source = "profile",
                    .device = "cpu thread",
                    .micro_batch = spec_.micro_batch,
                    .layers = {}};
    const std::vector<Shape> shapes = spec_.model.shapes();
    const double all_parameters = std::max(4.0 * static_cast<double>(parameter_count(spec_.model)), 1.0);
    const double forward_rest = rest_of_layer(&ChainSamples::forward_rest),
                 backward_rest = rest_of_layer(&ChainSamples::backward_rest);
    for (std::size_t l = 0; l < spec_.model.layers.size(); ++l) {
      const LayerSpec& spec = spec_.model.layers[l];
      // Stashes that wait for their batch are part of the working set of all passes.
      const bool batched = spec_.batched_microbatches > 0;
      const LayerSamples& idle = (batched ? batched_idle_ : idle_).layers[l];
      const LayerSamples& busy = (batched && spec_.neighbours > 0 ? batched_busy_
                                  : batched                       ? batched_idle_
                                                                  : busy_)
                                     .layers[l];
      const double bytes = 4.0 * static_cast<double>(parameter_count(spec)), part = bytes / all_parameters;
      LayerMeasurement m;
      m.forward = pass(idle.forward, busy.forward);
      m.input_gradient = pass(idle.input_gradient, busy.input_gradient);
      m.weight_gradient = pass(idle.weight_gradient, busy.weight_gradient);
      m.unstashed = pass(recomputed_.layers[l].unstashed, recomputed_.layers[l].unstashed);
      m.update = {.contended = contended(mean_of(busy_.step), mean_of(idle_.step)),
                  .spread = spread_of(idle_.step),
                  .peak = Bytes(static_cast<std::int64_t>(static_cast<double>(idle_.step_peak) * part)),
                  .left = Bytes(0)};
      m.clear = Seconds(mean_of(idle_.clear) * part);
      const std::size_t rank = l < middle(spec_.model) ? 0 : 1;
      const LayerSamples &in_half = halves_.layers[l], &whole = idle_.layers[l];
      m.forward.half = half(in_half.forward, whole.forward, m.forward.contended, rank);
      m.input_gradient.half = half(in_half.input_gradient, whole.input_gradient, m.input_gradient.contended, rank);
      m.weight_gradient.half = half(in_half.weight_gradient, whole.weight_gradient, m.weight_gradient.contended, rank);
      m.update.half = half(2 * mean_of(halves_.step), mean_of(idle_.step), m.update.contended, rank);
      std::vector<Shape> inputs;
      for (const int input : spec.inputs)
        inputs.push_back(input < 0 ? spec_.model.inputs[-1 - input].shape : shapes[input]);
      const StashSpec keeps = stash(spec, inputs);
      m.keeps_output = keeps.keeps_output || keeps.output_is_input;
      for (PassMeasurement* p : {&m.forward, &m.unstashed}) {
        const Bytes loaded(idle_.loaded[l]);
        p->peak = loaded + p->peak;
        p->left += loaded;
      }
      const double load = mean_of(idle_.load[l]);
      if (!batched_idle_.layers[l].weight_gradient.seconds.empty())
        m.batched_weight_gradient = Seconds(mean_of(batched_idle_.layers[l].weight_gradient.seconds));
      m.split_weight_gradient = Seconds(mean_of(split_.layers[l].weight_gradient.seconds));
      graph.layers.push_back({.name = spec.name,
                              .inputs = spec.inputs,
                              .forward = Seconds(mean_of(idle.forward.seconds) + load + forward_rest),
                              .input_gradient = Seconds(mean_of(idle.input_gradient.seconds) + backward_rest),
                              .weight_gradient = Seconds(mean_of(idle_.layers[l].weight_gradient.seconds)),
                              .update = Seconds(mean_of(idle_.step) * part),
                              .parameters = Bytes(4 * parameter_count(spec)),
                              .output = output_bytes(spec_.model, shapes, static_cast<int>(l), spec_.micro_batch),
                              .fused = is_fused_with_predecessor(spec),
                              .input_channels = input_channels(spec),
                              .measured = m});
    }
    graph.machine = machine(all_parameters);
    return graph;
  }

  MachineCosts machine(double parameters) const {
    MachineCosts machine;
    machine.neighbours = spec_.neighbours;
    machine.batched_microbatches = spec_.batched_microbatches;
    const std::unique_ptr<Pinning> pinning = pin_if_possible(2);
    Messages(pinning.get()).measure(machine);
    machine.send += Seconds(mean_of(halves_.send));
    machine.receive += Seconds(mean_of(halves_.receive));
    machine.forward_op = Seconds(rest_of_op(&ChainSamples::forward_rest));
    machine.backward_op = Seconds(rest_of_op(&ChainSamples::backward_rest));
    machine.weight_gradient_op = Seconds(mean_of(split_.weight_gradient_rest));
    machine.copy = seconds_per_byte(16 << 20, [](at::Tensor& t) { t.clone(); });
    machine.predict = seconds_per_byte(static_cast<std::int64_t>(std::min(parameters, 64e6)), [](at::Tensor& t) {
      at::Tensor to = at::empty_like(t);
      at::add_out(to, t, t, -0.1);
    });
    machine.apart = {.forward = apart(&LayerSamples::forward, &ChainSamples::forward_rest, 0),
                     .input_gradient = apart(&LayerSamples::input_gradient, &ChainSamples::backward_rest, 0),
                     .weight_gradient = apart(&LayerSamples::weight_gradient, &ChainSamples::weight_gradient_rest, 1)};
    machine.reduce = reduce_ / parameters;
    const double members = 1 + spec_.neighbours, read = parameters * (members - 1) / members;
    machine.gather = spec_.neighbours > 0 ? gather_ / read : machine.copy;
    machine.scatter = spec_.neighbours > 0 ? scatter_ / read : machine.copy;
    return machine;
  }

  const RunProfileSpec& spec_;
  const std::vector<int> readers_;
  ChainSamples idle_, busy_, split_, halves_, apart_, recomputed_, batched_idle_, batched_busy_;
  double overlap_[2] = {}, apart_overlap_[2] = {};  // Chain::overlap
  double reduce_ = 0, gather_ = 0, scatter_ = 0;    // seconds, of the whole model
};

}  // namespace

CostGraph libtorch::measure_in_runs(const RunProfileSpec& spec) {
  const int threads_before = at::get_num_threads();
  // One of its chains is cut in half, and a tied layer may be in the other half than the one it is tied to.
  RunProfileSpec whole = spec;
  whole.model = untied(spec.model);
  for (LayerSpec& layer : whole.model.layers) layer.frozen = false;  // its passes are those of a trained one
  CostGraph graph = RunProfile(whole).measure();
  at::set_num_threads(threads_before);
  count_tied_weights_once(graph, spec.model);
  count_frozen_layers(graph, spec.model);
  return graph;
}

BetweenProcesses libtorch::measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes) {
  constexpr double kSeconds = 0.5;
  const int threads_before = at::get_num_threads();
  RunProfileSpec whole = spec;
  whole.model = untied(spec.model);
  for (LayerSpec& layer : whole.model.layers) layer.frozen = false;
  const double parameters = std::max(4.0 * static_cast<double>(parameter_count(whole.model)), 1.0);
  const double others = parameters / 2;  // the slices of the other process
  BetweenProcesses result;
  {
    Chain replicas(whole, {.ranks = 2, .microbatches_per_rank = 1}, &processes);
    replicas.run_for_meetings(kSeconds);
    result.reduce = replicas.meeting(Opcode::reduce_gradients) / parameters;
  }
  {
    Chain sharded(whole,
                  {.ranks = 2,
                   .microbatches_per_rank = 1,
                   .sharding = {.gather = Sharding::Gather::once, .reduce = Sharding::Reduce::accumulated}},
                  &processes);
    sharded.run_for_meetings(kSeconds);
    result.gather = sharded.meeting(Opcode::gather_weights) / others;
    result.scatter = sharded.meeting(Opcode::reduce_scatter) / others;
  }
  // Both ranks take part in moving each message.
  const std::size_t last = std::max<std::size_t>(middle(whole.model), 1) - 1;
  const std::int64_t bytes = std::max<std::int64_t>(
      output_bytes(whole.model, whole.model.shapes(), static_cast<int>(last), whole.micro_batch).value, 4096);
  const double none = message_seconds(processes, 4), some = message_seconds(processes, bytes);
  result.message = Seconds(none / 2);
  result.byte = std::max(some - none, 0.0) / 2 / static_cast<double>(bytes);
  at::set_num_threads(threads_before);
  const Json json = Json::parse(processes.broadcast(to_json(result).dump(), 0));
  JsonReader reader(json, "the first process");
  return between_processes_from_json(reader);
}

namespace {

// An episode without end, of one load on the core of rank 0 or of the rank after it.
Disturbance disturbance_of(const CoRunLoad& load) {
  Disturbance result;
  result.by_load = true;
  result.devices = {DeviceId(0), DeviceId(1)};
  result.interference.episodes.push_back({.resource = load.resource,
                                          .device = load.own_core ? 0 : 1,
                                          .end = std::numeric_limits<double>::infinity(),
                                          .slowdown = load.slowdown});
  return result;
}

}  // namespace

CoRunSamples libtorch::measure_co_runs(const CoRunSpec& spec) {
  const int threads_before = at::get_num_threads();
  const bool other_core = std::ranges::any_of(spec.loads, [](const CoRunLoad& l) { return !l.own_core; });
  const int cores = other_core ? 2 : 1;
  if (co_run_cores() < cores)
    throw InputError("--co-run",
                     "loads that compete with a rank need " + std::to_string(cores) +
                         " cores that threads can be put on, and this build finds " + std::to_string(co_run_cores()),
                     "build with hwloc, on a machine whose cores this process may use");
  RunProfileSpec model;
  model.model = spec.model;
  model.micro_batch = spec.micro_batch;
  model.optimizer = spec.optimizer;
  model.feed = spec.feed;
  Chain chain(model, {.spare_cores = cores - 1});
  const std::size_t layers = spec.model.layers.size();
  CoRunSamples samples{.alone = std::vector<double>(layers), .contended = {}};
  samples.contended.assign(spec.loads.size(), std::vector<double>(layers));
  std::vector<int> microbatches(spec.loads.size(), 0);
  int micros_alone = 0;
  for (int round = 0; round < spec.rounds; ++round) {
    micros_alone += chain.add_passes(spec.seconds, samples.alone);
    for (std::size_t l = 0; l < spec.loads.size(); ++l) {
      const CoRunningLoad load(disturbance_of(spec.loads[l]), {Rank(spec.loads[l].own_core ? 0 : 1)}, chain.pinning());
      microbatches[l] += chain.add_passes(spec.seconds, samples.contended[l]);
    }
  }
  for (double& seconds : samples.alone) seconds /= micros_alone;
  for (std::size_t l = 0; l < spec.loads.size(); ++l)
    for (double& seconds : samples.contended[l]) seconds /= microbatches[l];
  at::set_num_threads(threads_before);
  return samples;
}

}  // namespace sluice
