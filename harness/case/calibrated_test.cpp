// Calibrated costs of clusters and cases.
#include "harness/case/calibrated.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/tensor_costs.h"
#include "harness/case/test_profiles.h"
#include "harness/model/calibrated_costs.h"
#include "harness/model/tensor_split.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

const std::string kListedClusters = SLUICE_SOURCE_DIR "/workloads/clusters";

ModelGraph small_model() {
  ModelGraph model{.name = "small", .inputs = {{Shape{256}, false}}};
  model.layers = {{"up", Linear{256, 1024}, {-1}},
                  {"relu", Activation{}, {0}},
                  {"down", Linear{1024, 256}, {1}},
                  {"loss", MseLoss{}, {2}}};
  return model;
}

Cluster pascal_and_volta() {
  Cluster cluster{.name = "mixed"};
  cluster.devices = {{.name = "volta", .kernels = "v100_sxm2_fp32"},
                     {.name = "pascal", .flops = 9.3e12, .speed = 0.5, .kernels = "p100_pcie_fp32"}};
  cluster.links = {{DeviceId(0), DeviceId(1), 1e9, Seconds(1e-6)}};
  return cluster;
}

RunCase calibrated_case(Json entry) {
  entry["clock"] = "virtual";
  entry["train"] = false;
  entry["steps"] = 2;
  if (!entry.contains("costs")) entry["costs"] = "calibrated";
  return resolve({entry, in_file("s.json", "/grid/0")});
}

TEST(CalibratedTest, DevicesWithAnotherCalibrationHaveTimesOfTheirOwn) {
  const Cluster cluster = pascal_and_volta();
  const CostGraph costs = cluster_costs("calibrated", small_model(), 8, cluster);
  EXPECT_EQ(costs.source, "calibrated v100_sxm2_fp32 + p100_pcie_fp32");
  const Calibration pascal = load_calibration("p100_pcie_fp32", SLUICE_SOURCE_DIR "/workloads/devices");
  const CostGraph alone = calibrated_costs(small_model(), 8, cluster.devices[1], pascal);
  ASSERT_EQ(costs.layers[0].on.size(), 1u);
  EXPECT_EQ(costs.layers[0].on[0].device, "pascal");
  EXPECT_DOUBLE_EQ(costs.layers[0].on[0].forward.value, 2 * alone.layers[0].forward.value);  // at half the speed
  Cluster same = cluster;
  same.devices[1] = {.name = "slow volta", .speed = 0.5, .kernels = "v100_sxm2_fp32"};
  EXPECT_TRUE(cluster_costs("calibrated", small_model(), 8, same).layers[0].on.empty());
}

TEST(CalibratedTest, AHostGapIsOfEveryKernel) {
  const Cluster cluster = load_cluster("flat:2", kListedClusters);
  const CostGraph costs = cluster_costs("calibrated,host_gap=5ms", small_model(), 8, cluster);
  EXPECT_DOUBLE_EQ(costs.layers[0].forward.value, 5e-3);
  EXPECT_DOUBLE_EQ(costs.layers[0].weight_gradient.value, 10e-3);  // the bias's, too
  EXPECT_EQ(costs.source, "calibrated v100_sxm2_fp32 with a host gap of 5 ms");
}

TEST(CalibratedTest, AHostThatWaitsForKernelsAddsItsGapToThem) {
  const Cluster cluster = load_cluster("flat:2", kListedClusters);
  const CostGraph alone = cluster_costs("calibrated", small_model(), 8, cluster);
  const CostGraph costs = cluster_costs("calibrated,host_gap=5ms,blocking", small_model(), 8, cluster);
  EXPECT_DOUBLE_EQ(costs.layers[0].weight_gradient.value, alone.layers[0].weight_gradient.value + 10e-3);
  EXPECT_EQ(costs.source, "calibrated v100_sxm2_fp32 with a host gap of 5 ms and blocking launches");
}

