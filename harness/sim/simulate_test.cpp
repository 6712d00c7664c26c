#include "harness/sim/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "harness/base/expect_error.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

Program lowered(const std::string& text, const StageGraph& graph, const Placement& placement,
                const WeightRule& rule = {}) {
  return lower(parse_schedule(text), graph, placement, rule);
}

// The event of an op, by its text.
TraceEvent event(const Simulation& simulation, const std::string& text) {
  for (const auto& rank : simulation.trace.ranks)
    for (const TraceEvent& e : rank)
      if (to_text(e.instruction) == text) return e;
  ADD_FAILURE() << "no event " << text;
  return {};
}

// makespan = (m + p - 1)(F + B), for GPipe and 1F1B alike, when messages take no time.
TEST(SimulateTest, ClosedFormsWithoutLatency) {
  const double forward = 1, backward = 2.5;
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m <= 4 * p; ++m)
      for (const Schedule& schedule : {example_gpipe(p, m), example_1f1b(p, m)}) {
        const Program program = lower(schedule, chain(p), one_stage_per_rank(p), WeightRule{});
        const Simulation s =
            simulate(program, uniform_costs(p, forward, 1.5, 1), latency_cluster(p, Seconds(0)), identity_devices(p));
        const double makespan = (m + p - 1) * (forward + backward);
        ASSERT_NEAR(s.bubble.makespan, makespan, 1e-9) << "p=" << p << " m=" << m;
        ASSERT_NEAR(s.bubble.bubble_ratio, (p - 1.0) / (m + p - 1), 1e-12);
        ASSERT_NEAR(s.bubble.span_bubble, (p - 1.0) / (m + p - 1), 1e-12);
        ASSERT_NEAR(s.bubble.idle[0], (p - 1) * (forward + backward), 1e-9);
        ASSERT_NEAR(s.end, makespan, 1e-9);
      }
}

// With latency L, 1F1B's steady state has just as many micro-batches in flight as it needs without.
TEST(SimulateTest, LatencyCostsOneForwardOneBackwardMoreThanGPipe) {
  const auto makespan = [](const Schedule& schedule) {
    return simulate(lower(schedule, chain(4), one_stage_per_rank(4), WeightRule{}), uniform_costs(4, 1, 1, 1),
                    latency_cluster(4, Seconds(1)), identity_devices(4))
        .bubble.makespan;
  };
  EXPECT_DOUBLE_EQ(makespan(example_gpipe(4, 8)), 39);
  EXPECT_DOUBLE_EQ(makespan(example_1f1b(4, 8)), 49);
}

TEST(SimulateTest, TheTraceHasEveryComputeOpWithItsTimes) {
  const Program program = lower(example_1f1b(2, 2), chain(2), one_stage_per_rank(2), WeightRule{});
  Costs costs = uniform_costs(2, 1, 1, 1);
  costs.stages[1].update = Seconds(0.5);
  const Simulation s = simulate(program, costs, latency_cluster(2, Seconds(0.25)), identity_devices(2));
  EXPECT_DOUBLE_EQ(event(s, "1F0").start, 1.25);
  EXPECT_DOUBLE_EQ(event(s, "1B0").end, 4.25);
  EXPECT_DOUBLE_EQ(event(s, "0B0").start, 4.5);
  EXPECT_DOUBLE_EQ(event(s, "1F1").start, 4.25);
  EXPECT_DOUBLE_EQ(event(s, "1B1").end, 7.25);
  EXPECT_DOUBLE_EQ(event(s, "0B1").end, 9.5);
  EXPECT_DOUBLE_EQ(event(s, "step 1").end, 7.75);
  EXPECT_EQ(s.trace.ranks[0].size(), 5u);  // 4 ops and the step
  EXPECT_EQ(s.update_end, std::vector<double>{9.5});
  const Bubbles b = bubbles(s.trace);
  EXPECT_DOUBLE_EQ(b.makespan, s.bubble.makespan);
  EXPECT_DOUBLE_EQ(b.bubble_ratio, s.bubble.bubble_ratio);
  EXPECT_EQ(s.instructions, static_cast<std::int64_t>(program.ranks[0].size() + program.ranks[1].size()));
}

