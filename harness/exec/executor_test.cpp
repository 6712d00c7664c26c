// The executor with workers that do no arithmetic: what arrives where, and how a run ends.
#include "harness/exec/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "harness/core/check.h"
#include "harness/core/error.h"
#include "harness/exec/threads.h"

namespace sluice {
namespace {

enum class Place { none, begin_run, begin_iteration, compute, take, put, gradients, step, end_run };

std::string to_text(Place place) {
  static const char* const names[] = {"none",      "begin_run", "begin_iteration",
                                      "compute",   "take",      "put",
                                      "gradients", "step",      "end_run"};
  return names[static_cast<std::size_t>(place)];
}

// What a message says about itself, for the receiver to compare with what it waits for.
struct Letter {
  bool gradient;
  StageId from, to;
  Micro micro;
  int iteration;
};

struct FakeOptions {
  Place throws = Place::none;
  int throwing_rank = -1;
  bool odd_exception = false;  // throws an int instead of a std::exception
  int throwing_iteration = 0;
  ElementType type = ElementType::float64;
};

// Keeps a log of every call and checks what it is handed. A stage's "gradient" is the sum of its
// micro-batches' numbers (from 1), so after a reduction every replica must hold the sum of all.
class FakeWorker : public Worker {
 public:
  FakeWorker(Rank rank, const FakeOptions& options) : rank_(rank), options_(options) {}

  std::vector<Instruction> log;  // compute, take, put, step, in order
  std::vector<std::string> errors;
  std::thread::id thread;
  int calls_after_throw = 0;

  void begin_run(const Program& program) override {
    program_ = &program;
    thread = std::this_thread::get_id();
    at(Place::begin_run);
  }
  void begin_iteration(int iteration) override {
    iteration_ = iteration;
    arrived_.clear();
    at(Place::begin_iteration);
  }
  void compute(const Instruction& op) override {
    at(Place::compute);
    log.push_back(op);
    last_ = op;
    // Everything the op reads from another rank has arrived.
    const auto& graph = program_->graph;
    if (op.what == Do::forward)
      for (const StageId p : graph.predecessors[op.stage.index()]) need(p, op, false);
    if (op.what == Do::backward || op.what == Do::input_gradient)
      for (const StageId s : graph.successors[op.stage.index()]) need(s, op, true);
    if (op.what == Do::backward || op.what == Do::weight_gradient) {
      doubles_[op.stage].assign(3, sum(op.stage) + op.micro.value + 1);
      floats_[op.stage].assign(3, static_cast<float>(sum(op.stage)));
    }
  }
  Message take(const Instruction& send) override {
    at(Place::take);
    log.push_back(send);
    if (last_.stage != send.stage || last_.micro != send.micro)
      errors.push_back(sluice::to_text(send) + " does not follow the op that makes it");
    return {std::make_shared<Letter>(Letter{send.what == Do::send_gradient, send.stage,
                                            send.peer_stage, send.micro, iteration_})};
  }
  void put(const Instruction& receive, Message message) override {
    at(Place::put);
    log.push_back(receive);
    const Letter& letter = *static_cast<Letter*>(message.payload.get());
    const bool gradient = receive.what == Do::receive_gradient;
    if (letter.gradient != gradient || letter.from != receive.peer_stage ||
        letter.to != receive.stage || letter.micro != receive.micro ||
        letter.iteration != iteration_)
      errors.push_back(sluice::to_text(receive) + " got another message");
    if (!arrived_.insert({gradient, receive.peer_stage, receive.stage, receive.micro}).second)
      errors.push_back(sluice::to_text(receive) + " got its message twice");
  }
  Buffer gradients(StageId stage) override {
    at(Place::gradients);
    doubles_[stage].resize(3);
    floats_[stage].resize(3);
    if (options_.type == ElementType::float32)
      return {floats_[stage].data(), 3, ElementType::float32};
    return {doubles_[stage].data(), 3, ElementType::float64};
  }
  void step(const Instruction& step) override {
    at(Place::step);
    log.push_back(step);
    if (program_->rule.synchronous()) {
      const double n = program_->microbatches, all = n * (n + 1) / 2;
      const bool replicated = program_->placement.stages[step.stage.index()].size() > 1;
      const bool narrow = replicated && options_.type == ElementType::float32;
      for (std::size_t i = 0; i < 3; ++i) {
        const double have =
            narrow ? static_cast<double>(floats_[step.stage][i]) : doubles_[step.stage][i];
        if (have != all)
          errors.push_back(sluice::to_text(step) + " sees a gradient of " + std::to_string(have));
      }
    }
    doubles_[step.stage].assign(3, 0);
    floats_[step.stage].assign(3, 0);
  }
  void end_run() override { at(Place::end_run); }

