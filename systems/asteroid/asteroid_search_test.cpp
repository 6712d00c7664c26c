#include "systems/asteroid/asteroid_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "harness/base/expect_error.h"
#include "harness/base/index.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

using Steps = std::vector<AsteroidStep>;

double round_of(const Steps& steps, int microbatches) {
  RoundSeconds round;
  for (std::size_t s = steps.size(); s-- > 0;) round = prepend(steps[s], round, microbatches);
  return round.sum();
}

// The longest W + E + A, with the dominant step that leaves no step less time than its work.
double round_by_definition(const Steps& steps, int m) {
  const auto work = [&](std::size_t s) { return steps[s].forward + steps[s].backward; };
  for (std::size_t d = 0; d < steps.size(); ++d) {
    double dominant = m * work(d), waits = 0, longest = 0;
    for (std::size_t i = 0; i < d; ++i) dominant += work(i);
    bool enough = true;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      enough = enough && dominant >= m * work(s) - 1e-9;
      longest = std::max(longest, waits + dominant + steps[s].all_reduce);
      waits += steps[s].forward;
      dominant -= work(s);
    }
    if (enough) return longest;
  }
  return 0;
}

// The first one: stage 1 dominates, with 4 * 6 seconds after one F + B of stage 0 and of the message, 6 + 2; then the
// all-reduce of stage 0. The virtual clock shows the 32 in asteroid_test.cpp.
TEST(AsteroidRoundTest, IsThatOfHandComputedPipelines) {
  EXPECT_DOUBLE_EQ(round_of({{2, 4, 3}, {1, 1}, {2, 4}}, 4), 32 + 3);
  EXPECT_DOUBLE_EQ(round_of({{3, 5, 4}}, 4), 4 * 8 + 4);                            // one stage
  EXPECT_DOUBLE_EQ(round_of({{6, 8, 2}, {1, 1}, {2, 4, 5}}, 5), 5 * 14 + 2);        // stage 0 dominates
  EXPECT_DOUBLE_EQ(round_of({{1, 1}, {5, 5}, {1, 1}}, 4), 2 + 4 * 10);              // the message dominates
  EXPECT_DOUBLE_EQ(round_of({{2, 4}, {0, 0}, {2, 4, 30}}, 4), 6 + 4 * 6 + 30 - 4);  // all-reduce overlaps B of stage 0
  EXPECT_DOUBLE_EQ(round_of({{1, 2}, {0, 0}, {1, 2}, {0, 0}, {1, 2}}, 6), (6 + 2) * 3);
}

TEST(AsteroidRoundTest, IsTheLongestStepByItsDefinition) {
  std::mt19937 random(1);
  const auto below = [&](unsigned n) { return static_cast<double>(random() % n); };
  for (int i = 0; i < 2000; ++i) {
    Steps steps;
    for (std::size_t s = 0, n = 2 * (random() % 5) + 1; s < n; ++s)
      steps.push_back({below(9), below(9), s % 2 == 0 ? below(30) : 0});
    const int m = 1 + static_cast<int>(random() % 8);
    EXPECT_NEAR(round_of(steps, m), round_by_definition(steps, m), 1e-9);
  }
}

// A chain of layers, and devices with a link between every two.
struct Instance {
  std::vector<double> seconds;  // of each layer at speed 1; F takes a third
  std::vector<std::int64_t> parameters, outputs;
  std::vector<double> speeds;
  std::vector<std::int64_t> memory;
  std::vector<std::vector<double>> bandwidth;
  int microbatches = 1;

  int layers() const { return count_of(seconds); }
  int devices() const { return count_of(speeds); }
  std::int64_t sum(const std::vector<std::int64_t>& of, int first, int last) const {
    return std::accumulate(of.begin() + first, of.begin() + last, std::int64_t{0});
  }
  AsteroidOptions options() const {
    return {.devices = devices(), .microbatches = microbatches, .bytes = [this](int first, int last) {
              return StageBytes{static_cast<double>(2 * sum(parameters, first, last)),
                                static_cast<double>(sum(outputs, first, last))};
            }};
  }
  AsteroidResult searched(const AsteroidOptions& with) const {
    const CostGraph costs = chain_costs(seconds, parameters, outputs);
    Cluster cluster{.name = "c", .source = "test", .devices = {}, .links = {}};
    for (int d = 0; d < devices(); ++d) {
      cluster.devices.push_back({.memory = Bytes(memory[d]), .speed = speeds[d]});
      for (int e = 0; e < d; ++e) cluster.links.push_back({DeviceId(e), DeviceId(d), bandwidth[e][d]});
    }
    return asteroid_search(layer_groups(costs), costs, cluster, with);
  }
  AsteroidResult searched() const { return searched(options()); }
};

