// Links that are shared fairly, and all-reduces that are on the links, in two levels or in buckets: times by hand.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/collectives.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"
#include "harness/sim/timed_texts.h"

namespace sluice {
namespace {

Program program_of(const std::string& text, const StageGraph& graph, const Placement& placement) {
  return lower(parse_schedule(text), graph, placement, WeightRule{});
}

Costs costs_with_weights(int stages, std::int64_t bytes) {
  Costs costs = uniform_costs(stages, 1, 1, 1);
  for (StageCost& stage : costs.stages) stage.parameters = Bytes(bytes);
  return costs;
}

Simulation run(const Program& program, const Costs& costs, const Cluster& cluster) {
  return simulate(program, costs, cluster, identity_devices(static_cast<int>(program.ranks.size())));
}

double start_of(const Simulation& simulation, const std::string& op) {
  for (const auto& rank : simulation.trace.ranks)
    for (const TraceEvent& event : rank)
      if (to_text(event.instruction) == op) return event.start;
  throw std::logic_error("no op " + op);
}

Cluster with(Cluster cluster, LinkSharing sharing, AllReduce all_reduce = AllReduce::apart) {
  cluster.sharing = sharing;
  cluster.all_reduce = all_reduce;
  return cluster;
}

TEST(BlockingSendsTest, ADeviceThatSendsWaitsUntilTheMessageIsThere) {
  const StageGraph graph = stage_graph(2, {{StageId(0), StageId(1)}}, "test");
  Costs costs = uniform_costs(2, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}};
  Cluster cluster = cluster_of(2, {link(0, 1, 100, 0.5)});
  const Program program =
      program_of("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1 1B0 1B1\n", graph, one_stage_per_rank(2));
  const Simulation overlapped = run(program, costs, cluster);
  EXPECT_DOUBLE_EQ(start_of(overlapped, "0F1"), 1);
  EXPECT_DOUBLE_EQ(start_of(overlapped, "1F1"), 1 + 2 + 2 + 0.5);  // the link is taken for 2 s a message
  cluster.sends = Sends::blocking;
  const Simulation blocking = run(program, costs, cluster);
  EXPECT_DOUBLE_EQ(start_of(blocking, "0F1"), 1 + 2.5);
  EXPECT_DOUBLE_EQ(start_of(blocking, "1F1"), 3.5 + 1 + 2.5);
  EXPECT_DOUBLE_EQ(start_of(blocking, "1B1") - start_of(blocking, "1B0"), 2 + 2.5);  // backwards take 2 s
}

TEST(FairLinksTest, TwoMessagesShareAMediumUntilOneIsThrough) {
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}}, "test");
  Costs costs = uniform_costs(4, 1, 1, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}, {StageId(2), StageId(3), Bytes(300)}};
  Link a = link(0, 1, 100, 0.5), b = link(2, 3, 100, 0.5);
  a.group = b.group = 7;
  const Simulation s = run(
      program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\nrank 3: 3F0 3B0\n", graph, one_stage_per_rank(4)),
      costs, with(cluster_of(4, {a, b}), LinkSharing::fair));
  EXPECT_DOUBLE_EQ(start_of(s, "1F0"), 1 + 200.0 / 50 + 0.5);                // 50 bytes a second each
  EXPECT_DOUBLE_EQ(start_of(s, "3F0"), 1 + 200.0 / 50 + 100.0 / 100 + 0.5);  // then the rest alone
}

TEST(FairLinksTest, MessagesOfOneConnectionFollowOneAnother) {
  // Rank 0 sends micro-batches 0 and 1 to rank 1, at 1 and 2 s, through the medium that rank 2 uses from 4 s on.
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}}, "test");
  Costs costs = uniform_costs(4, 1, 1, 1);
  costs.stages[2].forward = Seconds(4);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}, {StageId(2), StageId(3), Bytes(100)}};
  Link a = link(0, 1, 100, 0), b = link(2, 3, 100, 0);
  a.group = b.group = 7;
  const Simulation s = run(program_of("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1 1B0 1B1\n"
                                      "rank 2: 2F0 2F1 2B0 2B1\nrank 3: 3F0 3F1 3B0 3B1\n",
                                      graph, one_stage_per_rank(4)),
                           costs, with(cluster_of(4, {a, b}), LinkSharing::fair));
  EXPECT_DOUBLE_EQ(start_of(s, "1F0"), 3);
  EXPECT_DOUBLE_EQ(start_of(s, "1F1"), 6);  // 100 bytes from 3 to 4, then 50 a second
  EXPECT_DOUBLE_EQ(start_of(s, "3F0"), 6);
}