TEST(SimulateTest, WithoutATraceTheFiguresAreTheSame) {
  const Program program = lower(example_1f1b(3, 5), chain(3), one_stage_per_rank(3), WeightRule{});
  const auto run = [&](bool trace) {
    return simulate(program, uniform_costs(3, 1, 2, 3), latency_cluster(3, Seconds(0.5)), identity_devices(3),
                    {.trace = trace});
  };
  EXPECT_TRUE(run(false).trace.ranks.empty());
  EXPECT_EQ(run(false).bubble.idle, run(true).bubble.idle);
  EXPECT_EQ(run(false).end, run(true).end);
}

// Two independent chains, 0 -> 1 and 2 -> 3, whose messages leave at the same second.
const std::string kTwoChains =
    "rank 0: 0F0 0B0\n"
    "rank 1: 1F0 1B0\n"
    "rank 2: 2F0 2B0\n"
    "rank 3: 3F0 3B0\n";

Simulation two_chains(std::vector<Link> links) {
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}}, "test");
  Costs costs = uniform_costs(4, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}, {StageId(2), StageId(3), Bytes(300)}};
  return simulate(lowered(kTwoChains, graph, one_stage_per_rank(4)), costs, cluster_of(4, std::move(links)),
                  identity_devices(4));
}

TEST(LinksTest, SeparateLinksDoNotDelayEachOther) {
  const Simulation s = two_chains({link(0, 1, 100, 0.5), link(2, 3, 100, 0.5)});
  EXPECT_DOUBLE_EQ(event(s, "1F0").start, 1 + 2 + 0.5);
  EXPECT_DOUBLE_EQ(event(s, "3F0").start, 1 + 3 + 0.5);
}

TEST(LinksTest, ASharedGroupQueuesFirstComeFirstServed) {
  Link a = link(0, 1, 100, 0.5), b = link(2, 3, 100, 0.5);
  a.group = b.group = 7;
  const Simulation s = two_chains({a, b});
  EXPECT_DOUBLE_EQ(event(s, "1F0").start, 1 + 2 + 0.5);
  EXPECT_DOUBLE_EQ(event(s, "3F0").start, 1 + 2 + 3 + 0.5);  // latency is not queued for
}

TEST(LinksTest, AGroupAtTheFarEndIsSharedByWhatComesIn) {
  Link a = link(0, 1, 100, 0), b = link(2, 3, 100, 0);
  a.group = 0, b.group = 1;
  a.to_group = b.to_group = 2;  // one card receives both
  const Simulation s = two_chains({a, b});
  EXPECT_DOUBLE_EQ(event(s, "3F0").start, 1 + 2 + 3);
  b.to_group = 3;
  EXPECT_DOUBLE_EQ(event(two_chains({a, b}), "3F0").start, 1 + 3);
}

TEST(LinksTest, ACardSendsAndReceivesAtOnce) {
  // Link a leaves card 0, link b comes into it: full duplex, so neither waits.
  Link a = link(0, 1, 100, 0), b = link(2, 3, 100, 0);
  a.group = 0;
  b.to_group = 0;
  const Simulation s = two_chains({a, b});
  EXPECT_DOUBLE_EQ(event(s, "1F0").start, 3);
  EXPECT_DOUBLE_EQ(event(s, "3F0").start, 4);
}

// Rank 0 sends an activation to rank 1 while rank 1 sends one to rank 0.
Simulation crossing(bool duplex) {
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}}, "test");
  const Placement placement{{{Rank(0)}, {Rank(1)}, {Rank(1)}, {Rank(0)}}};
  Costs costs = uniform_costs(4, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}, {StageId(2), StageId(3), Bytes(200)}};
  Link l = link(0, 1, 100, 0);
  l.duplex = duplex;
  return simulate(lowered("rank 0: 0F0 3F0 3B0 0B0\nrank 1: 2F0 1F0 1B0 2B0\n", graph, placement), costs,
                  cluster_of(2, {l}), identity_devices(2));
}

