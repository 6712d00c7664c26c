// Slow ranks and links for real. What must take long is measured once; what must not take longer is repeated until a
// busy machine lets it be (least_of).
#include "harness/exec/disturbance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "harness/exec/executor_test_support.h"
#include "harness/exec/throttled_transport.h"
#include "harness/model/load_interference.h"
#include "harness/program/example_schedules.h"

namespace sluice {
namespace {

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void work_for(double seconds) {
  const double begin = thread_seconds();
  while (thread_seconds() - begin < seconds) {
  }
}

// The shortest step of the clock that counts a thread's processor time; a second if it stands still. Some machines
// count in ticks of milliseconds: what is slowed in proportion to the count is not slowed evenly there.
double clock_step() {
  double shortest = 1;
  for (int k = 0; k < 10; ++k) {
    const auto start = std::chrono::steady_clock::now();
    const double begin = thread_seconds();
    double now = begin;
    while (now == begin && since(start) < 1) now = thread_seconds();
    if (now > begin) shortest = std::min(shortest, now - begin);
  }
  return shortest;
}

#define SLUICE_NEEDS_A_FINE_CLOCK()                  \
  if (const double step = clock_step(); step > 1e-3) \
  GTEST_SKIP() << "this machine counts a thread's processor time in steps of " << step << " s"

// Every compute op takes 5 ms of processor time.
class WorkingWorker : public FakeWorker {
 public:
  explicit WorkingWorker(Rank rank) : FakeWorker(rank, {}) {}
  void compute(const Instruction& op) override {
    work_for(0.005);
    FakeWorker::compute(op);
  }
};

Disturbance on_two_ranks() {
  Disturbance d;
  d.devices = {DeviceId(0), DeviceId(1)};
  return d;
}

Execution run(const Program& program, const Disturbance& disturbance) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t r = 0; r < program.rank_count(); ++r) workers.push_back(std::make_unique<WorkingWorker>(Rank(r)));
  const auto transport = make_thread_transport(program);
  return execute(program, *transport, workers, {.traced_iteration = 0, .disturbance = &disturbance});
}

// The least seconds of an op of a rank: what it takes when nobody disturbs it.
double min_op(const Execution& execution, std::size_t rank) {
  double least = 1e9;
  for (const TraceEvent& e : execution.trace.ranks[rank])
    if (is_compute(e.instruction.opcode)) least = std::min(least, e.end - e.start);
  return least;
}

// The least of up to 100 repetitions, which end once it is below `enough`.
template <class Measure>
double least_of(double enough, Measure measure) {
  double least = measure();
  for (int k = 1; k < 100 && least >= enough; ++k) least = std::min(least, measure());
  return least;
}

Program two_stages(int microbatches) {
  return lower(example_1f1b(2, microbatches), chain(2), one_stage_per_rank(2), WeightRule{});
}

TEST(DisturbanceTest, ASlowedRanksOpsTakeSoManyTimesAsLong) {
  SLUICE_NEEDS_A_FINE_CLOCK();
  Disturbance d = on_two_ranks();
  d.slowdowns = {1, 3};
  const double least = least_of(0.022, [&] {
    const Execution execution = run(two_stages(8), d);
    EXPECT_GE(min_op(execution, 0), 0.0049);
    return min_op(execution, 1);
  });
  EXPECT_GE(least, 0.0149);
  EXPECT_LT(least, 0.022);
}

TEST(DisturbanceTest, AnEpisodeSlowsTheOpsInItsTimeOnly) {
  SLUICE_NEEDS_A_FINE_CLOCK();
  Disturbance d = on_two_ranks();
  d.interference = load_interference("compute:0@100.03-x4", 2, "test");
  d.start = 100;  // of the training: the episode begins 30 ms into the run
  const auto repetition = [&] {
    const Execution execution = run(two_stages(8), d);
    for (const TraceEvent& e : execution.trace.ranks[0]) {
      if (is_compute(e.instruction.opcode) && e.start > 0.03) {
        EXPECT_GE(e.end - e.start, 0.0199);
      }
    }
    return min_op(execution, 0);
  };
  EXPECT_LT(least_of(0.015, repetition), 0.015);
}

TEST(DisturbanceTest, APaceIsTheProductOfSlowdownAndEpisodes) {
  Disturbance d = on_two_ranks();
  d.slowdowns = {1, 2};
  d.interference = load_interference("compute:1@10-20x2", 2, "test");
  EXPECT_DOUBLE_EQ(d.pace_of(Rank(1)).at(15), 0.25);
  EXPECT_DOUBLE_EQ(d.pace_of(Rank(1)).at(25), 0.5);
  EXPECT_TRUE(d.pace_of(Rank(0)).constant());
  d.by_load = true;  // then the load slows the rank, not a pause
  EXPECT_DOUBLE_EQ(d.pace_of(Rank(1)).at(15), 0.5);
}

