#include "harness/exec/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>

#include "harness/base/error_words.h"
#include "harness/base/stop.h"
#include "harness/exec/gradient_reducer.h"
#include "harness/exec/rank_result.h"

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A rank's time: seconds since the common start; on a device, numbers of marks, which seconds_of() converts.
struct RankClock {
  Clock::time_point start;
  DeviceClock* device;
  double now() const { return device ? device->mark() : since(start); }
  double seconds_of(double time) const { return device ? device->seconds(time) : time; }
};

// Ends a run early: keeps the first failure (later ones are its consequences), wakes the ranks that wait for a message,
// and sets a flag that the ranks that compute read between instructions.
class Stop {
 public:
  explicit Stop(Transport& transport) : transport_(transport) {}
  void now(RunStopped::Kind kind, std::optional<Rank> rank, const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) {
        failure_.emplace(kind, rank, reason);
        since_start_ = since(start_);
      }
    }
    requested_.store(true);
    transport_.abort();
  }
  // A worker's loss is no longer finite. Of several, the earliest update counts.
  void diverged(std::int64_t update) {
    {
      const std::lock_guard lock(mutex_);
      diverged_ = diverged_ ? std::min(*diverged_, update) : update;
    }
    requested_.store(true);
    transport_.abort();
  }
  std::optional<std::int64_t> diverged() const { return diverged_; }
  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_.has_value();
  }
  // A rank of another process has stopped the run; the reason comes with the results.
  void request() { requested_.store(true); }
  // Of several processes, the first failure of any is the run's.
  RunOutcome outcome() const { return {failure_, since_start_, diverged_}; }
  void adopt(const RunOutcome& first) {
    failure_.reset();
    if (first.failure) failure_.emplace(*first.failure);
    diverged_ = first.diverged;
  }
  void started(Clock::time_point start) {
    const std::lock_guard lock(mutex_);
    start_ = start;
  }
  const std::atomic<bool>& requested() const { return requested_; }
  void throw_if_requested() const {
    if (requested_.load(std::memory_order_relaxed)) throw TransportAborted();
  }
  void rethrow() const {
    if (failure_) throw *failure_;
  }

 private:
  Transport& transport_;
  std::mutex mutex_;
  std::optional<RunStopped> failure_;
  std::optional<std::int64_t> diverged_;
  std::atomic<bool> requested_{false};
  Clock::time_point start_ = Clock::now();
  double since_start_ = 0;  // of failure_
};