TEST(LinksTest, HalfDuplexDirectionsShareTheLink) {
  EXPECT_DOUBLE_EQ(event(crossing(true), "1F0").start, 3);
  EXPECT_DOUBLE_EQ(event(crossing(true), "3F0").start, 3);
  EXPECT_DOUBLE_EQ(event(crossing(false), "1F0").start, 3);
  EXPECT_DOUBLE_EQ(event(crossing(false), "3F0").start, 5);
}

TEST(LinksTest, APathOfTwoHopsAddsLatenciesAndTakesTheSlowerBandwidth) {
  const Program program = lowered("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", chain(2), one_stage_per_rank(2));
  Costs costs = uniform_costs(2, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}};
  const Cluster cluster = cluster_of(3, {link(0, 1, 100, 0.25), link(1, 2, 50, 0.5)});
  const std::vector<DeviceId> devices = {DeviceId(0), DeviceId(2)};
  const Simulation s = simulate(program, costs, cluster, devices);
  EXPECT_DOUBLE_EQ(event(s, "1F0").start, 1 + 200.0 / 50 + 0.75);
  EXPECT_DOUBLE_EQ(event(s, "0B0").start, event(s, "1B0").end + 200.0 / 50 + 0.75);
}

TEST(LinksTest, AMessageOccupiesEveryMediumOfItsPath) {
  // 0 -> 2 by way of 1; its second link also carries what 1 sends to 2 a moment later.
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(2)}, {StageId(1), StageId(3)}}, "test");
  const Placement placement{{{Rank(0)}, {Rank(1)}, {Rank(2)}, {Rank(2)}}};
  const Program program = lowered("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 3F0 3B0 2B0\n", graph, placement);
  Costs costs = uniform_costs(4, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(2), Bytes(400)}, {StageId(1), StageId(3), Bytes(100)}};
  const Simulation s =
      simulate(program, costs, cluster_of(3, {link(0, 1, 100, 0), link(1, 2, 100, 0)}), identity_devices(3));
  EXPECT_DOUBLE_EQ(event(s, "2F0").start, 5);
  EXPECT_DOUBLE_EQ(event(s, "3F0").start, 6);  // its message came at 6, not at 2
}

TEST(LinksTest, RanksOfOneDeviceExchangeAtOnce) {
  const Program program = lowered("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", chain(2), one_stage_per_rank(2));
  const std::vector<DeviceId> devices = {DeviceId(0), DeviceId(0)};
  EXPECT_DOUBLE_EQ(simulate(program, uniform_costs(2, 1, 1, 1), cluster_of(1, {}), devices).end, 6);
}

TEST(AllReduceTest, TakesTheRingsTimeAfterTheLastMember) {
  // Three replicas; rank 0 has two micro-batches, so it comes last, at 6.
  const Placement placement{{{Rank(0), Rank(1), Rank(2)}}};
  const Program program = lowered("rank 0: 0F0 0B0 0F3 0B3\nrank 1: 0F1 0B1\nrank 2: 0F2 0B2\n", chain(1), placement);
  Costs costs = uniform_costs(1, 1, 1, 1);
  costs.stages[0].parameters = Bytes(600);
  costs.stages[0].update = Seconds(1);
  const Simulation s =
      simulate(program, costs, cluster_of(3, {link(0, 1, 100, 0.1), link(1, 2, 50, 0.2), link(0, 2, 100, 0.1)}),
               identity_devices(3));
  // 2 (n - 1) steps of 200 bytes over the slowest link, each with the longest latency.
  const double reduced = 6 + 4 * (200.0 / 50 + 0.2);
  for (const auto& rank : s.trace.ranks) {
    EXPECT_EQ(to_text(rank[rank.size() - 2].instruction), "reduce 0");
    EXPECT_DOUBLE_EQ(rank[rank.size() - 2].start, 6);
    EXPECT_DOUBLE_EQ(rank[rank.size() - 2].end, reduced);
    EXPECT_DOUBLE_EQ(rank.back().end, reduced + 1);
  }
  EXPECT_DOUBLE_EQ(s.end, reduced + 1);
  std::int64_t instructions = 0;
  for (const auto& rank : program.ranks) instructions += static_cast<std::int64_t>(rank.size());
  EXPECT_EQ(s.instructions, instructions);
}

