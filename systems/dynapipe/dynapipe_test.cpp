// DynaPipe on a chain of 4 equal stages: 16 micro-batches of 3 and 1 samples in turn, F 0.5 and B 1 second of a sample,
// so that every stage computes for 48 seconds.
#include <gtest/gtest.h>

#include <sstream>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {

extern const System dynapipe;

namespace {

const StageCost kOfSample{Seconds(0.5), Seconds(0.5), Seconds(0.5), Seconds(0), Bytes(0)};

MicrobatchSizes sizes_in_turn() {
  std::vector<std::int64_t> sizes;
  for (int m = 0; m < 16; ++m) sizes.push_back(m % 2 == 0 ? 3 : 1);
  return MicrobatchSizes(sizes);
}

Schedule schedule_of(const std::map<std::string, std::string>& given) {
  const Options options = resolve_options(dynapipe.options, given, "test");
  const UniformChain chain =
      uniform_chain(dynapipe, options, latency_cluster(4, Seconds(0)), 4, 16, kOfSample, Seconds(0), sizes_in_turn());
  return dynapipe.schedule(chain.problem, options);
}

double makespan_of(const Schedule& schedule) {
  Program program = checked(lower(schedule, chain(4), one_stage_per_rank(4), WeightRule{}));
  program.sizes = sizes_in_turn();
  const auto costs_of = [](std::int64_t samples) {
    return Costs{std::vector<StageCost>(4, of_samples(kOfSample, samples)), {}};
  };
  Costs costs = costs_of(3);
  costs.of_size = {costs_of(1), costs_of(3)};
  const std::vector<DeviceId> devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  return simulate(program, costs, latency_cluster(4, Seconds(0)), devices).bubble.makespan;
}

// Samples held at most between F and B, of every stage.
std::vector<std::int64_t> samples_held(const std::vector<std::vector<Op>>& ranks) {
  std::vector<std::int64_t> result;
  for (const std::vector<Op>& ops : ranks) {
    std::int64_t held = 0, peak = 0;
    for (const Op& op : ops) {
      held += (op.kind == OpKind::forward ? 1 : -1) * sizes_in_turn().of(op.micro);
      peak = std::max(peak, held);
    }
    result.push_back(peak);
  }
  return result;
}

// The table is of an independent generator.
TEST(DynaPipe, OrdersByCycles) {
  const Schedule schedule = schedule_of({{"injection", "given"}});
  std::istringstream table(read_text_file(source_folder() + "/systems/dynapipe/testdata/cyclic_p4_m16.csv"));
  std::size_t rank = 0;
  for (std::string line; std::getline(table, line); ++rank) {
    std::string text;
    for (const std::string& op : step_texts(schedule.ranks.at(rank))) text += (text.empty() ? "" : ",") + op;
    EXPECT_EQ(text, line);
  }
  EXPECT_EQ(rank, 4u);
  EXPECT_DOUBLE_EQ(makespan_of(schedule), 61);
}

// The small ones first, the large ones last: 3 F of a small one fill the pipe, 3 B of a large one drain it.
TEST(DynaPipe, LetsMicroBatchesEnterInTheFastestOrder) {
  EXPECT_DOUBLE_EQ(makespan_of(schedule_of({})), 48 + 3 * 0.5 + 3 * 3);
}

TEST(DynaPipe, HoldsNoMoreSamplesThanItMay) {
  EXPECT_EQ(samples_held(schedule_of({{"injection", "given"}}).ranks), (std::vector<std::int64_t>{15, 11, 7, 3}));
  for (const std::int64_t held : samples_held(schedule_of({{"samples_held", "9"}}).ranks)) EXPECT_LE(held, 9);
  EXPECT_NE(error_of([] {
              schedule_of({{"samples_held", "2"}});
            }).find("no order with at most 2 samples"),
            std::string::npos);
}

// 10 bytes of a sample, devices of 90: the order without a limit would hold 150 on the first stage.
TEST(DynaPipe, KeepsToTheMemoryOfItsDevices) {
  CostGraph layers{.model = "chain", .source = "test", .device = "unit", .micro_batch = 3, .layers = {}};
  for (int i = 0; i < 4; ++i)
    layers.layers.push_back({.name = "layer",
                             .inputs = {i - 1},
                             .forward = Seconds(1.5),
                             .input_gradient = Seconds(1.5),
                             .weight_gradient = Seconds(1.5),
                             .update = Seconds(0),
                             .parameters = Bytes(0),
                             .output = Bytes(30)});
  const Options options = resolve_options(dynapipe.options, {}, "test");
  const auto order_with = [&](Bytes memory) {
    Cluster cluster = latency_cluster(4, Seconds(0));
    for (Device& device : cluster.devices) device.memory = memory;
    Problem problem{layers, cluster, 4, 32, 16, {}};
    problem.sizes = sizes_in_turn();
    return dynapipe.plan(problem, options).order;
  };
  EXPECT_EQ(samples_held(order_with(Bytes(1000)))[0], 21);
  const std::vector<std::int64_t> held = samples_held(order_with(Bytes(90)));
  EXPECT_EQ(std::ranges::max(held), 9);
  EXPECT_NE(error_of([&] { order_with(Bytes(29)); }).find("a micro-batch alone does not fit"), std::string::npos);
}

}  // namespace
}  // namespace sluice
