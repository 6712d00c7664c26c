#include "harness/cli/advise.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/case/test_profiles.h"
#include "harness/cli/assumptions.h"
#include "harness/cli/case_flags.h"

namespace sluice {
namespace {

AdviceRequest advice_request(const std::vector<std::string>& systems) {
  // 4 heads, 1000 words
  AdviceRequest request{
      entry_of({{{"workload", "gpt_tiny"}, {"cluster", "flat:4"}}, {}}, timed_only()), {4}, {}, {}, false, 600};
  for (const std::string& name : systems) request.systems.push_back(&find_system(name, "test"));
  return request;
}

TEST(Advise, TriesEveryDegreeOfPipelinesAndOfDevicesThatShareLayers) {
  std::set<std::pair<int, int>> tried;
  const Advice advice = advise(advice_request({"1f1b"}), test_profiles());
  for (const Candidate& c : advice.candidates) {
    EXPECT_TRUE(c.fits()) << c.rejected;
    tried.emplace(c.count("data_parallel"), c.count("tensor"));
  }
  EXPECT_EQ(tried, (std::set<std::pair<int, int>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 4}}));
}

TEST(Advise, ScoresAsThePlanOfTheSameRequest) {
  const Advice advice = advise(advice_request({"gpipe", "1f1b"}), test_profiles());
  bool shared = false;
  for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
    const Candidate& c = advice.candidates[i];
    const EvaluatedPlan e = evaluate_plan(resolve(c.entry), test_profiles());
    EXPECT_DOUBLE_EQ(c.samples_per_second, e.samples_per_second()) << plan_line(c);
    EXPECT_EQ(c.ranks_used, 4);
    EXPECT_EQ(c.stages * c.count("tensor") * c.count("data_parallel"), 4) << plan_line(c);
    EXPECT_NEAR(c.split.update(), c.update_seconds, 1e-9 + 0.001 * c.update_seconds);
    EXPECT_LE(c.samples_per_second, advice.candidates[i == 0 ? 0 : i - 1].samples_per_second);
    shared = shared || c.count("tensor") > 1;
  }
  EXPECT_TRUE(shared);
}

// On VGG-16 the planners cut differently: dapple and torchgpipe by rules of their own.
TEST(Advise, ComparesSystemsOnOnePlanWhereAsked) {
  const std::vector<std::string> systems = {"gpipe", "dapple", "torchgpipe", "interleaved_1f1b", "single_device"};
  AdviceRequest request = advice_request(systems);
  request.entry.values["workload"] = "vgg16";
  request.microbatches = {8};
  const auto plans = [&] {
    std::map<std::string, std::set<std::vector<int>>> first_layers;
    for (const Candidate& c : advise(request, test_profiles()).candidates)
      if (c.fits()) first_layers[c.system->name].insert(c.first_layers);
    return first_layers;
  };
  EXPECT_NE(plans()["gpipe"], plans()["torchgpipe"]);
  request.same_plan = true;
  std::map<std::string, std::set<std::vector<int>>> same = plans();
  ASSERT_EQ(same["gpipe"].size(), 1u);
  EXPECT_FALSE(same["gpipe"].begin()->empty());
  EXPECT_EQ(same["dapple"], same["gpipe"]);
  EXPECT_EQ(same["torchgpipe"], same["gpipe"]);
  EXPECT_FALSE(same.contains("interleaved_1f1b"));  // twice as many stages
  EXPECT_TRUE(same.contains("single_device"));
  const Advice advice = advise(request, test_profiles());
  for (const Candidate& c : advice.candidates) {
    if (!c.fits()) continue;
    EXPECT_EQ(plan_line(c).find("--stages") != std::string::npos, c.system->name != "single_device") << plan_line(c);
    EXPECT_DOUBLE_EQ(evaluate_plan(resolve(c.entry), test_profiles()).samples_per_second(), c.samples_per_second);
  }
  EXPECT_TRUE(advice.plan.find("which begin with layers 0,") != std::string::npos) << advice.plan;
  request.systems = {&find_system("single_device", "test")};
  EXPECT_NE(error_of([&] {
              advise(request, test_profiles());
            }).find("--same-plan: no pipeline with one stage on each device"),
            std::string::npos);
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
  const Advice whole = advise(request, test_profiles());
  request.entry.values["precision"] = "mixed";
  const Advice mixed = advise(request, test_profiles());
  ASSERT_EQ(mixed.candidates.size(), whole.candidates.size());
  EXPECT_GT(mixed.candidates[0].samples_per_second, whole.candidates[0].samples_per_second);
  request.entry.values["cluster"] = "pipedream_c";
  EXPECT_EQ(error_of([&] { advise(request, test_profiles()); }),
            "--precision: device 'TitanX-Maxwell-12GB': states no peak in 16 bit; give its flops_16 in the cluster's "
            "file, or use "
            "fp32");
  request.entry.values["costs"] = "profile";
  EXPECT_EQ(error_of([&] { advise(request, test_profiles()); }),
            "--precision: 'profile' costs are of layers that compute in fp32; use analytic costs, or calibrated ones "
            "in 16 bit");
}

