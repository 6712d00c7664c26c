#include "systems/spp/replicated_partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "systems/spp/device_order.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

LayerChain chain_of(std::vector<double> forward, std::vector<double> backward, std::vector<double> crossing,
                    std::vector<double> parameters) {
  LayerChain chain;
  chain.forward = std::move(forward);
  chain.backward = std::move(backward);
  chain.cut_forward = chain.cut_backward = std::move(crossing);
  chain.parameters = std::move(parameters);
  chain.outputs = std::vector<double>(chain.forward.size(), 0);
  chain.first_layer.resize(chain.forward.size() + 1);
  std::iota(chain.first_layer.begin(), chain.first_layer.end(), 0);
  return chain;
}

SquareMatrix flat(std::size_t devices, double bandwidth) { return SquareMatrix(devices, bandwidth); }

ReplicationProblem problem_of(LayerChain chain, const SquareMatrix& bandwidths, int microbatches) {
  ReplicationProblem p{.chain = std::move(chain), .bandwidths = bandwidths, .speeds = {}, .microbatches = microbatches};
  p.speeds.assign(bandwidths.size(), 1);
  return p;
}

// With the devices in the recursive order.
ReplicationProblem ordered(const ReplicationProblem& p) {
  const std::vector<int> order = recursive_min_cut_order(p.bandwidths);
  ReplicationProblem result = p;
  for (std::size_t a = 0; a < order.size(); ++a)
    for (std::size_t b = 0; b < order.size(); ++b)
      result.bandwidths.at(a, b) = p.bandwidths.at(order[a], static_cast<std::size_t>(order[b]));
  return result;
}

SquareMatrix bandwidths_a() {
  SquareMatrix b(3, 1);
  b.at(0, 1) = b.at(1, 0) = 10;
  return b;
}

SquareMatrix bandwidths_b() {
  SquareMatrix b(4, 1);
  b.at(0, 2) = b.at(2, 0) = b.at(1, 3) = b.at(3, 1) = 8;
  return b;
}

// Cases whose every number was worked out from the definitions: by stages, the workload and the
// makespan of its list schedule.
struct Vector {
  std::string name;
  ReplicationProblem problem;
  std::vector<double> workload, makespan;
  std::size_t best;  // number of stages of the least makespan
};

std::vector<Vector> vectors() {
  const std::vector<double> six{1, 1, 1, 1, 1, 3}, six_back{2, 2, 2, 2, 2, 6};
  return {
      {"A",
       problem_of(chain_of({1, 1, 2, 2}, {2, 2, 4, 4}, {1, 2, 1}, {5, 5, 10, 20}), bandwidths_a(), 4),
       {77.333333, 26, 24},
       {77.333333, 33, 38.4},
       2},
      {"B",
       problem_of(chain_of(six, six_back, {4, 2, 2, 1, 1}, {1, 1, 1, 2, 8, 16}), bandwidths_b(), 8),
       {91.5, 51, 51, 72},
       {91.5, 55.125, 61.5, 92.25},
       2},
      {"C",
       problem_of(chain_of({3, 1, 1, 3}, {3, 1, 1, 3}, {0, 0, 0}, {1000, 1000, 1000, 1000}), flat(4, 1), 2),
       {6008, 1337.333333, 1002, 12},
       {6008, 1355.333333, 1020, 22},
       4},
      {"D", problem_of(chain_of({1, 2, 3}, {2, 4, 6}, {0, 0}, {1, 1, 1}), flat(1, 1), 3), {54}, {54}, 1},
      {"E", problem_of(chain_of({2}, {4}, {}, {6}), flat(4, 2), 4), {10.5}, {10.5}, 1},
      {"F", problem_of(chain_of({1, 1}, {1, 1}, {1}, {0, 0}), flat(2, 1), 1), {2, 2}, {2, 6}, 1},
      {"G",
       problem_of(chain_of({1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0}), flat(2, 1), 4),
       {16, 16},
       {16, 22},
       1},
      {"H", problem_of(chain_of({1, 1}, {2, 2}, {0.5}, {100, 100}), flat(2, 1), 2), {206, 6}, {206, 10}, 2},
  };
}

