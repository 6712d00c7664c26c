// The published cases of harness/tests/data/schedules.json: 64 schedules at 4 cost settings each,
// made by independent generators and an independent simulator. Here: the virtual clock on their
// ops.
//
// A micro-batch whose way over the ranks differs from another's (Chimera and DualPipe run half of
// them the other way round, FSDP gives every rank its own) becomes a chain of its own in the stage
// graph, so every stage has one rank, and one more where its W run on another (`layerpipe_style`).
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <map>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

struct Case {
  StageGraph graph;
  Placement placement;
  Schedule schedule;
};

Case case_of(const Json& json) {
  const int stages = json["stages"].get<int>();
  Case c;
  std::map<int, std::map<int, int>> way;     // micro-batch -> stage -> rank
  std::map<int, Rank> weight_gradient_rank;  // stage -> rank of its W
  std::string text;
  for (std::size_t r = 0; r < json["ops"].size(); ++r) {
    text += "rank " + std::to_string(r) + ":";
    for (const Json& step : json["ops"][std::to_string(r)]) text += " " + step.get<std::string>();
    text += "\n";
  }
  c.schedule = parse_schedule(text);
  for (std::size_t r = 0; r < c.schedule.ranks.size(); ++r)
    for (const Op& op : c.schedule.ranks[r])
      if (op.kind != OpKind::weight_gradient) way[op.micro.value][op.stage.value] = static_cast<int>(r);
  for (std::size_t r = 0; r < c.schedule.ranks.size(); ++r)
    for (const Op& op : c.schedule.ranks[r])
      if (op.kind == OpKind::weight_gradient && way[op.micro.value][op.stage.value] != static_cast<int>(r))
        weight_gradient_rank[op.stage.value] = Rank(r);
  for (int s = 0; s < stages && !weight_gradient_rank.empty(); ++s)
    c.placement.weight_gradient_ranks.push_back(weight_gradient_rank.at(s));
  std::map<std::map<int, int>, int> chain_of;  // way -> number of its chain
  std::map<int, std::pair<int, int>> renamed;  // micro-batch -> (chain, micro-batch of it)
  std::map<int, int> length;                   // of each chain, micro-batches
  for (const auto& [micro, ranks] : way) {
    const auto [found, fresh] = chain_of.try_emplace(ranks, static_cast<int>(chain_of.size()));
    if (fresh)
      for (const auto& [stage, rank] : ranks) c.placement.stages.push_back({Rank(rank)});
    renamed[micro] = {found->second, length[found->second]++};
  }
  c.schedule.microbatches = length[0];
  for (auto& ops : c.schedule.ranks)
    for (Op& op : ops) {
      const auto [number, micro] = renamed[op.micro.value];
      op.stage.value += number * stages;
      op.micro.value = micro;
    }
  std::vector<std::pair<StageId, StageId>> edges;
  const int chains = static_cast<int>(chain_of.size());
  for (int k = 0; k < chains; ++k)
    for (int s = 0; s + 1 < stages; ++s) edges.push_back({StageId(k * stages + s), StageId(k * stages + s + 1)});
  c.graph = stage_graph(chains * stages, edges, "vectors");
  return c;
}

class SchedulesVectorTest : public testing::TestWithParam<std::string> {
 protected:
  static const Json& vectors() {
    static const Json json = parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/schedules.json");
    return json;
  }
};

TEST_P(SchedulesVectorTest, SimulatesToThePublishedFigures) {
  int tested = 0;
  for (const auto& json : vectors()) {
    if (json["system"] != GetParam()) continue;
    SCOPED_TRACE(GetParam() + " p=" + json["p"].dump() + " m=" + json["m"].dump() + " costs=" + json["costs"].dump());
    const Case c = case_of(json);
    const auto found = check(c.schedule, c.graph, c.placement);
    ASSERT_TRUE(found.empty()) << found.front().text;
    const Program program = lower(c.schedule, c.graph, c.placement, WeightRule{});
    const int ranks = static_cast<int>(program.rank_count());
    const auto& costs = json["costs"];
    const Simulation s =
        simulate(program,
                 uniform_costs(static_cast<int>(c.graph.size()), costs["tF"].get<double>(), costs["tB"].get<double>(),
                               costs["tW"].get<double>()),
                 latency_cluster(ranks, Seconds(costs["latency"].get<double>())), identity_devices(ranks));
    EXPECT_DOUBLE_EQ(s.bubble.makespan, json["makespan"].get<double>());
    EXPECT_NEAR(s.bubble.bubble_ratio, json["bubble_ratio"].get<double>(), 1e-6);
    EXPECT_DOUBLE_EQ(s.bubble.max_span, json["max_span"].get<double>());
    EXPECT_NEAR(s.bubble.span_bubble, json["span_bubble"].get<double>(), 1e-6);
    const auto peak = peaks(c.schedule);
    for (std::size_t r = 0; r < peak.size(); ++r) {
      EXPECT_DOUBLE_EQ(s.bubble.idle[r], json["idle"][r].get<double>());
      EXPECT_EQ(peak[r].in_flight, json["peak"][r]);
      EXPECT_EQ(peak[r].until_weight_gradient, json["peak_until_W"][r]);
    }
    ++tested;
  }
  EXPECT_GE(tested, 4);
}

INSTANTIATE_TEST_SUITE_P(Systems, SchedulesVectorTest,
                         testing::Values("gpipe_lifo", "gpipe_fifo", "1f1b", "interleaved_1f1b_megatron",
                                         "interleaved_1f1b_torch", "bfpp_fifo", "bfpp_lifo_torch", "zb_h1", "zb_h2",
                                         "zb_v", "dualpipe", "dualpipe_v", "chimera", "hanayo_w1", "hanayo_w2", "fsdp",
                                         "layerpipe_style", "zeropp_U2", "zeropp_U3", "zeropp_U4", "zeropp_U7",
                                         "zeropp_U8", "zeropp_nodefer_U4", "zeropp_released_U7", "zeropp_released_U3"),
                         [](const auto& test) { return test.param; });

TEST_F(SchedulesVectorTest, CoversAll) {
  std::map<std::string, int> count;
  for (const auto& json : vectors()) ++count[json["system"].get<std::string>()];
  EXPECT_EQ(vectors().size(), 256u);
  EXPECT_EQ(count.size(), 25u);
  EXPECT_EQ(count["layerpipe_style"], 8);
}

}  // namespace
}  // namespace sluice
