// Changed inputs: what the changes are, which verdicts turn, and that committed figures turn except for those excused.
#include "harness/claims/mutation.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/case/test_profiles.h"
#include "harness/claims/claim_page.h"

namespace sluice {
namespace {

const std::filesystem::path kFolder = SLUICE_SOURCE_DIR "/results/claims";

double changed_figure(const Json& scenario, const std::string& what) {
  for (const Mutation& mutation : mutations(scenario))
    if (mutation.what == what) return *read_scenario(JsonReader(mutation.scenario, "changed"))(test_profiles()).number;
  ADD_FAILURE() << "no change '" << what << "'";
  return 0;
}

Json schedule(const std::string& measure) {
  return {{"kind", "schedule"}, {"system", "gpipe"}, {"ranks", 2}, {"microbatches", 4}, {"measure", measure}};
}

TEST(Mutations, ChangeTimesRanksMicroBatchesAndOrderOfASchedule) {
  // GPipe: m + p - 1 slots of F + I + W = 3; the bubble is (p - 1) / (m + p - 1).
  EXPECT_NEAR(changed_figure(schedule("makespan"), "costs x 1.3"), 1.3 * 5 * 3, 1e-9);
  EXPECT_NEAR(changed_figure(schedule("makespan"), "costs / 1.3"), 5 * 3 / 1.3, 1e-9);
  EXPECT_NEAR(changed_figure(schedule("bubble"), "one rank more"), 2.0 / 6, 1e-9);
  EXPECT_NEAR(changed_figure(schedule("bubble"), "half of the ranks"), 0, 1e-9);
  EXPECT_NEAR(changed_figure(schedule("bubble"), "one micro-batch more"), 1.0 / 6, 1e-9);
  EXPECT_EQ(changed_figure(schedule("in_flight"), "the order of one_f_one_b"), 2);  // of GPipe 4
  Json of_two_times = schedule("makespan");
  of_two_times["F"] = {1, 2};  // 1 + 4 * 2, then 4 * 2 + 2: the backward of the last micro-batch comes first
  EXPECT_NEAR(changed_figure(of_two_times, "costs x 1.3"), 1.3 * (9 + 10), 1e-9);
}

TEST(Mutations, OfARatioChangeTheNumeratorAlone) {
  const Json ratio = {{"kind", "ratio"},
                      {"both", schedule("makespan")},
                      {"numerator", {{"microbatches", 8}}},
                      {"denominator", Json::object()}};  // 9 / 5
  EXPECT_NEAR(changed_figure(ratio, "costs x 1.3"), 1.3 * 9 / 5, 1e-9);
  EXPECT_NEAR(changed_figure(ratio, "one rank more"), 10.0 / 5, 1e-9);
  EXPECT_NEAR(changed_figure(ratio, "numerator and denominator exchanged"), 5.0 / 9, 1e-9);
}

TEST(Mutations, OfSeveralScenariosChangeEach) {
  const Json sum = {{"kind", "sum"},
                    {"both", schedule("makespan")},
                    {"of", {{"four", Json::object()}, {"eight", {{"microbatches", 8}}}}}};
  EXPECT_NEAR(changed_figure(sum, "costs x 1.3"), 1.3 * (15 + 27), 1e-9);
}

TEST(Mutations, OfAFormulaChangeItsArguments) {
  const Json formula = {{"kind", "formula"}, {"formula", "breadth-first overhead"}, {"p", 4}, {"m", 6}, {"v", 1}};
  EXPECT_NEAR(changed_figure(formula, "one rank more"), 4.0 / 6, 1e-12);
  EXPECT_NEAR(changed_figure(formula, "m x 1.3"), 3 / 7.8, 1e-12);
}

double unchanged_figure(const Json& scenario) {
  return *read_scenario(JsonReader(scenario, "unchanged"))(test_profiles()).number;
}

TEST(Mutations, OfATransformerComputesLongerAndCommunicatesAsBefore) {
  const Json one = {{"kind", "transformer"},
                    {"layers", 4},
                    {"hidden", 1024},
                    {"heads", 16},
                    {"sequence", 1024},
                    {"kernels", "a100_sxm_bf16"},
                    {"batch", 4},
                    {"micro_batch", 4},
                    {"measure", "iteration_ms"}};
  EXPECT_NEAR(changed_figure(one, "costs x 1.3") / unchanged_figure(one), 1.3, 1e-9);
  Json divided = one;  // sums over the four on NVLink
  divided["tensor"] = 4;
  const double longer = changed_figure(divided, "costs x 1.3") / unchanged_figure(divided);
  EXPECT_LT(longer, 1.29);
  EXPECT_GT(longer, 1.1);
  Json analytic = one;
  analytic.erase("kernels");
  EXPECT_NEAR(changed_figure(analytic, "costs / 1.3") * 1.3 / unchanged_figure(analytic), 1, 1e-9);
  analytic["measure"] = "parameters_billions";
  EXPECT_EQ(changed_figure(analytic, "costs x 1.3"), unchanged_figure(analytic));
}

TEST(Mutations, OfRecordsChangeWhatWasMeasured) {
  const auto best = [](const std::string& metric) {
    return Json{{"kind", "records"},
                {"records", "orders.jsonl"},
                {"where", {{"system", "data_parallel"}, {"microbatches", 8}}},
                {"metric", metric}};
  };
  for (const std::string metric : {"throughput", "peak_memory"}) {
    const double change = changed_figure(best(metric), "costs x 1.3") / unchanged_figure(best(metric));
    EXPECT_NEAR(change, metric == "throughput" ? 1 / 1.3 : 1.3, 1e-6) << metric;
  }
  EXPECT_EQ(changed_figure(best("batch"), "costs x 1.3"), 64);
}

PaperOutcomes bubbles(double tolerance) {
  Json document = Json::parse(R"({"title": "A paper", "citation": "Somebody, 2020", "groups": [
    {"name": "bubbles", "kind": "formula", "source": "Table 1", "evidence": "A", "what": "bubble",
     "scenario": {"kind": "schedule", "system": "gpipe", "microbatches": 4, "measure": "bubble"},
     "claims": [{"name": "two", "published": 0.2, "scenario": {"ranks": 2}},
                {"name": "three", "published": 0.3, "scenario": {"ranks": 3}},
                {"name": "four", "published": 0.4, "scenario": {"ranks": 4}},
                {"name": "order", "order": ["two", "three", "four"]}]}]})");
  document["groups"][0]["tolerance"] = {{"absolute", tolerance}, {"reason", "of this test"}};
  PaperOutcomes paper{claims_from_json(document, "paper", "paper.json"), {}};
  paper.outcomes = run_claims(paper.claims, test_profiles());
  return paper;
}

