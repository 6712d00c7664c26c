// What a system that adapts does to a run on the virtual clock, from its costs alone.
#include "harness/train/adapter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <random>

#include "harness/base/error.h"
#include "harness/model/load_interference.h"
#include "harness/plan/make_plan.h"

namespace sluice {
namespace {

// A chain of layers on devices behind links of 1 GB/s, for DynPipe in one of its variants.
struct Scenario {
  Workload workload;
  RunCase c;
  Prepared prepared;

  Scenario(const std::string& variant, const std::vector<double>& layers, int devices, const std::string& interference,
           const std::string& moves = "none") {
    c.clock = Clock::virtual_clock;
    c.system = "dynpipe";
    c.ranks = devices;
    c.batch = c.microbatches = 1;
    Prepared& p = prepared;
    p.system = &find_system("dynpipe", "test");
    p.workload = &workload;
    p.options = resolve_options(p.system->options, {{"variant", variant}, {"window", "10"}, {"moves", moves}}, "test");
    p.cluster = load_cluster("flat:" + std::to_string(devices) + ",bandwidth=1GB/s,latency=10us", "");
    p.costs = {.model = "chain", .source = "test", .device = "d", .layers = {}};
    for (std::size_t l = 0; l < layers.size(); ++l) {
      LayerCost layer{.name = "layer" + std::to_string(l), .inputs = {static_cast<int>(l) - 1}};
      layer.forward = layer.input_gradient = layer.weight_gradient = Seconds(layers[l] / 3);
      layer.parameters = Bytes(100'000);
      layer.output = Bytes(10'000);
      p.costs.layers.push_back(layer);
    }
    p.interference = load_interference(interference, devices, "test");
    adopt_pipeline(p, make_plan(*p.system, problem_of(p, c), p.options));
  }

  double seconds(int updates, Record* record = nullptr, std::optional<double>* oracle = nullptr) {
    Adapter adapter(c, prepared, updates);
    std::unique_ptr<Session> none;
    const SegmentResult result = adapter.run({.updates = updates}, none, {}, nullptr, {});
    EXPECT_EQ(result.update_end.size(), static_cast<std::size_t>(updates));
    for (std::size_t u = 1; u < result.update_end.size(); ++u)
      EXPECT_GE(result.update_end[u], result.update_end[u - 1]);
    if (record) adapter.describe(*record);
    if (oracle) *oracle = adapter.seconds_of_oracle();
    return result.seconds;
  }
};

const std::vector<double> kEqual(24, 1e-3);

TEST(AdapterTest, ADeviceThatStaysSlowLosesLayersAndTheRunIsShorter) {
  const std::string slow = "compute:1@0.5-x2";
  Record moved;
  const double dynpipe = Scenario("dynpipe", kEqual, 3, slow).seconds(600, &moved);
  const double fixed = Scenario("static", kEqual, 3, slow).seconds(600);
  // 24 ms over 2.5 devices instead of 2 x 8 ms: 9.6 ms at best, 10 ms in whole layers.
  EXPECT_LT(dynpipe, 0.75 * fixed);
  const RecordedAdaptation& adaptation = moved.observed.adaptation.value();
  EXPECT_EQ(adaptation.changes.size(), 1u);
  EXPECT_GT(adaptation.moved_bytes, 0);
  EXPECT_GT(adaptation.answered.at(0).seconds_to_detect, 0);
  EXPECT_LT(adaptation.answered.at(0).seconds_to_recover, 1);
}

// Equal layers of 1 ms on three devices: 8 ms an update, and 10 ms from when the second is half as fast: 10, 4 and 10
// layers. The regret of the plan that is kept is what it takes at 16 ms.
TEST(AdapterTest, AnOracleHasTheBestPlanForTheDevicesFromTheMomentTheyChange) {
  const std::string slow = "compute:1@0.5-x2";
  std::optional<double> of_moved, of_kept, of_links;
  const double moved = Scenario("dynpipe", kEqual, 3, slow).seconds(600, nullptr, &of_moved);
  const double kept = Scenario("static", kEqual, 3, slow).seconds(600, nullptr, &of_kept);
  const double oracle = of_moved.value();
  EXPECT_NEAR(oracle, 0.5 + (600 - 0.5 / 0.008) * 0.010, 0.01 * oracle);
  EXPECT_NEAR(of_kept.value(), oracle, 0.01 * oracle);
  EXPECT_GT(moved, oracle);
  EXPECT_NEAR(kept - oracle, (600 - 0.5 / 0.008) * 0.006, 0.02 * kept);
  Scenario("dynpipe", kEqual, 3, "link:0-1@0.5-x2").seconds(100, nullptr, &of_links);
  EXPECT_FALSE(of_links);
}

TEST(AdapterTest, ARestartCostsMoreThanAMoveInPlace) {
  const std::string slow = "compute:1@0.5-x2";
  EXPECT_GT(Scenario("restart", kEqual, 3, slow).seconds(600), Scenario("dynpipe", kEqual, 3, slow).seconds(600) + 4.9);
}

TEST(AdapterTest, WithoutInterferenceNothingMovesAndNothingIsLost) {
  EXPECT_DOUBLE_EQ(Scenario("dynpipe", kEqual, 3, "none").seconds(300),
                   Scenario("static", kEqual, 3, "none").seconds(300));
}

// 24 layers on three devices, 8 each at first.
TEST(AdapterTest, PrescribedMovesComeAtTheirUpdatesAndNoOthersDo) {
  const std::string slow = "compute:1@0.5-x2", moves = "0:2/9,100:6/12,250:8/16";
  Record record;
  Scenario scenario("dynpipe", kEqual, 3, slow, moves);
  scenario.seconds(600, &record);
  const RecordedAdaptation& adaptation = record.observed.adaptation.value();
  EXPECT_EQ(adaptation.moves, moves);
  EXPECT_TRUE(adaptation.windows.empty());
  ASSERT_EQ(adaptation.changes.size(), 3u);
  EXPECT_EQ(adaptation.changes[0].stopped_seconds, 0);
  EXPECT_EQ(adaptation.changes[1].stages[1], (std::vector<int>{6, 7, 8, 9, 10, 11}));
  EXPECT_DOUBLE_EQ(adaptation.changes[2].bytes, (2 + 4) * 100'000);  // SGD without momentum
  EXPECT_THROW(Adapter(scenario.c, scenario.prepared, 250), InputError);
  EXPECT_NO_THROW(Adapter(scenario.c, scenario.prepared, 251));
  scenario.c.evaluation = EvaluationMode::snapshot;
  EXPECT_THROW(Adapter(scenario.c, scenario.prepared, 600), InputError);
}

// What a run did by itself, prescribed: the same moves, and as many seconds except for the detector's.
TEST(AdapterTest, ARecordsMovesPrescribedGiveTheSameRun) {
  const std::string slow = "compute:1@0.5-2x3,compute:0@3-x2";
  Record found, again;
  const double seconds = Scenario("dynpipe", kEqual, 3, slow).seconds(900, &found);
  ASSERT_GE(found.observed.adaptation.value().changes.size(), 2u);
  EXPECT_DOUBLE_EQ(Scenario("dynpipe", kEqual, 3, slow, found.observed.adaptation->moves).seconds(900, &again),
                   seconds);
  EXPECT_EQ(again.observed.adaptation.value().moves, found.observed.adaptation->moves);
}

// In three segments, interrupted after each: the detector still knows what undisturbed is, moves that were made stay in
// the record, and the plan is the one that ran.
TEST(AdapterTest, AnInterruptedRunGoesOnWithItsPlanItsWindowsAndItsMoves) {
  const Scenario scenario("dynpipe", kEqual, 3, "compute:1@2-7x3,compute:0@9-x2");
  std::unique_ptr<Session> none;
  Record whole, resumed;
  Adapter uninterrupted(scenario.c, scenario.prepared, 1500);
  double seconds = 0, seconds_resumed = 0;
  for (int segment = 0; segment < 3; ++segment) {
    seconds += uninterrupted.run({.updates = 500, .start = seconds}, none, {}, nullptr, {}).seconds;
    Adapter next(scenario.c, scenario.prepared, 1500);
    if (segment > 0) next.resume(resumed.observed.adaptation.value(), 500 * segment);
    seconds_resumed += next.run({.updates = 500, .start = seconds_resumed}, none, {}, nullptr, {}).seconds;
    next.describe(resumed);
  }
  uninterrupted.describe(whole);
  EXPECT_GE(whole.observed.adaptation.value().changes.size(), 2u);
  EXPECT_GT(whole.observed.adaptation->changes.back().update, 500);
  EXPECT_EQ(resumed.observed.adaptation.value().moves, whole.observed.adaptation->moves);
  EXPECT_EQ(resumed.observed.adaptation->windows.size(), whole.observed.adaptation->windows.size());
  EXPECT_EQ(seconds_resumed, seconds);
}

// 500 seeded machines and episodes, flapping ones among them. A move costs what it takes to empty and fill the pipe and
// to send the layers; and if the device then changes again, the updates that a plan chosen for its former state runs
// until the windows have shown it. Beyond that the run is no longer than with the first plan kept.
TEST(AdapterTest, IsNeverSlowerThanThePlanKeptByMoreThanItsMovesCost) {
  std::mt19937 random(17);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  int moves = 0, faster = 0;
  double worst = 0;
  for (int k = 0; k < 500; ++k) {
    const int devices = 2 + k % 4;
    std::vector<double> layers;
    for (int l = 0; l < devices * 5; ++l) layers.push_back(uniform(0.2e-3, 2e-3));
    std::string episodes;
    double now = uniform(0.2, 1);
    const double mean = uniform(0.05, 1.5);
    for (int e = 0; e < 6; ++e) {
      const double length = uniform(0.2, 2) * mean;
      episodes += (e ? ",compute:" : "compute:") + std::to_string(static_cast<int>(uniform(0, devices - 1e-9))) + "@" +
                  std::to_string(now) + "-" + std::to_string(now + length) + "x" + std::to_string(uniform(1.1, 4));
      now += length + uniform(0.1, 1.5) * mean;
    }
    Record record;
    std::optional<double> oracle;
    const bool asks_oracle = k % 10 == 0;  // whose plans take as long as the rest
    const double dynpipe =
        Scenario("dynpipe", layers, devices, episodes).seconds(500, &record, asks_oracle ? &oracle : nullptr);
    const double fixed = Scenario("static", layers, devices, episodes).seconds(500);
    const auto changes = static_cast<double>(record.observed.adaptation.value().changes.size());
    double all = 0;
    for (const double seconds : layers) all += seconds;
    // Emptying and filling: each device once through the model, at its slowest. Until the windows show a change: two
    // windows of ten updates, and the pipe's depth, at most at the whole model's time instead of its share.
    const double move =
        record.observed.adaptation->moving_seconds + changes * (4 * all + (20 + 2 * devices) * 4 * all / devices);
    EXPECT_LE(dynpipe, fixed + move + 1e-9) << "scenario " << k << ": " << episodes;
    // Except for what is in the pipe when a device changes.
    if (asks_oracle) {
      EXPECT_LE(oracle.value(), std::min(dynpipe, fixed) + 6 * 4 * all) << "scenario " << k << ": " << episodes;
    }
    moves += static_cast<int>(changes);
    faster += dynpipe < fixed;
    worst = std::max(worst, dynpipe / fixed);
  }
  EXPECT_GT(moves, 250);
  EXPECT_GT(faster, 200);
  RecordProperty("moves", moves);
  RecordProperty("faster", faster);
  RecordProperty("worst_ratio", std::to_string(worst));
}

// A session that takes 10 ms an update, and a rank of it 1 ms for each of its layers, longer by as much as its device
// is slow.
class TimedSession : public Session {
 public:
  std::vector<double> starts;  // of the disturbance, by run
  int moves = 0;
  int forgets = -1;  // a layer that loses its state in a move
  std::string name;  // what save() writes

  explicit TimedSession(Plan plan) : plan_(std::move(plan)) {}
  RunResult run(const Program& program, const RunRequest& request) override {
    const Disturbance& disturbance = *request.disturbance;
    starts.push_back(disturbance.start);
    const WindowOptions windows = request.windows ? *request.windows : WindowOptions{.updates = program.updates};
    RunResult result;
    int updates = program.updates;
    for (int u = windows.updates; u < updates && !result.execution.ended; u += windows.updates) {
      std::vector<double> compute;
      for (int r = 0; r < 2; ++r)
        compute.push_back(1e-3 * static_cast<double>(plan_.stages[r].layers.size()) * windows.updates /
                          disturbance.pace_of(Rank(r)).at(0.01 * u - 1e-6));
      result.execution.ended = windows.decide(compute, u);
      if (result.execution.ended) updates = u;
    }
    if (result.execution.ended) result.execution.ended = updates;
    for (int u = 1; u <= updates; ++u) result.execution.update_end.push_back(0.01 * u);
    result.losses.assign(static_cast<std::size_t>(updates), 1);
    result.execution.seconds = 0.01 * updates;
    return result;
  }
  void repartition(const Plan& plan) override {
    plan_ = plan;
    ++moves;
    if (forgets >= 0) digests_[forgets] = 0;
  }
  Evaluation evaluate() override { return {}; }
  Evaluation evaluate_snapshot(std::size_t) override { return {}; }
  void save(const std::string& file) const override { std::ofstream(file) << name; }
  void load(const std::string&, bool) override {}
  std::vector<MemoryByKind> peak_memory() const override { return {}; }
  void reset_peak_memory() override {}
  std::vector<double> weights(int) const override { return {}; }
  std::vector<double> gradients(int) const override { return {}; }
  std::int64_t updates_done() const override { return 0; }
  std::vector<std::uint64_t> layer_digests() const override { return digests_; }

 private:
  Plan plan_;
  std::vector<std::uint64_t> digests_ = std::vector<std::uint64_t>(16, 7);
};

// The second device is slow from second 1 to 4. What runs after the move is later in the training, so that the episode
// goes on where it was and does not begin again.
TEST(AdapterTest, EpisodesOfARealRunGoOnAfterAMove) {
  Scenario scenario("dynpipe", std::vector<double>(16, 1e-3), 2, "compute:1@1-4x4");
  scenario.c.clock = Clock::wall;
  Adapter adapter(scenario.c, scenario.prepared, 800);
  auto timed = std::make_unique<TimedSession>(scenario.prepared.plan);
  TimedSession& session = *timed;
  std::unique_ptr<Session> sessions = std::move(timed);
  Disturbance disturbance;
  disturbance.interference = scenario.prepared.interference;
  disturbance.devices = scenario.prepared.ranks.devices;
  disturbance.start = 0.5;
  RunRequest request;
  request.disturbance = &disturbance;
  request.order.assign(800, 0);
  const SegmentResult result = adapter.run({.updates = 800, .start = 0.5}, sessions, request, nullptr, {});
  EXPECT_EQ(result.update_end.size(), 800u);
  // There, and back once the device is as fast as it was.
  ASSERT_EQ(session.moves, 2);
  ASSERT_EQ(session.starts.size(), 3u);
  EXPECT_DOUBLE_EQ(session.starts[0], 0.5);
  EXPECT_GT(session.starts[1], 1.1);
  EXPECT_LT(session.starts[1], 2);
  EXPECT_GT(session.starts[2], 4);
  EXPECT_LT(session.starts[2], 5);
}

TEST(AdapterTest, ALayerThatLosesItsStateInAMoveEndsTheRun) {
  Scenario scenario("dynpipe", std::vector<double>(16, 1e-3), 2, "none", "5:6");
  scenario.c.clock = Clock::wall;
  Disturbance disturbance;
  disturbance.devices = scenario.prepared.ranks.devices;
  RunRequest request;
  request.disturbance = &disturbance;
  request.order.assign(10, 0);
  for (const int forgets : {-1, 3}) {
    Adapter adapter(scenario.c, scenario.prepared, 10);
    auto timed = std::make_unique<TimedSession>(scenario.prepared.plan);
    timed->forgets = forgets;
    std::unique_ptr<Session> session = std::move(timed);
    std::string defect;
    try {
      adapter.run({.updates = 10}, session, request, nullptr, {});
    } catch (const std::logic_error& e) {
      defect = e.what();
    }
    EXPECT_EQ(defect, forgets < 0
                          ? ""
                          : "layer 'layer3' has other weights, optimizer state or statistics after layers moved than "
                            "before");
  }
}

// Two runs of the same case: while one begins again from its state, the other one does, too.
TEST(AdapterTest, RunsThatRestartAtTheSameTimeKeepTheirStatesApart) {
  Scenario scenario("restart", std::vector<double>(16, 1e-3), 2, "none", "5:6");
  scenario.c.clock = Clock::wall;
  std::vector<std::string> files;
  const auto content = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  Disturbance disturbance;
  disturbance.devices = scenario.prepared.ranks.devices;
  RunRequest request;
  request.disturbance = &disturbance;
  request.order.assign(10, 0);
  const auto run = [&](const std::string& name, const std::function<void()>& meanwhile) {
    Adapter adapter(scenario.c, scenario.prepared, 10);
    auto timed = std::make_unique<TimedSession>(scenario.prepared.plan);
    timed->name = name;
    std::unique_ptr<Session> session = std::move(timed);
    adapter.run({.updates = 10}, session, request, nullptr, [&](const Prepared&, const std::string& file) {
      meanwhile();
      EXPECT_EQ(content(file), name);
      files.push_back(file);
    });
  };
  run("first", [&] { run("second", [] {}); });
  ASSERT_EQ(files.size(), 2u);
  for (const std::string& file : files)
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(file).parent_path()));
}

}  // namespace
}  // namespace sluice