// ring all-reduce of n = 8, 5 us, 12 GB/s: 14.653 ms for 1e8 bytes.
TEST(AllReduceTest, AgreesWithThePublishedFormula) {
  Placement placement{{{}}};
  std::string text;
  std::vector<Link> links;
  for (int r = 0; r < 8; ++r) {
    placement.stages[0].emplace_back(r);
    text += "rank " + std::to_string(r) + ": 0F" + std::to_string(r) + " 0B" + std::to_string(r) + "\n";
    for (int o = 0; o < r; ++o) links.push_back(link(o, r, 12e9, 5e-6));
  }
  Costs costs = uniform_costs(1, 0, 0, 0);
  costs.stages[0].parameters = Bytes(100'000'000);
  const Simulation s = simulate(lowered(text, chain(1), placement), costs, cluster_of(8, links), identity_devices(8));
  EXPECT_NEAR(s.end, 14.653e-3, 1e-6);
}

TEST(IterationsTest, UpdatesEndOneSteadyStepApart) {
  const Program program = lower(example_1f1b(4, 8), chain(4), one_stage_per_rank(4), WeightRule{});
  const Simulation s = simulate(program, uniform_costs(4, 1, 1, 1), latency_cluster(4, Seconds(0)), identity_devices(4),
                                {.iterations = 5});
  ASSERT_EQ(s.update_end.size(), 5u);
  // The last update of an iteration is rank 0's; the next iteration begins at once on each rank.
  for (std::size_t u = 1; u < 5; ++u) EXPECT_DOUBLE_EQ(s.update_end[u] - s.update_end[u - 1], (8 + 4 - 1) * 3.0);
  EXPECT_DOUBLE_EQ(s.bubble.makespan, 33);  // of the first iteration
  EXPECT_EQ(s.trace.ranks[0].size(), 17u);  // of the first iteration too
  EXPECT_DOUBLE_EQ(s.end, s.update_end.back());
}

TEST(IterationsTest, PipeDreamUpdatesEveryBackward) {
  const WeightRule rule{.update = WeightRule::Update::every_backward};
  const Program program = lower(example_1f1b(3, 9), chain(3), one_stage_per_rank(3), rule);
  const Simulation s = simulate(program, uniform_costs(3, 1, 1, 1), latency_cluster(3, Seconds(0)), identity_devices(3),
                                {.iterations = 2});
  ASSERT_EQ(s.update_end.size(), 18u);
  for (std::size_t u = 1; u < s.update_end.size(); ++u) EXPECT_GT(s.update_end[u], s.update_end[u - 1]);
  for (std::size_t u = 3; u < 9; ++u)  // full pipe: one batch every F + B
    EXPECT_DOUBLE_EQ(s.update_end[u] - s.update_end[u - 1], 3);
}

// Equal up to rounding, and to the order in which events at one instant are taken.
void expect_same(const Simulation& a, const Simulation& b) {
  RC_ASSERT(a.end == b.end);
  RC_ASSERT(a.update_end == b.update_end);
  RC_ASSERT(a.bubble.idle == b.bubble.idle);
  RC_ASSERT(a.instructions == b.instructions);
  RC_ASSERT(a.trace.ranks.size() == b.trace.ranks.size());
  for (std::size_t r = 0; r < a.trace.ranks.size(); ++r) {
    RC_ASSERT(a.trace.ranks[r].size() == b.trace.ranks[r].size());
    for (std::size_t k = 0; k < a.trace.ranks[r].size(); ++k) {
      RC_ASSERT(a.trace.ranks[r][k].start == b.trace.ranks[r][k].start);
      RC_ASSERT(a.trace.ranks[r][k].end == b.trace.ranks[r][k].end);
    }
  }
}

