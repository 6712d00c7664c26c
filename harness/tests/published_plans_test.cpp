// What the authors' own planners (Piper, PipeDream, Tarnawski et al. 2020) print on their own inputs, reproduced: the
// expected values come from running the authors' programs. They are as the files have them (ProfileUnits::published),
// since the authors' programs take them so. Plans are compared where the authors' tie rule is known or there is no tie.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "baselines/pipedream/pipedream_partition.h"
#include "baselines/piper/piper_model.h"
#include "baselines/piper/piper_search.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/system.h"
#include "harness/plan/down_sets.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/sim/simulate.h"
#include "workloads/profiles/operator_profile.h"

namespace sluice {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct PiperCase {
  const char* input;
  int devices, microbatches;
  double memory, bandwidth;
  double seconds;
  const char* plan;  // layers:tensor:data of every stage, or "" if not printed in full
};
void PrintTo(const PiperCase& c, std::ostream* out) {
  *out << c.input << " on " << c.devices << " devices, " << c.microbatches << " micro-batches";
}

class PiperGoldenTest : public testing::TestWithParam<PiperCase> {};

TEST_P(PiperGoldenTest, SameOptimumAndPlan) {
  const PiperCase& c = GetParam();
  const PublishedProfile profile =
      load_profile(published_profile_path("piper/" + std::string(c.input) + ".json"), ProfileUnits::published);
  const PiperOptions options{
      .devices = c.devices, .microbatches = c.microbatches, .bandwidth = c.bandwidth, .memory = c.memory};
  const PiperResult result = piper_search(profile.costs, options);
  EXPECT_TRUE(result.complete);
  EXPECT_NEAR(result.seconds, c.seconds, 5e-9 * c.seconds);  // nine digits are printed
  EXPECT_NEAR(piper_seconds(profile.costs, options, result.stages), result.seconds, 2e-9);
  std::string plan;
  for (const PiperStage& s : result.stages)
    plan += std::to_string(s.layers.size()) + ":" + std::to_string(s.tensor) + ":" + std::to_string(s.data) + " ";
  if (*c.plan) {
    EXPECT_EQ(plan, c.plan);
  }
}

const PiperCase kPiperCases[] = {
    {"bert32a100", 8, 128, 8 * kGiB, 25 * kGiB, 0.16585575, "6:1:1 4:1:1 4:1:1 4:1:1 4:1:1 4:1:1 5:1:1 6:1:1 "},
    {"bert32a100", 64, 512, 8 * kGiB, 25 * kGiB, 0.0209573379,
     "6:1:8 4:1:8 4:1:8 2:1:4 2:1:4 2:1:4 2:1:4 1:1:2 1:1:2 1:1:2 1:1:2 5:1:8 6:1:8 "},
    {"bert32a100", 64, 1920, 8 * kGiB, 25 * kGiB, 0.0202005503,
     "10:1:16 3:1:6 2:1:4 2:1:4 2:1:4 2:1:4 1:1:2 1:1:2 1:1:2 3:1:5 3:1:5 7:1:10 "},
    {"bert32a100", 512, 1920, 8 * kGiB, 25 * kGiB, 0.00256112785,
     "10:1:128 3:1:48 2:1:32 2:1:32 2:1:32 2:1:32 1:1:16 1:1:15 1:1:15 3:1:40 3:1:40 7:1:80 "},
    {"bert32a100", 64, 512, 2 * kGiB, 25 * kGiB, 0.0333284093,
     "5:1:4 1:1:2 1:1:2 1:1:2 1:1:2 1:1:2 1:1:2 1:1:2 2:2:2 2:2:2 2:2:2 2:2:2 2:2:2 2:2:2 2:2:2 "
     "2:2:2 2:2:2 2:2:2 1:2:1 1:2:1 3:1:2 "},
    {"bert32a100", 64, 512, 80 * kGiB, 25 * kGiB, 0.0168854176, "37:1:64 "},
    {"bert32a100", 8, 1920, 80e9, 25e9, 0.122036712, "37:1:8 "},
    {"resnet", 8, 7680, 8 * kGiB, 25 * kGiB, 63.4335366, ""},
    {"resnet", 16, 7680, 4 * kGiB, 25 * kGiB, 35.3334375, ""},
};

INSTANTIATE_TEST_SUITE_P(Published, PiperGoldenTest, testing::ValuesIn(kPiperCases), [](const auto& test) {
  return std::string(test.param.input) + "_" + std::to_string(test.index);
});

TEST(PiperGoldenTest, DownSetsAsTheAuthorsCountThem) {
  const auto count = [](const char* input) {
    const PublishedProfile p = load_profile(published_profile_path(input), ProfileUnits::published);
    return piper_search(p.costs, {.devices = 1, .microbatches = 1, .bandwidth = 1, .memory = 1e99}).down_sets;
  };
  EXPECT_EQ(count("piper/bert32a100.json"), 43);
  EXPECT_EQ(count("piper/resnet.json"), 242);
}

TEST(PiperGoldenTest, ReplicasNeverHurtAndRecomputationOnlyWhereMemoryAsks) {
  const CostGraph costs = load_profile(published_profile_path("piper/bert32a100.json")).costs;
  const PiperOptions options{.devices = 64, .microbatches = 512, .bandwidth = 25 * kGiB, .memory = 8 * kGiB};
  const double best = piper_search(costs, options).seconds;
  PiperOptions no_data = options, no_tensor = options, no_recompute = options;
  no_data.max_data = 1;
  no_tensor.tensor_parallel = no_recompute.recompute = false;
  for (const PiperOptions& fewer : {no_data, no_tensor, no_recompute}) {
    const PiperResult result = piper_search(costs, fewer);
    EXPECT_TRUE(result.stages.empty() || result.seconds >= best * (1 - 1e-9));
  }
}

struct PipeDreamCase {
  const char* profile;
  std::vector<MachineLevel> levels;
  double seconds;
  std::size_t states;
  const char* outer;  // stages of the outermost level: first, end, replicas; "" if ties are open
  const char* inner;
};
void PrintTo(const PipeDreamCase& c, std::ostream* out) { *out << c.profile; }

class PipeDreamGoldenTest : public testing::TestWithParam<PipeDreamCase> {};

std::string text_of(const std::vector<PipeDreamStage>& stages) {
  std::string text;
  for (const PipeDreamStage& s : stages)
    text +=
        "(" + std::to_string(s.first) + "," + std::to_string(s.last) + "," + std::to_string(s.machines.front()) + ")";
  return text;
}

TEST_P(PipeDreamGoldenTest, SameOptimumAndPlan) {
  const PipeDreamCase& c = GetParam();
  const PublishedProfile profile =
      load_profile(published_profile_path("pipedream/" + std::string(c.profile) + ".graph.txt"));
  const AntichainStates states = antichain_states(layer_groups(profile.costs), 1000);
  EXPECT_TRUE(states.complete);
  EXPECT_EQ(states.size(), c.states);
  const PipeDreamResult result =
      pipedream_partition(states, {.form = PipeDreamOptions::Form::code, .levels = c.levels});
  EXPECT_NEAR(result.seconds, c.seconds, 1e-6 * c.seconds);
  if (*c.outer) {
    EXPECT_EQ(text_of(result.by_level.back()), c.outer);
  }
  if (*c.inner) {
    EXPECT_EQ(text_of(result.by_level.front()), c.inner);
  }
  // Never worse than one device a stage, nor than all of them on one stage.
  const PipeDreamResult straight =
      pipedream_partition(states, {.form = PipeDreamOptions::Form::code, .levels = c.levels, .max_replicas = 1});
  EXPECT_LE(result.seconds, straight.seconds * (1 + 1e-9));
}

const PipeDreamCase kPipeDreamCases[] = {
    {"vgg16", {{4, 1e9}}, 0.175732624, 40, "(0,15,3)(15,40,1)", "(0,15,3)(15,40,1)"},
    {"vgg16", {{4, 12e9}, {4, 1.25e9}}, 0.0440084155, 40, "(0,16,3)(16,40,1)", "(0,16,4)(16,25,3)(25,40,1)"},
    {"vgg16", {{8, 30e9}, {2, 3.125e9}}, 0.046381551, 40, "(0,8,1)(8,40,1)", "(0,8,8)(8,25,7)(25,40,1)"},
    {"resnet50", {{4, 1e9}}, 0.111497, 240, "(0,45,1)(45,98,1)(98,165,1)(165,240,1)", ""},
    {"resnet50", {{4, 12e9}, {4, 1.25e9}}, 0.028667352, 240, "", ""},
    {"alexnet", {{4, 1e9}}, 0.023165752, 22, "(0,6,2)(6,9,1)(9,22,1)", ""},
    {"alexnet", {{4, 12e9}, {4, 1.25e9}}, 0.005933732, 22, "", ""},
    {"alexnet", {{8, 30e9}, {2, 3.125e9}}, 0.005506, 22, "", "(0,6,8)(6,12,6)(12,17,1)(17,22,1)"},
    {"gnmt", {{4, 12e9}, {4, 1.25e9}}, 0.011081, 99, "", ""},
};

INSTANTIATE_TEST_SUITE_P(Published, PipeDreamGoldenTest, testing::ValuesIn(kPipeDreamCases), [](const auto& test) {
  return std::string(test.param.profile) + "_" + std::to_string(test.index);
});

// Operators are grouped as the program of Tarnawski et al. groups them: its groups have as many down-sets.
TEST(OperatorGroupsGoldenTest, DownSetsAsTheAuthorsCountThem) {
  const std::pair<const char*, std::size_t> counts[] = {{"bert24_inference", 30},
                                                        {"bert24_training", 30},
                                                        {"resnet50_inference", 242},
                                                        {"resnet50_training", 242},
                                                        {"gnmt_inference", 17'914}};
  for (const auto& [input, count] : counts) {
    SCOPED_TRACE(input);
    const std::string file =
        published_profile_path("dnn-partitioning/throughput-inputs/LayerGraphs/" + std::string(input) + ".json");
    const OperatorGraph graph = read_operator_graph(parse_json_file(file), file);
    EXPECT_EQ(down_sets(group_operators(graph).predecessors, 40'000).count(), count);
  }
}

// Every plan of every planner on published profiles is a plan the rest of the harness can run: it
// lowers, checks and takes at least its slowest stage's time.
struct RunnableCase {
  const char *system, *profile, *option, *value;
};
void PrintTo(const RunnableCase& c, std::ostream* out) {
  *out << c.system << " " << c.option << "=" << c.value << " on " << c.profile;
}

class PlansRunTest : public testing::TestWithParam<RunnableCase> {};

TEST_P(PlansRunTest, LowersAndSimulates) {
  const RunnableCase& c = GetParam();
  const CostGraph costs = load_profile(published_profile_path(c.profile)).costs;
  const System& system = find_system(c.system, "test");
  const Options options = resolve_options(system.options, {{c.option, c.value}}, "test");
  for (const char* description : {"flat:4,bandwidth=10GB/s,memory=900GiB", "flat:6,bandwidth=1GB/s,memory=900GiB"}) {
    SCOPED_TRACE(description);
    const Cluster cluster = load_cluster(description, "");
    const int devices = static_cast<int>(cluster.devices.size());
    const int microbatches = system.synchronous || system.accumulates ? 12 : 1;
    const Plan plan =
        make_plan(system, {costs, cluster, devices, 12 * costs.micro_batch, microbatches, {}}, options).plan;
    EXPECT_NE(plan.search.objective_name, SearchReport().objective_name);
    EXPECT_GT(plan.search.objective, 0);
    EXPECT_FALSE(plan.search.objective_name.empty());
    stage_of_layers(plan, costs.layers.size());  // every layer once
    const StageGraph graph = stage_graph(plan, costs);
    const RankMap map = ranks_of(plan);
    ScheduleProblem order{graph, map.placement, static_cast<int>(map.devices.size()), 12};
    order.microbatches_per_update = microbatches;
    const Schedule schedule = system.schedule(order, options);
    EXPECT_TRUE(check(schedule, graph, map.placement).empty());
    const Program program = lower(schedule, graph, map.placement, system.weights(order, options));
    const Simulation simulation =
        simulate(program, costs_of(plan, costs, cluster), cluster, map.devices, {.trace = false});
    double slowest = 0;
    const std::vector<StageCost> stages = stage_costs(plan, costs, cluster);
    for (std::size_t s = 0; s < stages.size(); ++s)
      slowest = std::max(slowest, 12.0 / static_cast<double>(map.placement.stages[s].size()) *
                                      (stages[s].forward + stages[s].input_gradient + stages[s].weight_gradient).value);
    EXPECT_GE(simulation.end, slowest * (1 - 1e-9));
  }
}

const RunnableCase kRunnableCases[] = {
    {"piper", "piper/bert32a100.json", "knapsack", "greedy"},
    {"piper", "piper/bert32a100.json", "data_parallel", "no"},
    {"piper", "piper/resnet.json", "knapsack", "greedy"},
    {"piper", "pipedream/vgg16.graph.txt", "knapsack", "exact"},
    {"piper", "dnn-partitioning/throughput-inputs/LayerGraphs/bert24_training.json", "recompute", "no"},
    {"dapple", "pipedream/vgg16.graph.txt", "warm_up", "a"},
    {"dapple", "pipedream/gnmt.graph.txt", "warm_up", "b"},
    {"asteroid", "pipedream/vgg16.graph.txt", "in_flight", "steps"},
    {"torchgpipe", "pipedream/vgg16.graph.txt", "balance", "time"},
    {"torchgpipe", "pipedream/resnet50.graph.txt", "balance", "size"},
    {"torchgpipe", "pipedream/gnmt.graph.txt", "balance", "exact"},
    {"pipedream", "pipedream/resnet50.graph.txt", "planner", "code"},
    {"pipedream", "pipedream/gnmt.graph.txt", "planner", "paper"},
    {"pipedream_2bw", "pipedream/vgg16.graph.txt", "planner", "paper"},
    {"pipedream_2bw", "piper/bert32a100.json", "planner", "paper"},
};

INSTANTIATE_TEST_SUITE_P(Published, PlansRunTest, testing::ValuesIn(kRunnableCases), [](const auto& test) {
  return std::string(test.param.system) + "_" + std::to_string(test.index);
});

TEST(PlansRunTest, SharedLayersAreOneRankAndRunAsPublished) {
  const CostGraph costs = load_profile(published_profile_path("piper/bert32a100.json")).costs;
  const System& system = find_system("piper", "test");
  const Options options = resolve_options(system.options, {}, "test");
  const Cluster cluster = load_cluster("flat:64,bandwidth=25GiB/s,memory=2GiB", "");
  const Plan plan = make_plan(system, {costs, cluster, 64, 512, 512, {}}, options).plan;
  int shared = 0;
  double slowest = 0;
  const std::vector<StageCost> stages = stage_costs(plan, costs, cluster);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    if (stage.tensor > 1) ++shared;
    double seconds = 0;
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerVariant& v = costs.layers[stage.layers[i]].variants[stage.variants[i]];
      EXPECT_EQ(v.tensor, stage.tensor);
      seconds += v.seconds.value;
    }
    EXPECT_NEAR((stages[s].forward + stages[s].input_gradient + stages[s].weight_gradient).value, seconds, 1e-9);
    slowest = std::max(slowest, seconds * stage.tensor / static_cast<double>(stage.devices.size()));
  }
  EXPECT_EQ(shared, 12);
  EXPECT_LE(slowest, plan.search.objective);  // the rest is communication
  const RankMap map = ranks_of(plan);
  EXPECT_LT(map.devices.size(), 64u);
  const ScheduleProblem order{stage_graph(plan, costs), map.placement, static_cast<int>(map.devices.size()), 512};
  const Program program =
      lower(system.schedule(order, options), order.graph, map.placement, system.weights(order, options));
  const Simulation simulation =
      simulate(program, costs_of(plan, costs, cluster), cluster, map.devices, {.trace = false});
  EXPECT_GT(simulation.end, 512 * slowest);
}

}  // namespace
}  // namespace sluice