// Stage 0 on ranks 0 and 1, which reduce 200 bytes at 3 s; stages 1 and 2, of which rank 2 sends rank 3 600 bytes at
// 1 s. All through one medium of 100 bytes a second and direction.
Simulation all_reduce_beside_a_message(LinkSharing sharing, AllReduce all_reduce) {
  const StageGraph graph = stage_graph(3, {{StageId(1), StageId(2)}}, "test");
  const Placement placement{{{Rank(0), Rank(1)}, {Rank(2)}, {Rank(3)}}};
  Costs costs = costs_with_weights(3, 200);
  costs.edges = {{StageId(1), StageId(2), Bytes(600)}};
  Link pair = link(0, 1, 100, 0), message = link(2, 3, 100, 0);
  pair.group = message.group = 7;
  return run(program_of("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\nrank 2: 1F0 1F1 1B0 1B1\nrank 3: 2F0 2F1 2B0 2B1\n", graph,
                        placement),
             costs, with(cluster_of(4, {pair, message}), sharing, all_reduce));
}

TEST(AllReduceOnLinksTest, WaitsForAMessageOrSharesTheLinkWithIt) {
  const auto step = [](const Simulation& s) { return start_of(s, "step 0"); };
  EXPECT_DOUBLE_EQ(step(all_reduce_beside_a_message(LinkSharing::queue, AllReduce::apart)), 3 + 2);
  // Two messages, from 1 to 7 and from 7 to 13; the first step of the ring is asked for at 3, before the turn of the
  // second message has come, but after its sending at 2.
  const Simulation queued = all_reduce_beside_a_message(LinkSharing::queue, AllReduce::ring);
  EXPECT_DOUBLE_EQ(step(queued), 13 + 2);
  const Simulation fair = all_reduce_beside_a_message(LinkSharing::fair, AllReduce::ring);
  EXPECT_DOUBLE_EQ(step(fair), 3 + 200.0 / 50);
  EXPECT_DOUBLE_EQ(start_of(fair, "2F0"), 1 + 2 + 4 + 2);  // 200 bytes, 200 at half the rate, 200
  EXPECT_DOUBLE_EQ(start_of(fair, "2F1"), 9 + 6);
}

// One stage on `replicas` ranks, each with a micro-batch of its own: F from 0 to 1 s, B from 1 to 3 s.
Program replicated_stage(int replicas, const std::string& backward = "0B") {
  Placement placement{{{}}};
  std::string text;
  for (int r = 0; r < replicas; ++r) {
    const std::string micro = std::to_string(r);
    placement.stages[0].push_back(Rank(r));
    text += "rank " + micro + ": 0F" + micro + " ";
    for (const char op : backward.substr(1)) text += std::string("0") + op + micro + " ";
    text += "\n";
  }
  return program_of(text, chain(1), placement);
}

// However long a simulation is, it does not fill the memory.
TEST(CollectivesTest, ForgetWhatNobodyCanAskFor) {
  const Program program = replicated_stage(2);
  const Costs costs = costs_with_weights(1, 100);
  const Cluster cluster = with(cluster_of(2, {link(0, 1, 100, 0)}), LinkSharing::queue, AllReduce::ring);
  const std::vector<DeviceId> devices = identity_devices(2);
  Network network(program, cluster, devices);
  std::vector<std::size_t> woken;
  Collectives collectives(program, costs, cluster, network, woken);
  const Instruction reduce = *std::ranges::find(program.ranks[0], Opcode::reduce_gradients, &Instruction::opcode);
  double clock = 0;
  for (int update = 0; update < 1000; ++update) {
    for (const std::size_t rank : {0, 1}) collectives.issue(rank, reduce, clock, /*traced=*/false);
    while (collectives.pending()) collectives.step();
    for (const std::size_t rank : {0, 1}) EXPECT_TRUE(collectives.reduced(rank, StageId(0), clock));
    EXPECT_LE(collectives.remembered(), 2u);
  }
  EXPECT_DOUBLE_EQ(clock, 1000 * 2 * 0.5);  // two steps of 50 bytes each
}

