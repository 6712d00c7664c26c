// The setting `tensor`: what is rejected and how, and what both clocks are told of tensor-parallel groups.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/make_theory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/tensor_costs.h"
#include "harness/case/test_profiles.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

RunCase shared(const Json& more = Json::object()) {
  Json entry = {{"system", "one_f_one_b"}, {"workload", "tfm256"}, {"clock", "virtual"},
                {"cluster", "flat:8"},     {"ranks", 4},           {"tensor", 2}};
  entry.update(more);
  return resolve({entry, in_file("s.json", "/grid/0")});
}

void rejected(const Json& more, const std::string& text) {
  const std::string error = error_of([&] { prepare(shared(more), test_profiles()); });
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

TEST(TensorCase, NamesTheNumbersThatDoNotDivide) {
  EXPECT_EQ(error_of([] {
              shared({{"ranks", 3}});
            }),
            "s.json: /grid/0/tensor: groups of 2 devices do not divide 3 ranks; choose ranks that are a multiple of 2");
  EXPECT_EQ(error_of([] {
              shared({{"data_parallel", 2}, {"ranks", 6}});
            }),
            "s.json: /grid/0/tensor: groups of 2 devices, in 2 pipelines, do not divide 6 ranks; choose ranks that are "
            "a multiple of 4");
  const std::string heads = error_of([] { shared({{"tensor", 3}, {"ranks", 3}}); });
  EXPECT_NE(heads.find("s.json: /grid/0/tensor: layer 'attention_0'"), std::string::npos) << heads;
  EXPECT_NE(heads.find("heads cannot be divided among 3 devices; choose a degree that divides them"), std::string::npos)
      << heads;
}

TEST(TensorCase, IsRejectedWhereSomethingElseDividesOrNothingWaits) {
  rejected({{"system", "pipedream"}}, "tensor: pipedream updates without a flush");
  rejected({{"sharding", "optimizer"}, {"data_parallel", 2}}, "tensor: sharding divides weights");
  for (const Json& own :
       {Json{{"system", "zeropp"}, {"data_parallel", 2}}, Json{{"options", {{"zero", "3"}}}, {"data_parallel", 2}}}) {
    const Prepared p = prepare(shared(own), test_profiles());
    EXPECT_EQ(error_of([&] { program_of_updates(p); }),
              "tensor: sharding divides weights among replicas by itself; leave tensor or sharding out");
  }
  for (const char* whole : {"zeropp", "breadth_first"}) {  // no stage has replicas
    const Prepared p = prepare(shared({{"system", whole}, {"ranks", 4}}), test_profiles());
    EXPECT_EQ(program_of_updates(p).tensor, 2) << whole;
  }
  rejected({{"task", "inference"}}, "tensor: inference runs with whole layers");
  rejected({{"optimizer", {{"kind", "muon"}}}}, "tensor: muon needs whole matrices");
}

TEST(TensorCase, IsOneDeviceOfTheReference) { EXPECT_EQ(shared({{"system", "single_device"}}).tensor, 1); }

TEST(TensorCase, PlansForGroupsAndRunsOnTheirDevices) {
  const Prepared p = prepare(shared({{"data_parallel", 2}, {"ranks", 8}}), test_profiles());
  EXPECT_EQ(p.pipeline.stages.size(), 2u);
  EXPECT_EQ(p.plan.stages.size(), 4u);
  EXPECT_EQ(p.ranks.devices.size(), 8u);
  const Program program = program_of_updates(p);
  EXPECT_EQ(program.tensor, 2);
  EXPECT_EQ(make_theory(p, p.microbatches_per_update).in_flight.size(), 8u);
  // Every member does what the first does.
  for (std::size_t r = 0; r < 8; r += 2) EXPECT_EQ(program.ranks[r].size(), program.ranks[r + 1].size());
}

// Half of the parameters that are divided, and all of the others.
TEST(TensorCase, CostsArePartsOfTheWholeAndTheSums) {
  const Prepared whole = prepare(shared({{"tensor", 1}, {"ranks", 2}}), test_profiles()),
                 p = prepare(shared(), test_profiles());
  const TensorModel& t = *p.tensor;
  bool summed = false;
  for (std::size_t l = 0; l < t.whole.layers.size(); ++l) {
    SCOPED_TRACE(t.whole.layers[l].name);
    const LayerCost &part = p.member_costs.layers[l], &all = whole.costs.layers[l];
    EXPECT_EQ(part.parameters, Bytes(4 * parameter_count(t.member.layers[l])));
    Seconds sums;
    for (const std::int64_t n : t.layers[l].forward_sums)
      sums += sum_seconds(p.cluster, 2, Bytes(4 * n * p.micro_batch));
    EXPECT_LE(part.forward.value, all.forward.value + sums.value + 1e-12);
    EXPECT_GE(part.forward.value, all.forward.value / 2 + sums.value - 1e-12);
    summed = summed || sums.value > 0;
  }
  EXPECT_TRUE(summed);
}

// A ring of t devices takes 2 (t - 1) steps, each with a part of the bytes.
TEST(TensorCase, SumsTakeTheTimeOfARing) {
  const Cluster cluster = load_cluster("flat:4,bandwidth=1GB/s,latency=10us", "");
  EXPECT_NEAR(sum_seconds(cluster, 4, Bytes(4'000'000)).value, 6 * (10e-6 + 1e-3), 1e-12);
  EXPECT_EQ(sum_seconds(cluster, 1, Bytes(4'000'000)).value, 0);
}

// F of one micro-batch and B of another: the sums of both (two passes have them) behind all products, or the products
// behind the sums, but never less than F or B alone.
TEST(TensorCase, PairsHideTheSumsOfEachOther) {
  for (const std::string links : {"flat:8,bandwidth=100GB/s,latency=1us", "flat:8,bandwidth=1MB/s"}) {
    const Json entry = {{"system", "stp"}, {"microbatches", 8}, {"batch", 32}};
    const auto with = [&](const std::string& cluster) {
      Json values = entry;
      values["cluster"] = cluster;
      return prepare(shared(values), test_profiles());
    };
    const Prepared apart = with(links), overlap = with(links + ",pairs=overlap");
    bool summed = false;
    for (std::size_t l = 0; l < apart.tensor->layers.size(); ++l) {
      const LayerSplit& split = apart.tensor->layers[l];
      const LayerCost& cost = overlap.member_costs.layers[l];
      SCOPED_TRACE(links + " " + cost.name);
      EXPECT_EQ(cost.forward, apart.member_costs.layers[l].forward);
      EXPECT_FALSE(apart.member_costs.layers[l].pair_share);
      double sums = 0;
      for (const auto* of_pass : {&split.forward_sums, &split.input_gradient_sums})
        for (const std::int64_t n : *of_pass)
          sums += sum_seconds(apart.cluster, 2, Bytes(4 * n * apart.micro_batch)).value;
      const double forward = cost.forward.value, backward = (cost.input_gradient + cost.weight_gradient).value;
      const double least = std::max({forward + backward - sums, sums, forward, backward});
      EXPECT_NEAR(*cost.pair_share * (forward + backward), least, 1e-12);
      summed = summed || sums > 0;
    }
    EXPECT_TRUE(summed);
    EXPECT_LT(simulated_update(overlap, program_of_updates(overlap)),
              simulated_update(apart, program_of_updates(apart)));
  }
}

TEST(TensorCase, OfMoreDevicesIsFasterWhereLinksAreFast) {
  const auto seconds = [](int tensor) {
    const Prepared p = prepare(shared({{"tensor", tensor},
                                       {"ranks", 2 * tensor},
                                       {"workload", "gpt_1.3b"},
                                       {"cluster", "flat:8,bandwidth=300GB/s,latency=1us"}}),
                               test_profiles());
    return simulated_update(p, program_of_updates(p)).value;
  };
  EXPECT_LT(seconds(2), 0.7 * seconds(1));
  EXPECT_LT(seconds(4), 0.7 * seconds(2));
}

}  // namespace
}  // namespace sluice