Costs random_costs(const StageGraph& graph) {
  Costs costs;
  for (std::size_t s = 0; s < graph.size(); ++s) {
    const auto seconds = [] { return Seconds(*rc::gen::inRange(1, 10)); };
    costs.stages.push_back({seconds(), seconds(), seconds(), seconds(), Bytes(*rc::gen::inRange(0, 500))});
    for (const StageId t : graph.successors[s])
      costs.edges.push_back({StageId(s), t, Bytes(*rc::gen::inRange(0, 300))});
  }
  return costs;
}

RC_GTEST_PROP(EngineTest, RanksRunInAnyOrderAsInOrderOfTime, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  const int ranks = static_cast<int>(program.rank_count());
  Cluster cluster = latency_cluster(ranks, Seconds(1));
  list_links(cluster);
  for (Link& l : cluster.links) l.bandwidth = *rc::gen::element(25.0, 100.0, kUnlimited);
  const Costs costs = random_costs(p.graph);
  const auto run = [&](bool time_ordered) {
    return simulate(program, costs, cluster, identity_devices(ranks), {.iterations = 3, .time_ordered = time_ordered});
  };
  expect_same(run(false), run(true));
}

RC_GTEST_PROP(EngineTest, OnlySendsThroughSharedMediaNeedTheOrderOfTime, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  const int ranks = static_cast<int>(program.rank_count());
  Cluster cluster = latency_cluster(ranks, Seconds(1));
  list_links(cluster);
  for (Link& l : cluster.links) {
    l.bandwidth = *rc::gen::element(25.0, 100.0, kUnlimited);
    l.group = *rc::gen::element(-1, 0, 1);
  }
  const Costs costs = random_costs(p.graph);
  const auto run = [&](bool time_ordered) {
    return simulate(program, costs, cluster, identity_devices(ranks), {.iterations = 3, .time_ordered = time_ordered});
  };
  expect_same(run(false), run(true));
}

TEST(SimulatedMessages, LastFromTheirSendToTheirArrivalAndWaitForTheMedium) {
  // Ranks 0 and 1 both send 100 bytes to rank 2 through one bus of 50 bytes a second, at 1 s: the second waits 2 s.
  const StageGraph graph = stage_graph(3, {{StageId(0), StageId(2)}, {StageId(1), StageId(2)}}, "test");
  const Program program = lowered("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n", graph, one_stage_per_rank(3));
  Costs costs = uniform_costs(3, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(2), Bytes(100)}, {StageId(1), StageId(2), Bytes(100)}};
  std::vector<Link> links = {link(0, 2, 50, 0.5), link(1, 2, 50, 0.5)};
  for (Link& l : links) l.group = 0, l.duplex = true;
  const Simulation simulation = simulate(program, costs, cluster_of(3, links), identity_devices(3));
  const auto message = [&](const std::string& text) {
    for (const TraceMessage& m : simulation.trace.messages)
      if (to_text(m.send) == text) return m;
    throw std::logic_error("no message " + text);
  };
  ASSERT_EQ(simulation.trace.messages.size(), 4u);
  const TraceMessage first = message("send_activation 0->2 0"), second = message("send_activation 1->2 0");
  EXPECT_EQ(first.from, Rank(0));
  EXPECT_EQ(first.to, Rank(2));
  EXPECT_DOUBLE_EQ(first.start, 1);
  EXPECT_DOUBLE_EQ(first.end, 3.5);
  EXPECT_DOUBLE_EQ(second.start, 1);
  EXPECT_DOUBLE_EQ(second.end, 5.5);
  EXPECT_EQ(message("send_gradient 2->0 0").from, Rank(2));
  EXPECT_DOUBLE_EQ(event(simulation, "2F0").start, 5.5);
}

