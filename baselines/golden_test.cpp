// The schedules drawn in the comments of the systems' files, as text; and the published cases.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/core/json_reader.h"
#include "harness/core/system.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

// A system's own plan and order for a chain of equal layers, one for every stage.
struct Made {
  ScheduleProblem problem;
  Schedule schedule;
};

Made make(const std::string& name, int ranks, int microbatches, const Given& given = {}) {
  const System& system = find_system(name, "test");
  const Options options = resolve_options(system.options, given, "test");
  const int chunks = stages_per_rank(system, options);
  CostGraph layers{
      .model = "chain", .source = "test", .device = "d", .micro_batch = 1, .layers = {}};
  for (int i = 0; i < ranks * chunks; ++i)
    layers.layers.push_back({.name = "layer", .inputs = {i - 1}, .forward = Seconds(1)});
  const Cluster cluster = latency_cluster(ranks, Seconds(0));
  const Plan plan = system.plan(
      {layers, cluster, system.one_process ? 1 : ranks, microbatches, microbatches, {}}, options);
  const RankMap map = ranks_of(plan);
  Made made{{stage_graph(plan, layers), map.placement, static_cast<int>(map.devices.size()),
             microbatches},
            {}};
  made.schedule = system.schedule(made.problem, options);
  return made;
}

Schedule schedule_of(const std::string& name, int ranks, int microbatches,
                     const Given& given = {}) {
  return make(name, ranks, microbatches, given).schedule;
}

TEST(GoldenScheduleTest, GPipe) {
  EXPECT_EQ(to_text(schedule_of("gpipe", 3, 4)),
            "rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\n"
            "rank 1: 1F0 1F1 1F2 1F3 1B3 1B2 1B1 1B0\n"
            "rank 2: 2F0 2F1 2F2 2F3 2B3 2B2 2B1 2B0\n");
  EXPECT_EQ(to_text(schedule_of("gpipe", 3, 2, {{"backward", "fifo"}})),
            "rank 0: 0F0 0F1 0B0 0B1\n"
            "rank 1: 1F0 1F1 1B0 1B1\n"
            "rank 2: 2F0 2F1 2B0 2B1\n");
}

TEST(GoldenScheduleTest, OneForwardOneBackward) {
  EXPECT_EQ(to_text(schedule_of("one_f_one_b", 3, 4)),
            "rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
            "rank 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n"
            "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n");
}

TEST(GoldenScheduleTest, ZeroBubble) {
  EXPECT_EQ(to_text(schedule_of("zero_bubble", 3, 4)),
            "rank 0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
            "rank 1: 1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3\n"
            "rank 2: 2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3\n");
  EXPECT_EQ(to_text(schedule_of("zero_bubble", 3, 4, {{"variant", "h2"}})),
            "rank 0: 0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3\n"
            "rank 1: 1F0 1F1 1F2 1I0 1F3 1I1 1I2 1W0 1I3 1W1 1W2 1W3\n"
            "rank 2: 2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3\n");
}

TEST(GoldenScheduleTest, PipeDream) {
  EXPECT_EQ(to_text(schedule_of("pipedream", 3, 5)),
            "rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0B3 0B4\n"
            "rank 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1F4 1B3 1B4\n"
            "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4\n");
}

TEST(GoldenScheduleTest, DataParallelAndSingleDevice) {
  const System& data_parallel = find_system("data_parallel", "test");
  const Placement replicas{{{Rank(0), Rank(1), Rank(2)}}};
  EXPECT_EQ(to_text(data_parallel.schedule({chain(1), replicas, 3, 5}, {})),
            "rank 0: 0F0 0B0 0F3 0B3\n"
            "rank 1: 0F1 0B1 0F4 0B4\n"
            "rank 2: 0F2 0B2\n");
  EXPECT_EQ(to_text(schedule_of("single_device", 1, 3)), "rank 0: 0F0 0B0 0F1 0B1 0F2 0B2\n");
}

