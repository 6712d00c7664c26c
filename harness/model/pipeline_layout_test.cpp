#include "harness/model/pipeline_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/model/fold_layers.h"
#include "harness/model/layer_spec.h"

namespace sluice {
namespace {

// An embedding, `blocks` blocks of two layers, a head and a loss: the layers 0, 1 .. 2 blocks, 2 blocks + 1, + 2.
ModelGraph small(int blocks) {
  ModelGraph model{.name = "small", .inputs = {{.shape = {8}}}};
  const auto add = [&](const std::string& name, LayerKind kind) {
    model.layers.push_back(
        {.name = name, .kind = std::move(kind), .inputs = {static_cast<int>(model.layers.size()) - 1}});
  };
  add("embedding", Linear{8, 8});
  for (int b = 0; b < blocks; ++b) {
    add("linear_" + std::to_string(b), Linear{8, 8});
    add("relu_" + std::to_string(b), Activation{});
  }
  add("head", Linear{8, 4});
  add("loss", MseLoss{});
  return model;
}

std::vector<int> read(const std::string& text, int blocks) { return stages_of_layout(text, small(blocks), "--stages"); }

TEST(PipelineLayout, SaysWithWhichLayersStagesBegin) {
  EXPECT_EQ(read("Et|tt|tL", 4), (std::vector{3, 7}));
  EXPECT_EQ(read("E|t*4|L", 4), (std::vector{1, 9}));
  EXPECT_EQ(read("Et*2|(t|)*2L", 4), (std::vector{5, 7, 9}));
  EXPECT_EQ(read("EttttL", 4), std::vector<int>());
}

// The one of NVIDIA-NeMo/Megatron-Bridge#5391: 80 blocks on 8 x 5 stages of 2, 34 times 2, 3, three times 2, and 1.
TEST(PipelineLayout, ReadsAndWritesThePublishedOneOf80Blocks) {
  const std::vector<int> first = read("Ett|(tt|)*34,ttt|(tt|)*3,tL", 80);
  ASSERT_EQ(first.size(), 39u);
  EXPECT_EQ(first[0], 1 + 2 * 2);
  EXPECT_EQ(first[34], 1 + 2 * (2 + 34 * 2));
  EXPECT_EQ(first[35], first[34] + 2 * 3);
  EXPECT_EQ(first[38], 1 + 2 * 79);
  EXPECT_EQ(layout_of_stages(first, small(80)), "Ett|(tt|)*34,t*3|(tt|)*3,tL");
}

TEST(PipelineLayout, WritesNothingWhereACutIsWithinABlock) {
  EXPECT_EQ(layout_of_stages(std::vector{3, 8}, small(4)), "");
  EXPECT_EQ(layout_of_stages(std::vector{3, 7}, small(4)), "Et|tt|tL");
  EXPECT_EQ(layout_of_stages(std::vector{10}, small(4)), "");  // before the loss
}

RC_GTEST_PROP(PipelineLayout, WhatIsWrittenIsReadAsTheSameStages, ()) {
  const int blocks = *rc::gen::inRange(3, 40);
  std::vector<int> first;
  for (int b = 0; b <= blocks; ++b)
    if (*rc::gen::arbitrary<bool>()) first.push_back(1 + 2 * b);
  RC_ASSERT(read(layout_of_stages(first, small(blocks)), blocks) == first);
}

TEST(PipelineLayout, RejectsOthers) {
  const auto error = [](const std::string& text) { return error_of([&] { read(text, 4); }); };
  EXPECT_EQ(error("Ettt|L"), "--stages: layout 'Ettt|L': it has 3 blocks, and 'small' has 4; count the t's again");
  for (const char* text : {"E|tttt", "ttEttL", "Etttt||L", "Et*4|", "|Ett|ttL", "E(t|*4L", "Et)*4L", "Et*L", "Et*0,L",
                           "Ett|xttL", "E((t|)*2)*2L", "Et*99999999|L", "EttttmL", "Et*4.5|L"})
    EXPECT_NE(error(text).find("layout '"), std::string::npos) << text << ": " << error(text);
  ModelGraph model = small(2);
  EXPECT_NE(error_of([&] { stages_of_layout("EttL", model, "--stages"); }).find("has no blocks that repeat"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