RC_GTEST_PROP(EngineTest, LinksOfAllPairsAreAsIfTheyWereListed, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  const int ranks = static_cast<int>(program.rank_count());
  Cluster cluster = latency_cluster(ranks, Seconds(1));
  cluster.all_to_all->bandwidth = *rc::gen::element(25.0, 100.0);
  cluster.sharing = *rc::gen::element(LinkSharing::queue, LinkSharing::fair);
  cluster.all_reduce = *rc::gen::element(AllReduce::apart, AllReduce::ring);
  const Costs costs = random_costs(p.graph);
  const auto run = [&] { return simulate(program, costs, cluster, identity_devices(ranks), {.iterations = 3}); };
  const Simulation of_all = run();
  list_links(cluster);
  RC_ASSERT(cluster.links.size() == static_cast<std::size_t>(ranks) * (static_cast<std::size_t>(ranks) - 1) / 2);
  expect_same(of_all, run());
}

RC_GTEST_PROP(EngineTest, EveryRandomProgramEndsOnASharedBus, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  const int ranks = static_cast<int>(program.rank_count());
  Cluster cluster = latency_cluster(ranks, Seconds(1));
  const Costs costs = random_costs(p.graph);
  const auto end = [&] { return simulate(program, costs, cluster, identity_devices(ranks), {.trace = false}).end; };
  each_link(cluster, [](Link& l) { l.bandwidth = 100; });
  RC_ASSERT(end() > 0);
  each_link(cluster, [](Link& l) { l.group = 0, l.duplex = false; });
  RC_ASSERT(end() > 0);
}

TEST(SimulateTest, BadInputIsRejected) {
  const Program program = lower(example_1f1b(2, 2), chain(2), one_stage_per_rank(2), WeightRule{});
  const Costs costs = uniform_costs(2, 1, 1, 1);
  EXPECT_EQ(error_of([&] { simulate(program, costs, cluster_of(2, {}), identity_devices(2)); }),
            "cluster 'test': no path between devices 0 and 1; add a link that connects them");
  EXPECT_EQ(error_of([&] { simulate(program, costs, cluster_of(1, {}), identity_devices(2)); }),
            "cluster 'test': device 1 does not exist; there are 1");
  EXPECT_EQ(error_of([&] {
              simulate(program, costs, latency_cluster(2, Seconds(0)), identity_devices(2), {.iterations = 0});
            }),
            "simulation: needs at least one iteration");
  EXPECT_THROW(simulate(program, costs, latency_cluster(2, Seconds(0)), identity_devices(1)), std::logic_error);
}

TEST(SimulateTest, ADeadlockIsADefectNotAHang) {
  Program program = lower(example_1f1b(2, 1), chain(2), one_stage_per_rank(2), WeightRule{});
  auto& list = program.ranks[0];
  std::swap(list[0], list[2]);  // the gradient is asked for before the activation is sent
  EXPECT_THROW(simulate(program, uniform_costs(2, 1, 1, 1), latency_cluster(2, Seconds(0)), identity_devices(2)),
               std::logic_error);
}

TEST(LatencyClusterTest, AnyTwoDevicesAreOneLatencyApart) {
  const Cluster c = latency_cluster(5, Seconds(2));
  for (int a = 0; a < 5; ++a)
    for (int b = 0; b < 5; ++b) EXPECT_EQ(path(c, DeviceId(a), DeviceId(b)).size(), a == b ? 0u : 1u);
}

TEST(CostsOfTest, TakesStagesAndCrossingTensorsFromThePlan) {
  CostGraph graph{.model = "m", .source = "test", .device = "d", .micro_batch = 1, .layers = {}};
  graph.layers = {{"a", {-1}, Seconds(1), Seconds(2), Seconds(3), Seconds(4), Bytes(5), Bytes(6)},
                  {"b", {0}, Seconds(1), Seconds(2), Seconds(3), Seconds(4), Bytes(5), Bytes(7)}};
  Plan plan;
  plan.stages = {{{0}, {DeviceId(0)}}, {{1}, {DeviceId(1)}}};
  const Costs costs = costs_of(plan, graph, latency_cluster(2, Seconds(0)));
  ASSERT_EQ(costs.edges.size(), 1u);
  EXPECT_EQ(costs.edges[0].bytes, Bytes(6));
  EXPECT_EQ(costs.stages[1].weight_gradient, Seconds(3));
}

}  // namespace
}  // namespace sluice
