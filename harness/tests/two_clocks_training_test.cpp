// The wall clock and the virtual clock run the same Program: what must agree on any machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "harness/exec/threads.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"
#include "harness/tests/test_support.h"

namespace sluice {
namespace {

using Key = std::tuple<Opcode, StageId, Micro>;

std::vector<std::vector<std::string>> order_of(const Trace& trace) {
  std::vector<std::vector<std::string>> order;
  for (const auto& rank : trace.ranks) {
    auto& ops = order.emplace_back();
    for (const TraceEvent& e : rank) ops.push_back(to_text(e.instruction));
  }
  return order;
}

// Every op starts after the ops it depends on have ended, by the trace's own times.
void expect_dependencies_kept(const Program& program, const Trace& trace) {
  std::map<Key, TraceEvent> events;
  std::size_t compared = 0;
  for (const auto& rank : trace.ranks)
    for (const TraceEvent& e : rank)
      if (is_compute(e.instruction.opcode))
        events[{e.instruction.opcode, e.instruction.stage, e.instruction.micro}] = e;
  const auto after = [&](const TraceEvent& e, Opcode opcode, StageId stage) {
    const auto [first, last] = neighbour_ops(program.graph, e.instruction.stage, e.instruction.micro, stage);
    for (Micro m(first); m.value < last; ++m.value) {
      const auto before = events.find({opcode, stage, m});
      if (before == events.end()) return;  // split or unsplit: the other one exists
      ++compared;
      EXPECT_LE(before->second.end, e.start)
          << to_text(before->second.instruction) << " ends after " << to_text(e.instruction) << " starts";
    }
  };
  for (const auto& [key, e] : events) {
    const std::size_t s = e.instruction.stage.index();
    if (e.instruction.opcode == Opcode::forward)
      for (const StageId p : program.graph.predecessors[s]) after(e, Opcode::forward, p);
    if (e.instruction.opcode == Opcode::backward || e.instruction.opcode == Opcode::input_gradient) {
      after(e, Opcode::forward, e.instruction.stage);
      for (const StageId t : program.graph.successors[s]) {
        after(e, Opcode::backward, t);
        after(e, Opcode::input_gradient, t);
      }
    }
    if (e.instruction.opcode == Opcode::weight_gradient) after(e, Opcode::input_gradient, e.instruction.stage);
  }
  // Each forward but the first stage's, each backward: own forward, and successors.
  std::size_t least = 0;
  for (std::size_t s = 0; s < program.graph.size(); ++s)
    least += static_cast<std::size_t>(program.microbatches / program.graph.microbatches_per_op_of(StageId(s))) *
             ((program.graph.predecessors[s].empty() ? 0u : 1u) + 1u + (program.graph.successors[s].empty() ? 0u : 1u));
  EXPECT_GE(compared, least);
}

class TwoClocks : public testing::TestWithParam<const char*> {};

// Batches of 24 samples.
void expect_same_ops_on_both_clocks(const TestSetup& setup) {
  const Program program = make_program(setup.prepared, setup.microbatches);
  const Simulation simulation =
      simulate(program, costs_of(setup.prepared.plan, setup.prepared.costs, setup.prepared.cluster),
               setup.prepared.cluster, setup.prepared.ranks.devices);
  SessionSpec spec = setup.spec({});
  spec.feed = random_feed(spec.model, 24 * 6);
  const auto session = make_session(spec);
  for (const int traced : {0, 2}) {  // cold, and with ranks running into the next iteration
    RunRequest request;
    request.order = samples_from(0, 24);
    for (int k = 1; k < 4; ++k)
      for (int i = 0; i < 24; ++i) request.order.push_back(i);
    request.iterations = 4;
    request.traced_iteration = traced;
    request.timeout = Seconds(60);
    const Execution execution = session->run(program, request).execution;
    EXPECT_EQ(order_of(execution.trace), order_of(simulation.trace));
    expect_dependencies_kept(program, execution.trace);
  }
  expect_dependencies_kept(program, simulation.trace);
}

TEST_P(TwoClocks, RunTheSameOpsInTheSameOrderAfterTheirInputs) {
  expect_same_ops_on_both_clocks(TestSetup(GetParam(), {}, test_mlp(), 3, 24, 6));
}

TEST(TwoClocksOfAGraph, RunStagesThatTakeDifferentMicroBatchesInTheSameOrder) {
  // Two branches into a join of two replicas; the first branch also comes before the second.
  const ModelGraph model =
      drug_response({.branches = 2, .layers = 2, .trunk_layers = 1, .width = 8, .own_inputs = false});
  TestSetup setup("graphpipe", {}, model, 4, 24, 12);
  Plan& plan = setup.prepared.plan;
  plan = {.stages = {{.layers = {0, 1, 2, 3}, .devices = {DeviceId(0)}, .microbatches_per_op = 2},
                     {.layers = {4, 5, 6, 7}, .devices = {DeviceId(1)}, .microbatches_per_op = 4},
                     {.layers = {}, .devices = {DeviceId(2), DeviceId(3)}, .microbatches_per_op = 3}},
          .micro_batch = 2,
          .imposed_edges = {{StageId(0), StageId(1)}}};
  for (int l = 8; l < static_cast<int>(model.layers.size()); ++l) plan.stages[2].layers.push_back(l);
  setup.prepared.ranks = ranks_of(plan);
  setup.prepared.graph = stage_graph(plan, setup.prepared.costs);
  expect_same_ops_on_both_clocks(setup);
}

// Every op takes its time without taking a core, so that the schedule takes its time on any machine, however many cores
// it has.
class SleepingWorker : public Worker {
 public:
  explicit SleepingWorker(std::chrono::milliseconds forward) : forward_(forward) {}
  void begin_run(const Program&) override {}
  void begin_iteration(int) override {}
  void compute(const Instruction& op) override {
    std::this_thread::sleep_for(op.opcode == Opcode::backward ? 2 * forward_ : forward_);
  }
  Message take(const Instruction&) override { return {std::make_shared<int>(0)}; }
  void put(const Instruction&, Message) override {}
  Buffer gradients(StageId) override { return {nullptr, 0, ElementType::float32}; }
  void step(const Instruction&) override {}
  void end_run() override {}

