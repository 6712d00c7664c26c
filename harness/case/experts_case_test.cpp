// The setting `experts`: what is rejected and how; bytes, seconds and memory of experts that are spread over replicas.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/expert_costs.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/model/expert_spread.h"
#include "harness/sim/communication.h"

namespace sluice {
namespace {

// Two blocks with four experts, two of them for a token, of width 16 and 12 inside; sequences of 8 tokens.
const std::string kMixtralFile = SLUICE_SOURCE_DIR "/harness/tests/fuzz/corpus/workload/hf_mixtral.json";
constexpr std::int64_t kExpertSize = 3 * 12 * 16;  // parameters
constexpr std::int64_t kRowsOfSample = 8 * 2;      // of a sample
constexpr std::int64_t kSpreadSamples = 4;         // of a micro-batch

Json spread_entry(const Json& more = Json::object()) {
  Json entry = {{"system", "gpipe"},  {"workload", kMixtralFile},
                {"clock", "virtual"}, {"cluster", "flat:8,bandwidth=1GB/s"},
                {"ranks", 4},         {"batch", 16},
                {"microbatches", 4},  {"data_parallel", 2},
                {"steps", 1},         {"experts", "spread"}};
  entry.update(more);
  return entry;
}
RunCase spread_case(const Json& more = Json::object()) {
  return resolve({spread_entry(more), in_file("s.json", "/grid/0")});
}
Prepared spread_prepared(const Json& more = Json::object()) { return prepare(spread_case(more), test_profiles()); }

void spread_rejected(const Json& more, const std::string& text) {
  const std::string error = error_of([&] { program_of_updates(spread_prepared(more)); });
  EXPECT_NE(error.find(text), std::string::npos) << text << ", but: " << error;
}

TEST(ExpertsCase, NamesTheNumbersThatDoNotDivide) {
  EXPECT_EQ(error_of([] {
              spread_case({{"ranks", 6}, {"data_parallel", 3}, {"batch", 24}, {"microbatches", 6}});
            }),
            "s.json: /grid/0/experts: layer 'model.layers.0.block_sparse_moe': 4 experts cannot be spread over 3 "
            "replicas; choose a number of replicas that divides them");
  EXPECT_EQ(error_of([] {
              spread_case({{"workload", "gpt_tiny"}});
            }),
            "s.json: /grid/0/experts: model 'gpt_tiny': has no layer of the kind Experts; use replicated experts");
}

TEST(ExpertsCase, IsRejectedWithTheReason) {
  spread_rejected({{"system", "pipedream"}, {"data_parallel", 1}}, "experts: pipedream updates without a flush");
  spread_rejected({{"system", "dapple"}, {"data_parallel", 1}}, "experts: dapple decides by itself how often");
  spread_rejected({{"tensor", 2}}, "experts: tensor divides experts among the devices of a group");
  spread_rejected({{"sharding", "optimizer"}}, "experts: sharding divides all weights among replicas");
  spread_rejected({{"system", "zeropp"}}, "experts: sharding divides all weights among replicas");
  spread_rejected({{"task", "inference"}}, "experts: inference runs with whole layers");
  spread_rejected({{"optimizer", {{"kind", "muon"}}}}, "experts: muon has state of whole matrices");
  spread_rejected({{"system", "chimera"}}, "experts: stage 0 has 4 replicas, and experts are spread over 2");
  spread_rejected({{"system", "seq1f1b"}}, "experts: seq1f1b cuts sequences into chunks");
  spread_rejected({{"system", "data_parallel"}, {"data_parallel", 1}, {"batch", 24}, {"microbatches", 6}},
                  "experts: ranks 0 and 2, replicas of stage 0, run their ops in different orders");
}

TEST(ExpertsCase, HasNoEffectWithoutReplicas) {
  for (const Json& more : {Json{{"system", "single_device"}}, Json{{"data_parallel", 1}}}) {
    EXPECT_EQ(spread_case(more).experts, ExpertPlacement::replicated);
    EXPECT_TRUE(read_case({spread_entry(more), in_file("s.json", "")}).without_effect.contains("/experts"));
  }
}

TEST(ExpertsCase, OfTheDefaultHasTheDigestOfACaseWithoutTheSetting) {
  Json without = spread_entry();
  without.erase("experts");
  const std::string digest = digest_of(resolve({without, in_file("s.json", "")}));
  EXPECT_EQ(digest_of(spread_case({{"experts", "replicated"}})), digest);
  EXPECT_NE(digest_of(spread_case()), digest);
}

TEST(ExpertsCase, MemoryHasAPartOfTheExperts) {
  const auto sum = [](const Json& more, Bytes StageMemory::*bytes) {
    Bytes all;
    for (const StageMemory& stage : stage_memory(spread_prepared(more), {.momentum = 0.9}, WeightRule{}))
      all += stage.*bytes;
    return all;
  };
  const Json whole = {{"experts", "replicated"}};
  for (Bytes StageMemory::*bytes : {&StageMemory::weights, &StageMemory::gradients, &StageMemory::optimizer})
    EXPECT_EQ(sum(whole, bytes) - sum(Json::object(), bytes),
              Bytes(2 * 2 * kExpertSize * 4));  // two of four, two layers
  // The rows that came from the replicas.
  EXPECT_EQ(sum(Json::object(), &StageMemory::stash) - sum(whole, &StageMemory::stash),
            Bytes(2 * kSpreadSamples * kRowsOfSample * 16 * 4));
}

// Nobody else has a replica's experts.
TEST(ExpertsCase, GradientsOfExpertsAreNotReduced) {
  const auto reduced = [](const Json& more) {
    Bytes all;
    for (const StageCost& stage : costs_of(spread_prepared(more)).stages) all += stage.gradients();
    return all;
  };
  EXPECT_EQ(reduced({{"experts", "replicated"}}) - reduced(Json::object()), Bytes(2 * 4 * kExpertSize * 4));
}

TEST(ExpertsCase, EveryOpExchangesItsRows) {
  const Prepared p = spread_prepared();
  const std::vector<TensorSums> exchanges = expert_exchanges(program_of_updates(p), *p.spread, p.plan, p.micro_batch);
  TensorSums all;
  for (const TensorSums& rank : exchanges) all += rank;
  // Two layers, four micro-batches; of a row three times its 16 features, and once with a number more.
  EXPECT_EQ(all, (TensorSums{2 * 4 * 4, 2 * 4 * kSpreadSamples * kRowsOfSample * (3 * 16 + 17) * 4}));
}

TEST(ExpertsCase, AllToAllsTakeAStepForEveryOtherReplica) {
  const Cluster flat = load_cluster("flat:4,bandwidth=1GB/s,latency=10us", "");
  const auto seconds = [&](const Cluster& cluster, std::vector<DeviceId> members) {
    return all_to_all_seconds(cluster, members, Bytes(4'000'000)).value;
  };
  EXPECT_NEAR(seconds(flat, {DeviceId(0), DeviceId(2)}), 10e-6 + 2e-3, 1e-12);
  const std::vector<DeviceId> four{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  EXPECT_NEAR(seconds(flat, four), 3 * (10e-6 + 1e-3), 1e-12);
  EXPECT_EQ(seconds(flat, {DeviceId(0)}), 0);
  // Two nodes of two: 8 of 12 transfers pass a card of 1 GB/s, four in each direction, in every step one or two.
  const Cluster nodes =
      cluster_from_json({{"name", "nodes"},
                         {"devices", {{{"name", "gpu"}, {"count", 2}}}},
                         {"links", {{{"from", 0}, {"to", 1}, {"bandwidth", "100GB/s"}, {"latency", "1us"}}}},
                         {"nodes", {{"count", 2}, {"bandwidth", "1GB/s"}, {"latency", "5us"}, {"cards", "node"}}}},
                        "nodes.json");
  EXPECT_NEAR(seconds(nodes, four), 3 * 5e-6 + 4e-3, 1e-12);
}

TEST(ExpertsCase, SecondsAreThoseOfTheLayerAndTheAllToAlls) {
  const Prepared p = spread_prepared({{"cluster", "flat:8,bandwidth=1GB/s,latency=10us"}});
  const CostGraph layers = analytic_costs(*p.spread, kSpreadSamples, p.cluster.devices.front());
  const double row =
      kSpreadSamples * kRowsOfSample * 4 / 1e9 / 2;  // seconds of a number of every row, to the one other replica
  int experts = 0;
  for (std::size_t l = 0; l < layers.layers.size(); ++l) {
    const bool spread = replicas_of_experts(p.spread->layers[l]) > 1;
    experts += spread ? 1 : 0;
    EXPECT_NEAR((p.costs.layers[l].forward - layers.layers[l].forward).value, spread ? 2 * 10e-6 + 2 * 16 * row : 0,
                1e-15);
    EXPECT_NEAR((p.costs.layers[l].input_gradient - layers.layers[l].input_gradient).value,
                spread ? 2 * 10e-6 + 33 * row : 0, 1e-15);
    EXPECT_EQ(p.costs.layers[l].weight_gradient, layers.layers[l].weight_gradient);
    EXPECT_EQ(p.costs.layers[l].update, layers.layers[l].update);
    EXPECT_EQ(p.costs.layers[l].parameters, layers.layers[l].parameters);
  }
  EXPECT_EQ(experts, 2);
}

// Neighbours in a stage's group, or a pipeline apart.
TEST(ExpertsCase, GroupsLieAsTheLayoutSays) {
  using Layout = PipelineReplicas::Layout;
  const auto of = [](const PipelineReplicas& replicas) {
    std::vector<std::vector<int>> groups;
    for (const auto& group : groups_of_experts(6, replicas)) {
      groups.emplace_back();
      for (const DeviceId device : group) groups.back().push_back(device.value);
    }
    return groups;
  };
  EXPECT_EQ(of({2, Layout::groups}), (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(of({2, Layout::pipelines}), (std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}}));
}

// Rows are exchanged in every micro-batch, gradients are reduced once.
TEST(ExpertsCase, OfManyMicroBatchesIsSlowerOverSlowLinks) {
  const auto seconds = [](const char* experts, int microbatches) {
    const Prepared p = spread_prepared({{"experts", experts},
                                        {"cluster", "flat:8,bandwidth=100MB/s,latency=0us"},
                                        {"system", "data_parallel"},
                                        {"data_parallel", 1},
                                        {"batch", 4 * microbatches},
                                        {"microbatches", microbatches}});
    return simulated_update(p, program_of_updates(p)).value;
  };
  EXPECT_GT(seconds("spread", 64), seconds("replicated", 64));
}

}  // namespace
}  // namespace sluice