TEST(AllReduceOnLinksTest, OfOneStageTakesWhatTheRingTakesApart) {
  const Cluster cluster = cluster_of(3, {link(0, 1, 100, 0.1), link(1, 2, 50, 0.2), link(0, 2, 100, 0.1)});
  const double apart = run(replicated_stage(3), costs_with_weights(1, 600), cluster).end;
  EXPECT_DOUBLE_EQ(apart, 3 + 4 * (200.0 / 50 + 0.2));
  for (const LinkSharing sharing : {LinkSharing::queue, LinkSharing::fair}) {
    const Simulation s = run(replicated_stage(3), costs_with_weights(1, 600), with(cluster, sharing, AllReduce::ring));
    EXPECT_DOUBLE_EQ(s.end, apart);
    EXPECT_EQ(timed_texts(s.trace.collectives[1]), (std::vector<std::string>{"reduce 0 3-19.8"}));
  }
}

// Two nodes of two devices: 100 bytes a second inside, cards of 10.
Cluster two_nodes() {
  Cluster cluster = cluster_of(4, {link(0, 1, 100, 0.1), link(2, 3, 100, 0.1)});
  for (const int a : {0, 1})
    for (const int b : {2, 3}) {
      Link across = link(a, b, 10, 0.2);
      across.group = 0;
      across.to_group = 1;
      cluster.links.push_back(across);
    }
  cluster.nodes = 2;
  return cluster;
}

TEST(AllReduceOverNodesTest, CrossesTheCardsWithItsPartsOnly) {
  const Costs costs = costs_with_weights(1, 400);
  // One ring: 6 steps of 100 bytes over the cards.
  EXPECT_DOUBLE_EQ(run(replicated_stage(4), costs, with(two_nodes(), LinkSharing::queue, AllReduce::ring)).end,
                   3 + 6 * (10 + 0.2));
  // Inside 1 step of 200 bytes; between, the two rings of 2 steps of 100 bytes share the cards; inside again. Queued, a
  // ring's latency passes while the other has the cards; shared, both take 40 s and then their latencies.
  EXPECT_DOUBLE_EQ(run(replicated_stage(4), costs, with(two_nodes(), LinkSharing::queue, AllReduce::nodes)).end,
                   3 + 2.1 + (4 * 10 + 0.2) + 2.1);
  EXPECT_DOUBLE_EQ(run(replicated_stage(4), costs, with(two_nodes(), LinkSharing::fair, AllReduce::nodes)).end,
                   3 + 2.1 + (200 / 5.0 + 2 * 0.2) + 2.1);
}

TEST(AllReduceOverNodesTest, IsOneRingWhereNodesHoldDifferentNumbersOfDevices) {
  const Costs costs = costs_with_weights(1, 300);
  const auto end = [&](AllReduce all_reduce) {
    return run(replicated_stage(3), costs, with(two_nodes(), LinkSharing::queue, all_reduce)).end;
  };
  EXPECT_DOUBLE_EQ(end(AllReduce::nodes), end(AllReduce::ring));
}

// One stage whose gradients, 400 bytes, are reduced in these buckets; its step takes 1 s.
Costs costs_in_buckets(std::vector<Costs::GradientBucket> buckets) {
  Costs costs = costs_with_weights(1, 400);
  costs.stages[0].update = Seconds(1);
  if (!buckets.empty()) costs.gradient_buckets = {std::move(buckets)};
  return costs;
}
const std::vector<Costs::GradientBucket> kTwoBuckets = {{300, 0.25, 0.5}, {100, 1, 1}};

Cluster a_pair(AllReduce all_reduce = AllReduce::apart) {
  return with(cluster_of(2, {link(0, 1, 100, 0)}), LinkSharing::queue, all_reduce);
}

