// The settings `precision` and `attention`: what is rejected and how, and what a case is counted in.
#include <gtest/gtest.h>

#include <numeric>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/sim/communication.h"
#include "harness/sim/memory.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

RunCase counted(const Json& more = Json::object()) {
  Json entry = {
      {"system", "one_f_one_b"}, {"workload", "gpt_tiny"}, {"clock", "virtual"}, {"cluster", "flat:4"}, {"ranks", 2}};
  entry.update(more);
  return resolve({entry, in_file("s.json", "/grid/0")});
}

std::string rejection(const Json& more) {
  return error_of([&] { counted(more); });
}

TEST(PrecisionCase, IsCountedOnlyWhereNothingRunsInIt) {
  const Json mixed = {{"precision", "mixed"}};
  EXPECT_EQ(rejection({{"precision", "mixed"}, {"clock", "wall"}, {"cluster", "this machine"}}),
            "s.json: /grid/0/precision: the executor computes in fp32; use the virtual clock with a described cluster, "
            "or leave it out");
  EXPECT_EQ(rejection({{"attention", "kept"}, {"clock", "wall"}, {"cluster", "this machine"}}),
            "s.json: /grid/0/attention: the executor computes attention whose backward makes the scores again; use the "
            "virtual clock with a described cluster, or leave it out");
  EXPECT_EQ(rejection({{"precision", "mixed"}, {"costs", "profile"}}),
            "s.json: /grid/0/precision: 'profile' costs are of layers that compute in fp32; use analytic costs, or "
            "calibrated ones in 16 bit");
  EXPECT_EQ(rejection({{"precision", "mixed"}, {"train", true}}),
            "s.json: /grid/0/train: training computes in fp32, with fused attention; leave train out, precision or "
            "attention");
  EXPECT_EQ(rejection({{"attention", "kept"}, {"workload", "fmnist_mlp"}}),
            "s.json: /grid/0/attention: 'fmnist_mlp' has no layer of attention; leave it out");
  EXPECT_EQ(rejection({{"precision", "mixed"}, {"cluster", "pipedream_c"}}),
            "s.json: /grid/0/precision: device 'TitanX-Maxwell-12GB': states no peak in 16 bit; give its flops_16 in "
            "the cluster's file, or use fp32");
  EXPECT_FALSE(counted(mixed).train);
  EXPECT_FALSE(counted({{"attention", "kept"}}).train);
  EXPECT_TRUE(counted().train);
}

TEST(PrecisionCase, ScoresOfChunksAreNotKept) {
  const RunCase c = counted({{"system", "seq1f1b"}, {"attention", "kept"}});
  EXPECT_EQ(error_of([&] { prepare(c, test_profiles()); }),
            "attention: the scores of sequences that are cut into chunks cannot be kept; use fused, or a system that "
            "leaves sequences whole");
}

TEST(PrecisionCase, EveryWorkloadTakesBetweenHalfAndAllOfItsBytes) {
  const Storage mixed(Precision::mixed, AttentionScores::fused);
  for (const Workload& w : all_workloads()) {
    if (w.model.layers.empty()) continue;
    std::vector<int> layers(w.model.layers.size());
    std::iota(layers.begin(), layers.end(), 0);
    const std::vector<Shape> shapes = w.model.shapes();
    const auto within = [&](Bytes of_mixed, Bytes whole) {
      EXPECT_GE(2 * of_mixed, whole) << w.name;
      EXPECT_LE(of_mixed, whole) << w.name;
    };
    const StageStash whole = stage_stash(w.model, shapes, layers, 4),
                     half = stage_stash(w.model, shapes, layers, 4, mixed);
    within(half.forward, whole.forward);
    within(half.weight, whole.weight);
    within(live_bytes(w.model, shapes, layers, 4, mixed), live_bytes(w.model, shapes, layers, 4));
    const CostGraph costs = analytic_costs(w.model, 4, Device{}), fast = analytic_costs(w.model, 4, Device{}, mixed);
    for (std::size_t l = 0; l < costs.layers.size(); ++l) {
      EXPECT_EQ(2 * fast.layers[l].parameters, costs.layers[l].parameters) << w.name;
      EXPECT_EQ(2 * fast.layers[l].output, costs.layers[l].output) << w.name;
      EXPECT_LE(fast.layers[l].forward, costs.layers[l].forward) << w.name;
    }
  }
}

// Of every rank: weights, old versions, gradients, the optimizer's.
MemoryByKind largest(const RunCase& c) {
  const Prepared p = prepare(c, test_profiles());
  const Program program = program_of_updates(p);
  MemoryByKind sum;
  for (const RankMemory& rank : memory(program, stage_memory(p, c.optimizer, program.rule))) {
    sum.weights += rank.peak.weights;
    sum.versions += rank.peak.versions;
    sum.gradients += rank.peak.gradients;
    sum.optimizer += rank.peak.optimizer;
  }
  return sum;
}