 private:
  std::chrono::milliseconds forward_;  // and of I and W; B is I and W
};

TEST_P(TwoClocks, AgreeOnTheMakespanOfOpsOfKnownLength) {
  constexpr int kRanks = 3, kMicros = 6;
  const System& system = find_system(GetParam(), "test");
  const Options options = resolve_options(system.options, {}, "test");
  const bool one_stage = system.data_parallel;
  Placement placement = one_stage_per_rank(kRanks);
  if (one_stage) placement.stages = {{Rank(0), Rank(1), Rank(2)}};
  const StageGraph graph = chain(one_stage ? 1 : kRanks);
  const ScheduleProblem order{graph, placement, kRanks, kMicros, {}, Seconds(0), system.accumulates ? kMicros : 1};
  const Program program = lower(system.schedule(order, options), graph, placement, system.weights(order, options));
  // A busy machine wakes sleepers late, by a time that does not grow with the sleep: what was too
  // long is tried again with longer ops. Nothing shortens a sleep.
  for (int attempt = 0, forward_ms = 3;; ++attempt, forward_ms = std::min(3 * forward_ms, 250)) {
    const double seconds = forward_ms * 1e-3;
    const double simulated = simulate(program, uniform_costs(static_cast<int>(graph.size()), seconds, seconds, seconds),
                                      latency_cluster(kRanks, Seconds(1e-6)), identity_devices(kRanks))
                                 .end;
    std::vector<std::unique_ptr<Worker>> workers;
    for (int r = 0; r < kRanks; ++r)
      workers.push_back(std::make_unique<SleepingWorker>(std::chrono::milliseconds(forward_ms)));
    const auto transport = make_thread_transport(program);
    const double measured = execute(program, *transport, workers, {.timeout = Seconds(60)}).seconds;
    EXPECT_GE(measured, 0.999 * simulated);
    if (measured <= 1.25 * simulated) break;
    ASSERT_LT(attempt, 12) << measured << " s instead of " << simulated;
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, TwoClocks, testing::Values("gpipe", "one_f_one_b", "pipedream", "data_parallel"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace sluice