TEST(GradientBucketsTest, AreReducedWhileTheBackwardGoesOn) {
  const Costs costs = costs_in_buckets(kTwoBuckets);
  for (const AllReduce all_reduce : {AllReduce::apart, AllReduce::ring}) {
    // B from 1 to 3: 300 bytes from 1.5 to 4.5, the other 100 to 5.5, then the step.
    const Simulation s = run(replicated_stage(2), costs, a_pair(all_reduce));
    EXPECT_DOUBLE_EQ(s.end, 5.5 + 1);
    EXPECT_EQ(timed_texts(s.trace.collectives[0]), (std::vector<std::string>{"reduce 0 1.5-5.5"}));
    // W from 2 to 3: 300 bytes from 2.5 to 5.5.
    EXPECT_DOUBLE_EQ(run(replicated_stage(2, "0IW"), costs, a_pair(all_reduce)).end, 6.5 + 1);
    // All in one bucket, or without buckets: from 3 on.
    EXPECT_DOUBLE_EQ(run(replicated_stage(2), costs_in_buckets({{400, 1, 1}}), a_pair(all_reduce)).end, 3 + 4 + 1);
    EXPECT_DOUBLE_EQ(run(replicated_stage(2), costs_in_buckets({}), a_pair(all_reduce)).end, 3 + 4 + 1);
  }
}

// What is reduced during the backward costs nothing; of the last bucket nothing can.
TEST(GradientBucketsTest, OnlyTheLastBucketIsExposedWhereTheLinkIsFastEnough) {
  const Costs costs = costs_in_buckets({{100, 0.25, 0.5}, {100, 0.5, 0.75}, {200, 1, 1}});
  // B from 1 to 3: 100 bytes at 1.5 to 1.7, 100 at 2 to 2.2, 200 at 3 to 3.4.
  Cluster cluster = a_pair();
  cluster.links[0].bandwidth = 500;
  EXPECT_DOUBLE_EQ(run(replicated_stage(2), costs, cluster).end, 3 + 0.4 + 1);
}

TEST(GradientBucketsTest, BeginWhenTheLastReplicaHasTheGradients) {
  const Placement both{{{Rank(0), Rank(1)}}};
  // Rank 0's last B runs from 4 to 6.
  const Program program = program_of("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1\n", chain(1), both);
  EXPECT_DOUBLE_EQ(run(program, costs_in_buckets(kTwoBuckets), a_pair()).end, 4.5 + 3 + 1 + 1);
}

// Two stages of two layers each on both ranks: their rings take turns on a rank, as in one stream.
TEST(GradientBucketsTest, ARankIsInOneAllReduceAtATime) {
  const Placement both{{{Rank(0), Rank(1)}, {Rank(0), Rank(1)}}};
  const Program program = program_of("rank 0: 0F0 1F0 1B0 0B0\nrank 1: 0F1 1F1 1B1 0B1\n", chain(2), both);
  Costs costs = costs_with_weights(2, 400);
  costs.gradient_buckets = {{{400, 1, 1}}, {{400, 1, 1}}};
  // F 0-1 1-2, 1B 2-4, 0B 4-6. Stage 1 is reduced from 4 to 8, stage 0 from 8 to 12.
  EXPECT_DOUBLE_EQ(run(program, costs, a_pair()).end, 12);
}

// ZeRO's reductions: the step waits for the last bucket.
TEST(GradientBucketsTest, AReduceScatterGoesInBucketsToo) {
  const Placement both{{{Rank(0), Rank(1)}}};
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n"), chain(1), both, WeightRule{},
                                {.gather = Sharding::Gather::after_step, .reduce = Sharding::Reduce::accumulated});
  const auto step = [&](const Costs& costs) { return start_of(run(program, costs, a_pair()), "step 0"); };
  // One step of half the bytes each: 150 bytes from 1.5 to 3, 50 from 3 to 3.5; at once: 200 bytes from 3 on.
  EXPECT_DOUBLE_EQ(step(costs_in_buckets(kTwoBuckets)), 3.5);
  EXPECT_DOUBLE_EQ(step(costs_in_buckets({})), 5);
}