TEST(PrecisionCase, AsynchronousSystemsKeepOldVersionsIn16Bit) {
  const Json momentum = {{"kind", "sgd"}, {"momentum", 0.9}};
  const auto of = [&](const char* precision) {
    return largest(counted({{"system", "pipedream"}, {"precision", precision}, {"optimizer", momentum}}));
  };
  const MemoryByKind whole = of("fp32"), mixed = of("mixed"), sums = of("mixed_fp32_gradients");
  EXPECT_GT(whole.versions, Bytes(0));
  EXPECT_EQ(2 * mixed.weights, whole.weights);
  EXPECT_EQ(2 * mixed.versions, whole.versions);
  EXPECT_EQ(2 * mixed.gradients, whole.gradients);
  EXPECT_EQ(mixed.optimizer, 2 * whole.optimizer);  // momentum as before, and the fp32 weights
  EXPECT_EQ(sums.gradients, whole.gradients);
  EXPECT_EQ(sums.versions, mixed.versions);
}

TEST(PrecisionCase, PredictedWeightsAreIn16BitAndTheirDirectionIsNot) {
  const auto of = [&](const char* precision) {
    return largest(counted({{"system", "pipemare"}, {"precision", precision}, {"optimizer", {{"kind", "sgd"}}}}));
  };
  const MemoryByKind whole = of("fp32"), mixed = of("mixed");
  EXPECT_EQ(2 * mixed.versions, whole.versions);
  EXPECT_EQ(mixed.optimizer, whole.optimizer + whole.weights);  // the moving average, and fp32 weights
}

// Of all ranks in an update.
SentBytes all_sent(const RunCase& c) {
  const Prepared p = prepare(c, test_profiles());
  SentBytes sum;
  for (const SentBytes& rank : sent_bytes(program_of_updates(p), costs_of(p))) {
    sum.messages += rank.messages;
    sum.gathers += rank.gathers;
    sum.reductions += rank.reductions;
  }
  return sum;
}

TEST(PrecisionCase, MessagesGathersAndReductionsHaveTheirBytes) {
  const auto of = [&](const char* precision) {
    return all_sent(counted({{"ranks", 4}, {"data_parallel", 2}, {"sharding", "use"}, {"precision", precision}}));
  };
  const SentBytes whole = of("fp32"), mixed = of("mixed"), sums = of("mixed_fp32_gradients");
  EXPECT_GT(whole.gathers, 0);
  EXPECT_DOUBLE_EQ(2 * mixed.messages, whole.messages);
  EXPECT_DOUBLE_EQ(2 * mixed.gathers, whole.gathers);
  EXPECT_DOUBLE_EQ(2 * mixed.reductions, whole.reductions);
  EXPECT_DOUBLE_EQ(sums.messages, mixed.messages);
  EXPECT_DOUBLE_EQ(sums.gathers, mixed.gathers);
  EXPECT_DOUBLE_EQ(sums.reductions, whole.reductions);
}

TEST(PrecisionCase, ShardsDivideTheFp32Copies) {
  const auto optimizer = [&](const Json& more) {
    Json all = {{"ranks", 4}, {"precision", "mixed"}, {"optimizer", {{"kind", "adam"}}}};
    all.update(more);
    return largest(counted(all)).optimizer.value;
  };
  // Two pipelines hold the state of the model twice; ZeRO-1 divides it, except for padding.
  const std::int64_t whole = optimizer({}), replicated = optimizer({{"data_parallel", 2}});
  EXPECT_EQ(replicated, 2 * whole);
  EXPECT_NEAR(static_cast<double>(optimizer({{"data_parallel", 2}, {"sharding", "optimizer"}})),
              static_cast<double>(whole), 12.0 * 4);
}

TEST(PrecisionCase, PlannersAreToldWhatASetOfLayersHolds) {
  for (const char* precision : {"fp32", "mixed", "mixed_fp32_gradients", "mixed_two_gradients"}) {
    const RunCase c = counted({{"precision", precision}, {"optimizer", {{"kind", "adam"}}}});
    const Prepared p = prepare(c, test_profiles());
    const std::vector<StageMemory> stages = stage_memory(p, c.optimizer, WeightRule{});
    const auto footprint = planned_footprint(p, c.optimizer);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const Problem::Footprint planned = footprint(p.plan.stages[s].layers);
      EXPECT_EQ(planned.always, stages[s].weights + stages[s].gradients + stages[s].optimizer) << precision;
      EXPECT_EQ(planned.per_micro_batch + p.micro_batch * planned.per_sample, stages[s].stash) << precision;
    }
  }
}

TEST(PrecisionCase, InferenceHoldsWeightsOf16Bit) {
  const auto of = [&](const char* precision) {
    const RunCase c = counted({{"system", "gpipe"}, {"task", "inference"}, {"precision", precision}});
    return stage_memory(prepare(c, test_profiles()), c.optimizer, WeightRule{});
  };
  const std::vector<StageMemory> whole = of("fp32"), mixed = of("mixed");
  for (std::size_t s = 0; s < whole.size(); ++s) {
    EXPECT_EQ(2 * mixed[s].weights, whole[s].weights);
    EXPECT_EQ(mixed[s].optimizer, Bytes(0));
  }
}

TEST(PrecisionCase, SharedLayersKeepTheirPartOfTheScores) {
  const auto stash = [&](int tensor, const char* attention) {
    const RunCase c =
        counted({{"ranks", 2 * tensor}, {"tensor", tensor}, {"attention", attention}, {"cuts", "compute"}});
    return stage_memory(prepare(c, test_profiles()), c.optimizer, WeightRule{}).front().stash.value;
  };
  // What keeping the scores adds to a member of two is half of what it adds to one device.
  EXPECT_EQ(2 * (stash(2, "kept") - stash(2, "fused")), stash(1, "kept") - stash(1, "fused"));
}

}  // namespace
}  // namespace sluice
