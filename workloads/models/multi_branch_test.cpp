// Sizes of the multi-branch models against the published ones (spec: GraphPipe, appendix A.2).
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

std::size_t layers_of_kind(const ModelGraph& model, const std::string& kind) {
  std::size_t n = 0;
  for (const LayerSpec& layer : model.layers) n += kind_name(layer.kind) == kind;
  return n;
}

Json published(const std::string& name) {
  return parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/graphpipe_workloads.json")[name];
}

TEST(MultiBranchTest, MultiModalTransformer) {
  const auto p = published("mmt");
  const ModelGraph& mmt = find_workload("mmt").model;
  const std::int64_t h = p["hidden"].get<std::int64_t>(), f = p["ffn_hidden"].get<std::int64_t>(),
                     branches = p["branches"].get<std::int64_t>(), layers = p["layers_per_branch"].get<std::int64_t>(),
                     sequence = p["seq"].get<std::int64_t>();
  EXPECT_EQ(mmt.inputs.size(), static_cast<std::size_t>(branches));
  EXPECT_EQ(mmt.inputs[0].shape, (Shape{sequence, h}));
  EXPECT_EQ(layers_of_kind(mmt, "Attention"), static_cast<std::size_t>(branches) * layers);
  // 12.583 M a layer and the head; our attention also has biases, 4 h a layer.
  EXPECT_EQ(parameter_count(mmt), branches * layers * (4 * h * h + 2 * h * f + 4 * h) + branches * h * h);
  // 6.711 GF a layer: 4 projections, 2 products of attention, 2 of the dense layers.
  const std::vector<Shape> shapes = mmt.shapes();
  double flops_forward = 0;
  for (std::size_t l = 0; l < 4; ++l)
    flops_forward +=
        flops(mmt.layers[l], std::vector<Shape>{l == 0 ? mmt.inputs[0].shape : shapes[l - 1]}).forward.value;
  EXPECT_NEAR(flops_forward, 6.711e9, 0.002e9);
  EXPECT_EQ(parameter_count(find_workload("mmt_sequential").model),
            branches * layers * (4 * h * h + 2 * h * f + 4 * h) + h * h);
}

TEST(MultiBranchTest, Recommendation) {
  const auto p = published("dlrm");
  const ModelGraph& dlrm = find_workload("dlrm").model;
  const std::int64_t w = p["width"].get<std::int64_t>(), dense = p["dense_branches"].get<std::int64_t>(),
                     sparse = p["sparse_branches"].get<std::int64_t>();
  EXPECT_EQ(dlrm.inputs.size(), static_cast<std::size_t>(dense + sparse));
  EXPECT_EQ(layers_of_kind(dlrm, "Embedding"), static_cast<std::size_t>(sparse));
  const std::int64_t joined = dense * w + sparse * p["bag"].get<int>() * p["emb_dim"].get<int>();
  EXPECT_EQ(joined, 73'472);
  const std::int64_t top = joined * w + w + 3 * (w * w + w) + w + 1;
  EXPECT_EQ(parameter_count(dlrm), dense * 4 * (w * w + w) + sparse * 1'000'000 * 64 + top);
  EXPECT_NEAR(4e-9 * static_cast<double>(parameter_count(dlrm)), 5.08, 0.005);  // GB
}

TEST(MultiBranchTest, DrugResponse) {
  const auto p = published("candle_uno");
  const ModelGraph& uno = find_workload("uno").model;
  const std::int64_t w = p["width"].get<std::int64_t>(), branches = p["branches"].get<std::int64_t>();
  EXPECT_EQ(uno.inputs.size(), static_cast<std::size_t>(branches));
  EXPECT_EQ(parameter_count(uno), branches * 4 * (w * w + w) + branches * w * w + w + 3 * (w * w + w) + w + 1);
  EXPECT_EQ(find_workload("uno_16_branches").model.inputs.size(), 16u);
}

TEST(MultiBranchTest, CaseStudy) {
  const auto p = published("case_study");
  const ModelGraph& model = find_workload("two_branch").model;
  EXPECT_EQ(model.inputs.size(), p["branches"].get<std::size_t>());
  EXPECT_EQ(layers_of_kind(model, "Attention"),
            p["branches"].get<std::size_t>() * p["blocks_per_branch"].get<std::size_t>());
}

TEST(MultiBranchTest, SmallOnesRunForRealOnOneDenseInput) {
  for (const char* name : {"mmt_small", "dlrm_small", "uno_small"}) {
    const Workload& w = find_workload(name);
    EXPECT_TRUE(w.runs_for_real) << name;
    ASSERT_EQ(w.model.inputs.size(), 1u) << name;
    EXPECT_FALSE(w.model.inputs[0].is_token_ids) << name;
    EXPECT_LT(parameter_count(w.model), 200'000) << name;
  }
}

}  // namespace
}  // namespace sluice