// Three layers of 100, 150 and 150 bytes (from the last one), F = I = W = 1 s each.
TEST(GradientBucketsTest, AStagesBucketsFollowFromItsLayers) {
  CostGraph graph{.model = "m", .source = "s", .device = "d", .micro_batch = 1, .layers = {}};
  for (const std::int64_t bytes : {150, 150, 100})
    graph.layers.push_back({.name = "layer",
                            .inputs = {static_cast<int>(graph.layers.size()) - 1},
                            .forward = Seconds(1),
                            .input_gradient = Seconds(1),
                            .weight_gradient = Seconds(1),
                            .parameters = Bytes(bytes)});
  const Plan plan{.stages = {{.layers = {0, 1, 2}, .devices = {DeviceId(0), DeviceId(1)}}}};
  const auto buckets = costs_of(plan, graph, a_pair(), Bytes(200)).gradient_buckets.at(0);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_DOUBLE_EQ(buckets[0].bytes, 250);
  EXPECT_DOUBLE_EQ(buckets[0].in_backward, 2.0 / 3);
  EXPECT_DOUBLE_EQ(buckets[0].in_weight_gradient, 2.0 / 3);
  EXPECT_DOUBLE_EQ(buckets[1].bytes, 150);
  EXPECT_DOUBLE_EQ(buckets[1].in_backward, 1);
  EXPECT_TRUE(costs_of(plan, graph, a_pair()).gradient_buckets.empty());
}

TEST(TrafficTest, FairLinksRejectEpisodesOfLinks) {
  Interference interference;
  interference.episodes = {{.resource = Resource::link}};
  const Cluster cluster = with(cluster_of(2, {link(0, 1, 100, 0)}), LinkSharing::fair);
  EXPECT_EQ(error_of([&] {
              simulate(replicated_stage(2), costs_with_weights(1, 1), cluster, identity_devices(2),
                       {.interference = &interference});
            }),
            "cluster 'test': links that are shared fairly do not slow down by episodes; use sharing queue, or "
            "interference without links");
}

RC_GTEST_PROP(TrafficTest, FairAndQueuedAreTheSameWhereNoTwoConnectionsMeet, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, false);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  Costs costs = uniform_costs(static_cast<int>(p.graph.size()), 1, 2, 3);
  for (std::size_t s = 0; s < p.graph.size(); ++s)
    for (const StageId t : p.graph.successors[s]) costs.edges.push_back({StageId(s), t, Bytes(70)});
  Cluster cluster = latency_cluster(static_cast<int>(program.rank_count()), Seconds(1));
  cluster.all_to_all->bandwidth = 50;
  const Simulation queued = run(program, costs, cluster);
  const Simulation fair = run(program, costs, with(cluster, LinkSharing::fair));
  RC_ASSERT(queued.end == fair.end);
  RC_ASSERT(queued.bubble.idle == fair.bubble.idle);
}

RC_GTEST_PROP(TrafficTest, EveryProgramEndsHoweverItsTrafficIsShared, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  Costs costs = costs_with_weights(static_cast<int>(p.graph.size()), 300);
  for (std::size_t s = 0; s < p.graph.size(); ++s)
    for (const StageId t : p.graph.successors[s])
      costs.edges.push_back({StageId(s), t, Bytes(*rc::gen::inRange(0, 300))});
  const int ranks = static_cast<int>(program.rank_count());
  Cluster cluster = latency_cluster(ranks, Seconds(1));
  list_links(cluster);
  for (Link& l : cluster.links) {
    l.bandwidth = *rc::gen::element(25.0, 100.0);
    l.group = *rc::gen::element(-1, 0, 1);
  }
  cluster.nodes = ranks % 2 == 0 ? 2 : 1;
  cluster.sharing = *rc::gen::element(LinkSharing::queue, LinkSharing::fair);
  cluster.all_reduce = *rc::gen::element(AllReduce::apart, AllReduce::ring, AllReduce::nodes);
  if (*rc::gen::arbitrary<bool>()) costs.gradient_buckets.assign(p.graph.size(), {{200, 0.25, 0.5}, {100, 1, 1}});
  const Simulation s = simulate(program, costs, cluster, identity_devices(ranks), {.iterations = 3});
  RC_ASSERT(s.end >= s.bubble.makespan);
  std::int64_t instructions = 0;
  for (const auto& rank : program.ranks) instructions += static_cast<std::int64_t>(rank.size());
  RC_ASSERT(s.instructions == 3 * instructions);
}

}  // namespace
}  // namespace sluice
