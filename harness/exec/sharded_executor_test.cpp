// The executor on sharded programs, with workers that do no arithmetic: what is gathered when it is
// read, what every slice's step sees, and that failures reach ranks inside a collective.
#include "harness/exec/executor_test_support.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

using Gather = Sharding::Gather;
using Reduce = Sharding::Reduce;

int count(const std::vector<Instruction>& rank, Opcode opcode) {
  return static_cast<int>(std::ranges::count(rank, opcode, &Instruction::opcode));
}

// Two ranks that run one stage, two micro-batches each.
Program two_members(const Sharding& sharding) {
  const ExampleProblem pair = data_parallel_replicas({chain(1), one_stage_per_rank(1), example_1f1b(1, 2)}, 2);
  return lower(pair.schedule, pair.graph, pair.placement, WeightRule{}, sharding);
}

TEST(ShardedExecutor, RandomOrdersReadWholeWeightsAndStepOnTheSumOfTheirSlice) {
  std::mt19937 random(23);
  int gathered = 0, scattered = 0, trials = 0;
  for (const Gather gather : {Gather::once, Gather::on_visit, Gather::on_use, Gather::after_step})
    for (const Reduce reduce : {Reduce::per_microbatch, Reduce::accumulated})
      for (int k = 0; k < 25; ++k, ++trials) {
        SCOPED_TRACE(testing::Message() << "trial " << trials);
        const ExampleProblem copies = data_parallel_replicas(random_problem(static_cast<unsigned>(trials), false),
                                                             2 + static_cast<int>(random() % 2));
        const Program program = lower(copies.schedule, copies.graph, copies.placement, WeightRule{},
                                      {.gather = gather,
                                       .reduce = reduce,
                                       .microbatches_per_reduction = static_cast<int>(random() % 3),
                                       .prefetch = static_cast<int>(random() % 4)});
        // Of some the reduce-scatters are too large to be posted.
        const std::size_t slice = trials % 4 == 0 ? 2100 : 3;
        const auto workers = fakes(program, {.slice = slice});
        run(program, workers, {.iterations = 3, .timeout = Seconds(60)});
        expect_whole_program(program, workers, 3);
        for (std::size_t r = 0; r < workers.size(); ++r) {
          const FakeWorker& worker = fake(workers[r]);
          EXPECT_EQ(worker.gathers, 3 * count(program.ranks[r], Opcode::gather_weights));
          EXPECT_EQ(worker.frees, 3 * count(program.ranks[r], Opcode::free_weights));
          EXPECT_EQ(worker.scatters, 3 * count(program.ranks[r], Opcode::reduce_scatter));
          gathered += worker.gathers;
          scattered += worker.scatters;
        }
        if (HasFailure()) return;
      }
  EXPECT_GT(gathered, 10000);
  EXPECT_GT(scattered, 5000);
}

TEST(ShardedExecutor, GathersAndReduceScattersAreEventsOfTheTrace) {
  const Program program = two_members({.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
  const Execution execution = run(program, fakes(program), {.traced_iteration = 0});
  for (const auto& events : execution.trace.ranks) {
    std::vector<Opcode> order;
    for (const TraceEvent& e : events) {
      order.push_back(e.instruction.opcode);
      EXPECT_LE(e.start, e.end);
    }
    std::vector<Opcode> expected;
    for (int i = 0; i < 2; ++i)
      expected.insert(expected.end(), {Opcode::gather_weights, Opcode::forward, Opcode::gather_weights,
                                       Opcode::backward, Opcode::reduce_scatter});
    expected.push_back(Opcode::optimizer_step);
    EXPECT_EQ(order, expected);
  }
}

TEST(ShardedExecutor, AFailureReachesTheRanksThatWaitInACollective) {
  const Program program = two_members({.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
  for (const Place place : {Place::begin_gather, Place::free_weights, Place::begin_reduce_scatter,
                            Place::end_reduce_scatter, Place::add_reduced}) {
    SCOPED_TRACE(to_text(place));
    const auto workers = fakes(program, {.throws = place, .throwing_rank = 1, .throwing_iteration = 1});
    try {
      run(program, workers, {.iterations = 3, .timeout = Seconds(60)});
      ADD_FAILURE() << "no failure";
    } catch (const RunStopped& stopped) {
      EXPECT_EQ(stopped.kind, RunStopped::Kind::failed);
      EXPECT_EQ(stopped.rank, Rank(1));
      EXPECT_EQ(std::string(stopped.what()), "thrown in " + to_text(place));
    }
  }
}

TEST(ShardedExecutor, AWorkerWithoutShardsSaysSo) {
  // Any worker that does not know of sharding, given a program with shards.
  class Plain : public Worker {
    void begin_run(const Program&) override {}
    void begin_iteration(int) override {}
    void compute(const Instruction&) override {}
    Message take(const Instruction&) override { return {}; }
    void put(const Instruction&, Message) override {}
    Buffer gradients(StageId) override { return {}; }
    void step(const Instruction&) override {}
    void end_run() override {}
  };
  const Program program = two_members({.gather = Gather::once, .reduce = Reduce::accumulated});
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 2; ++r) workers.push_back(std::make_unique<Plain>());
  try {
    run(program, workers, {.timeout = Seconds(60)});
    ADD_FAILURE() << "no failure";
  } catch (const RunStopped& stopped) {
    EXPECT_EQ(std::string(stopped.what()), "internal error: the worker has no shards of stage 0");
  }
}

}  // namespace
}  // namespace sluice