Instance plain(const std::vector<double>& seconds, const std::vector<double>& speeds, int microbatches) {
  const std::size_t n = speeds.size();
  return {.seconds = seconds,
          .parameters = std::vector<std::int64_t>(seconds.size(), 0),
          .outputs = std::vector<std::int64_t>(seconds.size(), 0),
          .speeds = speeds,
          .memory = std::vector<std::int64_t>(n, 1000),
          .bandwidth = std::vector<std::vector<double>>(n, std::vector<double>(n, 1)),
          .microbatches = microbatches};
}

std::string text_of(const AsteroidPlan& plan) {
  std::string text;
  for (const AsteroidStage& stage : plan.stages) {
    text += "[" + std::to_string(stage.first) + "," + std::to_string(stage.last) + ")@";
    for (const DeviceId d : stage.devices) text += std::to_string(d.value);
    text += " ";
  }
  return text;
}

// Three layers of 3 seconds on devices of speed 1 and 2. One stage: 9 / 2 seconds a micro-batch, on the fast device
// alone or on both, where the slow one takes 9. Two stages: 3 and 6 / 2 seconds, and the fill of 3.
TEST(AsteroidSearchTest, CutsByTheSpeedsOfTheDevices) {
  const AsteroidResult result = plain({3, 3, 3}, {1, 2}, 4).searched();
  ASSERT_EQ(result.by_stages.size(), 2u);
  EXPECT_EQ(text_of(result.by_stages.at(1)), "[0,3)@1 ");
  EXPECT_DOUBLE_EQ(result.by_stages.at(1).seconds, 4 * 4.5);
  EXPECT_EQ(text_of(result.by_stages.at(2)), "[0,1)@0 [1,3)@1 ");
  EXPECT_DOUBLE_EQ(result.by_stages.at(2).seconds, 4 * 3 + 3);
  EXPECT_TRUE(result.complete);
}

// Two of speed 1 take 3 / 2 seconds, three with one of speed 1 / 4 would take 12 / 3.
TEST(AsteroidSearchTest, ADeviceThatSlowsItsGroupDownIsIdle) {
  EXPECT_EQ(text_of(plain({3}, {0.25, 1, 1}, 6).searched().by_stages.at(1)), "[0,1)@12 ");
  EXPECT_EQ(text_of(plain({3}, {0.75, 1, 1}, 6).searched().by_stages.at(1)), "[0,1)@120 ");  // 4 / 3 seconds
}

TEST(AsteroidSearchTest, ReplicasAreAtMostAsManyAsMicroBatchesAndAsTheLimit) {
  EXPECT_EQ(text_of(plain({3}, {1, 1, 1}, 2).searched().by_stages.at(1)), "[0,1)@01 ");
  Instance limited = plain({3}, {1, 1, 1}, 6);
  AsteroidOptions options = limited.options();
  options.max_replicas = 1;
  EXPECT_EQ(text_of(limited.searched(options).by_stages.at(1)), "[0,1)@0 ");
}

// A ring on two devices sends 2 / 2 of the weights: 100 seconds at 1 byte/s. Only F + B decide how many devices share a
// stage; the all-reduce counts in the round, which decides the cut.
TEST(AsteroidSearchTest, AllReducesCountInTheRound) {
  Instance heavy = plain({3, 3}, {1, 1}, 4);
  heavy.parameters = {50, 50};
  const AsteroidResult result = heavy.searched();
  EXPECT_DOUBLE_EQ(result.by_stages.at(1).seconds, 4 * 3 + 100);
  EXPECT_DOUBLE_EQ(result.by_stages.at(2).seconds, 4 * 3 + 3);
}

