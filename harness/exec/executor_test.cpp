// The executor with workers that do no arithmetic: what arrives where, and how a run ends.
#include "harness/exec/executor_test_support.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

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
        sent += i.opcode == Opcode::send_activation || i.opcode == Opcode::send_gradient;
        reduced += i.opcode == Opcode::reduce_gradients;
      }
    const auto workers = fakes(*program, {.type = trial % 2 == 0 ? ElementType::float32 : ElementType::float64});
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
    auto& ops = schedule.ranks[s];
    // The last stage starts with the last micro-batch: whatever comes first, all must have come.
    for (int i = 0; i < kMicros; ++i) ops.push_back(forward_op(s, s == 2 ? kMicros - 1 - i : i));
    for (int i = 0; i < kMicros; ++i) ops.push_back(backward_op(s, i));
  }
  // Stage 1 is the source, and stage 2 reads stage 0 before it.
  const StageGraph graph =
      stage_graph(3, {{StageId(1), StageId(0)}, {StageId(0), StageId(2)}, {StageId(1), StageId(2)}}, "test");
  const Program program = lower(schedule, graph, one_stage_per_rank(3), WeightRule{});
  const auto workers = fakes(program);
  run(program, workers, {.timeout = Seconds(60)});
  expect_whole_program(program, workers, 1);
}

TEST(Executor, UpdatesEndInOrderAndWithinTheRun) {
  for (const bool asynchronous : {false, true}) {
    const Program program =
        one_f_one_b(3, 8, {.update = asynchronous ? WeightRule::Update::every_backward : WeightRule::Update::flush});
    const Execution execution = run(program, fakes(program), {.iterations = 20});
    ASSERT_EQ(execution.update_end.size(), asynchronous ? 160u : 20u);
    EXPECT_GT(execution.update_end.front(), 0);
    EXPECT_TRUE(std::ranges::is_sorted(execution.update_end));
    EXPECT_LE(execution.update_end.back(), execution.seconds);
  }
}