TEST(CalibratedTest, DevicesHaveCalibrationsIn16BitOfTheirOwn) {
  const Storage mixed(Precision::mixed, AttentionScores::fused);
  const CostGraph flat = cluster_costs("calibrated", small_model(), 8, load_cluster("flat:2", ""), mixed);
  EXPECT_EQ(flat.source, "calibrated v100_sxm2_fp16");
  EXPECT_EQ(flat.storage.activation, Bytes(2));
  EXPECT_EQ(flat.layers[0].output, Bytes(8 * 1024 * 2));
  const Cluster a100 = load_cluster("dgx_a100_x2", kListedClusters);
  EXPECT_EQ(cluster_costs("calibrated", small_model(), 8, a100, mixed).source, "calibrated a100_sxm_bf16");
  const Cluster p100 = load_cluster("p100_x8", kListedClusters);
  const std::string error = error_of([&] { cluster_costs("calibrated", small_model(), 8, p100, mixed); });
  EXPECT_NE(error.find("in 16 bit; let \"kernels_16\" name one of sluice list calibrations, or use a cluster with "
                       "them: flat:N, dgx1_v100, dgx_a100_x2, dgx_b200"),
            std::string::npos)
      << error;
  const Cluster volta = pascal_and_volta();  // its Pascal states no peak in 16 bit and no calibration
  EXPECT_NE(error_of([&] { cluster_costs("calibrated", small_model(), 8, volta, mixed); }).find("'volta' has no"),
            std::string::npos);
}

TEST(CalibratedTest, ConvolutionsThatProductsImplyAreSaidToBeDerived) {
  const ModelGraph& resnet = find_workload("resnet50").model;
  const Storage mixed(Precision::mixed, AttentionScores::fused);
  const CostGraph h100 = cluster_costs("calibrated", resnet, 8, load_cluster("dgx_h100", kListedClusters), mixed);
  EXPECT_EQ(h100.source, "calibrated h100_hbm3_bf16, convolutions derived from products");
  const CostGraph v100 = cluster_costs("calibrated", resnet, 8, load_cluster("dgx1_v100", kListedClusters), mixed);
  EXPECT_EQ(v100.source, "calibrated v100_sxm2_fp16");
}

TEST(CalibratedTest, WhatCannotBeCalibratedIsSaid) {
  const auto rejects = [](const std::string& costs, const Cluster& cluster, const std::string& because) {
    const std::string error = error_of([&] { cluster_costs(costs, small_model(), 8, cluster); });
    EXPECT_NE(error.find(because), std::string::npos) << error;
  };
  const Cluster h100 = load_cluster("dgx_h100", kListedClusters);
  rejects("calibrated", h100, "device 'H100-SXM5-80GB' has no calibration of its kernels' times in fp32");
  rejects("calibrated", h100, "flat:N, dgx1_v100, ethernet_v100_x4, gtx1080ti_4x4, h100_x1, p100_x8");
  rejects("calibrated,host_gap=5ms,block", load_cluster("flat:2", ""), "5ms,block");
  rejects("calibrated,gap=3", load_cluster("flat:2", ""), "write calibrated,host_gap=40us");
  rejects("calibrated,host_gap=3s", load_cluster("flat:2", ""), "from 0 to 1 second");
  Cluster cluster = pascal_and_volta();
  cluster.devices[1].flops = 125e12;
  rejects("calibrated", cluster, "device 'pascal': has a peak of 1.25e+14");
  cluster = pascal_and_volta();
  cluster.devices[1].name = "volta";
  rejects("calibrated", cluster, "devices named 'volta' differ in calibration");
  cluster = pascal_and_volta();
  cluster.devices[1].kernels = "p100_pcie_fp23";
  rejects("calibrated", cluster, "did you mean 'p100_pcie_fp32'?");
}

TEST(CalibratedTest, CasesTakeThemOnTheVirtualClockOnly) {
  const auto error = [](const Json& entry) { return error_of([&] { calibrated_case(entry); }); };
  const Json good = {{"system", "gpipe"}, {"workload", "mmt"}, {"cluster", "summit_v100"}, {"ranks", 4}};
  EXPECT_EQ(prepare(calibrated_case(good), test_profiles()).costs.source, "calibrated v100_sxm2_fp32");
  Json entry = good;
  entry["cluster"] = "dgx_h100";
  EXPECT_NE(error(entry).find("/costs"), std::string::npos) << error(entry);
  EXPECT_NE(error(entry).find("has no calibration"), std::string::npos) << error(entry);
  entry = good;
  entry["costs"] = "calibrate";
  EXPECT_NE(error(entry).find("no such file 'calibrate'"), std::string::npos) << error(entry);
  const Json wall = {{"system", "gpipe"}, {"workload", "tiny"}, {"costs", "calibrated"}, {"steps", 2}};
  EXPECT_NE(error_of([&] {
              resolve({wall, in_file("s.json", "/grid/0")});
            }).find("this machine has no calibration"),
            std::string::npos);
}

