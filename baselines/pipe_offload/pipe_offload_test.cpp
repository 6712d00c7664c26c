// PipeOffload's order and copies against those of an independent generator (harness/tests/data/pipe_offload.json).
#include <gtest/gtest.h>

#include "baselines/pipe_offload/copy_plan.h"
#include "baselines/pipe_offload/lifetime_plan.h"
#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/memory.h"

namespace sluice {

extern const System pipe_offload;

namespace {

struct OffloadedChain {
  ScheduleProblem problem;
  Schedule schedule;
  Options options;
  Offload moves() const { return pipe_offload.offload(problem, schedule, options); }
};

OffloadedChain chain_of(int ranks, int microbatches, const std::map<std::string, std::string>& given) {
  OffloadedChain made;
  made.options = resolve_options(pipe_offload.options, given, "test");
  const StageCost unit{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  made.problem =
      uniform_chain(pipe_offload, made.options, latency_cluster(ranks, Seconds(0)), ranks, microbatches, unit).problem;
  made.schedule = pipe_offload.schedule(made.problem, made.options);
  return made;
}

// Of every rank, activations of one stage.
std::vector<int> held_at_most(const OffloadedChain& made, const Offload& moves) {
  const Program program = lower(made.schedule, made.problem.graph, made.problem.placement, {}, {}, {}, moves);
  for (const Violation& fault : check(program)) ADD_FAILURE() << fault.text;
  std::vector<int> result;
  for (const RankMemory& rank : memory(
           program, std::vector<StageMemory>(made.problem.graph.size(), {.stash = Bytes(1), .weight_stash = Bytes(1)})))
    result.push_back(static_cast<int>(rank.peak.activations.value));
  return result;
}

TEST(PipeOffloadTest, CopiesAndPeaksAreThoseOfTheGenerator) {
  const Json data = parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/pipe_offload.json");
  int compared = 0, without_room = 0;
  for (const auto& c : data["cases"]) {
    const int p = c["p"].get<int>(), m = c["m"].get<int>(), v = c["v"].get<int>(), n = c["chunks"].get<int>();
    const int group = c["group"].get<int>(), percent = static_cast<int>(c["ratio"].get<double>() * 100);
    SCOPED_TRACE(c.dump().substr(0, 120));
    const OffloadedChain made = chain_of(p, m,
                                         {{"chunks", std::to_string(v)},
                                          {"offloaded", std::to_string(n)},
                                          {"group", std::to_string(group)},
                                          {"copy_percent", std::to_string(percent)}});
    double makespan = 0;
    for (const auto& ops : timed(made.problem, made.schedule)) makespan = std::max(makespan, ops.back().end);
    EXPECT_DOUBLE_EQ(makespan, c["makespan"].get<double>());
    const auto plan = plan_copies(made.problem, made.schedule, n, 0.03 * percent);
    if (c.contains("no_room")) {
      EXPECT_FALSE(plan);
      EXPECT_THROW(made.moves(), InputError);
      ++without_room;
      continue;
    }
    ASSERT_TRUE(plan);
    for (int r = 0; r < p; ++r) {
      EXPECT_EQ(plan->copies[r].size(), c["offloads"].at(r).get<std::size_t>());
      for (std::size_t k = 0; c.contains("plan") && k < plan->copies[r].size(); ++k) {
        const PlannedCopy& copy = plan->copies[r][k];
        const Json& expected = c["plan"].at(r).at(k);
        EXPECT_EQ(to_text(forward_op(copy.stage.value, copy.micro.value)), expected[0].get<std::string>());
        EXPECT_NEAR(copy.out_start, expected[1].get<double>(), 1e-6);
        EXPECT_NEAR(copy.out_end, expected[2].get<double>(), 1e-6);
        EXPECT_NEAR(copy.back_start, expected[3].get<double>(), 1e-6);
        EXPECT_NEAR(copy.back_end, expected[4].get<double>(), 1e-6);
      }
    }
    EXPECT_EQ(held_at_most(made, {}), c["peak_before"].get<std::vector<int>>());
    EXPECT_EQ(held_at_most(made, made.moves()), c["peak_after"].get<std::vector<int>>());
    ++compared;
  }
  EXPECT_EQ(compared, 16);
  EXPECT_EQ(without_room, 4);
}

TEST(PipeOffloadTest, OneStageARankIs1F1B) {
  const OffloadedChain made = chain_of(3, 4, {{"chunks", "1"}});
  EXPECT_EQ(to_text(made.schedule),
            "rank 0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
            "rank 1: 1F0 1F1 1I0 1W0 1F2 1I1 1W1 1F3 1I2 1W2 1I3 1W3\n"
            "rank 2: 2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3\n");
}

TEST(PipeOffloadTest, AsManyStagesMoveAsThereIsRoomFor) {
  // Of the generator's cases: with copies of half an F + I + W three of four stages have room, of all of it one.
  for (const auto& [percent, group, stages] : {std::tuple{"50", "4", "3"}, {"100", "8", "1"}}) {
    const std::map<std::string, std::string> given = {{"chunks", "4"}, {"group", group}, {"copy_percent", percent}};
    auto limited = given;
    limited["offloaded"] = stages;
    EXPECT_EQ(chain_of(8, 32, given).moves().ranks, chain_of(8, 32, limited).moves().ranks);
  }
}

// Copies of about an F.
TEST(PipeOffloadTest, TheLongestLivesForTheirSizeMoveUntilTheMemoryHolds) {
  const std::map<std::string, std::string> given = {{"chunks", "2"}, {"by", "lifetime"}, {"copy_percent", "33"}};
  const std::vector<int> before = held_at_most(chain_of(4, 16, given), {});
  EXPECT_EQ(before, (std::vector<int>{8, 7, 6, 5}));
  std::vector<int> fewest;
  std::size_t max_moves = 0;
  for (const int memory : {0, 7, 6, 5}) {
    auto limited = given;
    limited["memory"] = std::to_string(memory);
    const OffloadedChain made = chain_of(4, 16, limited);
    const Offload moves = made.moves();
    const std::vector<int> after = held_at_most(made, moves);
    std::size_t count = 0;
    for (const auto& rank : moves.ranks) count += rank.size();
    if (memory == 0) {
      fewest = after;
      max_moves = count;
      EXPECT_LE(std::ranges::max(after), 5);
      continue;
    }
    EXPECT_LE(std::ranges::max(after), memory);
    EXPECT_LT(count, max_moves);
    // A rank that holds no more moves nothing.
    for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(moves.ranks[r].empty(), before[r] <= memory) << r;
  }
}

TEST(PipeOffloadTest, GroupsThatAreTooSmallAndStagesThatAreNotThereAreRejected) {
  EXPECT_THROW(chain_of(4, 8, {{"group", "1"}}), InputError);
  EXPECT_THROW(chain_of(4, 8, {{"offloaded", "3"}}).moves(), InputError);
}

}  // namespace
}  // namespace sluice