// Stage 0 holds three micro-batches of 10 bytes, or two without its message, and stage 1 one; each device of a single
// stage holds one of 20.
TEST(AsteroidSearchTest, TheDeviceWithTheMostMemoryTakesTheFirstStage) {
  Instance instance = plain({3, 3}, {1, 1}, 4);
  instance.outputs = {10, 10};
  instance.memory = {20, 30};
  EXPECT_EQ(text_of(instance.searched().by_stages.at(2)), "[0,1)@1 [1,2)@0 ");
  EXPECT_TRUE(instance.searched().by_stages.contains(1));
  instance.memory = {20, 29};
  EXPECT_FALSE(instance.searched().by_stages.contains(2));
  AsteroidOptions of_stages = instance.options();
  of_stages.messages_in_flight = false;
  EXPECT_TRUE(instance.searched(of_stages).by_stages.contains(2));
  instance.memory = {9, 9};
  EXPECT_TRUE(instance.searched().by_stages.empty());
}

// Of two stages on two devices and one: the first stage's devices share a micro-batch for each of the three devices and
// for the message.
TEST(AsteroidSearchTest, ReplicasShareTheMicroBatchesInFlight) {
  EXPECT_EQ(asteroid_in_flight(2, 1, 1), 2);
  EXPECT_EQ(asteroid_in_flight(2, 2, 1), 3);
  EXPECT_EQ(asteroid_in_flight(3, 0, 0), 1);
  for (int p = 0; p < 5; ++p) EXPECT_EQ(asteroid_in_flight(1, 4 - p, 4 - p), 2 * (5 - p) - 1);
}

TEST(AsteroidSearchTest, OutOfTimeKeepsAPlan) {
  Instance instance = plain({3, 3, 3}, {1, 1}, 4);
  AsteroidOptions options = instance.options();
  options.limits.seconds = 0;
  const AsteroidResult result = instance.searched(options);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(text_of(result.by_stages.at(1)), "[0,3)@01 ");
}

TEST(AsteroidSearchTest, TooManyDevicesAreRejected) {
  Instance instance = plain({3}, {1, 1}, 4);
  AsteroidOptions options = instance.options();
  options.devices = 3;
  EXPECT_EQ(error_of([&] { instance.searched(options); }),
            "plan: 3 devices of a cluster of 2; use fewer devices or a larger cluster");
}

// The round of a plan, computed from the instance; infinite where it does not fit.
double round_of(const Instance& in, const std::vector<AsteroidStage>& stages) {
  const int p = count_of(stages);
  Steps steps;
  for (int s = 0; s < p; ++s) {
    const AsteroidStage& stage = stages[s];
    const int r = count_of(stage.devices);
    int in_flight = p - 1 - s;
    for (int later = s; later < p; ++later) in_flight += count_of(stages[later].devices);
    const int share = (in.microbatches + r - 1) / r;
    in_flight = std::min((in_flight + r - 1) / r, share);
    const double whole = std::accumulate(in.seconds.begin() + stage.first, in.seconds.begin() + stage.last, 0.0);
    double slowest = 0, within = kNever, across = kNever;
    for (const DeviceId d : stage.devices) {
      if (2 * in.sum(in.parameters, stage.first, stage.last) + in_flight * in.sum(in.outputs, stage.first, stage.last) >
          in.memory[d.index()])
        return kNever;
      slowest = std::max(slowest, whole / in.speeds[d.index()] * share / in.microbatches);
      for (const DeviceId e : stage.devices)
        if (e != d) within = std::min(within, in.bandwidth[d.index()][e.index()]);
      for (const DeviceId e : s == 0 ? std::vector<DeviceId>{} : stages[s - 1].devices)
        across = std::min(across, in.bandwidth[d.index()][e.index()]);
    }
    if (s > 0) {
      const double message = static_cast<double>(in.outputs[stage.first - 1]) / across;
      steps.push_back({message, message});
    }
    const auto weights = static_cast<double>(in.sum(in.parameters, stage.first, stage.last));
    steps.push_back({slowest / 3, slowest * 2 / 3, 2. * (r - 1) / r * weights / within});
  }
  return round_by_definition(steps, in.microbatches);
}

