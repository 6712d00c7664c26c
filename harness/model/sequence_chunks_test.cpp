#include "harness/model/sequence_chunks.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

// An embedding with positions, one block of attention, and a prediction at every position.
ModelGraph language_model(std::int64_t length, std::int64_t width) {
  return {.name = "m",
          .inputs = {{.shape = {length}, .is_token_ids = true}},
          .layers = {{.name = "embedding", .kind = Embedding{50, width}, .inputs = {-1}},
                     {.name = "positions", .kind = PositionEmbedding{length, width}, .inputs = {0}},
                     {.name = "attention", .kind = Attention{width, 2, true}, .inputs = {1}},
                     {.name = "add", .kind = Add{}, .inputs = {1, 2}},
                     {.name = "head", .kind = Linear{width, 50, false}, .inputs = {3}},
                     {.name = "loss", .kind = CrossEntropyLoss{}, .inputs = {4}}}};
}

using Cut = std::vector<std::int64_t>;

TEST(SequenceChunksTest, EvenChunksDifferByAPositionAtMost) {
  EXPECT_EQ(even_cut(12, 4), (Cut{0, 3, 6, 9, 12}));
  EXPECT_EQ(even_cut(11, 4), (Cut{0, 3, 6, 9, 11}));
  EXPECT_EQ(even_cut(5, 1), (Cut{0, 5}));
  EXPECT_EQ(error_of([&] { even_cut(3, 4); }),
            "sequence_chunks: 4 chunks of sequences of 3 positions; use at most as many chunks as there are positions");
}

// Pure attention: x_c = s sqrt(c / k), to the nearest position.
TEST(SequenceChunksTest, ChunksOfAttentionAloneEndAtRootsOfTheirShare) {
  const auto pairs = [](std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n) / 2; };
  EXPECT_EQ(balanced_cut(4096, 4, pairs), (Cut{0, 2048, 2896, 3547, 4096}));
}

// The authors' solver for 24 layers of width 4096, 32 heads, a feed-forward of 16384 and 32,000 words, at 16,384
// positions: 4930, 4238, 3776 and 3440 positions. It goes by another count of the FLOPs and rounds down from the end.
TEST(SequenceChunksTest, BalancedChunksAreThoseOfTheAuthorsSolver) {
  constexpr double layers = 24, h = 4096, feed_forward = 16384, heads = 32, words = 32000;
  constexpr double a = layers * (8 * h * h + 4 * h * feed_forward) + 4 * h * words;
  constexpr double b = layers * heads * (4 * (h / heads) + 3);
  const auto work = [&](std::int64_t n) { return a * static_cast<double>(n) + b * static_cast<double>(n * n) / 2; };
  const Cut cut = balanced_cut(16384, 4, work), theirs{0, 4930, 9168, 12944, 16384};
  for (std::size_t c = 0; c < cut.size(); ++c) EXPECT_LE(std::abs(cut[c] - theirs[c]), 4) << c;
}

TEST(SequenceChunksTest, NoChunkIsEmptyHoweverUnequalTheWork) {
  const auto steep = [](std::int64_t n) { return n == 4 ? 1000.0 : static_cast<double>(n); };
  EXPECT_EQ(balanced_cut(4, 4, steep), (Cut{0, 1, 2, 3, 4}));
}

TEST(SequenceChunksTest, WithoutAttentionABalancedCutIsEven) {
  ModelGraph model = language_model(64, 8);
  model.layers[2].kind = Linear{8, 8};
  EXPECT_EQ(balanced_cut(model, 4), even_cut(64, 4));
}

TEST(SequenceChunksTest, AttentionMakesTheFirstChunkTheLongest) {
  const Cut cut = balanced_cut(language_model(256, 8), 4);
  for (std::size_t c = 2; c < cut.size(); ++c) EXPECT_LT(cut[c] - cut[c - 1], cut[c - 1] - cut[c - 2]);
}

// Causal attention of width w over t positions: 8 t w^2 for its projections, 4 w t (t + 1) / 2 for its pairs.
TEST(SequenceChunksTest, SharesOfPairsAreThoseOfTheFormula) {
  const LayerSpec attention{.name = "a", .kind = Attention{8, 2, true}, .inputs = {-1}};
  const Shape x{16, 8};
  const PairShares shares = pair_shares(attention, {&x, 1});
  const double products = 8.0 * 16 * 64, pairs = 8.0 * 16 * 17 / 2;
  EXPECT_NEAR(shares.forward, 4 * pairs / (products + 4 * pairs), 1e-12);
  EXPECT_NEAR(shares.input_gradient, 10 * pairs / (products + 10 * pairs), 1e-12);
  const LayerSpec linear{.name = "l", .kind = Linear{8, 8}, .inputs = {-1}};
  EXPECT_EQ(pair_shares(linear, {&x, 1}).forward, 0);
  const Cut cut{0, 1, 3};
  EXPECT_DOUBLE_EQ(share_of_positions(cut, 1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(share_of_pairs(cut, 0), 1.0 / 6);
  EXPECT_DOUBLE_EQ(share_of_pairs(cut, 1), 5.0 / 6);
}

TEST(SequenceChunksTest, LayersThatLookAtOtherPositionsAreNamed) {
  EXPECT_EQ(sequence_fault(language_model(8, 4)), "");
  ModelGraph model = language_model(8, 4);
  model.layers[2].kind = Attention{4, 2, false};
  EXPECT_EQ(sequence_fault(model), "layer 'attention' (Attention) is not causal: every position attends to later ones");
  model.layers[2].kind = Attention{4, 2, true};
  model.layers[2].inputs = {1, -1};
  EXPECT_EQ(sequence_fault(model), "layer 'attention' (Attention) leaves out padding");
  model.layers[2] = {.name = "lstm", .kind = Lstm{4, 4}, .inputs = {1}};
  EXPECT_EQ(sequence_fault(model), "layer 'lstm' (Lstm) works on more than one position of a sequence");
  const ModelGraph image{.name = "m",
                         .inputs = {{.shape = {6}}},
                         .layers = {{.name = "first", .kind = Linear{6, 3}, .inputs = {-1}},
                                    {.name = "loss", .kind = CrossEntropyLoss{}, .inputs = {0}}}};
  EXPECT_EQ(sequence_fault(image), "layer 'first' (Linear) reads [6], which is no sequence of 6 positions");
  EXPECT_EQ(sequence_fault({}), "the workload has costs and no layers");
}

}  // namespace
}  // namespace sluice