// The published cases of harness/testdata/schedules.json, made by independent generators: 64
// schedules at 4 settings of F/I/W and latency.
struct Published {
  std::string system;  // in the file
  std::string name;
  Given options;
  int cases;
};

void PrintTo(const Published& published, std::ostream* out) { *out << published.system; }

class PublishedScheduleTest : public testing::TestWithParam<Published> {};

int peak_waiting_for_weight_gradient(const std::vector<Op>& ops) {
  int now = 0, peak = 0;
  for (const Op& op : ops) {
    now += op.kind == OpKind::input_gradient;
    now -= op.kind == OpKind::weight_gradient;
    peak = std::max(peak, now);
  }
  return peak;
}

TEST_P(PublishedScheduleTest, OrderTimesPeaksAndGathersAgree) {
  int tested = 0;
  for (const auto& json : parse_json_file(SLUICE_SOURCE_DIR "/harness/testdata/schedules.json")) {
    if (json["system"] != GetParam().system) continue;
    const int p = json["p"];
    // Data-parallel cases count the micro-batches of one rank.
    const int m = json["m"].get<int>() * (GetParam().name == "fsdp" ? p : 1);
    const auto& costs = json["costs"];
    SCOPED_TRACE(GetParam().system + " p=" + std::to_string(p) + " m=" + std::to_string(m) +
                 " costs=" + costs.dump());
    Given given = GetParam().options;
    if (given.contains("chunks")) given["chunks"] = std::to_string(json["v"].get<int>());
    const Made made = make(GetParam().name, p, m, given);
    EXPECT_EQ(made.problem.graph.size(), json["stages"]);
    const int stages = json["stages"];
    const Program program =
        lower(made.schedule, made.problem.graph, made.problem.placement, WeightRule{});
    const Simulation s =
        simulate(program, uniform_costs(stages, costs["tF"], costs["tB"], costs["tW"]),
                 latency_cluster(p, Seconds(costs["latency"].get<double>())), identity_devices(p));
    EXPECT_DOUBLE_EQ(s.bubble.makespan, json["makespan"]);
    EXPECT_NEAR(s.bubble.bubble_ratio, json["bubble_ratio"], 1e-6);
    EXPECT_DOUBLE_EQ(s.bubble.max_span, json["max_span"]);
    EXPECT_NEAR(s.bubble.span_bubble, json["span_bubble"], 1e-6);
    const auto peak = peaks(made.schedule);
    const auto gathers = collectives(made.schedule, {.gather = Sharding::Gather::on_visit});
    for (std::size_t r = 0; r < peak.size(); ++r) {
      const auto& ops = made.schedule.ranks[r];
      EXPECT_EQ(nlohmann::json(step_texts(ops)), json["ops"][std::to_string(r)]);
      EXPECT_DOUBLE_EQ(s.bubble.idle[r], json["idle"][r]);
      EXPECT_EQ(peak[r].in_flight, json["peak"][r]);
      EXPECT_EQ(peak[r].until_weight_gradient, json["peak_until_W"][r]);
      EXPECT_EQ(peak_waiting_for_weight_gradient(ops), json["peak_pending_W"][r]);
      EXPECT_EQ(gathers[r].gathers.size(), json["ag_one_chunk_resident"][r]);
    }
    ++tested;
  }
  EXPECT_EQ(tested, GetParam().cases);
}