TEST(DisturbanceTest, LoadLeavesTheRankItsPartOfTheCore) {
  EXPECT_DOUBLE_EQ(load_share(2, 0), 0.5);
  EXPECT_DOUBLE_EQ(load_share(2, 1), 0);
  EXPECT_DOUBLE_EQ(load_share(1.5, 0), 1 - 1 / 1.5);
  for (const int thread : {0, 1, 2}) EXPECT_DOUBLE_EQ(load_share(4, thread), 0.25);
  EXPECT_DOUBLE_EQ(load_share(4, 3), 0);
  EXPECT_DOUBLE_EQ(load_share(1, 0), 0);
}

// Threads of this process.
std::ptrdiff_t threads_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(DisturbanceTest, LoadTakesProcessorTimeDuringItsEpisodeAndEndsWithTheRun) {
  // How much of the time the threads get depends on the machine: only that they work is held here.
  const auto within_a_minute = [](const auto& holds) {
    const auto start = std::chrono::steady_clock::now();
    while (!holds() && since(start) < 60) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return holds();
  };
  const auto processor_time = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  Disturbance d = on_two_ranks();
  d.interference = load_interference("compute:0x2,memory:1x1.5,allocation:1x1.5", 2, "test");
  d.by_load = true;
  std::ptrdiff_t threads = 0;
  {
    const CoRunningLoad load(d, {Rank(0), Rank(1)}, nullptr);
    threads = threads_now();
    EXPECT_GE(threads, 4);  // this one and three of the load
    const double before = processor_time();
    EXPECT_TRUE(within_a_minute([&] { return processor_time() > before + 0.3; }));
  }
  EXPECT_TRUE(within_a_minute([&] { return threads_now() <= threads - 3; }));
}

struct Throttled {
  Disturbance disturbance = on_two_ranks();
  Program program;
  std::unique_ptr<Transport> transport;
  explicit Throttled(const std::string& throttle, const std::string& interference = "") {
    program.ranks.resize(2);
    program.channels = {{Rank(0), Rank(1), 100}};
    disturbance.throttle = Throttle::parse(throttle, 2, "test");
    disturbance.interference = load_interference(interference, 2, "test");
    transport = make_throttled_transport(make_thread_transport(program), program, disturbance,
                                         [](const Message& m) { return *static_cast<double*>(m.payload.get()); });
  }
  void send(double bytes) { transport->send(0, {std::make_shared<double>(bytes)}); }
};

TEST(ThrottledTransportTest, MessagesTakeTheirBytesAtTheRateOneAfterTheOtherAndTheLatencyOnce) {
  // The longer of the time to send and the time beyond which the messages should have come.
  const double late = least_of(0.04, [&] {
    Throttled t("rate=1MB/s,latency=30ms");
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < 4; ++k) t.send(20e3);  // 20 ms each
    const double to_send = since(start);
    for (int k = 0; k < 4; ++k) {
      EXPECT_DOUBLE_EQ(*static_cast<double*>(t.transport->receive(0).payload.get()), 20e3);
      EXPECT_GE(since(start), 0.0299 + 0.02 * (k + 1) - 0.001);
    }
    return std::max(2 * to_send, since(start) - 0.11);
  });
  EXPECT_LT(late, 0.04);  // sends do not wait, and the latency counts once
}

TEST(ThrottledTransportTest, ABurstGoesAtOnceAndTheRestAtTheRate) {
  const double of_the_burst = least_of(0.025, [] {
    Throttled t("rate=1MB/s,burst=60kB");
    std::this_thread::sleep_for(std::chrono::milliseconds(70));  // the bucket fills
    const auto sent = std::chrono::steady_clock::now();
    for (int k = 0; k < 4; ++k) t.send(30e3);
    for (int k = 0; k < 2; ++k) t.transport->receive(0);
    const double seconds = since(sent);
    for (int k = 0; k < 2; ++k) t.transport->receive(0);
    EXPECT_GE(since(sent), 0.055);
    return seconds;
  });
  EXPECT_LT(of_the_burst, 0.025);
}

TEST(ThrottledTransportTest, AnEpisodeOnTheLinkLowersItsRate) {
  Throttled t("rate=1MB/s", "link:0-1x4");
  const auto start = std::chrono::steady_clock::now();
  t.send(20e3);
  t.transport->receive(0);
  EXPECT_GE(since(start), 0.079);
}

TEST(ThrottledTransportTest, AnAbortWakesARankThatWaitsForAMessageOnItsWay) {
  Throttled t("rate=1kB/s");
  t.send(1e6);
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    t.transport->abort();
  });
  EXPECT_THROW(t.transport->receive(0), TransportAborted);
  stopper.join();
}

TEST(ThrottledTransportTest, AThrottledProgramRunsAsItDoesWithout) {
  const Program program = two_stages(6);
  Disturbance d = on_two_ranks();
  d.throttle = Throttle::parse("rate=10MB/s,latency=1ms", 2, "test");
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t r = 0; r < 2; ++r) workers.push_back(std::make_unique<FakeWorker>(Rank(r), FakeOptions{}));
  const auto transport =
      make_throttled_transport(make_thread_transport(program), program, d, [](const Message&) { return 1000.0; });
  execute(program, *transport, workers, {.iterations = 3});
  for (const auto& worker : workers) EXPECT_TRUE(static_cast<FakeWorker&>(*worker).errors.empty());
}

}  // namespace
}  // namespace sluice