TEST(Executor, TheTracedIterationCoversEveryOpInOrderAndNothingElse) {
  for (const Program& program : {one_f_one_b(3, 5), data_parallel(3, 7)}) {
    const Execution execution = run(program, fakes(program), {.iterations = 4, .traced_iteration = 2});
    ASSERT_EQ(execution.trace.ranks.size(), 3u);
    for (std::size_t r = 0; r < 3; ++r) {
      std::vector<std::string> expected, traced;
      for (const Instruction& i : program.ranks[r])
        if (!is_message(i.opcode) && i.opcode != Opcode::recompute) expected.push_back(to_text(i));
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
  for (const auto& rank : run(program, fakes(program), {.iterations = 2}).trace.ranks) EXPECT_TRUE(rank.empty());
}

// Runs, expects RunStopped, and that all threads are back: the limit only tells an end from a hang.
RunStopped stopped(const Program& program, const std::vector<std::unique_ptr<Worker>>& workers,
                   const ExecuteOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  RunStopped how(RunStopped::Kind::failed, std::nullopt, "it was not stopped");
  try {
    run(program, workers, options);
  } catch (const RunStopped& caught) {
    how = caught;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(2));
  return how;
}

void PrintTo(Place place, std::ostream* out) { *out << to_text(place); }

class ExecutorFailure : public testing::TestWithParam<Place> {};

TEST_P(ExecutorFailure, EndsTheRunOnAllRanksAndNamesRankAndReason) {
  // Replicated stages around plain ones would need another schedule; gradients() has its own.
  const Program program = GetParam() == Place::gradients ? data_parallel(4, 8) : one_f_one_b(4, 8);
  for (const int rank : {0, 1, 3}) {
    for (const int iteration : {0, 5}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << ", iteration " << iteration);
      const auto workers =
          fakes(program, {.throws = GetParam(), .throwing_rank = rank, .throwing_iteration = iteration});
      const RunStopped how = stopped(program, workers, {.iterations = GetParam() == Place::end_run ? 6 : 100000});
      EXPECT_EQ(how.kind, RunStopped::Kind::failed);
      EXPECT_EQ(how.rank, Rank(rank));
      EXPECT_EQ(std::string(how.what()), "thrown in " + to_text(GetParam()));
      // A worker that threw may be in any state: nothing more is asked of it.
      for (const auto& worker : workers) EXPECT_EQ(fake(worker).calls_after_throw, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, ExecutorFailure,
                         testing::Values(Place::begin_run, Place::begin_iteration, Place::compute, Place::take,
                                         Place::put, Place::gradients, Place::step, Place::end_run),
                         [](const auto& parameter) { return to_text(parameter.param); });

TEST(Executor, ADivergedLossEndsAllRanksAndIsAResultNotAFailure) {
  const Program program = one_f_one_b(3, 4);
  const auto workers =
      fakes(program, {.throws = Place::compute, .throwing_rank = 2, .throwing_iteration = 5, .diverges = 5});
  const Execution result = run(program, workers, {.iterations = 100});
  EXPECT_EQ(result.diverged, 5);
  // Updates 0 to 4 are done on the last rank; the first may have been stopped in one of them.
  EXPECT_LE(result.update_end.size(), 5u);
  for (const double end : result.update_end) {
    EXPECT_GT(end, 0);
    EXPECT_LE(end, result.seconds);
  }
  for (const auto& worker : workers) EXPECT_EQ(fake(worker).errors, std::vector<std::string>{});
  EXPECT_EQ(run(program, fakes(program), {.iterations = 3}).diverged, std::nullopt);
}

TEST(Executor, OneRankAloneKeepsEveryUpdateBeforeItsDivergence) {
  const Program program = one_f_one_b(1, 2);
  const auto workers =
      fakes(program, {.throws = Place::compute, .throwing_rank = 0, .throwing_iteration = 4, .diverges = 4});
  const Execution result = run(program, workers, {.iterations = 9});
  EXPECT_EQ(result.diverged, 4);
  EXPECT_EQ(result.update_end.size(), 4u);
}

TEST(Executor, AnExceptionOfUnknownTypeIsAFailureToo) {
  for (const Place place : {Place::begin_run, Place::compute}) {
    const Program program = one_f_one_b(2, 4);
    const RunStopped how =
        stopped(program, fakes(program, {.throws = place, .throwing_rank = 1, .odd_exception = true}), {});
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
  program.ranks = {first, {{Opcode::forward}}};
  program.channels = channels;
  program.placement.stages = {{Rank(0), Rank(1)}};
  program.microbatches = 1;
  return program;
}

std::vector<std::unique_ptr<Worker>> two_workers(std::function<void()> zero, std::function<void()> one) {
  std::vector<std::unique_ptr<Worker>> workers;
  workers.push_back(std::make_unique<WaitingWorker>(std::move(zero)));
  workers.push_back(std::make_unique<WaitingWorker>(std::move(one)));
  return workers;
}

Instruction on_channel(Opcode opcode) {
  Instruction i{opcode};
  i.channel = 0;
  return i;
}

TEST(Executor, AFailureReachesARankThatWaitsForAMessageAFullRingOrAReduction) {
  const std::vector<Instruction> receives{on_channel(Opcode::receive_activation)};
  const std::vector<Instruction> sends(4, on_channel(Opcode::send_activation));
  const std::vector<Instruction> reduces{on_channel(Opcode::reduce_gradients)};
  for (const Program& program : {two_ranks(receives, {{Rank(1), Rank(0), 1}}),
                                 two_ranks(sends, {{Rank(0), Rank(1), 2}}), two_ranks(reduces, {})}) {
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
  const Program program = two_ranks({on_channel(Opcode::receive_activation)}, {{Rank(1), Rank(0), 1}});
  const RunStopped how = stopped(program, two_workers([] {}, [] {}), {.timeout = Seconds(0.2)});
  EXPECT_EQ(how.kind, RunStopped::Kind::timed_out);
  EXPECT_FALSE(how.rank);
  EXPECT_NE(std::string(how.what()).find("longer than"), std::string::npos);
}

TEST(Executor, TheTimeOutEndsARankThatComputesAndNeverCommunicates) {
  // Nobody waits in the transport: the ranks themselves must look.
  const Program program = two_ranks({{Opcode::forward}}, {});
  const auto workers = two_workers([] { sleep_ms(1); }, [] { sleep_ms(1); });
  const RunStopped how = stopped(program, workers, {.iterations = 1000000, .timeout = Seconds(0.2)});
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
  const Program program = two_ranks({on_channel(Opcode::receive_activation)}, {{Rank(1), Rank(0), 1000000}});
  std::thread user([&] {
    sleep_ms(100);
    cancel.store(true);
  });
  // Rank 1 computes on; rank 0 waits in its first receive.
  const RunStopped how =
      stopped(program, two_workers([] {}, [] { sleep_ms(1); }), {.iterations = 1000000, .cancel = &cancel});
  user.join();
  EXPECT_EQ(how.kind, RunStopped::Kind::cancelled);
  EXPECT_EQ(std::string(how.what()), "interrupted");
}

TEST(Executor, TheFirstOfSeveralFailuresIsTheReason) {
  const Program program = two_ranks({{Opcode::forward}}, {{Rank(1), Rank(0), 1}});
  const auto transport = make_thread_transport(program);
  const auto workers = two_workers(
      [&] {
        EXPECT_THROW(transport->receive(0), TransportAborted);  // once rank 1's failure is known
        throw std::runtime_error("second");
      },
      [] { throw std::runtime_error("first"); });
  try {
    execute(program, *transport, workers, {});
    ADD_FAILURE() << "it was not stopped";
  } catch (const RunStopped& how) {
    EXPECT_EQ(how.rank, Rank(1));
    EXPECT_STREQ(how.what(), "first");
  }
}

}  // namespace
}  // namespace sluice