TEST(ReplicatedPartitionTest, PublishedCases) {
  for (const Vector& v : vectors()) {
    SCOPED_TRACE(v.name);
    const ReplicationProblem p = ordered(v.problem);
    const ReplicatedPartitions found = partition_and_replicate(p);
    EXPECT_TRUE(found.complete);
    ASSERT_EQ(found.by_stages.size(), v.workload.size());
    std::size_t best = 0;
    double least = kUnlimited;
    for (std::size_t x = 1; x <= v.workload.size(); ++x) {
      ASSERT_TRUE(found.by_stages[x - 1]);
      const ReplicatedPartition& partition = *found.by_stages[x - 1];
      const PipelineTimes times = pipeline_times(p, partition.stages);
      const double makespan = list_schedule(times, p.microbatches).makespan;
      EXPECT_NEAR(partition.workload, v.workload[x - 1], 5e-7) << x;
      EXPECT_NEAR(workload(times, p.microbatches), partition.workload, 1e-9) << x;
      EXPECT_NEAR(makespan, v.makespan[x - 1], 5e-7) << x;
      if (makespan < least) least = makespan, best = x;
    }
    EXPECT_EQ(best, v.best);
  }
}

using Stages = std::vector<ReplicatedStage>;

TEST(ReplicatedPartitionTest, PublishedPlans) {
  const std::vector<Vector> v = vectors();
  const ReplicationProblem a = ordered(v[0].problem), b = ordered(v[1].problem);
  const auto plans_a = partition_and_replicate(a).by_stages;
  EXPECT_EQ(plans_a[0]->stages, (Stages{{0, 4, 0, 3}}));
  EXPECT_EQ(plans_a[1]->stages, (Stages{{0, 3, 0, 2}, {3, 4, 2, 3}}));
  EXPECT_EQ(plans_a[2]->stages, (Stages{{0, 2, 0, 1}, {2, 3, 1, 2}, {3, 4, 2, 3}}));
  const PipelineTimes one = pipeline_times(a, plans_a[0]->stages);
  EXPECT_NEAR(one.all_reduce[0], 53.333333, 5e-7);
  EXPECT_EQ(list_schedule(one, 4).stage_end, std::vector<double>{24});
  const PipelineTimes two = pipeline_times(a, plans_a[1]->stages);
  EXPECT_EQ(two.all_reduce, (std::vector<double>{2, 0}));
  EXPECT_EQ(list_schedule(two, 4).stage_end, (std::vector<double>{31, 26.5}));
  EXPECT_EQ(busiest_seconds(two), 6);
  const ListSchedule three = list_schedule(pipeline_times(a, plans_a[2]->stages), 4);
  EXPECT_NEAR(three.stage_end[0], 38.4, 1e-9);
  EXPECT_NEAR(three.stage_end[1], 34.2, 1e-9);
  EXPECT_NEAR(three.stage_end[2], 29.2, 1e-9);
  const auto plans_b = partition_and_replicate(b).by_stages;
  EXPECT_EQ(plans_b[1]->stages, (Stages{{0, 4, 0, 2}, {4, 6, 2, 4}}));
  EXPECT_EQ(plans_b[2]->stages, (Stages{{0, 2, 0, 1}, {2, 4, 1, 2}, {4, 6, 2, 4}}));
}

// Every cut of the chain with every number of devices for each stage, one after the other.
template <class Visit>
void every_partition(int groups, int devices, int stages, int max_replicas, Stages& so_far, const Visit& visit) {
  const int first = so_far.empty() ? 0 : so_far.back().last_group;
  const int device = so_far.empty() ? 0 : so_far.back().last_device;
  const int left = stages - static_cast<int>(so_far.size());
  if (left == 0) {
    if (first == groups && device == devices) visit(so_far);
    return;
  }
  for (int last = first + 1; last <= groups - (left - 1); ++last)
    for (int end = device + 1; end <= std::min(devices - (left - 1), device + max_replicas); ++end) {
      so_far.push_back({first, last, device, end});
      every_partition(groups, devices, stages, max_replicas, so_far, visit);
      so_far.pop_back();
    }
}

