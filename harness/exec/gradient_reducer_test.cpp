// Gradients that are reduced in buckets while a rank computes on, with workers that do no arithmetic.
#include "harness/exec/gradient_reducer.h"

#include "harness/exec/executor_test_support.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

// One stage on two ranks, a micro-batch each.
Program two_replicas() {
  return lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n"), chain(1), Placement{{{Rank(0), Rank(1)}}},
               WeightRule{});
}

TEST(GradientReducer, RandomOrdersStepOnWholeSums) {
  std::mt19937 random(7);
  int buckets = 0;
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const ExampleProblem copies =
        data_parallel_replicas(random_problem(static_cast<unsigned>(trial), false), 2 + static_cast<int>(random() % 2));
    const Program program = lower(copies.schedule, copies.graph, copies.placement, WeightRule{});
    const auto workers =
        fakes(program, {.type = trial % 2 == 0 ? ElementType::float32 : ElementType::float64, .in_buckets = true});
    run(program, workers, {.iterations = 3, .timeout = Seconds(60)});
    expect_whole_program(program, workers, 3);
    for (const auto& worker : workers) buckets += fake(worker).buckets;
    if (HasFailure()) return;
  }
  EXPECT_GT(buckets, 300);
}

// A look at what the reducer writes meanwhile, to see it change: a race by design, which ThreadSanitizer shall not
// report.
__attribute__((no_sanitize_thread)) double seen(const double* value) {
  return *const_cast<const volatile double*>(value);
}

// Whose op goes on only once its first bucket is reduced, which is before the op is over.
class OverlappingWorker : public FakeWorker {
 public:
  using FakeWorker::FakeWorker;
  bool was_reduced = false;

  bool compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready) override {
    compute(op);
    const Buffer all = gradients(op.stage);
    const auto* first = static_cast<const double*>(all.data);
    const double own = *first;
    ready({all.data, 1, all.type});
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (seen(first) == own && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    was_reduced = seen(first) == 1 + 2;
    ready({static_cast<double*>(all.data) + 1, 2, all.type});
    return true;
  }
};

TEST(GradientReducer, ABucketIsReducedWhileItsOpGoesOn) {
  const Program program = two_replicas();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 2; ++r) workers.push_back(std::make_unique<OverlappingWorker>(Rank(r), FakeOptions{}));
  run(program, workers, {.timeout = Seconds(60)});
  expect_whole_program(program, workers, 1);
  for (const auto& worker : workers) EXPECT_TRUE(static_cast<OverlappingWorker&>(*worker).was_reduced);
}

TEST(GradientReducer, AFailureBetweenBucketsEndsAllRanks) {
  class FailingWorker : public FakeWorker {
   public:
    using FakeWorker::FakeWorker;
    bool compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready) override {
      if (op.micro == Micro(0)) throw std::runtime_error("thrown before a bucket");
      return FakeWorker::compute_in_buckets(op, ready);  // rank 1 waits for a bucket that never comes
    }
  };
  const Program program = two_replicas();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 2; ++r)
    workers.push_back(std::make_unique<FailingWorker>(Rank(r), FakeOptions{.in_buckets = true}));
  try {
    run(program, workers, {.timeout = Seconds(60)});
    FAIL() << "no failure";
  } catch (const RunStopped& stopped) {
    EXPECT_NE(std::string(stopped.what()).find("thrown before a bucket"), std::string::npos) << stopped.what();
  }
}

// Chimera's two directions: each rank comes first to the stage that the other one comes to last. With one reduction at
// a time on a rank they would wait for one another, so their gradients are reduced at the end.
TEST(GradientReducer, RanksThatFinishTheirStagesInOppositeOrdersReduceAfterTheBackward) {
  const Placement both{.stages = {{Rank(0), Rank(1)}, {Rank(1), Rank(0)}}};
  const Program program =
      lower(parse_schedule("rank 0: 0F0 1F1 1B1 0B0\nrank 1: 1F0 0F1 1B0 0B1\n"), chain(2), both, WeightRule{});
  const Program opposite = lower(parse_schedule("rank 0: 0F0 1F1 1B1 0B0\nrank 1: 0F1 1F0 0B1 1B0\n"),
                                 stage_graph(2, {}, "test"), both, WeightRule{});
  for (const auto& [one, expected] : {std::pair(&program, 6), std::pair(&opposite, 0)}) {
    const auto workers = fakes(*one, {.in_buckets = true});
    run(*one, workers, {.timeout = Seconds(60)});
    expect_whole_program(*one, workers, 1);
    for (const auto& worker : workers) EXPECT_EQ(fake(worker).buckets, expected);
  }
}

}  // namespace
}  // namespace sluice