 private:
  void at(Place place) {
    if (thrown_) ++calls_after_throw;
    if (std::this_thread::get_id() != thread && place != Place::begin_run)
      errors.push_back("called on a thread that is not the rank's");
    if (place != options_.throws || rank_.value != options_.throwing_rank) return;
    if (iteration_ < options_.throwing_iteration && place != Place::begin_run) return;
    thrown_ = true;
    if (options_.odd_exception) throw 42;
    throw std::runtime_error("thrown in " + to_text(place));
  }
  void need(StageId peer, const Instruction& op, bool gradient) {
    if (program_->placement.rank_of(peer, op.micro) == rank_) return;
    if (!arrived_.contains({gradient, peer, op.stage, op.micro}))
      errors.push_back(sluice::to_text(op) + " runs before its input is there");
  }
  double sum(StageId stage) {
    auto& values = doubles_[stage];
    values.resize(3);
    return values[0];
  }

  Rank rank_;
  FakeOptions options_;
  const Program* program_ = nullptr;
  int iteration_ = 0;
  bool thrown_ = false;
  Instruction last_;
  std::set<std::tuple<bool, StageId, StageId, Micro>> arrived_;
  std::map<StageId, std::vector<double>> doubles_;
  std::map<StageId, std::vector<float>> floats_;
};

std::vector<std::unique_ptr<Worker>> fakes(const Program& program,
                                           const FakeOptions& options = {}) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t r = 0; r < program.rank_count(); ++r)
    workers.push_back(std::make_unique<FakeWorker>(Rank(r), options));
  return workers;
}

FakeWorker& fake(const std::unique_ptr<Worker>& worker) {
  return static_cast<FakeWorker&>(*worker);
}

Execution run(const Program& program, const std::vector<std::unique_ptr<Worker>>& workers,
              const ExecuteOptions& options = {}) {
  const auto transport = make_thread_transport(program);
  return execute(program, *transport, workers, options);
}

// Every rank's log must be its program, `iterations` times, without the reductions (no call of its
// own besides gradients()).
void expect_whole_program(const Program& program,
                          const std::vector<std::unique_ptr<Worker>>& workers, int iterations) {
  for (std::size_t r = 0; r < workers.size(); ++r) {
    const FakeWorker& worker = fake(workers[r]);
    EXPECT_EQ(worker.errors, std::vector<std::string>{}) << "rank " << r;
    std::size_t place = 0;
    for (int k = 0; k < iterations; ++k)
      for (const Instruction& i : program.ranks[r]) {
        if (i.what == Do::reduce_gradients) continue;
        ASSERT_LT(place, worker.log.size()) << "rank " << r;
        ASSERT_EQ(to_text(worker.log[place++]), to_text(i)) << "rank " << r << ", iteration " << k;
      }
    EXPECT_EQ(place, worker.log.size()) << "rank " << r;
  }
}

// Rank r = stage r; rank r runs min(p - 1 - r, m) forwards before its first backward.
Program one_f_one_b(int ranks, int micros, const WeightRule& rule = {}) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = micros};
  for (int s = 0; s < ranks; ++s) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(s)];
    const int warm_up = std::min(ranks - 1 - s, micros);
    for (int i = 0; i < warm_up; ++i) ops.push_back(forward_op(s, i));
    for (int i = 0; i < micros; ++i) {
      if (warm_up + i < micros) ops.push_back(forward_op(s, warm_up + i));
      ops.push_back(backward_op(s, i));
    }
  }
  return lower(schedule, chain(ranks), one_stage_per_rank(ranks), rule);
}