// 1F1B without a flush on four stages: the first stage has made three updates between a batch's forward and its own.
TEST(Advise, StalenessIsThatOfTheOrder) {
  const Advice advice = advise(advice_request({"pipeoptim", "1f1b"}), test_profiles());
  bool asynchronous = false;
  for (const Candidate& c : advice.candidates) {
    ASSERT_TRUE(c.fits()) << c.rejected;
    EXPECT_EQ(c.staleness, c.system->synchronous ? 0 : 3);
    asynchronous = asynchronous || !c.system->synchronous;
  }
  EXPECT_TRUE(asynchronous);
}

TEST(Advise, SystemsThatOnlyInferAreNoCandidates) {
  for (const Candidate& c : first_candidates(advice_request({"edgepipe", "gpipe"}))) EXPECT_EQ(c.system->name, "gpipe");
}

// Systems whose names begin with d, g, o, p and z, asked for in that order.
AdviceRequest of_several_systems() {
  AdviceRequest request = advice_request({"data_parallel", "gpipe", "one_f_one_b", "pipedream", "zero_bubble"});
  request.microbatches = {8, 4};
  return request;
}

TEST(Advise, SearchesEverySystemOnceBeforeAnyTwice) {
  const std::vector<Candidate> all = first_candidates(of_several_systems());
  std::set<std::string> names;
  for (std::size_t i = 0; i < 5; ++i) {
    names.insert(all[i].system->name);
    EXPECT_EQ(all[i].count("data_parallel") * all[i].count("tensor"), 1);
    const bool counted = all[i].system->name != "pipedream";  // which takes the batch whole
    EXPECT_EQ(all[i].count("microbatches"), counted ? 8 : 1);
  }
  EXPECT_EQ(names.size(), 5u);
  // Then as many pipelines as there can be of 4 ranks, of those that may be replicated.
  for (std::size_t i = 5; i < 8; ++i) {
    EXPECT_EQ(all[i].count("data_parallel"), 2) << plan_line(all[i]);
    EXPECT_EQ(all[i].count("tensor"), 1);
  }
  for (std::size_t i = 8; i < 12; ++i) EXPECT_EQ(all[i].count("microbatches"), 4) << plan_line(all[i]);
  EXPECT_EQ(all.back().count("tensor"), 4);
  // An asynchronous system also updates after every micro-batch, for every number of them that the others try.
  const auto after_each = std::ranges::count(all, AdviceKind::after_every_micro_batch, &Candidate::kind);
  EXPECT_GE(after_each, 2);
}

TEST(Advise, OutOfTimeNamesWhatWasNotSearchedInOneLine) {
  AdviceRequest request = of_several_systems();
  request.seconds = 0;
  const Advice none = advise(request, test_profiles());
  EXPECT_TRUE(none.candidates.empty());
  EXPECT_TRUE(none.searched_in_part.empty());
  EXPECT_EQ(out_of_time(none, 0),
            "out of time after 0 s (--seconds): 5 systems not searched (data_parallel, gpipe, one_f_one_b, pipedream, "
            "zero_bubble)\n");
  Advice part{.untried = {"spp"}, .searched_in_part = {"a", "b", "c", "d", "e", "f"}};
  EXPECT_EQ(out_of_time(part, 30),
            "out of time after 30 s (--seconds): 1 system not searched (spp); 6 systems searched in part\n");
  EXPECT_EQ(out_of_time({}, 30), "");
}

// A candidate of a system on 4 devices whose update takes 1 s: a pipeline of 4 stages, or with 1 stage what it says.
Candidate rated(const std::string& system, double samples_per_second, int stages = 4) {
  Candidate c{.system = &find_system(system, "test")};
  c.entry.values = {{"ranks", 4}};
  c.samples_per_second = samples_per_second;
  c.ranks_used = c.system->one_process ? 1 : 4;
  c.stages = stages;
  c.cost_source = "analytic";  // model_error(): 8 %
  c.split = {.computing = 1};
  return c;
}