bool fits(const ReplicationProblem& p, const Stages& stages) {
  if (!p.memory) return true;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int in_flight = p.memory->in_flight(static_cast<int>(stages.size() - 1 - s));
    const int held = std::min(in_flight, static_cast<int>(std::ceil(1.0 * p.microbatches / stages[s].replicas())));
    double bytes = 0;
    for (int u = stages[s].first_group; u < stages[s].last_group; ++u)
      bytes += p.memory->tensors_per_parameter * p.chain.parameters[u] + held * p.chain.outputs[u];
    for (int d = stages[s].first_device; d < stages[s].last_device; ++d)
      if (bytes > p.memory->capacity[d]) return false;
  }
  return true;
}

double least_of_all(const ReplicationProblem& p, int stages) {
  double least = kUnlimited;
  const int devices = static_cast<int>(p.speeds.size());
  for (int used = p.all_devices ? devices : stages; used <= devices; ++used) {
    Stages so_far;
    every_partition(p.chain.groups(), used, stages, p.max_replicas > 0 ? p.max_replicas : devices, so_far,
                    [&](const Stages& candidate) {
                      if (fits(p, candidate))
                        least = std::min(least, workload(pipeline_times(p, candidate), p.microbatches));
                    });
  }
  return least;
}

std::vector<double> arbitrary_list(std::size_t n, int from, int to) {
  std::vector<double> values;
  for (std::size_t k = 0; k < n; ++k) values.push_back(*rc::gen::inRange(from, to));
  return values;
}

ReplicationProblem arbitrary_problem() {
  const auto groups = *rc::gen::inRange<std::size_t>(1, 6), devices = *rc::gen::inRange<std::size_t>(1, 6);
  SquareMatrix bandwidths(devices);
  for (std::size_t a = 0; a < devices; ++a)
    for (std::size_t b = a + 1; b < devices; ++b)
      bandwidths.at(a, b) = bandwidths.at(b, a) = *rc::gen::element(1, 2, 4, 8);
  ReplicationProblem p = problem_of(chain_of(arbitrary_list(groups, 0, 10), arbitrary_list(groups, 0, 10),
                                             arbitrary_list(groups - 1, 0, 8), arbitrary_list(groups, 0, 20)),
                                    bandwidths, *rc::gen::inRange(1, 9));
  p.chain.cut_backward = arbitrary_list(groups - 1, 0, 8);
  p.chain.outputs = arbitrary_list(groups, 0, 10);
  return p;
}

void compare_with_all(const ReplicationProblem& p) {
  const ReplicatedPartitions found = partition_and_replicate(p);
  const int devices = static_cast<int>(p.speeds.size());
  RC_ASSERT(found.complete);
  RC_ASSERT(found.by_stages.size() == static_cast<std::size_t>(std::min(devices, p.chain.groups())));
  for (std::size_t x = 1; x <= found.by_stages.size(); ++x) {
    const double least = least_of_all(p, static_cast<int>(x));
    const auto& partition = found.by_stages[x - 1];
    RC_ASSERT(partition.has_value() == std::isfinite(least));
    if (!partition) continue;
    RC_ASSERT(std::abs(partition->workload - least) <= 1e-9 * std::max(1.0, least));
    RC_ASSERT(partition->stages.size() == x);
    RC_ASSERT(fits(p, partition->stages));
    const PipelineTimes times = pipeline_times(p, partition->stages);
    RC_ASSERT(std::abs(workload(times, p.microbatches) - least) <= 1e-9 * std::max(1.0, least));
    // No schedule beats the busiest resource.
    RC_ASSERT(list_schedule(times, p.microbatches).makespan >= partition->workload - 1e-9);
  }
}

RC_GTEST_PROP(ReplicatedPartitionTest, IsAsGoodAsExhaustiveSearch, ()) { compare_with_all(arbitrary_problem()); }

RC_GTEST_PROP(ReplicatedPartitionTest, IsAsGoodAsExhaustiveSearchUnderEveryLimit, ()) {
  ReplicationProblem p = arbitrary_problem();
  p.max_replicas = *rc::gen::inRange(0, 4);
  p.all_devices = *rc::gen::arbitrary<bool>();
  for (double& speed : p.speeds) speed = *rc::gen::element(0.5, 1.0, 2.0);
  if (*rc::gen::arbitrary<bool>()) {
    p.memory = StageMemoryLimit{.capacity = arbitrary_list(p.speeds.size(), 10, 200),
                                .in_flight = [](int after) { return std::max(1, 4 * after); }};
  }
  compare_with_all(p);
}