// One stage on every rank, micro-batch i on rank i mod p.
Program data_parallel(int ranks, int micros) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = micros};
  Placement placement{.stages = {{}}};
  for (int r = 0; r < ranks; ++r) placement.stages[0].emplace_back(r);
  for (int i = 0; i < micros; ++i) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(i % ranks)];
    ops.push_back(forward_op(0, i));
    ops.push_back(backward_op(0, i));
  }
  return lower(schedule, chain(1), placement, WeightRule{});
}

// A random stage DAG on random ranks, some stages replicated, some backwards split, in an order
// drawn op by op from those whose inputs are done: free of deadlock by construction and unlike
// anything a system would do. None: the draw reduces two stages in different orders, and lower()
// rightly refuses it.
std::optional<Program> random_program(std::mt19937& random) {
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int stages = 1 + draw(7), ranks = 1 + draw(6), micros = 1 + draw(9);
  std::vector<std::pair<StageId, StageId>> edges;
  for (int s = 1; s < stages; ++s) {
    std::set<int> before{draw(s)};
    if (draw(2) == 0) before.insert(draw(s));
    for (const int p : before) edges.push_back({StageId(p), StageId(s)});
  }
  std::ranges::sort(edges);
  const StageGraph graph = stage_graph(stages, edges, "test");
  Placement placement;
  for (int s = 0; s < stages; ++s) {
    std::vector<Rank> all;
    for (int r = 0; r < ranks; ++r) all.emplace_back(r);
    std::ranges::shuffle(all, random);
    all.resize(static_cast<std::size_t>(draw(3) == 0 ? 1 + draw(ranks) : 1));
    placement.stages.push_back(all);
  }
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = micros};
  std::vector<Op> left;
  for (int s = 0; s < stages; ++s)
    for (int i = 0; i < micros; ++i) {
      left.push_back(forward_op(s, i));
      if (draw(2) == 0) {
        left.push_back(backward_op(s, i));
      } else {
        left.push_back({OpKind::input_gradient, StageId(s), Micro(i)});
        left.push_back({OpKind::weight_gradient, StageId(s), Micro(i)});
      }
    }
  std::set<std::tuple<int, int, int>> done;  // stage, micro, 0: F, 1: I or B
  const auto is_done = [&](StageId s, Micro i, int what) {
    return done.contains({s.value, i.value, what});
  };
  const auto ready = [&](const Op& op) {
    if (op.kind == OpKind::forward)
      return std::ranges::all_of(graph.predecessors[op.stage.index()],
                                 [&](StageId p) { return is_done(p, op.micro, 0); });
    if (op.kind == OpKind::weight_gradient) return is_done(op.stage, op.micro, 1);
    return is_done(op.stage, op.micro, 0) &&
           std::ranges::all_of(graph.successors[op.stage.index()],
                               [&](StageId s) { return is_done(s, op.micro, 1); });
  };
  while (!left.empty()) {
    const auto k = static_cast<std::ptrdiff_t>(random() % left.size());
    const Op op = left[static_cast<std::size_t>(k)];
    if (!ready(op)) continue;
    left.erase(left.begin() + k);
    if (op.kind != OpKind::weight_gradient)
      done.insert({op.stage.value, op.micro.value, op.kind == OpKind::forward ? 0 : 1});
    schedule.ranks[placement.rank_of(op.stage, op.micro).index()].push_back(op);
  }
  try {
    return lower(schedule, graph, placement, WeightRule{});
  } catch (const InputError&) {
    return std::nullopt;
  }
}

