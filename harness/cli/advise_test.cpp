#include "harness/cli/advise.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/base/expect_error.h"
#include "harness/cli/case_flags.h"

namespace sluice {
namespace {

AdviceRequest advice_request(const std::vector<std::string>& systems) {
  // 4 heads, 1000 words
  AdviceRequest request{
      entry_of({{{"workload", "gpt_tiny"}, {"cluster", "flat:4"}}, {}}, timed_only()), {4}, {}, {}, 600};
  for (const std::string& name : systems) request.systems.push_back(&find_system(name, "test"));
  return request;
}

TEST(Advise, TriesEveryDegreeOfPipelinesAndOfDevicesThatShareLayers) {
  std::set<std::pair<int, int>> tried;
  const Advice advice = advise(advice_request({"1f1b"}));
  for (const Candidate& c : advice.candidates) {
    EXPECT_TRUE(c.fits()) << c.refused;
    tried.emplace(c.count("data_parallel"), c.count("tensor"));
  }
  EXPECT_EQ(tried, (std::set<std::pair<int, int>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 4}}));
}

TEST(Advise, ScoresAsThePlanOfTheSameRequest) {
  const Advice advice = advise(advice_request({"gpipe", "1f1b"}));
  bool shared = false;
  for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
    const Candidate& c = advice.candidates[i];
    const EvaluatedPlan e = evaluate_plan(resolve(c.entry));
    EXPECT_DOUBLE_EQ(c.samples_per_second, e.samples_per_second()) << plan_line(c);
    EXPECT_EQ(c.ranks_used, 4);
    EXPECT_EQ(c.stages * c.count("tensor") * c.count("data_parallel"), 4) << plan_line(c);
    EXPECT_NEAR(c.split.update(), c.update_seconds, 1e-9 + 0.001 * c.update_seconds);
    EXPECT_LE(c.samples_per_second, advice.candidates[i == 0 ? 0 : i - 1].samples_per_second);
    shared = shared || c.count("tensor") > 1;
  }
  EXPECT_TRUE(shared);
}

TEST(Advise, LinesSayEverySettingOfTheCandidate) {
  Candidate c;
  c.entry.values = {{"system", "one_f_one_b"},
                    {"options", {{"recompute", "yes"}}},
                    {"workload", "my gpt.json"},
                    {"clock", "virtual"},
                    {"train", false},
                    {"cluster", "flat:8"},
                    {"precision", "mixed"},
                    {"ranks", 8},
                    {"data_parallel", 2},
                    {"tensor", 2},
                    {"batch", 16},
                    {"microbatches", 4},
                    {"optimizer", {{"learning_rate", 0.5}, {"kind", "adam"}}}};
  EXPECT_EQ(plan_line(c),
            "sluice plan -s one_f_one_b -O recompute=yes -w 'my gpt.json' -c flat:8 --precision mixed -n 8 "
            "--data-parallel 2 --tensor 2 -b 16 -m 4 --optimizer adam,learning_rate=0.5");
  EXPECT_EQ(run_line(c),
            "sluice run -s one_f_one_b -O recompute=yes -w 'my gpt.json' --clock virtual -c flat:8 --precision mixed "
            "-n 8 --data-parallel 2 --tensor 2 -b 16 -m 4 --steps 12 --no-train --optimizer adam,learning_rate=0.5");
}

TEST(Advise, CountsInThePrecisionAskedFor) {
  AdviceRequest request = advice_request({"1f1b"});
  request.tensor = {1};
  const Advice whole = advise(request);
  request.entry.values["precision"] = "mixed";
  const Advice mixed = advise(request);
  ASSERT_EQ(mixed.candidates.size(), whole.candidates.size());
  EXPECT_GT(mixed.candidates[0].samples_per_second, whole.candidates[0].samples_per_second);
  request.entry.values["cluster"] = "pipedream_c";
  EXPECT_EQ(error_of([&] { advise(request); }),
            "--precision: device 'TitanX-Maxwell-12GB': states no peak in 16 bit; give its flops_16 in the cluster's "
            "file, or use "
            "fp32");
  request.entry.values["costs"] = "profile";
  EXPECT_EQ(error_of([&] { advise(request); }),
            "--precision: 'profile' costs are of layers that compute in fp32; use analytic ones");
}

// 1F1B without a flush on four stages: the first stage has made three updates between a batch's forward and its own.
TEST(Advise, StalenessIsThatOfTheOrder) {
  const Advice advice = advise(advice_request({"pipeoptim", "1f1b"}));
  bool asynchronous = false;
  for (const Candidate& c : advice.candidates) {
    ASSERT_TRUE(c.fits()) << c.refused;
    EXPECT_EQ(c.staleness, c.system->synchronous ? 0 : 3);
    asynchronous = asynchronous || !c.system->synchronous;
  }
  EXPECT_TRUE(asynchronous);
}

TEST(Advise, SystemsThatOnlyInferSaySo) {
  const Advice advice = advise(advice_request({"edgepipe"}));
  ASSERT_FALSE(advice.candidates.empty());
  for (const Candidate& c : advice.candidates) EXPECT_EQ(c.refused, "plans inference, and has no order for training");
}

RunCase case_of(std::map<std::string, std::string> flags) {
  return resolve(entries_of({std::move(flags), {}}, timed_only()).front());
}

TEST(PlanOfGroups, IsOfStagesWhoseDevicesShareTheirLayers) {
  const EvaluatedPlan e = evaluate_plan(case_of(
      {{"system", "1f1b"}, {"workload", "gpt_tiny"}, {"cluster", "flat:4"}, {"microbatches", "4"}, {"tensor", "2"}}));
  const PlanDescription shown = description(e);
  ASSERT_EQ(shown.stages.size(), 2u);
  EXPECT_EQ(shown.stages[0].tensor, 2);
  EXPECT_EQ(shown.stages[1].devices, (std::vector<int>{2, 3}));
  ASSERT_TRUE(shown.module_names);
  EXPECT_EQ(shown.module_names->front().front(), "embedding");
  EXPECT_EQ(error_of([] {
              case_of({{"system", "1f1b"}, {"workload", "gpt_tiny"}, {"tensor", "3"}});
            }),
            "--tensor: groups of 3 devices do not divide 4 ranks; choose ranks that are a multiple of 3");
}

TEST(PlanOfCase, OfASystemThatOnlyInfersIsOfInference) {
  const RunCase c = case_of({{"system", "edgepipe"}, {"workload", "vgg16"}});
  EXPECT_EQ(c.task, Task::inference);
  EXPECT_GT(evaluate_plan(c).samples_per_second(), 0);
}

}  // namespace
}  // namespace sluice
