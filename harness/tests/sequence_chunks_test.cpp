// Systems that cut sequences into chunks, against 190 cases made by independent generators and an independent
// evaluation of longest paths.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/case/predict_update.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/schedule_picture.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"
#include "harness/tests/test_support.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

struct Order {
  UniformChain chain;
  Schedule schedule;
  Theory theory;
};

Order order_of(const std::string& name, int ranks, int microbatches, const Given& given) {
  const System& system = find_system(name, "test");
  const Options options = resolve_options(system.options, given, "test");
  const StageCost stage{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  Order order{uniform_chain(system, options, latency_cluster(ranks, Seconds(0)), ranks, microbatches, stage), {}, {}};
  order.schedule = system.schedule(order.chain.problem, options);
  order.theory = system.theory(order.chain.problem, options);
  return order;
}

// The system and its options that a case of the file is of.
std::pair<std::string, Given> system_of(const Json& json) {
  const std::string variant = json["variant"].get<std::string>(), v = std::to_string(json["v"].get<int>());
  Given given{{"sequence_chunks", std::to_string(json["k"].get<int>())}};
  if (variant == "slimpipe" || variant == "slimpipe_interleaved") {
    given["chunks"] = v;
    return {"slimpipe", given};
  }
  if (variant == "seq1f1b_zb") given["variant"] = "split";
  if (variant.starts_with("seq1f1b_interleaved")) {
    given["variant"] = "interleaved";
    given["chunks"] = v;
    given["group"] = variant.ends_with("released") ? "released" : variant.ends_with("small") ? "least" : "figure";
  }
  return {"seq1f1b", given};
}

Program program_of(const Order& order) {
  const ScheduleProblem& problem = order.chain.problem;
  return lower(order.schedule, problem.graph, problem.placement, WeightRule{});
}

// The most sequences, over a rank's stages, of which some chunks are back and some are not.
int max_partly_back(const std::vector<Op>& ops, int chunks) {
  std::map<std::pair<int, int>, int> back;  // of a stage and micro-batch: chunks
  int now = 0, most = 0;
  for (const Op& op : ops) {
    if (op.kind != OpKind::backward && op.kind != OpKind::input_gradient) continue;
    int& done = back[{op.stage.value, op.micro.value / chunks}];
    now -= done > 0;
    ++done;
    now += done < chunks;
    most = std::max(most, now);
  }
  return most;
}

// F and B of a chunk, the latter twice as long; where split I = W = F.
double makespan(const Program& program, const std::vector<double>& forwards) {
  const double first = forwards.front();
  Costs costs = uniform_costs(program.graph.stages(), first, first, first);
  std::vector<Costs::ChunkParts> parts;
  for (const double f : forwards) parts.push_back({f / first, f / first, f / first});
  costs.chunk_parts.assign(program.graph.size(), parts);
  std::vector<DeviceId> devices;
  for (std::size_t r = 0; r < program.rank_count(); ++r) devices.emplace_back(r);
  return simulate(program, costs, latency_cluster(static_cast<int>(devices.size()), Seconds(0)), devices, {})
      .bubble.makespan;
}

TEST(SequenceChunkVectorsTest, OrdersMakespansAndPeaksAreThoseOfTheFile) {
  int tested = 0;
  for (const Json& json : parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/sequence_chunks.json")) {
    const int p = json["p"].get<int>(), m = json["m"].get<int>(), k = json["k"].get<int>();
    SCOPED_TRACE(json["variant"].get<std::string>() + " p=" + std::to_string(p) + " m=" + std::to_string(m) +
                 " k=" + std::to_string(k));
    const auto [system, given] = system_of(json);
    const Order order = order_of(system, p, m, given);
    std::string text;
    for (std::size_t r = 0; r < json["order"].size(); ++r)
      text += "rank " + std::to_string(r) + ": " + json["order"][r].get<std::string>() + "\n";
    // The file writes the chunk even where there is one.
    Schedule expected = parse_schedule(text);
    EXPECT_EQ(expected.sequence_chunks, k);
    ASSERT_EQ(order.schedule, expected);
    if (k > 1) {
      EXPECT_EQ(to_text(order.schedule), text);
    }
    const ScheduleProblem& problem = order.chain.problem;
    EXPECT_TRUE(check(order.schedule, problem.graph, problem.placement).empty());
    const Program program = program_of(order);
    EXPECT_DOUBLE_EQ(makespan(program, std::vector<double>(static_cast<std::size_t>(k), 1)),
                     json["makespan"].get<double>());
    std::vector<double> causal;
    for (int c = 0; c < k; ++c) causal.push_back(2 * (2 * c + 1));
    EXPECT_DOUBLE_EQ(makespan(program, causal), json["makespan_causal"].get<double>());
    const std::vector<RankPeak> peak = peaks(order.schedule);
    for (std::size_t r = 0; r < peak.size(); ++r) {
      EXPECT_EQ(peak[r].in_flight, json["peak"][r]);
      EXPECT_EQ(peak[r].until_weight_gradient, json["peak_until_W"][r]);
      EXPECT_EQ(order.theory.in_flight.at(r), json["peak"][r]);
      EXPECT_EQ(max_partly_back(order.schedule.ranks[r], k), json["open_kv_gradients"][r]);
    }
    ++tested;
    if (HasFailure()) return;
  }
  EXPECT_EQ(tested, 190);
}

// (p - 1) / (m k v + p - 1) for every size, by simulation.
TEST(SequenceChunksTest, BubblesAreThoseOfTheTheoryAtEverySize) {
  const std::pair<const char*, Given> systems[] = {{"seq1f1b", {}},
                                                   {"seq1f1b", {{"variant", "split"}}},
                                                   {"seq1f1b", {{"variant", "interleaved"}, {"chunks", "3"}}},
                                                   {"slimpipe", {}},
                                                   {"slimpipe", {{"chunks", "2"}}}};
  int compared = 0;
  for (const auto& [system, options] : systems)
    for (int p = 1; p <= 5; ++p)
      for (int m = 1; m <= 7; ++m)
        for (const int k : {1, 2, 3, 6}) {
          Given given = options;
          given["sequence_chunks"] = std::to_string(k);
          SCOPED_TRACE(testing::Message() << system << testing::PrintToString(given) << " p=" << p << " m=" << m);
          try {
            const Order order = order_of(system, p, m, given);
            const Program program = program_of(order);
            const double end = makespan(program, std::vector<double>(static_cast<std::size_t>(k), 1));
            const double work = 3.0 * m * k * order.chain.problem.chunks();
            if (!order.theory.bubble_ratio) continue;
            EXPECT_NEAR(1 - work / end, *order.theory.bubble_ratio, 1e-12);
            ++compared;
          } catch (const InputError&) {
            // Groups that do not divide, or fewer chunks than ranks.
          }
        }
  EXPECT_GT(compared, 500);
}

TEST(SequenceChunksTest, WithoutChunksTheOrdersAreThoseOfOneForwardOneBackward) {
  const Given whole{{"sequence_chunks", "1"}};
  const auto text = [](const std::string& system, const Given& given) {
    return to_text(order_of(system, 4, 8, given).schedule);
  };
  EXPECT_EQ(text("seq1f1b", whole), text("1f1b", {}));
  EXPECT_EQ(text("seq1f1b", {{"sequence_chunks", "1"}, {"variant", "split"}}),
            text("zero_bubble", {{"variant", "h1"}}));
  EXPECT_EQ(text("seq1f1b", {{"sequence_chunks", "1"}, {"variant", "interleaved"}}), text("interleaved_1f1b", {}));
  EXPECT_EQ(text("slimpipe", whole).substr(0, 40), "rank 0: 0F0 0F1 0F2 0F3 0F4 0F5 0F6 0B0 ");
}

TEST(SequenceChunksTest, GroupsThatDoNotDivideAreRejected) {
  EXPECT_EQ(error_of([&] {
              order_of("seq1f1b", 3, 3, {{"variant", "interleaved"}, {"group", "released"}});
            }),
            "seq1f1b: a group of 3 chunks holds no whole number of sequences of 4; with group=released let "
            "sequence_chunks divide the ranks");
  EXPECT_EQ(error_of([&] {
              order_of("seq1f1b", 6, 3, {{"variant", "interleaved"}});
            }),
            "seq1f1b: 3 micro-batches of 4 chunks make no whole number of groups of 8; use a multiple of 2 "
            "micro-batches");
  EXPECT_EQ(error_of([&] {
              order_of("slimpipe", 5, 5, {{"chunks", "2"}});
            }),
            "slimpipe: 4 chunks of a sequence on 5 ranks with several stages each; set sequence_chunks to as many as "
            "there are ranks, or more");
}

TEST(SequenceChunksTest, PicturesNameTheChunk) {
  const Order order = order_of("seq1f1b", 2, 2, {{"sequence_chunks", "2"}});
  const Program program = program_of(order);
  const std::vector<DeviceId> devices{DeviceId(0), DeviceId(1)};
  const Simulation s = simulate(program, uniform_costs(2, 2, 2, 2), latency_cluster(2, Seconds(0)), devices, {});
  EXPECT_EQ(draw_schedule(s.trace),
            "rank 0  F0.0F0.1F1.0........B0.1----F1.1B0.0----....B1.1----B1.0----\n"
            "rank 1  ....F0.0F0.1B0.1----F1.0B0.0----F1.1B1.1----B1.0----........\n");
}

// A model that attends backwards only, on two ranks: what a chunk keeps, its time and its messages.
TEST(SequenceChunksTest, ALaterChunkTakesLongerAndKeepsNoMore) {
  const TestSetup setup("seq1f1b", {{"sequence_chunks", "3"}, {"cut", "even"}}, test_transformer(), 2, 4, 2);
  const Prepared& p = setup.prepared;
  EXPECT_EQ(p.plan.sequence_cut, (std::vector<std::int64_t>{0, 2, 4, 6}));
  const Costs costs = costs_of(p);
  const auto& parts = costs.chunk_parts.at(0);
  EXPECT_LT(parts[0].forward, parts[1].forward);
  EXPECT_LT(parts[1].forward, parts[2].forward);
  EXPECT_DOUBLE_EQ(parts[0].weight_gradient, parts[2].weight_gradient);
  EXPECT_EQ(costs.chunk_positions, (std::vector<double>(3, 1.0 / 3)));
  const StageMemory stage = stage_memory(p, {}, {}).at(0);
  ASSERT_EQ(stage.sequence_chunks.size(), 3u);
  EXPECT_EQ(stage.sequence_chunks[0].stash * 3, stage.stash);
  EXPECT_EQ(stage.sequence_chunks[2].stash, stage.sequence_chunks[0].stash);
  EXPECT_EQ(stage.weights, stage.sequence_chunks[1].weights);
}

// Where everything is in proportion to the positions, chunks of equal length take equal parts of the time.
TEST(SequenceChunksTest, ABalancedCutOfEqualWorkTakesEqualTimes) {
  TestSetup setup("seq1f1b", {{"sequence_chunks", "4"}}, transformer_regression(2, 16, 2, 32, 512), 2, 4, 2);
  setup.prepared.costs.launch = Seconds(0);
  const Costs costs = costs_of(setup.prepared);
  double sum = 0;
  for (const Costs::ChunkParts& part : costs.chunk_parts.at(0)) sum += part.forward;
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(SequenceChunksTest, ModelsWhoseSequencesCannotBeCutAreRejected) {
  EXPECT_EQ(error_of([&] { TestSetup("seq1f1b", {}, test_mlp(), 2, 4, 2); }),
            "seq1f1b: sequences of '" + test_mlp().name + "' cannot be cut into chunks: layer '" +
                test_mlp().layers[0].name +
                "' (Flatten) works on more than one position of a sequence; use a workload of causal attention, such "
                "as gpt_tiny, or another system");
  EXPECT_EQ(error_of([&] {
              TestSetup("slimpipe", {{"sequence_chunks", "7"}}, test_transformer(), 2, 4, 2);
            }),
            "sequence_chunks: 7 chunks of sequences of 6 positions; use at most as many chunks as there are "
            "positions");
}

TEST(SequenceChunksTest, WhatNeedsWholeSequencesIsRejected) {
  const Order order = order_of("seq1f1b", 2, 2, {});
  const ScheduleProblem& problem = order.chain.problem;
  const auto lowered = [&](const WeightRule& rule) {
    return lower(order.schedule, problem.graph, problem.placement, rule);
  };
  EXPECT_EQ(error_of([&] { lowered({.update = WeightRule::Update::every_backward}); }),
            "schedule: sequences are cut into chunks, and the system updates without a flush; leave sequences whole");
  EXPECT_EQ(error_of([&] { lowered({.recompute = WeightRule::Recompute::forward_weights}); }),
            "schedule: sequences are cut into chunks, and activations are recomputed; leave recomputation out");
}

}  // namespace
}  // namespace sluice
