#include "harness/exec/profile_samples.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Kind = ProbeSample::Kind;

ChainSamples empty(std::size_t layers) {
  ChainSamples sum;
  sum.layers.resize(layers);
  sum.load.resize(layers);
  sum.loaded.assign(layers, 0);
  return sum;
}

// One forward op of a layer, and the step that ends the update.
void add_update(std::vector<ProbeSample>& rank, double forward, double step) {
  rank.push_back({.kind = Kind::forward, .stage = StageId(0), .layer = 0, .start = 0, .end = forward});
  rank.push_back({.kind = Kind::op, .opcode = Opcode::forward, .stage = StageId(0), .start = 0, .end = forward});
  rank.push_back(
      {.kind = Kind::step, .opcode = Opcode::optimizer_step, .stage = StageId(0), .start = 9, .end = 9 + step});
}

TEST(ProfileSamplesTest, TheUpdatesBetweenTheQuartilesCountWhole) {
  std::vector<ProbeSample> rank;
  add_update(rank, 500, 500);  // warm-up
  // Eight updates: 2, 3, 4, 5, 6, 7, 8 and 101 seconds, of which 4, 5, 6 and 7 count.
  for (const double forward : {3.0, 1.0, 100.0, 5.0, 2.0, 6.0, 4.0, 7.0}) add_update(rank, forward, 1);
  ChainSamples sum = empty(1);
  add_samples(sum, rank, {}, 1);
  EXPECT_EQ(sum.layers[0].forward.seconds, (std::vector{3.0, 4.0, 5.0, 6.0}));
  EXPECT_EQ(sum.step, (std::vector{1.0, 1.0, 1.0, 1.0}));
  EXPECT_DOUBLE_EQ(mean_of(sum.layers[0].forward.seconds), 4.5);
  EXPECT_EQ(mean_of({}), 0);
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3, 4, 5, 6, 7, 8}), (7.0 - 3) / 2 / 5);
}

TEST(ProfileSamplesTest, AnOpIsItsLayersItsDataAndTheRest) {
  const StageId stage(0);
  const std::vector<ProbeSample> rank = {
      {.kind = Kind::load, .stage = stage, .layer = -1, .start = 0, .end = 1, .left = 64},
      {.kind = Kind::forward, .stage = stage, .layer = 0, .start = 1, .end = 3, .peak = 32, .left = 16},
      {.kind = Kind::forward, .stage = stage, .layer = 1, .start = 3, .end = 6},
      {.kind = Kind::op, .opcode = Opcode::forward, .stage = stage, .start = 0, .end = 6.5},
      {.kind = Kind::input_gradient, .stage = stage, .layer = 1, .start = 7, .end = 8},
      {.kind = Kind::clear, .stage = stage, .start = 8, .end = 8.25},
      {.kind = Kind::weight_gradient, .stage = stage, .layer = 0, .microbatches = 2, .start = 8.25, .end = 12.25},
      {.kind = Kind::op, .opcode = Opcode::backward, .stage = stage, .start = 7, .end = 12.5},
      {.kind = Kind::step, .opcode = Opcode::optimizer_step, .stage = stage, .start = 13, .end = 14, .peak = 8}};
  ChainSamples sum = empty(2);
  const std::vector<int> readers = {0};
  add_samples(sum, rank, readers, 0);
  EXPECT_EQ(sum.load[0], (std::vector{1.0}));
  EXPECT_EQ(sum.loaded[0], 64);
  EXPECT_EQ(sum.layers[0].forward.seconds, (std::vector{2.0}));
  EXPECT_EQ(sum.layers[0].forward.peak, 32);
  EXPECT_EQ(sum.layers[1].forward.seconds, (std::vector{3.0}));
  EXPECT_EQ(sum.forward_rest, (std::vector{0.5}));
  EXPECT_EQ(sum.layers[0].weight_gradient.seconds, (std::vector{2.0}));  // of one of two micro-batches
  EXPECT_EQ(sum.clear, (std::vector{0.25}));
  EXPECT_EQ(sum.backward_rest, (std::vector{0.25}));
  EXPECT_EQ(sum.step, (std::vector{1.0}));
  ChainSamples warmed = empty(2);
  add_samples(warmed, rank, readers, 1);
  EXPECT_TRUE(warmed.step.empty());
}

TEST(ProfileSamplesTest, WhatASampleCostsIsNoPartOfAnOp) {
  const std::vector<ProbeSample> rank = {
      {.kind = Kind::forward, .stage = StageId(0), .layer = 0, .start = 0.5, .end = 2.75},
      {.kind = Kind::op, .opcode = Opcode::forward, .stage = StageId(0), .start = 0, .end = 4},
      {.kind = Kind::step, .opcode = Opcode::optimizer_step, .stage = StageId(0), .start = 5, .end = 6}};
  ChainSamples sum = empty(1);
  add_samples(sum, rank, {}, 0, {.within = 0.25, .whole = 1});
  EXPECT_EQ(sum.layers[0].forward.seconds, (std::vector{2.0}));
  EXPECT_EQ(sum.forward_rest, (std::vector{0.75}));  // 4 - 0.25, without 2 of the layer and 1 of sampling it
  EXPECT_EQ(sum.step, (std::vector{0.75}));
}

TEST(ProfileSamplesTest, ForwardsBeforeARecomputationKeepNoStash) {
  const std::vector<ProbeSample> rank = {
      {.kind = Kind::forward, .stage = StageId(0), .layer = 0, .start = 0, .end = 1, .peak = 5},
      {.kind = Kind::op, .opcode = Opcode::forward, .stage = StageId(0), .start = 0, .end = 1},
      {.kind = Kind::forward, .stage = StageId(0), .layer = 0, .start = 1, .end = 2, .peak = 9},
      {.kind = Kind::op, .opcode = Opcode::recompute, .stage = StageId(0), .start = 1, .end = 2}};
  ChainSamples sum = empty(1);
  add_samples(sum, rank, {}, 0);
  EXPECT_EQ(sum.layers[0].unstashed.peak, 5);
  EXPECT_EQ(sum.layers[0].forward.peak, 9);
}

}  // namespace
}  // namespace sluice
