// Published models: parameters and layers as their papers count them.
#include "workloads/models/published.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/error.h"

namespace sluice {
namespace {

PublishedModel make(const std::string& family, const std::map<std::string, std::int64_t>& sizes = {}) {
  return published_model(family, sizes, "test");
}

TEST(PublishedModel, ResNetsHaveTheirParametersAndTorchgpipesLayers) {
  const PublishedModel model = make("resnet101");
  EXPECT_EQ(model.parameters, 44'549'160);
  EXPECT_EQ(model.units, 370);
  EXPECT_NEAR(model.forward_flops / 1e9, 15.60, 0.2);  // normalisations, activations and pools included
  EXPECT_EQ(make("resnet50").parameters, 25'557'032);
  EXPECT_EQ(make("vgg16").parameters, 138'357'544);
}

TEST(PublishedModel, AmoebaNetsHaveTheirParametersAndCells) {
  const struct {
    int layers, filters;
    double millions;
  } published[] = {{18, 208, 81.5055}, {18, 256, 122.47}, {18, 416, 319.0241}, {36, 544, 1055.832}};
  for (const auto& p : published) {
    const PublishedModel model = make("amoebanet_d", {{"layers", p.layers}, {"filters", p.filters}});
    EXPECT_NEAR(static_cast<double>(model.parameters) / 1e6, p.millions, 0.005);
    EXPECT_EQ(model.units, p.layers + 6);
    EXPECT_TRUE(std::ranges::is_sorted(model.unit_of_layer));
  }
}

TEST(PublishedModel, UNetsHaveTheirParametersLayersAndWork) {
  const PublishedModel speed = make("unet", {{"convolutions", 5}, {"channels", 64}});
  EXPECT_EQ(speed.units, 241);
  EXPECT_EQ(speed.unit_of_layer.size(), speed.graph.layers.size());
  EXPECT_TRUE(std::ranges::is_sorted(speed.unit_of_layer));
  EXPECT_NEAR(static_cast<double>(speed.parameters) / 1e6, 232.69, 0.005);
  EXPECT_NEAR(speed.forward_flops / 1e9, 97.97, 1);  // there without the functions of single elements

  EXPECT_EQ(make("unet", {{"convolutions", 6}, {"channels", 72}}).units, 285);
  EXPECT_NEAR(static_cast<double>(make("unet", {{"convolutions", 6}, {"channels", 72}}).parameters) / 1e6, 362.1575,
              1e-4);
  EXPECT_NEAR(static_cast<double>(make("unet", {{"convolutions", 48}, {"channels", 160}}).parameters) / 1e6, 15822.206,
              1e-3);
}

TEST(PublishedModel, ABlockOfATransformerIsALayer) {
  const PublishedModel model =
      make("gpt", {{"layers", 4}, {"hidden", 64}, {"heads", 2}, {"sequence", 16}, {"vocabulary", 100}});
  EXPECT_EQ(model.units, 4);
  EXPECT_TRUE(std::ranges::is_sorted(model.unit_of_layer));
}

TEST(PublishedModel, RejectsUnknownFamiliesAndSizes) {
  EXPECT_THROW(make("resnet1001"), InputError);
  EXPECT_THROW(make("unet", {{"channels", 64}}), InputError);
  EXPECT_THROW(make("unet", {{"convolutions", 1}, {"channels", 64}}), InputError);
  EXPECT_THROW(make("unet", {{"convolutions", 100'000}, {"channels", 64}}), InputError);
  EXPECT_THROW(make("resnet50", {{"layers", 3}}), InputError);
}

}  // namespace
}  // namespace sluice
