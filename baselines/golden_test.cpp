// The schedules drawn in the comments of the systems' files, as text; and the published cases.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/core/json_reader.h"
#include "harness/core/system.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

Schedule schedule_of(const std::string& name, int ranks, int microbatches,
                     const Given& given = {}) {
  const System& system = find_system(name, "test");
  return system.schedule({chain(ranks), one_stage_per_rank(ranks), ranks, microbatches},
                         resolve_options(system.options, given, "test"));
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

struct Published {
  std::string system;  // in the file
  std::string name;
  Given options;
};

class PublishedScheduleTest : public testing::TestWithParam<Published> {};

TEST_P(PublishedScheduleTest, OrderTimesAndPeaksAgree) {
  int tested = 0;
  for (const auto& json : parse_json_file(SLUICE_SOURCE_DIR "/harness/testdata/schedules.json")) {
    if (json["system"] != GetParam().system) continue;
    const int p = json["p"], m = json["m"];
    const auto& costs = json["costs"];
    SCOPED_TRACE(GetParam().system + " p=" + std::to_string(p) + " m=" + std::to_string(m) +
                 " costs=" + costs.dump());
    const Schedule schedule = schedule_of(GetParam().name, p, m, GetParam().options);
    for (int r = 0; r < p; ++r) {
      nlohmann::json ops = nlohmann::json::array();
      for (const Op& op : schedule.ranks[static_cast<std::size_t>(r)]) ops.push_back(to_text(op));
      EXPECT_EQ(ops, json["ops"][std::to_string(r)]);
    }
    const Program program = lower(schedule, chain(p), one_stage_per_rank(p), WeightRule{});
    const Simulation s =
        simulate(program, uniform_costs(p, costs["tF"], costs["tB"], costs["tW"]),
                 latency_cluster(p, Seconds(costs["latency"].get<double>())), identity_devices(p));
    EXPECT_DOUBLE_EQ(s.bubble.makespan, json["makespan"]);
    EXPECT_NEAR(s.bubble.bubble_ratio, json["bubble_ratio"], 1e-6);
    EXPECT_DOUBLE_EQ(s.bubble.max_span, json["max_span"]);
    EXPECT_NEAR(s.bubble.span_bubble, json["span_bubble"], 1e-6);
    const auto peak = peaks(schedule);
    for (std::size_t r = 0; r < peak.size(); ++r) {
      EXPECT_DOUBLE_EQ(s.bubble.idle[r], json["idle"][r]);
      EXPECT_EQ(peak[r].in_flight, json["peak"][r]);
      EXPECT_EQ(peak[r].until_weight_gradient, json["peak_until_W"][r]);
    }
    ++tested;
  }
  EXPECT_GE(tested, 8);
}

INSTANTIATE_TEST_SUITE_P(Systems, PublishedScheduleTest,
                         testing::Values(Published{"gpipe_lifo", "gpipe", {}},
                                         Published{"gpipe_fifo", "gpipe", {{"backward", "fifo"}}},
                                         Published{"1f1b", "1f1b", {}},
                                         Published{"zb_h1", "zero_bubble", {}},
                                         Published{"zb_h2", "zero_bubble", {{"variant", "h2"}}}),
                         [](const auto& test) { return "case_" + test.param.system; });

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