// The recursion as it is written down, with its tie rule; slow. All numbers are sums of powers of
// two, so that equal workloads are equal to the last bit.
class Recursion {
 public:
  explicit Recursion(const ReplicationProblem& p) : p_(p) {}

  Stages best(int x) {
    double least = kUnlimited;
    int chosen = 0;
    for (int r = 1; r <= most(); ++r)
      if (f(groups(), x, r, devices()) < least) {
        least = f(groups(), x, r, devices());
        chosen = r;
      }
    Stages stages;
    if (chosen > 0) unroll(groups(), x, chosen, devices(), stages);
    return stages;
  }

 private:
  struct Entry {
    double value = kUnlimited;
    int cut = 0, before = 0;
  };
  int groups() const { return p_.chain.groups(); }
  int devices() const { return static_cast<int>(p_.speeds.size()); }
  int most() const { return std::min(p_.max_replicas, devices()); }

  double f(int last, int x, int r, int end) { return entry(last, x, r, end).value; }

  const Entry& entry(int last, int x, int r, int end) {
    const auto [found, fresh] = known_.try_emplace({last, x, r, end});
    if (!fresh) return found->second;
    Entry e;
    if (x == 1) {
      if (r == end) e.value = workload(pipeline_times(p_, {{0, last, 0, end}}), p_.microbatches);
    } else {
      for (int cut = x - 1; cut < last; ++cut)
        for (int before = 1; before <= std::min(end - r, most()); ++before) {
          // The stage, the channel to it, and the stages before: the largest counts.
          const PipelineTimes pair =
              pipeline_times(p_, {{cut - 1, cut, end - r - before, end - r}, {cut, last, end - r, end}});
          const double own = p_.microbatches * (pair.forward[1] + pair.backward[1]) + pair.all_reduce[1];
          const double channel = p_.microbatches * (pair.forward_channel[0] + pair.backward_channel[0]);
          const double value = std::max({f(cut, x - 1, before, end - r), channel, own});
          if (value < e.value) e = {value, cut, before};
        }
    }
    return known_[{last, x, r, end}] = e;
  }

  void unroll(int last, int x, int r, int end, Stages& stages) {
    const Entry e = entry(last, x, r, end);
    if (x > 1) unroll(e.cut, x - 1, e.before, end - r, stages);
    stages.push_back({x > 1 ? e.cut : 0, last, end - r, end});
  }

  const ReplicationProblem& p_;
  std::map<std::tuple<int, int, int, int>, Entry> known_;
};

RC_GTEST_PROP(ReplicatedPartitionTest, TiesAreDecidedAsInTheRecursion, ()) {
  ReplicationProblem p = arbitrary_problem();
  p.max_replicas = 2;  // thirds are no sums of powers of two
  const auto found = partition_and_replicate(p).by_stages;
  Recursion recursion(p);
  for (std::size_t x = 1; x <= found.size(); ++x) {
    const Stages expected = recursion.best(static_cast<int>(x));
    RC_ASSERT(found[x - 1].has_value() == !expected.empty());
    if (found[x - 1]) RC_ASSERT(found[x - 1]->stages == expected);
  }
}

// The last layer is all the work, and its all-reduce keeps it on one device; how the other three
// are dealt out makes no difference.
TEST(ReplicatedPartitionTest, OfEqualPlansTheStageBeforeTheLastHasTheFewestReplicas) {
  const ReplicationProblem p = problem_of(chain_of({0, 0, 9}, {0, 0, 9}, {0, 0}, {0, 0, 1000}), flat(4, 1), 1);
  EXPECT_EQ(partition_and_replicate(p).by_stages[2]->stages, (Stages{{0, 1, 0, 2}, {1, 2, 2, 3}, {2, 3, 3, 4}}));
}

