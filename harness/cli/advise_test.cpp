#include "harness/cli/advise.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

AdviceRequest advice_request(const std::vector<std::string>& systems) {
  AdviceRequest request;
  request.workload = "gpt_tiny";  // 4 heads, 1000 words
  request.cluster = "flat:4";
  request.costs = "analytic";
  request.microbatches = {4};
  for (const std::string& name : systems) request.systems.push_back(&find_system(name, "test"));
  request.seconds = 600;
  return request;
}

TEST(Advise, TriesEveryDegreeOfPipelinesAndOfDevicesThatShareLayers) {
  std::set<std::pair<int, int>> tried;
  const Advice advice = advise(advice_request({"1f1b"}));
  for (const Candidate& c : advice.candidates) {
    EXPECT_TRUE(c.fits()) << c.refused;
    tried.emplace(c.request.data_parallel, c.request.tensor);
  }
  EXPECT_EQ(tried, (std::set<std::pair<int, int>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 4}}));
}

TEST(Advise, ScoresAsThePlanOfTheSameRequest) {
  const Advice advice = advise(advice_request({"gpipe", "1f1b"}));
  bool shared = false;
  for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
    const Candidate& c = advice.candidates[i];
    const EvaluatedPlan e = evaluate_plan(plan_case(c.request));
    EXPECT_DOUBLE_EQ(c.samples_per_second, e.samples_per_second()) << flags_text(c);
    EXPECT_EQ(c.ranks_used, 4);
    EXPECT_EQ(c.stages * c.request.tensor * c.request.data_parallel, 4) << flags_text(c);
    EXPECT_NEAR(c.split.update(), c.update_seconds, 1e-9 + 0.001 * c.update_seconds);
    EXPECT_LE(c.samples_per_second, advice.candidates[i == 0 ? 0 : i - 1].samples_per_second);
    shared = shared || c.request.tensor > 1;
  }
  EXPECT_TRUE(shared);
}

TEST(Advise, FlagsSayTheDegrees) {
  Candidate c;
  c.request.system = &find_system("1f1b", "test");
  c.request.workload = "gpt_tiny";
  c.request.cluster = "flat:8";
  c.request.costs = "analytic";
  c.request.microbatches = 4;
  c.request.data_parallel = 2;
  c.request.tensor = 2;
  EXPECT_EQ(flags_text(c), "-s one_f_one_b -w gpt_tiny -c flat:8 -m 4 --data-parallel 2 --tensor 2");
  c.request.precision = Precision::mixed;
  c.request.attention = AttentionScores::kept;
  EXPECT_TRUE(flags_text(c).ends_with(" --tensor 2 --precision mixed --attention kept"));
}

TEST(Advise, CountsInThePrecisionAskedFor) {
  AdviceRequest request = advice_request({"1f1b"});
  request.tensor = {1};
  const Advice whole = advise(request);
  request.precision = Precision::mixed;
  const Advice mixed = advise(request);
  ASSERT_EQ(mixed.candidates.size(), whole.candidates.size());
  EXPECT_GT(mixed.candidates[0].samples_per_second, whole.candidates[0].samples_per_second);
  request.cluster = "pipedream_c";
  EXPECT_EQ(error_of([&] { advise(request); }),
            "device 'TitanX-Maxwell-12GB': states no peak in 16 bit; give its flops_16 in the cluster's file, or use "
            "fp32");
  request.costs = "profile";
  EXPECT_EQ(error_of([&] { advise(request); }),
            "--precision: 'profile' costs are of layers that compute in fp32; use analytic ones");
}

// 1F1B without a flush on four stages: the first stage has made three updates between a batch's forward and its own.
TEST(Advise, StalenessIsThatOfTheOrder) {
  const Advice advice = advise(advice_request({"pipeoptim", "1f1b"}));
  bool asynchronous = false;
  for (const Candidate& c : advice.candidates) {
    ASSERT_TRUE(c.fits()) << c.refused;
    EXPECT_EQ(c.staleness, c.request.system->synchronous ? 0 : 3);
    asynchronous = asynchronous || !c.request.system->synchronous;
  }
  EXPECT_TRUE(asynchronous);
}

TEST(Advise, SystemsThatOnlyInferSaySo) {
  const Advice advice = advise(advice_request({"edgepipe"}));
  ASSERT_FALSE(advice.candidates.empty());
  for (const Candidate& c : advice.candidates) EXPECT_EQ(c.refused, "plans inference, and has no order for training");
}

TEST(PlanOfGroups, IsOfStagesWhoseDevicesShareTheirLayers) {
  PlanRequest request{&find_system("1f1b", "test"), {}, "gpt_tiny", "flat:4", "analytic", {}, {}, 4};
  request.tensor = 2;
  const EvaluatedPlan e = evaluate_plan(plan_case(request));
  const PlanDescription shown = description(e);
  ASSERT_EQ(shown.stages.size(), 2u);
  EXPECT_EQ(shown.stages[0].tensor, 2);
  EXPECT_EQ(shown.stages[1].devices, (std::vector<int>{2, 3}));
  ASSERT_TRUE(shown.module_names);
  EXPECT_EQ(shown.module_names->front().front(), "embedding");
  request.tensor = 3;
  EXPECT_EQ(error_of([&] { plan_case(request); }),
            "--tensor: groups of 3 devices do not divide 4 ranks; choose ranks that are a multiple of 3");
}

TEST(PlanRequests, OfASystemThatOnlyInfersAreOfInference) {
  const PlanRequest request{&find_system("edgepipe", "test"), {}, "vgg16", "flat:4", "analytic", {}, {}, {}};
  EXPECT_GT(evaluate_plan(plan_case(request)).samples_per_second(), 0);
}

}  // namespace
}  // namespace sluice