TEST(Executor, RandomSchedulesOfRandomStageGraphsDeliverEveryMessageOnceAndInOrder) {
  std::mt19937 random(11);
  int ran = 0, sent = 0, reduced = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const auto program = random_program(random);
    // Fewer micro-batches than replicas leave a rank without a backward, hence without a step.
    if (!program || !check(*program).empty()) continue;
    ++ran;
    for (const auto& rank : program->ranks)
      for (const Instruction& i : rank) {
        sent += i.what == Do::send_activation || i.what == Do::send_gradient;
        reduced += i.what == Do::reduce_gradients;
      }
    const auto workers =
        fakes(*program, {.type = trial % 2 == 0 ? ElementType::float32 : ElementType::float64});
    run(*program, workers, {.iterations = 3, .timeout = Seconds(60)});
    expect_whole_program(*program, workers, 3);
    if (HasFailure()) return;
  }
  // The draws are worth something.
  EXPECT_GT(ran, 100);
  EXPECT_GT(sent, 1000);
  EXPECT_GT(reduced, 100);
}

TEST(Executor, ManyMoreRanksThanCoresRunAPipeline) {
  const Program program = one_f_one_b(40, 16);
  const auto workers = fakes(program);
  run(program, workers, {.iterations = 5, .timeout = Seconds(120)});
  expect_whole_program(program, workers, 5);
}

TEST(Executor, ThousandsOfIterationsFollowOneAnotherWithoutABarrier) {
  const Program program = one_f_one_b(3, 4);
  const auto workers = fakes(program);
  const Execution execution = run(program, workers, {.iterations = 3000, .timeout = Seconds(120)});
  expect_whole_program(program, workers, 3000);
  EXPECT_EQ(execution.update_end.size(), 3000u);
}

TEST(Executor, ASenderFarAheadOfItsReceiverDoesNotDeadlock) {
  // The last stage waits for all of stage 0's messages before it takes the first of the source's:
  // the source runs 600 messages ahead of it.
  constexpr int kMicros = 600;
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(3), .microbatches = kMicros};
  for (int s = 0; s < 3; ++s) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(s)];
    // The last stage starts with the last micro-batch: whatever comes first, all must have come.
    for (int i = 0; i < kMicros; ++i) ops.push_back(forward_op(s, s == 2 ? kMicros - 1 - i : i));
    for (int i = 0; i < kMicros; ++i) ops.push_back(backward_op(s, i));
  }
  // Stage 1 is the source, and stage 2 reads stage 0 before it.
  const StageGraph graph = stage_graph(
      3, {{StageId(1), StageId(0)}, {StageId(0), StageId(2)}, {StageId(1), StageId(2)}}, "test");
  const Program program = lower(schedule, graph, one_stage_per_rank(3), WeightRule{});
  const auto workers = fakes(program);
  run(program, workers, {.timeout = Seconds(60)});
  expect_whole_program(program, workers, 1);
}

TEST(Executor, UpdatesEndInOrderAndWithinTheRun) {
  for (const bool asynchronous : {false, true}) {
    const Program program = one_f_one_b(
        3, 8,
        {.update = asynchronous ? WeightRule::Update::every_backward : WeightRule::Update::flush});
    const Execution execution = run(program, fakes(program), {.iterations = 20});
    ASSERT_EQ(execution.update_end.size(), asynchronous ? 160u : 20u);
    EXPECT_GT(execution.update_end.front(), 0);
    EXPECT_TRUE(std::ranges::is_sorted(execution.update_end));
    EXPECT_LE(execution.update_end.back(), execution.seconds);
  }
}

TEST(Executor, TheTracedIterationCoversEveryOpInOrderAndNothingElse) {
  for (const Program& program : {one_f_one_b(3, 5), data_parallel(3, 7)}) {
    const Execution execution =
        run(program, fakes(program), {.iterations = 4, .traced_iteration = 2});
    ASSERT_EQ(execution.trace.ranks.size(), 3u);
    for (std::size_t r = 0; r < 3; ++r) {
      std::vector<std::string> expected, traced;
      for (const Instruction& i : program.ranks[r])
        if (i.what <= Do::weight_gradient || i.what >= Do::reduce_gradients)
          expected.push_back(to_text(i));
      double now = 0;  // times only grow on a rank
      for (const TraceEvent& e : execution.trace.ranks[r]) {
        traced.push_back(to_text(e.instruction));
        EXPECT_GE(e.start, now);
        EXPECT_GE(e.end, e.start);
        now = e.end;
      }
      EXPECT_EQ(traced, expected);
      EXPECT_LE(now, execution.seconds);
    }
  }
}