RC_GTEST_PROP(ReplicatedPartitionTest, ScalesWithItsTimesAndBandwidths, ()) {
  const ReplicationProblem p = arbitrary_problem();
  ReplicationProblem slower = p;
  for (auto* list : {&slower.chain.forward, &slower.chain.backward})
    for (double& seconds : *list) seconds *= 4;
  for (std::size_t a = 0; a < p.speeds.size(); ++a)
    for (std::size_t b = 0; b < p.speeds.size(); ++b) slower.bandwidths.at(a, b) /= 4;
  const auto once = partition_and_replicate(p).by_stages, again = partition_and_replicate(slower).by_stages;
  RC_ASSERT(once.size() == again.size());
  for (std::size_t x = 0; x < once.size(); ++x)
    RC_ASSERT(std::abs(4 * once[x]->workload - again[x]->workload) <= 1e-9 * again[x]->workload);
}

// A plan need not use a device that it is given at the end of the order.
RC_GTEST_PROP(ReplicatedPartitionTest, ADeviceMoreNeverHurtsWhereItMayBeLeftOut, ()) {
  ReplicationProblem more = arbitrary_problem();
  if (more.speeds.size() < 2) return;  // nothing to take away
  more.all_devices = false;
  ReplicationProblem fewer = more;
  const std::size_t n = more.speeds.size() - 1;
  fewer.speeds.resize(n);
  fewer.bandwidths = SquareMatrix(n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) fewer.bandwidths.at(a, b) = more.bandwidths.at(a, b);
  const auto with = partition_and_replicate(more).by_stages, without = partition_and_replicate(fewer).by_stages;
  for (std::size_t x = 0; x < without.size(); ++x) RC_ASSERT(with[x]->workload <= without[x]->workload);
}

TEST(ReplicatedPartitionTest, LinksWithoutLimitCostNothing) {
  const ReplicationProblem p = problem_of(chain_of({1, 1}, {1, 1}, {5}, {7, 7}), flat(2, kUnlimited), 3);
  const auto found = partition_and_replicate(p).by_stages;
  EXPECT_EQ(found[0]->workload, 6);
  EXPECT_EQ(found[1]->workload, 6);
}

TEST(ReplicatedPartitionTest, OnlyTheNumberOfStagesAskedFor) {
  ReplicationProblem p = vectors()[1].problem;
  p.stages = 3;
  const auto found = partition_and_replicate(ordered(p)).by_stages;
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FALSE(found[0] || found[1]);
  EXPECT_EQ(found[2]->workload, 51);
  p.stages = 9;
  const auto none = partition_and_replicate(p).by_stages;
  for (const auto& partition : none) EXPECT_FALSE(partition);
}

TEST(ReplicatedPartitionTest, AStoppedSearchKeepsWhatItHas) {
  ReplicationProblem p = ordered(vectors()[1].problem);
  int asked = 0;
  p.stop = [&] { return ++asked > 3; };  // four devices: three ends in row 2, then row 3 begins
  const ReplicatedPartitions found = partition_and_replicate(p);
  EXPECT_FALSE(found.complete);
  ASSERT_EQ(found.by_stages.size(), 2u);
  EXPECT_EQ(found.by_stages[1]->workload, 51);
}

TEST(ReplicatedPartitionTest, ATableThatIsFullEndsTheSearch) {
  ReplicationProblem p = ordered(vectors()[1].problem);
  p.table_bytes = 0;
  const ReplicatedPartitions found = partition_and_replicate(p);
  EXPECT_FALSE(found.complete);
  ASSERT_EQ(found.by_stages.size(), 1u);
  EXPECT_EQ(found.by_stages[0]->workload, 91.5);
}

// 8 bytes of parameters in each of two layers; a device holds 30: 3 x 8 and one output of 4.
TEST(ReplicatedPartitionTest, StagesThatDoNotFitAreLeftOut) {
  ReplicationProblem p = problem_of(chain_of({1, 1}, {1, 1}, {0}, {8, 8}), flat(2, 1), 8);
  p.chain.outputs = {1, 4};
  p.memory = StageMemoryLimit{.capacity = {30, 30}, .in_flight = [](int after) { return std::max(1, 4 * after); }};
  const auto found = partition_and_replicate(p).by_stages;
  EXPECT_FALSE(found[0]);
  ASSERT_TRUE(found[1]);  // 24 + 4 x 1, 24 + 1 x 4
  p.chain.outputs = {2, 4};
  EXPECT_FALSE(partition_and_replicate(p).by_stages[1]);  // 24 + 4 x 2
}

}  // namespace
}  // namespace sluice
