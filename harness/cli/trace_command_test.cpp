#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class TraceCommand : public Cli {
 protected:
  // The figures that sluice prints of a schedule, and those of the trace that it writes.
  std::pair<Json, Json> both(const Arguments& schedule) const {
    fs::remove(at("t.json"));
    Arguments arguments = {"schedule", "--json", "--trace", "t.json"};
    arguments.insert(arguments.end(), schedule.begin(), schedule.end());
    const Json printed = document(arguments);
    return {printed, document({"trace", "t.json", "--json"})};
  }
  static std::vector<double> idle_of(const Json& traced) {
    std::vector<double> idle;
    for (const Json& rank : traced["ranks"]) idle.push_back(rank["idle"].get<double>());
    return idle;
  }
};

std::string stored(const std::string& name) { return SLUICE_SOURCE_DIR "/harness/tests/data/traces/" + name; }

TEST_F(TraceCommand, GivesTheBubbleThatSluicePrintedOfTheScheduleItTraced) {
  const std::vector<Arguments> schedules = {
      {"-s", "gpipe", "-n", "3", "-m", "5", "--costs", "2/1/1"},
      {"-s", "1f1b", "-n", "4", "-m", "8", "--costs", "10/12/8,5/6/4,7/7/7,3/2/1+1"},
      {"-s", "interleaved_1f1b", "-n", "4", "-m", "8"},
      {"-s", "zero_bubble", "-O", "variant=v", "-n", "4", "-m", "8", "--costs", "3/4/2"},
      {"-s", "chimera", "-n", "4", "-m", "8"},
      {"-s", "dualpipe", "-n", "4", "-m", "10"},
      {"-s", "seq1f1b", "-n", "4", "-m", "8"},
      {"-s", "data_parallel", "-n", "2", "-m", "4"},
      {"-s", "pipedream", "-n", "3", "-m", "6"}};
  for (const Arguments& schedule : schedules) {
    SCOPED_TRACE(::testing::PrintToString(schedule));
    const auto [printed, traced] = both(schedule);
    EXPECT_NEAR(traced["makespan"].get<double>(), printed["makespan"].get<double>(), 1e-9);
    EXPECT_NEAR(traced["bubble_ratio"].get<double>(), printed["bubble_ratio"].get<double>(), 1e-12);
    EXPECT_NEAR(traced["span_bubble"].get<double>(), printed["span_bubble"].get<double>(), 1e-12);
    const std::vector<double> idle = idle_of(traced);
    ASSERT_EQ(idle.size(), printed["idle"].size());
    for (std::size_t r = 0; r < idle.size(); ++r) EXPECT_NEAR(idle[r], printed["idle"][r].get<double>(), 1e-9);
  }
}

TEST_F(TraceCommand, GivesBackTheCostsOfAZeroBubbleScheduleAndItsMakespan) {
  const auto [printed, traced] = both({"-s", "zero_bubble", "-n", "3", "-m", "6", "--costs", "3/4/2,5/1/1,2/2/1+0.5"});
  const Json& stages = traced["costs"]["stages"];
  const std::vector<std::vector<double>> costs = {{3, 4, 2}, {5, 1, 1}, {2, 2, 1}};
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(stages[s][std::string(1, "FIW"[k])].get<double>(), costs[s][k], 1e-9);
  EXPECT_NEAR(traced["costs"]["latency"].get<double>(), 0.5, 1e-9);
  EXPECT_NEAR(traced["imbalance"].get<double>(), 9 / (21.0 / 3), 1e-9);
  EXPECT_EQ(traced["orders"][0]["system"], "as traced");
  EXPECT_NEAR(traced["orders"][0]["makespan"].get<double>(), printed["makespan"].get<double>(), 1e-9);
}

// Two ranks, F/I/W of 1/1/1, a message a second: 1F1B of two micro-batches.
//   rank 0  F0 F1 __ __ BB0 __ BB1      rank 1  (from 2) F0 BB0 F1 BB1
// The messages: F0 is on its way from 1 to 2, F1 hidden, B0 from 5 to 6, B1 from 8 to 9.
TEST_F(TraceCommand, ExposedCommunicationIsWhatNoComputeHides) {
  const auto [printed, traced] = both({"-s", "1f1b", "-n", "2", "-m", "2", "--costs", "1/1/1+1"});
  EXPECT_NEAR(traced["makespan"].get<double>(), 11, 1e-9);
  EXPECT_NEAR(traced["ranks"][0]["exposed_communication"].get<double>(), 2, 1e-9);
  EXPECT_NEAR(traced["ranks"][1]["exposed_communication"].get<double>(), 1, 1e-9);
}