TEST(Executor, WithoutATracedIterationThereIsNoTrace) {
  const Program program = one_f_one_b(2, 3);
  for (const auto& rank : run(program, fakes(program), {.iterations = 2}).trace.ranks)
    EXPECT_TRUE(rank.empty());
}

// Runs, expects RunStopped, and that all threads are back soon.
RunStopped stopped(const Program& program, const std::vector<std::unique_ptr<Worker>>& workers,
                   const ExecuteOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  RunStopped how(RunStopped::Kind::failed, std::nullopt, "it was not stopped");
  try {
    run(program, workers, options);
  } catch (const RunStopped& caught) {
    how = caught;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  return how;
}

class ExecutorFailure : public testing::TestWithParam<Place> {};

TEST_P(ExecutorFailure, EndsTheRunOnAllRanksAndNamesRankAndReason) {
  // Replicated stages around plain ones would need another schedule; gradients() has its own.
  const Program program = GetParam() == Place::gradients ? data_parallel(4, 8) : one_f_one_b(4, 8);
  for (const int rank : {0, 1, 3}) {
    for (const int iteration : {0, 5}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", iteration " << iteration);
      const auto workers = fakes(
          program, {.throws = GetParam(), .throwing_rank = rank, .throwing_iteration = iteration});
      const RunStopped how =
          stopped(program, workers, {.iterations = GetParam() == Place::end_run ? 6 : 100000});
      EXPECT_EQ(how.kind, RunStopped::Kind::failed);
      EXPECT_EQ(how.rank, Rank(rank));
      EXPECT_EQ(std::string(how.what()), "thrown in " + to_text(GetParam()));
      // A worker that threw may be in any state: nothing more is asked of it.
      for (const auto& worker : workers) EXPECT_EQ(fake(worker).calls_after_throw, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, ExecutorFailure,
                         testing::Values(Place::begin_run, Place::begin_iteration, Place::compute,
                                         Place::take, Place::put, Place::gradients, Place::step,
                                         Place::end_run),
                         [](const auto& parameter) { return to_text(parameter.param); });

TEST(Executor, AnExceptionOfUnknownTypeIsAFailureToo) {
  for (const Place place : {Place::begin_run, Place::compute}) {
    const Program program = one_f_one_b(2, 4);
    const RunStopped how = stopped(
        program, fakes(program, {.throws = place, .throwing_rank = 1, .odd_exception = true}), {});
    EXPECT_EQ(how.rank, Rank(1));
    EXPECT_EQ(std::string(how.what()), "an exception of unknown type");
  }
}

// A worker made of one function, for runs that wait in a given place.
class WaitingWorker : public Worker {
 public:
  explicit WaitingWorker(std::function<void()> work) : work_(std::move(work)) {}
  void begin_run(const Program&) override {}
  void begin_iteration(int) override {}
  void compute(const Instruction&) override { work_(); }
  Message take(const Instruction&) override { return {std::make_shared<int>(0)}; }
  void put(const Instruction&, Message) override {}
  Buffer gradients(StageId) override { return {values_, 2, ElementType::float64}; }
  void step(const Instruction&) override {}
  void end_run() override {}

 private:
  std::function<void()> work_;
  double values_[2] = {};
};

void sleep_ms(int n) { std::this_thread::sleep_for(std::chrono::milliseconds(n)); }

// Rank 0 runs `first`, rank 1 computes once.
Program two_ranks(const std::vector<Instruction>& first, const std::vector<Channel>& channels) {
  Program program;
  program.ranks = {first, {{Do::forward}}};
  program.channels = channels;
  program.placement.stages = {{Rank(0), Rank(1)}};
  program.microbatches = 1;
  return program;
}

std::vector<std::unique_ptr<Worker>> two_workers(std::function<void()> zero,
                                                 std::function<void()> one) {
  std::vector<std::unique_ptr<Worker>> workers;
  workers.push_back(std::make_unique<WaitingWorker>(std::move(zero)));
  workers.push_back(std::make_unique<WaitingWorker>(std::move(one)));
  return workers;
}

Instruction on_channel(Do what) {
  Instruction i{what};
  i.channel = 0;
  return i;
}

TEST(Executor, AFailureReachesARankThatWaitsForAMessageAFullRingOrAReduction) {
  const std::vector<Instruction> receives{on_channel(Do::receive_activation)};
  const std::vector<Instruction> sends(4, on_channel(Do::send_activation));
  const std::vector<Instruction> reduces{on_channel(Do::reduce_gradients)};
  for (const Program& program :
       {two_ranks(receives, {{Rank(1), Rank(0), 1}}), two_ranks(sends, {{Rank(0), Rank(1), 2}}),
        two_ranks(reduces, {})}) {
    SCOPED_TRACE(to_text(program.ranks[0][0]));
    const auto workers = two_workers([] {},
                                     [] {
                                       sleep_ms(50);  // rank 0 is asleep by now
                                       throw std::runtime_error("a disk burns");
                                     });
    const RunStopped how = stopped(program, workers, {});
    EXPECT_EQ(how.kind, RunStopped::Kind::failed);
    EXPECT_EQ(how.rank, Rank(1));
    EXPECT_EQ(std::string(how.what()), "a disk burns");
  }
}

TEST(Executor, TheTimeOutEndsARankThatWaitsForEver) {
  const Program program = two_ranks({on_channel(Do::receive_activation)}, {{Rank(1), Rank(0), 1}});
  const RunStopped how = stopped(program, two_workers([] {}, [] {}), {.timeout = Seconds(0.2)});
  EXPECT_EQ(how.kind, RunStopped::Kind::timed_out);
  EXPECT_FALSE(how.rank);
  EXPECT_NE(std::string(how.what()).find("longer than"), std::string::npos);
}

TEST(Executor, TheTimeOutEndsARankThatComputesAndNeverCommunicates) {
  // Nobody waits in the transport: the ranks themselves must look.
  const Program program = two_ranks({{Do::forward}}, {});
  const auto workers = two_workers([] { sleep_ms(1); }, [] { sleep_ms(1); });
  const RunStopped how =
      stopped(program, workers, {.iterations = 1000000, .timeout = Seconds(0.2)});
  EXPECT_EQ(how.kind, RunStopped::Kind::timed_out);
}

TEST(Executor, ATimeOutThatIsNotReachedChangesNothing) {
  const Program program = one_f_one_b(2, 4);
  const auto workers = fakes(program);
  run(program, workers, {.timeout = Seconds(60)});
  expect_whole_program(program, workers, 1);
}

TEST(Executor, CancelEndsRanksThatWaitAndRanksThatCompute) {
  std::atomic<bool> cancel{false};
  const Program program =
      two_ranks({on_channel(Do::receive_activation)}, {{Rank(1), Rank(0), 1000000}});
  std::thread user([&] {
    sleep_ms(100);
    cancel.store(true);
  });
  // Rank 1 computes on; rank 0 waits in its first receive.
  const RunStopped how = stopped(program, two_workers([] {}, [] { sleep_ms(1); }),
                                 {.iterations = 1000000, .cancel = &cancel});
  user.join();
  EXPECT_EQ(how.kind, RunStopped::Kind::cancelled);
  EXPECT_EQ(std::string(how.what()), "interrupted");
}

TEST(Executor, TheFirstOfSeveralFailuresIsTheReason) {
  const Program program = two_ranks({{Do::forward}}, {});
  const auto workers = two_workers(
      [] {
        sleep_ms(200);
        throw std::runtime_error("second");
      },
      [] { throw std::runtime_error("first"); });
  const RunStopped how = stopped(program, workers, {});
  EXPECT_EQ(how.rank, Rank(1));
  EXPECT_EQ(std::string(how.what()), "first");
}

}  // namespace
}  // namespace sluice
