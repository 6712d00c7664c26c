#include "harness/model/module_stages.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

// Layers 0 to 6; the view is a function between modules.
const std::vector<NamedLayer> kLayers = {{"tok_embeddings", true}, {"layers.0.attention", true}, {"layers.0.mlp", true},
                                         {"view", false},          {"layers.10.mlp", true},      {"output", true},
                                         {"loss", false}};

std::vector<int> first_layers(const std::string& text) { return stages_of_modules(text, kLayers, "--stages"); }

TEST(ModuleStages, SayWithWhichLayersStagesBegin) {
  EXPECT_EQ(first_layers(R"([["tok_embeddings", "layers.0"], ["layers.10", "output"]])"), (std::vector{4}));
  EXPECT_EQ(first_layers(R"([["tok_embeddings"], ["layers.0"], ["layers.10"], ["output"]])"), (std::vector{1, 4, 5}));
  EXPECT_EQ(first_layers(R"([["tok_embeddings", "layers", "output"]])"), std::vector<int>());
  // The longest name counts.
  EXPECT_EQ(first_layers(R"([["tok_embeddings", "layers"], ["layers.10", "output"]])"), (std::vector{4}));
  EXPECT_EQ(first_layers(R"([["tok_embeddings", "layers.0.attention"], ["layers", "output"]])"), (std::vector{2}));
}

TEST(ModuleStages, WhatIsNoListOfModulesIsRejected) {
  const auto error = [](const std::string& text) { return error_of([&] { first_layers(text); }); };
  EXPECT_EQ(error("[]"),
            R"(--stages: the list has no stage; write [["tok_embeddings", "layers.0"], ["layers.1", "output"]])");
  EXPECT_NE(error(R"(["tok_embeddings"])").find("stage 0 is no list of modules"), std::string::npos);
  EXPECT_NE(error(R"([["tok_embeddings"], []])").find("stage 1 has no module"), std::string::npos);
  EXPECT_NE(error("[[1]]").find("stage 0 has what is no name"), std::string::npos);
  EXPECT_NE(error("0").find("is no list of stages"), std::string::npos);
  EXPECT_EQ(error("[["), "--stages:1:3: is not JSON; look at or before this place");
  EXPECT_EQ(error(R"([["tok_embeddings", "layers.0"], ["layers.0", "layers.10", "output"]])"),
            "--stages: the module 'layers.0' is given twice; give it once");
}

TEST(ModuleStages, ModulesThatAreNotTheModelsAreNamed) {
  const auto error = [](const std::string& text) { return error_of([&] { first_layers(text); }); };
  EXPECT_EQ(error(R"([["tok_embeddings"], ["layers.10", "output"]])"),
            "--stages: no stage has the layer 'layers.0.attention'; name its module in one of them");
  // "layers.1" is no part of "layers.10".
  EXPECT_EQ(error(R"([["tok_embeddings", "layers.0"], ["layers.1", "output"]])"),
            "--stages: no stage has the layer 'layers.10.mlp'; name its module in one of them");
  EXPECT_EQ(error(R"([["tok_embeddings", "layers"], ["output", "norm"]])"),
            "--stages: no layer is of the module 'norm'; sluice list FILE names them");
  EXPECT_EQ(error(R"([["layers", "output"], ["tok_embeddings"]])"),
            "--stages: the layer 'layers.0.attention' is in stage 0 and comes after one of stage 1; stages have the "
            "modules in the order in which they run");
}

}  // namespace
}  // namespace sluice