TEST(Mutate, AFigureWithinItsToleranceWhateverIsChangedIsListedWithTheChanges) {
  const PaperOutcomes paper = bubbles(10);
  const MutationReport report = mutate(paper.claims, paper.outcomes, test_profiles());
  EXPECT_EQ(report.reproduced, 4);
  ASSERT_EQ(report.unmoved.size(), 3u);  // the order turns
  EXPECT_EQ(report.unmoved[0].name, "two");
  EXPECT_EQ(report.unmoved[0].tried[0], "costs x 1.3");
  EXPECT_EQ(std::ranges::count(report.unmoved[0].tried, "one rank more"), 1);
}

TEST(Mutate, OnlyReproducedFiguresAreMutated) {
  const PaperOutcomes paper = bubbles(0.04);  // ours 1/5, 1/3 and 3/7
  const MutationReport report = mutate(paper.claims, paper.outcomes, test_profiles());
  EXPECT_EQ(report.reproduced, 4);
  EXPECT_TRUE(report.unmoved.empty());
  const PaperOutcomes exact = bubbles(0.001);
  EXPECT_EQ(mutate(exact.claims, exact.outcomes, test_profiles()).reproduced, 2);  // "two", and the order
}

using Names = std::set<std::string>;  // "paper, group, name"

TEST(Mutate, CommittedFiguresTurnButForThoseExcused) {
  Names excused, unmoved;
  const std::string file = SLUICE_SOURCE_DIR "/harness/claims/testdata/unmoved.json";
  const Json list = parse_json_file(file);
  for (const Json& one : list) {
    EXPECT_FALSE(one["reason"].get<std::string>().empty());
    excused.insert(one["paper"].get<std::string>() + ", " + one["group"].get<std::string>() + ", " +
                   one["name"].get<std::string>());
  }
  for (const PaperOutcomes& paper : stored_papers(kFolder))
    for (const UnmovedClaim& claim : mutate(paper.claims, paper.outcomes, test_profiles()).unmoved)
      unmoved.insert(paper.claims.paper + ", " + claim.group + ", " + claim.name);
  EXPECT_EQ(unmoved, excused) << "; see: sluice reproduce --all --mutate";
}

}  // namespace
}  // namespace sluice
