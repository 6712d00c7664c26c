// Experts spread over replicas: what a replica holds, what it keeps and what it exchanges.
#include "harness/model/expert_spread.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

// Six tokens of eight features: 12 rows of four experts.
ModelGraph model_of(const Experts& experts, bool norm = true) {
  ModelGraph model{.name = "moe", .inputs = {{.shape = {6, 8}}}, .layers = {}};
  if (norm) model.layers.push_back({"norm", LayerNorm{8}, {-1}});
  model.layers.push_back({"experts", experts, {norm ? 0 : -1}});
  model.layers.push_back({"loss", MseLoss{}, {norm ? 1 : 0}});
  return model;
}

TEST(ExpertSpread, AReplicaHoldsAPartOfTheExpertsAndTheWholeRouter) {
  const ModelGraph model = model_of({.features = 8, .hidden = 5, .experts = 4});
  const ModelGraph spread = spread_experts(model, 2);
  EXPECT_EQ(parameter_count(model.layers[1]), 4 * 8 + 3 * 4 * 5 * 8);
  EXPECT_EQ(parameter_count(spread.layers[1]), 4 * 8 + 3 * 2 * 5 * 8);
  EXPECT_EQ(parameter_count(spread.layers[0]), parameter_count(model.layers[0]));
  EXPECT_EQ(replicas_of_experts(spread), 2);
  EXPECT_FALSE(is_part_of_experts(spread.layers[1], 0));
  for (const std::size_t matrix : {1, 2, 3}) EXPECT_TRUE(is_part_of_experts(spread.layers[1], matrix));
  EXPECT_FALSE(is_part_of_experts(spread.layers[0], 1));
  EXPECT_EQ(parameter_count(with_whole_experts(spread)), parameter_count(model));
  EXPECT_EQ(replicas_of_experts(with_whole_experts(spread)), 1);
}

// It takes a half of its own rows and as many of the other replica's.
TEST(ExpertSpread, AReplicaComputesAsManyRowsAsWithAllExperts) {
  const ModelGraph model = model_of({.features = 8, .hidden = 5, .experts = 4});
  const ModelGraph spread = spread_experts(model, 2);
  EXPECT_EQ(std::get<Experts>(spread.layers[1].kind).rows_of(6), 12);
  EXPECT_EQ(flops(spread.layers[1], {{Shape{6, 8}}}).forward, flops(model.layers[1], {{Shape{6, 8}}}).forward);
  // At most one token for each of the four experts.
  const ModelGraph tight = spread_experts(model_of({.features = 8, .hidden = 5, .experts = 4, .capacity = 0.3}), 2);
  EXPECT_EQ(std::get<Experts>(tight.layers[1].kind).rows_of(6), 4);
}

TEST(ExpertSpread, FourAllToAllsAMicroBatchCarryTheRows) {
  const ExpertExchanges of_layer =
      expert_exchanges(spread_experts(model_of({.features = 8, .hidden = 5, .experts = 4}), 2))[1];
  EXPECT_EQ(of_layer.forward, (std::vector<std::int64_t>{12 * 8, 12 * 8}));
  EXPECT_EQ(of_layer.input_gradient, (std::vector<std::int64_t>{12 * 8, 12 * 9}));
  // Of a layer whose input needs no gradient, only the numbers for the router go back.
  const ExpertExchanges of_first =
      expert_exchanges(spread_experts(model_of({.features = 8, .hidden = 5, .experts = 4}, false), 4))[0];
  EXPECT_EQ(of_first.input_gradient, (std::vector<std::int64_t>{12 * 8, 12}));
  EXPECT_TRUE(expert_exchanges(model_of({.features = 8, .hidden = 5, .experts = 4}))[1].forward.empty());
}

// 12 rows of 8 features in 4 bytes, between F and W; of output gradients, too, from I on; not the own output gradient.
TEST(ExpertSpread, RowsOfOtherReplicasAreKept) {
  const ModelGraph model = model_of({.features = 8, .hidden = 5, .experts = 4});
  const Shape in{6, 8};
  const StashSpec whole = stash(model.layers[1], {&in, 1}),
                  spread = stash(spread_experts(model, 2).layers[1], {&in, 1});
  EXPECT_EQ(spread.extra, whole.extra + Bytes(12 * 8 * 4));
  EXPECT_EQ(spread.extra_until_weight_gradient, whole.extra_until_weight_gradient + Bytes(2 * 12 * 8 * 4));
  EXPECT_TRUE(spread.keeps_input && spread.input_until_weight_gradient);
  EXPECT_FALSE(spread.output_gradient_until_weight_gradient);
}

TEST(ExpertSpread, NamesWhatCannotBeSpread) {
  ModelGraph model = model_of({.features = 8, .hidden = 5, .experts = 4});
  EXPECT_EQ(
      error_of([&] { spread_experts(model, 3); }),
      "layer 'experts': 4 experts cannot be spread over 3 replicas; choose a number of replicas that divides them");
  model.layers[1].frozen = true;
  EXPECT_EQ(error_of([&] { spread_experts(model, 2); }),
            "layer 'experts': is frozen, and frozen experts are not spread; use replicated experts");
  model.layers.erase(model.layers.begin() + 1);
  model.layers.back().inputs = {0};
  EXPECT_EQ(error_of([&] { spread_experts(model, 2); }),
            "model 'moe': has no layer of the kind Experts; use replicated experts");
}

}  // namespace
}  // namespace sluice