// The shortest round of all pipelines, with each device in any stage or in none; and of those whose stages take devices
// in the order of their memory.
struct Shortest {
  double any = kNever, in_order = kNever;
};
Shortest brute_force(const Instance& in) {
  std::vector<int> by_memory(in.speeds.size());
  std::iota(by_memory.begin(), by_memory.end(), 0);
  std::ranges::stable_sort(by_memory, std::greater(), [&](int d) { return in.memory[d]; });
  Shortest shortest;
  for (unsigned cuts = 0; cuts < 1U << (in.layers() - 1); ++cuts) {
    std::vector<AsteroidStage> stages{{}};
    for (int l = 1; l < in.layers(); ++l)
      if (cuts >> (l - 1) & 1U) {
        stages.back().last = l;
        stages.push_back({.first = l});
      }
    stages.back().last = in.layers();
    const int p = count_of(stages);
    if (p > in.devices()) continue;
    std::vector<int> stage_of(in.speeds.size(), 0);  // by place in by_memory; p: idle
    for (;;) {
      for (AsteroidStage& stage : stages) stage.devices.clear();
      bool in_order = true;
      int latest = 0;
      for (std::size_t k = 0; k < stage_of.size(); ++k) {
        if (stage_of[k] == p) continue;
        in_order = in_order && stage_of[k] >= latest;
        latest = stage_of[k];
        stages[latest].devices.emplace_back(by_memory[k]);
      }
      if (std::ranges::none_of(stages, [&](const AsteroidStage& s) {
            return s.devices.empty() || count_of(s.devices) > in.microbatches;
          })) {
        const double round = round_of(in, stages);
        shortest.any = std::min(shortest.any, round);
        if (in_order) shortest.in_order = std::min(shortest.in_order, round);
      }
      std::size_t k = 0;
      while (k < stage_of.size() && stage_of[k] == p) stage_of[k++] = 0;
      if (k == stage_of.size()) break;
      ++stage_of[k];
    }
  }
  return shortest;
}

// How far the search is from the best pipeline, on 300 random chains of 3 to 5 layers on 2 to 4 unequal devices.
TEST(AsteroidSearchTest, FindsTheBestPipelineOfMostInstances) {
  std::mt19937 random(1);
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  int feasible = 0, missed = 0, missed_in_order = 0, best_in_order = 0, best_of_all = 0;
  double worst_in_order = 1, worst_of_all = 1;
  for (int i = 0; i < 300; ++i) {
    Instance in = plain({}, std::vector<double>(static_cast<std::size_t>(between(2, 4))), between(2, 8));
    for (int l = between(3, 5); l > 0; --l) {
      in.seconds.push_back(between(1, 12));
      in.parameters.push_back(between(0, 20));
      in.outputs.push_back(between(0, 10));
    }
    for (int d = 0; d < in.devices(); ++d) {
      in.speeds[d] = between(1, 4);
      in.memory[d] = between(60, 160);
      // No detour over two links is faster than the link.
      for (int e = 0; e < d; ++e) in.bandwidth[d][e] = in.bandwidth[e][d] = between(5, 8);
    }
    const Shortest shortest = brute_force(in);
    double found = kNever;
    for (const auto& [stages, plan] : in.searched().by_stages) {
      EXPECT_NEAR(plan.seconds, round_of(in, plan.stages), 1e-9 * plan.seconds);
      found = std::min(found, plan.seconds);
    }
    EXPECT_GE(found, shortest.in_order * (1 - 1e-9));
    if (shortest.any == kNever) continue;
    ++feasible;
    if (found == kNever) {
      ++missed;
      missed_in_order += shortest.in_order < kNever;
      continue;
    }
    best_in_order += found <= shortest.in_order * (1 + 1e-9);
    best_of_all += found <= shortest.any * (1 + 1e-9);
    worst_in_order = std::max(worst_in_order, found / shortest.in_order);
    worst_of_all = std::max(worst_of_all, found / shortest.any);
  }
  EXPECT_EQ(feasible, 293);
  EXPECT_EQ(missed, 7);
  EXPECT_EQ(missed_in_order, 1);
  EXPECT_EQ(best_in_order, 269);
  EXPECT_NEAR(worst_in_order, 1.39, 0.005);
  EXPECT_EQ(best_of_all, 133);
  EXPECT_NEAR(worst_of_all, 2, 0.005);
}

}  // namespace
}  // namespace sluice