const std::vector<Published>& published() {
  static const std::vector<Published> list = {
      {"gpipe_lifo", "gpipe", {}, 12},
      {"gpipe_fifo", "gpipe", {{"backward", "fifo"}}, 8},
      {"1f1b", "1f1b", {}, 20},
      {"interleaved_1f1b_megatron", "interleaved_1f1b", {{"chunks", ""}}, 12},
      {"interleaved_1f1b_torch", "interleaved_1f1b", {{"chunks", ""}, {"rule", "torch"}}, 16},
      {"bfpp_fifo", "breadth_first", {{"chunks", ""}}, 16},
      {"bfpp_lifo_torch", "breadth_first", {{"chunks", ""}, {"backward", "lifo"}}, 8},
      {"zb_h1", "zero_bubble", {{"variant", "h1"}}, 12},
      {"zb_h2", "zero_bubble", {{"variant", "h2"}}, 12},
      {"zb_v", "zero_bubble", {{"variant", "v"}}, 12},
      {"dualpipe", "dualpipe", {{"variant", "bidirectional"}}, 12},
      {"dualpipe_v", "dualpipe", {{"variant", "v"}}, 12},
      {"chimera", "chimera", {}, 12},
      {"hanayo_w1", "hanayo", {{"waves", "1"}}, 12},
      {"hanayo_w2", "hanayo", {{"waves", "2"}}, 8},
      {"fsdp", "fsdp", {}, 8},
      {"zeropp_U2", "zeropp", {{"chunks", ""}, {"unit", "2"}}, 4},
      {"zeropp_U3", "zeropp", {{"chunks", ""}, {"unit", "3"}}, 8},
      {"zeropp_U4", "zeropp", {{"chunks", ""}, {"unit", "4"}}, 12},
      {"zeropp_U7", "zeropp", {{"chunks", ""}, {"unit", "7"}}, 12},
      {"zeropp_U8", "zeropp", {{"chunks", ""}, {"unit", "8"}}, 4},
      {"zeropp_nodefer_U4", "zeropp", {{"chunks", ""}, {"unit", "4"}, {"deferral", "none"}}, 4},
      {"zeropp_released_U3",
       "zeropp",
       {{"chunks", ""}, {"unit", "3"}, {"deferral", "released"}},
       8},
      {"zeropp_released_U7",
       "zeropp",
       {{"chunks", ""}, {"unit", "7"}, {"deferral", "released"}},
       4},
  };
  return list;
}

INSTANTIATE_TEST_SUITE_P(Systems, PublishedScheduleTest, testing::ValuesIn(published()),
                         [](const auto& test) { return "case_" + test.param.system; });

// layerpipe_style runs W on another rank than F and I, which no system here does.
TEST(PublishedScheduleTest, EveryCaseButLayerpipeIsGenerated) {
  int cases = 8;
  for (const Published& p : published()) cases += p.cases;
  EXPECT_EQ(cases, 256);
}

// The `versions` tables of harness/testdata/weights.json: per stage and direction [batch, version,
// .]; a case of several epochs drains the pipe between them.
TEST(PublishedVersionsTest, PipeDreamReadsTheTabulatedVersions) {
  const System& system = find_system("pipedream", "test");
  const std::map<std::string, std::string> weights = {
      {"pipedream", "stash"}, {"pipedream_vsync", "vertical_sync"}, {"naive", "naive"}};
  int tested = 0;
  const auto file = parse_json_file(SLUICE_SOURCE_DIR "/harness/testdata/weights.json");
  for (const auto& json : file["cases"]) {
    const auto rule = weights.find(json["system"]);
    if (rule == weights.end()) continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    const int stages = json["stages"], epochs = json.value("drained_epochs", 1);
    const int batches = json["batches"].get<int>() / epochs;
    const Program program =
        lower(schedule_of("pipedream", stages, batches), chain(stages), one_stage_per_rank(stages),
              system.weights(resolve_options(system.options, {{"weights", rule->second}}, "test")));
    for (int k = 0; k < stages; ++k) {
      const auto& table = json["versions"]["stage" + std::to_string(k)];
      for (const Instruction& i : program.ranks[static_cast<std::size_t>(k)]) {
        if (i.what > Do::backward) continue;
        const auto& rows = table[i.what == Do::forward ? "F" : "B"];
        for (int e = 0; e < epochs; ++e) {
          const auto& row = rows[i.micro.index() + static_cast<std::size_t>(e * batches)];
          ASSERT_EQ(row[0], i.micro.value + 1 + e * batches);
          EXPECT_EQ(row[1], i.version + e * batches) << to_text(i) << " of epoch " << e;
        }
      }
    }
    ++tested;
  }
  EXPECT_EQ(tested, 48);
}

}  // namespace
}  // namespace sluice