TEST_F(TraceCommand, ReplicatedStagesHaveABubbleAndNoOtherOrders) {
  const Finished plan = sluice(
      {"plan", "-s", "1f1b", "-w", "vgg16", "-c", "flat:4", "--data-parallel", "2", "--json", "--trace", "t.json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json traced = document({"trace", "t.json", "--json"});
  EXPECT_EQ(traced["costs"]["stages"].size(), 2u);
  EXPECT_EQ(traced["orders"].size(), 0u);
  ASSERT_EQ(traced["rejected"].size(), 1u);
  EXPECT_EQ(traced["rejected"][0], "2 stages on 4 ranks are replicated: other orders are simulated for one pipeline");
}

// The record of a simulated run and the trace of its update.
TEST_F(TraceCommand, GivesTheBubbleOfTheRecordOfARun) {
  const Finished run = sluice({"run", "-s", "zero_bubble", "-w", "vgg16", "-c", "flat:4", "-n", "4", "--clock",
                               "virtual", "--trace", "t.json", "-o", "r.jsonl"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json observed = records(at("r.jsonl")).back()["observed"];
  const Json traced = document({"trace", "t.json", "--json"});
  EXPECT_NEAR(traced["bubble_ratio"].get<double>(), observed["bubble_ratio"].get<double>(), 1e-9);
  EXPECT_NEAR(traced["span_bubble"].get<double>(), observed["span_bubble"].get<double>(), 1e-9);
}

TEST_F(TraceCommand, WritesCostsThatScheduleAndPlanRead) {
  const Finished f = sluice({"trace", stored("1f1b_rank1.json"), stored("1f1b_rank0.json"), "--out", "costs.json"});
  EXPECT_EQ(f.code, 0) << f.err;
  const auto all = lines(f.out);
  ASSERT_GT(all.size(), 6u);
  EXPECT_TRUE(all[0].starts_with("bubble ")) << all[0];
  EXPECT_TRUE(all[1].starts_with("exposed communication ")) << all[1];
  EXPECT_TRUE(all[2].starts_with("imbalance ")) << all[2];
  EXPECT_TRUE(all[3].starts_with("costs --costs ")) << all[3];
  EXPECT_TRUE(all[4].starts_with("fastest other order ")) << all[4];
  EXPECT_EQ(all[5], "");
  const Json traced = document({"trace", stored("1f1b_rank0.json"), stored("1f1b_rank1.json"), "--json"});
  const std::string latency = Json(traced["costs"]["latency"]).dump();
  const Json scheduled =
      document({"schedule", "-s", "1f1b", "-n", "2", "-m", "4", "--costs", "costs.json+" + latency, "--json"});
  EXPECT_EQ(scheduled["costs"]["stages"], traced["costs"]["stages"]);
  EXPECT_EQ(scheduled["makespan"], traced["orders"][0]["makespan"]);
  EXPECT_EQ(sluice({"plan", "-s", "1f1b", "-w", "costs.json", "-c", "flat:2"}).code, 0);
}

TEST_F(TraceCommand, SimulatesTheOrdersThatAreAskedFor) {
  const Json traced = document({"trace", stored("gpipe_rank0.json"), stored("gpipe_rank1.json"), "--system",
                                "gpipe,zero_bubble", "--set", "variant=h2", "--json"});
  ASSERT_EQ(traced["orders"].size(), 3u);
  EXPECT_EQ(traced["orders"][2]["options"]["variant"], "h2");
}

TEST_F(TraceCommand, BadInputIsOneError) {
  rejects({"trace"}, {"trace", "files"});
  rejects({"trace", "none.json"}, {"none.json", "no such file"});
  rejects({"trace", put("a.json", "{}")}, {"a.json", "traceEvents"});
  rejects({"trace", put("b.json.gz", "x")}, {"b.json.gz", "is not a gzip file"});
  rejects({"trace", stored("gpipe_rank0.json"), "--system", "gpip"}, {"gpip", "did you mean 'gpipe'"});
  rejects({"trace", stored("gpipe_rank0.json"), "--set", "foo=1"}, {"foo"});
  rejects({"trace", stored("gpipe_rank0.json"), "--forward", "("}, {"--forward", "regular expression"});
  rejects({"trace", stored("gpipe_rank0.json"), "--backward", "x"}, {"--forward"});
  rejects({"trace", stored("gpipe_rank0.json"), "--out", put("mine.txt", "my text")}, {"mine.txt"});
  rejects({"trace", stored("gpipe_rank0.json"), "--out", put("other.json", R"({"schema": 1})")}, {"other.json"});
  rejects({"schedule", "-s", "gpipe", "-n", "2", "--costs", "none.json"}, {"none.json", "no such file"});
  rejects({"schedule", "-s", "gpipe", "-n", "2", "--costs", put("t.json", "{}")}, {"t.json", "schema"});
  const auto cost =
      R"({"schema":"sluice/cost_graph/1","model":"m","source":"trace","device":"d","micro_batch":1,"layers":
    [{"name":"a","inputs":[-1],"forward":0,"input_gradient":0,"weight_gradient":0,"update":0,"parameters":0,
      "output":0}]})";
  rejects({"schedule", "-s", "gpipe", "-n", "1", "--costs", put("zero.json", cost)}, {"zero.json", "takes no time"});
}

}  // namespace
}  // namespace sluice
