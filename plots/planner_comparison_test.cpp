// Planners in the report: what each minimised, how long it searched, what its plan is worth.
#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "plots/charts.h"
#include "plots/report_tables.h"
#include "plots/synthetic_test.h"

namespace sluice {
namespace {

Record planned(const std::string& system, double seconds, const std::string& objective, double search_seconds,
               bool complete) {
  Record record = synthetic::record(system, 4, seconds, "virtual");
  record.plan = {.objective = 0.25,
                 .objective_name = objective,
                 .states = 12345,
                 .search_seconds = search_seconds,
                 .complete = complete,
                 .stages = {{}, {}, {}},
                 .edges = {{0, 2}, {1, 2}}};
  return record;
}

std::vector<Record> planners() {
  return {synthetic::record("single_device", 1, 0.4, "virtual"),
          planned("piper", 0.02, "slowest stage's seconds per micro-batch", 60, false),
          planned("graphpipe", 0.01, "slowest stage, per sample", 0.5, true),
          planned("gpipe", 0.03, "slowest stage", 0.001, true)};
}

TEST(PlannerComparison, TheTableSaysWhatEachSearchWas) {
  const std::vector<Record> records = planners();
  const std::string html = planner_table(compare(records).front());
  const std::size_t graphpipe = html.find("GraphPipe"), piper = html.find("Piper"), gpipe = html.find("GPipe</td>");
  ASSERT_NE(graphpipe, std::string::npos);
  EXPECT_LT(graphpipe, piper);  // the fastest plan first
  EXPECT_LT(piper, gpipe);
  EXPECT_EQ(html.find("Single device"), std::string::npos);
  const std::string first = html.substr(graphpipe, piper - graphpipe);
  EXPECT_NE(first.find("slowest stage, per sample"), std::string::npos);
  EXPECT_NE(first.find("<td>500 ms</td><td>12345</td><td>3</td><td>2</td>"), std::string::npos) << first;
  EXPECT_NE(first.find(">complete<"), std::string::npos);
  EXPECT_NE(html.substr(piper, gpipe - piper).find(">capped: best so far<"), std::string::npos);
  EXPECT_NE(html.substr(gpipe).find(">no search: balanced<"), std::string::npos);
  EXPECT_NE(html.find("simulated<br>update"), std::string::npos);
}

TEST(PlannerComparison, APlanThatDoesNotRunKeepsItsSearchAndSaysWhy) {
  std::vector<Record> records = planners();
  records[1].outcome = RecordOutcome::out_of_memory;
  const std::string html = planner_table(compare(records).front());
  const std::string piper = html.substr(html.find("Piper"));
  EXPECT_NE(piper.find(">out of memory<"), std::string::npos);
  EXPECT_NE(piper.find("<td>60 s</td>"), std::string::npos) << piper;
}

TEST(PlannerComparison, TheChartHasAPointForEverySearch) {
  const std::vector<Record> records = planners();
  const std::vector<Comparison> comparisons = compare(records);
  const Chart chart = planner_chart("planners", "Planners", comparisons);
  ASSERT_EQ(chart.spec["concat"].size(), 1u);
  const Json& values = chart.spec["concat"][0]["data"]["values"];
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0]["planner"], "GraphPipe");
  EXPECT_EQ(values[0]["ended"], "complete");
  EXPECT_EQ(values[0]["depth"], 2);
  EXPECT_EQ(values[1]["ended"], "capped");
  EXPECT_EQ(values[1]["search_seconds"], 60);
  EXPECT_EQ(chart.spec["concat"][0]["encoding"]["color"]["scale"]["range"].size(), 2u);
}

TEST(PlannerComparison, MicroBatchSizesOfAPlannerAreOneColour) {
  std::vector<Record> records = planners();
  records.push_back(records[2]);
  records.back().microbatches *= 2;
  records.back().digest += " of half the size";
  const Chart chart = planner_chart("planners", "Planners", compare(records));
  EXPECT_EQ(chart.spec["concat"][0]["data"]["values"].size(), 3u);
  EXPECT_EQ(chart.spec["concat"][0]["encoding"]["color"]["scale"]["domain"], Json::parse(R"(["GraphPipe", "Piper"])"));
}

TEST(PlannerComparison, OnePlannerThatSearchesIsNoChart) {
  const std::vector<Record> records = {planned("gpipe", 0.03, "slowest stage", 0.001, true),
                                       planned("graphpipe", 0.02, "slowest stage", 0.5, true)};
  EXPECT_TRUE(planner_chart("p", "P", compare(records)).spec.is_null());
}

TEST(PlannerComparison, BalancedChainsAloneAreNoComparisonOfPlanners) {
  const std::vector<Record> records = {planned("gpipe", 0.03, "slowest stage", 0.001, true),
                                       planned("dapple", 0.02, "slowest stage", 0.001, true)};
  EXPECT_EQ(planner_table(compare(records).front()), "");
  EXPECT_TRUE(planner_chart("p", "P", compare(records)).spec.is_null());
}

}  // namespace
}  // namespace sluice