// Stops the run when it takes too long, somebody cancels it, or another process has stopped it.
class Watchdog {
 public:
  Watchdog(const ExecuteOptions& options, Stop& stop, Transport& transport) {
    if (!options.timeout && !options.cancel && !options.processes) return;
    thread_ = std::thread([this, options, &stop, &transport] {
      const auto start = Clock::now();
      std::unique_lock lock(mutex_);
      while (!done_) {
        changed_.wait_for(lock, std::chrono::milliseconds(50));
        if (done_) return;
        if (transport.stopped()) stop.request();
        if (options.cancel && options.cancel->load()) {
          stop.now(RunStopped::Kind::cancelled, std::nullopt, "interrupted");
        } else if (options.timeout && since(start) > options.timeout->value) {
          stop.now(RunStopped::Kind::timed_out, std::nullopt, "took longer than " + to_text(*options.timeout));
        } else {
          continue;
        }
        return;
      }
    });
  }
  ~Watchdog() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

// The place of a rank among the replicas of a stage.
int member_of(const Program& program, StageId stage, Rank rank) {
  const auto& ranks = program.placement.stages[stage.index()];
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

// Gives the worker the sums of the stage's posted reduce-scatters, in their order, until only `left` of them remain.
void take_reduced(StageId stage, int member, Transport& transport, Worker& worker, int left) {
  while (const void* const sum = transport.take_reduced(stage.value, member, left)) worker.add_reduced(stage, sum);
}

// Of a step group.
void all_reduce_of_steps(const Program& program, Rank rank, const Instruction& reduction, Transport& transport,
                         const Worker::Buffer& buffer) {
  const auto group = static_cast<std::size_t>(reduction.channel - program.first_step_group());
  const std::vector<Rank>& members = program.step_groups[group];
  if (members.size() < 2) return;
  const auto member = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  transport.all_reduce(reduction.channel, member, buffer.data, buffer.count, buffer.type);
}

// Instruction k of the rank: sums the norm of all gradients over the ranks that step.
void reduce_norm(const Program& program, Rank rank, std::size_t k, Transport& transport, Worker& worker) {
  const std::vector<Instruction>& own = program.ranks[rank.index()];
  for (std::size_t s = k; s < own.size(); ++s)
    if (own[s].opcode == Opcode::optimizer_step && program.sharded(own[s].stage))
      take_reduced(own[s].stage, member_of(program, own[s].stage, rank), transport, worker, 0);
  all_reduce_of_steps(program, rank, own[k], transport, worker.begin_norm());
  worker.clip();
}

bool enters(const Program& program, const Instruction& i) {
  return program.graph.predecessors[i.stage.index()].empty();
}
bool leaves(const Program& program, const Instruction& i) { return program.graph.successors[i.stage.index()].empty(); }

// The ends of the pipeline say when a micro-batch of inference entered it and left it.
void add_times_of_inference(const Program& program, const Instruction& forward, int iteration, double start, double end,
                            RankResult& result) {
  result.micro_batches.add(program, forward, iteration, start, end);
  if (!leaves(program, forward)) return;
  const int batch =
      forward.micro.value * program.graph.microbatches_per_op_of(forward.stage) / program.microbatches_per_update;
  result.update_end[iteration * program.updates + batch] = end;
}

// traced: the ops are timed one by one. `pacer` holds them up, where it is active.
template <bool traced>
void run_once(const Program& program, Rank rank, Transport& transport, Worker& worker, int iteration,
              const RankClock& clock, const Stop& stop, Pacer& pacer, WindowReports& reports, GradientReducer& reducer,
              RankResult& result) {
  const bool paced = pacer.active(), reporting = reports.active();
  const std::vector<Instruction>& instructions = program.ranks[rank.index()];
  for (std::size_t k = 0; k < instructions.size(); ++k) {
    const Instruction& i = instructions[k];
    stop.throw_if_requested();
    if (reporting && reports.leaves_out(i)) continue;
    double begin = 0;
    if constexpr (traced) begin = clock.now();
    switch (i.opcode) {
      case Opcode::send_activation:
      case Opcode::send_gradient:
      case Opcode::send_stash:
      case Opcode::send_weight_gradient:
      case Opcode::send_stepped:
      case Opcode::send_credit:
        if (reporting) {
          Message message = worker.take(i);
          reports.add_to(i, message);
          transport.send(i.channel, std::move(message));
        } else {
          transport.send(i.channel, worker.take(i));
        }
        continue;
      case Opcode::receive_activation:
      case Opcode::receive_gradient:
      case Opcode::receive_stash:
      case Opcode::receive_weight_gradient:
      case Opcode::receive_stepped:
      case Opcode::receive_credit:
        if (reporting) {
          Message message = transport.receive(i.channel);
          reports.received(message);
          worker.put(i, std::move(message));
        } else {
          worker.put(i, transport.receive(i.channel));
        }
        continue;
      case Opcode::reduce_gradients:
        reducer.reduce(i, worker);
        break;
      case Opcode::reduce_copies:
        all_reduce_of_steps(program, rank, i, transport, worker.begin_copies(i));
        worker.end_copies(i);
        break;
      case Opcode::reduce_norm:
        reduce_norm(program, rank, k, transport, worker);
        break;
      case Opcode::gather_weights: {
        const auto [all, own] = worker.begin_gather(i.stage);
        transport.all_gather(i.channel, member_of(program, i.stage, rank), own, all.data, all.count, all.type);
        break;
      }
      case Opcode::free_weights:
        worker.free_weights(i.stage);
        continue;
      case Opcode::stash_out:
      case Opcode::stash_free:
      case Opcode::stash_back:
        worker.move_stash(i);
        break;
      case Opcode::reduce_scatter: {
        const int member = member_of(program, i.stage, rank);
        take_reduced(i.stage, member, transport, worker, Transport::kPosted);
        const Worker::Buffer g = worker.begin_reduce_scatter(i.stage);
        if (!transport.post_reduce_scatter(i.channel, member, g.data, g.count, g.type)) {
          transport.reduce_scatter(i.channel, member, g.data, g.count, g.type);
          const std::size_t slice = g.count * (g.type == ElementType::float32 ? 4 : 8);
          worker.add_reduced(i.stage, static_cast<const char*>(g.data) + static_cast<std::size_t>(member) * slice);
        }
        worker.end_reduce_scatter(i.stage);
        break;
      }
      case Opcode::optimizer_step: {
        if (program.sharded(i.stage)) {
          take_reduced(i.stage, member_of(program, i.stage, rank), transport, worker, 0);
          if constexpr (traced) begin = clock.now();  // waiting for the others is no part of it
        }
        if (paced) pacer.begin(clock.now());
        worker.step(i);
        if (paced) pacer.end();
        double& end = result.update_end[iteration * program.updates + i.micro.value];
        end = clock.now();
        ++result.steps;
        if (reporting) reports.stepped(i);
        break;
      }
      default: {
        const bool times_batches = program.forward_only && (enters(program, i) || leaves(program, i));
        const double op_begin = paced || reporting || times_batches ? clock.now() : 0;
        if (paced) pacer.begin(op_begin);
        reducer.compute(k, worker);
        if (paced) pacer.end();
        if (reporting) reports.computed(i, clock.now() - op_begin);
        if (times_batches) add_times_of_inference(program, i, iteration, op_begin, clock.now(), result);
      }
    }
    if constexpr (traced) result.trace.push_back({i, begin, clock.now()});
  }
}

// The events of the next rank; moves of stashes apart, as those of a lane.
void add_to(Trace& trace, std::vector<TraceEvent> events, bool offloads) {
  if (offloads) {
    const auto is_move = [](const TraceEvent& event) { return is_stash_move(event.instruction.opcode); };
    auto& copies = trace.host_copies.emplace_back();
    std::ranges::copy_if(events, std::back_inserter(copies), is_move);
    std::erase_if(events, is_move);
    std::erase_if(copies, [](const TraceEvent& event) { return event.instruction.opcode == Opcode::stash_free; });
  }
  trace.ranks.push_back(std::move(events));
}

// What all ranks measured, of all iterations.
Execution put_together(const Program& program, std::vector<RankResult>& results) {
  Execution execution;
  execution.update_end.assign(results[0].update_end.size(), 0);
  execution.micro_batches = results[0].micro_batches;
  execution.trace.sequence_chunks = program.sequence_chunks;
  for (RankResult& result : results) {
    execution.seconds = std::max(execution.seconds, result.end);
    for (std::size_t u = 0; u < result.update_end.size(); ++u)
      execution.update_end[u] = std::max(execution.update_end[u], result.update_end[u]);
    for (std::size_t m = 0; m < result.micro_batches.left.size(); ++m) {
      MicroBatchTimes& all = execution.micro_batches;
      all.entered[m] = std::min(all.entered[m], result.micro_batches.entered[m]);
      all.left[m] = std::max(all.left[m], result.micro_batches.left[m]);
    }
    add_to(execution.trace, std::move(result.trace), program.offloads);
  }
  return execution;
}

// Of a run that diverged: only the updates that every rank has finished are left.
void end_at_last_update(Execution& execution, const Program& program, const std::vector<RankResult>& results) {
  std::size_t done = execution.update_end.size();
  for (std::size_t r = 0; r < results.size(); ++r) {
    const auto steps =
        static_cast<std::size_t>(std::ranges::count(program.ranks[r], Opcode::optimizer_step, &Instruction::opcode));
    if (steps > 0) done = std::min(done, results[r].steps * static_cast<std::size_t>(program.updates) / steps);
  }
  execution.update_end.resize(done);
  if (done > 0) execution.seconds = std::max(execution.seconds, execution.update_end.back());
}

}  // namespace

Execution execute(const Program& program, Transport& transport, const std::vector<std::unique_ptr<Worker>>& workers,
                  const ExecuteOptions& options) {
  std::vector<RankResult> results(program.rank_count());
  for (RankResult& result : results) {
    result.update_end.assign(static_cast<std::size_t>(options.iterations) * program.updates, 0);
    if (program.forward_only)
      result.micro_batches = MicroBatchTimes(static_cast<std::size_t>(options.iterations) * program.microbatches);
  }
  std::vector<std::unique_ptr<WindowReports>> reports;
  for (std::size_t r = 0; r < results.size(); ++r)
    reports.push_back(std::make_unique<WindowReports>(program, Rank(r), options.windows));
  Stop stop(transport);
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> go{false};
  Clock::time_point start;
  const auto guarded = [&](std::size_t r, auto work) {
    try {
      work();
    } catch (const TransportAborted&) {
      // Another rank failed first; its reason is the run's.
    } catch (const Stopped&) {
      // So it was, in the middle of an op.
    } catch (const Diverged& d) {
      results[r].end = since(start);
      stop.diverged(d.update);
    } catch (const std::exception& e) {
      stop.now(RunStopped::Kind::failed, Rank(r), words_of(e));
    } catch (...) {
      stop.now(RunStopped::Kind::failed, Rank(r), "an exception of unknown type");
    }
  };
  const auto here = [&](std::size_t r) {
    return !options.processes || static_cast<int>(r) == options.processes->rank();
  };
  const auto rank_main = [&](std::size_t r) {
    const StopScope stops_with_the_run(&stop.requested(), std::nullopt);
    GradientReducer reducer(program, Rank(r), transport);
    guarded(r, [&] {
      if (options.pinning) options.pinning->bind(Rank(r));
      workers[r]->begin_run(program);
    });
    ready.fetch_add(1);
    ready.notify_all();
    go.wait(false);
    const RankClock clock{start, workers[r]->clock()};
    guarded(r, [&] {
      if (clock.device) clock.device->start(since(start));
      Pacer pacer(options.disturbance ? options.disturbance->pace_of(Rank(r)) : PiecewiseSpeed());
      for (int k = 0; k < options.iterations; ++k) {
        stop.throw_if_requested();  // a worker whose begin_run failed is not asked for more
        workers[r]->begin_iteration(k);
        if (k == options.traced_iteration) {
          run_once<true>(program, Rank(r), transport, *workers[r], k, clock, stop, pacer, *reports[r], reducer,
                         results[r]);
        } else {
          run_once<false>(program, Rank(r), transport, *workers[r], k, clock, stop, pacer, *reports[r], reducer,
                          results[r]);
        }
      }
      results[r].end = clock.now();
      workers[r]->end_run();
      results[r].end = clock.seconds_of(results[r].end);
    });
    if (clock.device && !stop.failed())
      guarded(r, [&] {
        for (double& end : results[r].update_end) end = clock.seconds_of(end);
        for (double& time : results[r].micro_batches.entered)
          if (std::isfinite(time)) time = clock.seconds_of(time);
        for (double& time : results[r].micro_batches.left) time = clock.seconds_of(time);
        for (TraceEvent& e : results[r].trace) e.start = clock.seconds_of(e.start), e.end = clock.seconds_of(e.end);
      });
  };
  {
    const Watchdog watchdog(options, stop, transport);
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (!here(r)) continue;
      try {
        threads.emplace_back(rank_main, r);
      } catch (const std::system_error& e) {  // no more threads: the ones that run must still end
        stop.now(RunStopped::Kind::failed, Rank(r), "cannot start a thread (ulimit -u, -v): " + words_of(e));
        break;
      }
    }
    for (std::size_t n = ready.load(); n < threads.size(); n = ready.load()) ready.wait(n);
    if (options.processes) options.processes->barrier();
    start = Clock::now();
    stop.started(start);
    std::optional<CoRunningLoad> load;
    if (options.disturbance && options.disturbance->by_load) {
      std::vector<Rank> own;
      for (std::size_t r = 0; r < results.size(); ++r)
        if (here(r)) own.emplace_back(r);
      load.emplace(*options.disturbance, own, options.pinning);
    }
    go.store(true);
    go.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
  if (options.processes) stop.adopt(collect(*options.processes, results, stop.outcome()));
  stop.rethrow();

  Execution execution = put_together(program, results);
  // The clocks of processes begin apart by as long as they take to leave a barrier, which may be more than a latency.
  if (options.processes) execution.micro_batches = {};
  for (std::size_t r = 0; r < results.size(); ++r)
    if (here(r)) execution.ended = reports[r]->end();
  if (execution.ended) execution.update_end.resize(*execution.ended);
  execution.diverged = stop.diverged();
  if (execution.diverged) end_at_last_update(execution, program, results);
  return execution;
}

}  // namespace sluice