std::string places_and_names(const std::vector<AdviceRow>& rows) {
  std::string text;
  for (const AdviceRow& row : rows) text += row.place_text() + " " + row.best->system->name + "; ";
  return text;
}

TEST(Advise, RowsWithinTheModelsErrorShareAPlace) {
  const Advice advice{.candidates = {rated("zero_bubble", 108), rated("gpipe", 100), rated("gpipe", 99),
                                     rated("pipedream", 95), rated("one_f_one_b", 90), rated("chimera", 50)}};
  EXPECT_EQ(places_and_names(rows_of(advice, AdviceKind::synchronous)),
            "1= zero_bubble; 1= gpipe; 3 one_f_one_b; 4 chimera; ");
  EXPECT_EQ(places_and_names(rows_of(advice, AdviceKind::after_the_batch)), "1 pipedream; ");
  EXPECT_EQ(shared_first_place(rows_of(advice, AdviceKind::synchronous)),
            "Zero bubble and GPipe share the first place; the plan below is that of Zero bubble, the fastest, since "
            "none is one device or plain data parallelism");
  EXPECT_EQ(shared_first_place(rows_of(advice, AdviceKind::after_the_batch)), "");
  EXPECT_EQ(why_slower(advice.candidates[1], advice.candidates[0]), "tie");
  EXPECT_NE(why_slower(advice.candidates[4], advice.candidates[0]), "tie");
}

TEST(Advise, TheSimplestOfTheFirstPlaceIsAdvised) {
  const Advice advice{.candidates = {rated("dapple", 101, 1), rated("zero_bubble", 100.5), rated("fsdp", 100.2, 1),
                                     rated("data_parallel", 100, 1), rated("single_device", 50, 1)}};
  const std::vector<AdviceRow> rows = rows_of(advice, AdviceKind::synchronous);
  EXPECT_EQ(places_and_names(rows), "1= data_parallel; 1= dapple; 1= zero_bubble; 1= fsdp; 5 single_device; ");
  EXPECT_EQ(shared_first_place(rows),
            "Data parallel, DAPPLE, Zero bubble and FSDP share the first place; the plan below is that of "
            "Data parallel, the simplest: data parallelism without a pipeline");
  Advice slow = advice;
  slow.candidates.back().samples_per_second = 99;
  EXPECT_EQ(rows_of(slow, AdviceKind::synchronous).front().best->system->name, "single_device");
}

TEST(Advise, APlanOfOneStageIsDataParallelismWhoeverMadeIt) {
  EXPECT_EQ(plan_kind(rated("dapple", 1, 1)), "its plan is data parallelism");
  EXPECT_EQ(plan_kind(rated("dapple", 1, 2)), "");
  EXPECT_EQ(plan_kind(rated("data_parallel", 1, 1)), "");
  Candidate shared = rated("gpipe", 1, 1);
  shared.entry.values["tensor"] = 2;
  EXPECT_EQ(plan_kind(shared), "its plan is data and tensor parallelism");
  shared.entry.values["tensor"] = 4;
  EXPECT_EQ(plan_kind(shared), "its plan is tensor parallelism");
  // Of a planner: little to compute and free links, so that DAPPLE replicates the whole model.
  AdviceRequest request = advice_request({"dapple", "data_parallel"});
  request.tensor = {1};
  request.entry.values["cluster"] = "flat:4,bandwidth=10000GB/s,latency=0us";
  const Advice advice = advise(request, test_profiles());
  const std::vector<AdviceRow> rows = rows_of(advice, AdviceKind::synchronous);
  EXPECT_EQ(places_and_names(rows), "1= data_parallel; 1= dapple; ");
  EXPECT_EQ(plan_kind(*rows[1].best), "its plan is data parallelism");
}

TEST(Advise, OneDeviceUsesOneOfSeveral) {
  AdviceRequest request = advice_request({"single_device", "data_parallel"});
  request.entry.values["batch"] = 64;
  request.entry.values["cluster"] = "flat:4,bandwidth=10000GB/s,latency=0us";
  const Advice advice = advise(request, test_profiles());
  const std::vector<AdviceRow> rows = rows_of(advice, AdviceKind::synchronous);
  ASSERT_EQ(places_and_names(rows), "1 data_parallel; 2 single_device; ");
  EXPECT_EQ(why_slower(*rows[1].best, *rows[0].best), "uses 1 of 4 devices");
  EXPECT_NEAR(rows[1].best->split.idle, 3 * rows[1].best->split.computing, 1e-9);
}