TEST(CalibratedTest, CasesIn16BitTakeThem) {
  Json entry = {
      {"system", "1f1b"}, {"workload", "gpt_1.3b"}, {"cluster", "dgx_a100_x2"}, {"ranks", 4}, {"precision", "mixed"}};
  EXPECT_EQ(prepare(calibrated_case(entry), test_profiles()).costs.source, "calibrated a100_sxm_bf16");
  entry["precision"] = "fp32";
  const std::string fp32 = error_of([&] { calibrated_case(entry); });
  EXPECT_NE(fp32.find("/costs"), std::string::npos) << fp32;
  EXPECT_NE(fp32.find("kernels' times in fp32"), std::string::npos) << fp32;
  entry["cluster"] = "summit_v100";
  entry["attention"] = "kept";
  const std::string kept = error_of([&] { calibrated_case(entry); });
  EXPECT_NE(kept.find("use analytic costs, or calibrated ones in 16 bit"), std::string::npos) << kept;
}

// Small micro-batches and the narrow products of many tensor-parallel ranks are less efficient.
TEST(CalibratedTest, In16BitATransformerCostsMoreASampleInSmallMicroBatchesAndNarrowParts) {
  const Storage mixed(Precision::mixed, AttentionScores::fused);
  const Cluster cluster = load_cluster("dgx_a100_x2", kListedClusters);
  const ModelGraph& model = find_workload("gpt_1.3b").model;
  const auto seconds = [&](const ModelGraph& part, std::int64_t samples) {
    Seconds sum;
    for (const LayerCost& layer : cluster_costs("calibrated", part, samples, cluster, mixed).layers)
      sum += layer.forward + layer.input_gradient + layer.weight_gradient;
    return sum.value;
  };
  EXPECT_GT(seconds(model, 1), 1.15 * seconds(model, 8) / 8);
  EXPECT_GT(seconds(model, 1), seconds(model, 2) / 2);
  const ModelGraph eighth = split_tensors(model, 8).member;
  EXPECT_GT(seconds(eighth, 1), 1.5 * seconds(model, 1) / 8);
}

// A part of a linear layer is a smaller product, and its output is summed.
TEST(CalibratedTest, DevicesThatShareLayersTakeThePartsTimes) {
  Json entry = {{"system", "gpipe"}, {"workload", "tfm256"}, {"cluster", "flat:2"}, {"ranks", 2},
                {"tensor", 2},       {"batch", 32},          {"microbatches", 4}};
  const Prepared p = prepare(calibrated_case(entry), test_profiles());
  const CostGraph parts = cluster_costs("calibrated", p.tensor->member, 8, p.cluster);
  int summed = 0;
  for (std::size_t l = 0; l < parts.layers.size(); ++l) {
    Seconds sums;
    for (const std::int64_t n : p.tensor->layers[l].forward_sums) sums += sum_seconds(p.cluster, 2, Bytes(4 * n * 8));
    if (sums.value > 0) ++summed;
    EXPECT_NEAR(p.member_costs.layers[l].forward.value, (parts.layers[l].forward + sums).value, 1e-12);
    EXPECT_NEAR(p.member_costs.layers[l].weight_gradient.value, parts.layers[l].weight_gradient.value, 1e-12);
  }
  EXPECT_GT(summed, 0);
}

// Micro-batches of another size are calibrated anew: twice the samples take less than twice the time.
TEST(CalibratedTest, APlansOwnMicroBatchesHaveCostsOfTheirSize) {
  const Json entry = {{"system", "graphpipe"}, {"workload", "mmt"}, {"cluster", "summit_v100"}, {"ranks", 4},
                      {"batch", 64},           {"microbatches", 64}};
  const RunCase c = calibrated_case(entry);
  const Prepared p = prepare(c, test_profiles());
  const auto twice = problem_of(p, c).costs_at(2 * p.micro_batch);
  EXPECT_EQ(twice->micro_batch, 2 * p.micro_batch);
  const auto linear = std::ranges::find_if(p.costs.layers, [](const LayerCost& l) { return l.input_channels > 0; });
  ASSERT_NE(linear, p.costs.layers.end());
  const LayerCost& larger = twice->layers[static_cast<std::size_t>(linear - p.costs.layers.begin())];
  EXPECT_GT(larger.forward, linear->forward);
  EXPECT_LT(larger.forward, 2 * linear->forward);
}

}  // namespace
}  // namespace sluice