TEST(Advise, AReasonIsTheLargestCause) {
  const Candidate fast = rated("zero_bubble", 100);
  Candidate slow = rated("gpipe", 50);
  slow.split = {.computing = 0.5, .uneven = 0.1, .waiting = 0.3, .messages = 0.1};  // of 2 s for the same samples
  EXPECT_EQ(why_slower(slow, fast), "waits for other ranks 30 % of its time (0 %)");
  slow.split = {.computing = 1};
  EXPECT_EQ(why_slower(slow, fast), "computes 2.00 x as long for the same samples");
}

TEST(Advise, TooLargeNamesTheDeviceThatLacksMost) {
  AdviceRequest request = advice_request({"gpipe"});
  request.tensor = {1};
  request.entry.values["cluster"] = "flat:4,memory=1KiB";
  const Advice advice = advise(request, test_profiles());
  ASSERT_FALSE(advice.candidates.empty());
  for (const Candidate& c : advice.candidates) {
    EXPECT_FALSE(c.fits());
    EXPECT_EQ(c.available, KiB(1));
    EXPECT_EQ(c.needed, c.peak);  // all devices are alike
  }
}

std::string text_of(const std::vector<Assumption>& assumptions, const std::string& about) {
  for (const Assumption& a : assumptions)
    if (a.about == about) return a.text;
  return "";
}

RunCase case_of(std::map<std::string, std::string> flags) {
  return resolve(entries_of({std::move(flags), {}}, timed_only()).front());
}

TEST(Assumptions, AreThoseOfTheCase) {
  const std::vector<Assumption> plain = assumptions_of(evaluate_plan(
      case_of({{"system", "gpipe"}, {"workload", "gpt_tiny"}, {"optimizer", "sgd,momentum=0"}}), test_profiles()));
  EXPECT_EQ(text_of(plain, "collectives"), "ring over all ranks of a stage, not slowed down by other traffic");
  EXPECT_EQ(text_of(plain, "precision"), "fp32");
  EXPECT_EQ(text_of(plain, "optimizer"), "sgd, 0 bytes of state per parameter, in every peak");
  EXPECT_EQ(text_of(plain, "costs"), "analytic roofline of the cluster's first device");
  const std::vector<Assumption> adam =
      assumptions_of(evaluate_plan(case_of({{"system", "gpipe"},
                                            {"workload", "gpt_tiny"},
                                            {"cluster", "dgx_a100_x2,all_reduce=nodes"},
                                            {"ranks", "2"},
                                            {"precision", "mixed"},
                                            {"attention", "kept"},
                                            {"optimizer", "adam"}}),
                                   test_profiles()));
  EXPECT_EQ(text_of(adam, "collectives"), "hierarchical by node, on links that messages use too");
  EXPECT_EQ(text_of(adam, "precision"), "mixed, attention scores kept");
  EXPECT_EQ(text_of(adam, "optimizer"), "adam, 8 bytes of state per parameter and 4 of fp32 copies, in every peak");
  EXPECT_EQ(overlap_of(Bytes(25'000'000)).text,
            "gradients of replicas are all-reduced during the backward, in buckets of 25 MB");
  EXPECT_EQ(overlap_of(Bytes(0)).text, "gradients of replicas are all-reduced after the backward");
}

TEST(PlanOfGroups, IsOfStagesWhoseDevicesShareTheirLayers) {
  const EvaluatedPlan e = evaluate_plan(case_of({{"system", "1f1b"},
                                                 {"workload", "gpt_tiny"},
                                                 {"cluster", "flat:4"},
                                                 {"microbatches", "4"},
                                                 {"tensor", "2"}}),
                                        test_profiles());
  const PlanDescription shown = description(e);
  ASSERT_EQ(shown.stages.size(), 2u);
  EXPECT_EQ(shown.stages[0].tensor, 2);
  EXPECT_EQ(shown.stages[1].devices, (std::vector<int>{2, 3}));
  EXPECT_FALSE(shown.module_names);  // it is no model of PyTorch's
  EXPECT_EQ(error_of([] {
              case_of({{"system", "1f1b"}, {"workload", "gpt_tiny"}, {"tensor", "3"}});
            }),
            "--tensor: groups of 3 devices do not divide 4 ranks; choose ranks that are a multiple of 3");
}

TEST(PlanOfCase, OfASystemThatOnlyInfersIsOfInference) {
  const RunCase c = case_of({{"system", "edgepipe"}, {"workload", "vgg16"}});
  EXPECT_EQ(c.task, Task::inference);
  EXPECT_GT(evaluate_plan(c, test_profiles()).samples_per_second(), 0);
}

}  // namespace
}  // namespace sluice
