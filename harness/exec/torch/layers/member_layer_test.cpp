// Tensor-parallel layers on two threads, against numbers worked out by hand.
#include "harness/exec/torch/layers/member_layer.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "harness/exec/threads.h"

namespace sluice {
namespace {

Program group_of_two() {
  Program program{.ranks = {{}, {}}, .tensor = 2};
  program.placement.stages = {{Rank(0)}, {Rank(1)}};
  program.graph = stage_graph(2, {}, "test");
  return program;
}

// Calls work(member, its group) on a thread for each of two members.
void on_members(const std::function<void(int, TensorGroup&)>& work) {
  const Program program = group_of_two();
  const auto transport = make_thread_transport(program);
  std::vector<std::thread> threads;
  for (int k = 0; k < 2; ++k)
    threads.emplace_back([&, k] {
      const c10::InferenceMode no_autograd;
      TensorGroup group;
      group.join(*transport, program.tensor_group_of(Rank(k)), k);
      work(k, group);
    });
  for (std::thread& thread : threads) thread.join();
}

at::Tensor doubles(std::vector<double> values, std::vector<std::int64_t> shape) {
  return at::tensor(values, at::kDouble).view(shape);
}
const at::TensorOptions kMemberDouble = at::TensorOptions().dtype(at::kDouble);

// y = W2 W1 x + b2 with W1 = [1 2; 3 4], b1 = 0, W2 = [5 6; 7 8], b2 = [1 1] and x = [1 1]:
// W1 x = [3 7], y = [5 3 + 6 7 + 1, 7 3 + 8 7 + 1] = [58, 78]. With dy = [1 0]: dx = W1^T W2^T dy = [23 34].
TEST(MemberLayer, TwoLinearLayersByTwoAreWhatAHandWorksOut) {
  const ModelGraph model{.name = "pair",
                         .inputs = {{.shape = {2}}},
                         .layers = {{"norm", LayerNorm{2}, {-1}},
                                    {"up", Linear{2, 2}, {0}},
                                    {"down", Linear{2, 2}, {1}},
                                    {"loss", MseLoss{}, {2}}}};
  const TensorModel tensor = split_tensors(model, 2);
  const std::vector<at::Tensor> up{doubles({1, 2, 3, 4}, {2, 2}), doubles({0, 0}, {2})};
  const std::vector<at::Tensor> down{doubles({5, 6, 7, 8}, {2, 2}), doubles({1, 1}, {2})};
  on_members([&](int k, TensorGroup& group) {
    const auto parts = [&](const std::vector<at::Tensor>& whole, std::size_t layer) {
      std::vector<at::Tensor> own;
      for (std::size_t p = 0; p < whole.size(); ++p)
        own.push_back(part_of(whole[p], tensor.layers[layer].parameters[p], 2, k));
      return own;
    };
    const std::vector<at::Tensor> own_up = parts(up, 1), own_down = parts(down, 2);
    EXPECT_TRUE(at::equal(own_up[0], k == 0 ? doubles({1, 2}, {1, 2}) : doubles({3, 4}, {1, 2})));
    EXPECT_TRUE(at::equal(own_down[0], k == 0 ? doubles({5, 7}, {2, 1}) : doubles({6, 8}, {2, 1})));
    const std::vector<Shape> two{{2}}, one{{1}};
    const auto first = make_member_layer(tensor, 2 * 1 + k, two, kMemberDouble, group);
    const auto second = make_member_layer(tensor, 2 * 2 + k, one, kMemberDouble, group);
    LayerStash stash_up, stash_down;
    const at::Tensor x = doubles({1, 1}, {1, 2});
    const at::Tensor h = first->forward({&x, 1}, own_up, {}, {}, false, &stash_up);
    EXPECT_EQ(h.item<double>(), k == 0 ? 3 : 7);
    EXPECT_EQ(group.sums().count, 0);
    const at::Tensor y = second->forward({&h, 1}, own_down, {}, {}, false, &stash_down);
    EXPECT_TRUE(at::equal(y, doubles({58, 78}, {1, 2})));
    EXPECT_EQ(group.sums(), (TensorSums{1, 16}));
    const at::Tensor dy = doubles({1, 0}, {1, 2});
    const at::Tensor dh = second->input_gradient(dy, own_down, {true}, stash_down)[0];
    EXPECT_EQ(dh.item<double>(), k == 0 ? 5 : 6);
    const at::Tensor dx = first->input_gradient(dh, own_up, {true}, stash_up)[0];
    EXPECT_TRUE(at::equal(dx, doubles({23, 34}, {1, 2})));
    EXPECT_EQ(group.sums(), (TensorSums{2, 32}));
    // dW2 = dy (W1 x)^T, of which member k has column k; db2 = dy on both. dW1 = dh x^T, of which it has row k.
    std::vector<at::Tensor> d_down{at::zeros({2, 1}, kMemberDouble), at::zeros({2}, kMemberDouble)};
    LayerStash* stashes[] = {&stash_down};
    second->weight_gradient(stashes, d_down);
    EXPECT_TRUE(at::equal(d_down[0], doubles({k == 0 ? 3.0 : 7.0, 0}, {2, 1})));
    EXPECT_TRUE(at::equal(d_down[1], doubles({1, 0}, {2})));
    std::vector<at::Tensor> d_up{at::zeros({1, 2}, kMemberDouble), at::zeros({1}, kMemberDouble)};
    stashes[0] = &stash_up;
    first->weight_gradient(stashes, d_up);
    EXPECT_TRUE(at::equal(d_up[0], doubles(k == 0 ? std::vector{5.0, 5.0} : std::vector{6.0, 6.0}, {1, 2})));
  });
}

// Scores [0, ln 2 | ln 3, ln 2] of four classes on two members: the sum of the exponentials is 8.
TEST(MemberLayer, CrossEntropyOfTwoRangesIsThatOfAllClasses) {
  const ModelGraph model{.name = "classes",
                         .inputs = {{.shape = {2}}},
                         .layers = {{"head", Linear{2, 4}, {-1}}, {"loss", CrossEntropyLoss{}, {0}}}};
  const TensorModel tensor = split_tensors(model, 2);
  on_members([&](int k, TensorGroup& group) {
    const std::vector<Shape> scores_shape{{2}};
    const auto loss = make_member_layer(tensor, 2 + k, scores_shape, kMemberDouble, group);
    const at::Tensor scores =
        k == 0 ? doubles({0, std::log(2.0)}, {1, 2}) : doubles({std::log(3.0), std::log(2.0)}, {1, 2});
    const at::Tensor target = at::tensor(std::vector<std::int64_t>{2}, at::kLong);
    LayerStash stash;
    EXPECT_NEAR(loss->forward({&scores, 1}, {}, target, {}, false, &stash).item<double>(), std::log(8.0 / 3), 1e-15);
    const at::Tensor d = loss->input_gradient(at::ones({}, kMemberDouble), {}, {true}, stash)[0];
    EXPECT_TRUE(at::allclose(d, k == 0 ? doubles({1.0 / 8, 2.0 / 8}, {1, 2}) : doubles({-5.0 / 8, 2.0 / 8}, {1, 2}),
                             1e-14, 1e-15));
  });
}

TEST(MemberLayer, PartsOfAParameterAreTheWholeAgain) {
  const at::Tensor whole = at::arange(24, kMemberDouble).view({12, 2});
  for (const ParameterPart& part : {ParameterPart{0}, ParameterPart{0, {1, 1, 1}}, ParameterPart{0, {4, 1, 1}},
                                    ParameterPart{1}, ParameterPart{}}) {
    std::vector<at::Tensor> parts;
    for (int k = 0; k < 2; ++k) parts.push_back(part_of(whole, part, 2, k));
    EXPECT_TRUE(at::equal(whole_of(parts, part), whole))
        << part.dimension << ", " << ::testing::PrintToString(part.blocks);
  }
  // Of three blocks of four rows a member has half of each: the first one rows 0, 1, 4, 5, 8 and 9.
  EXPECT_TRUE(at::equal(part_of(whole, {0, {1, 1, 1}}, 2, 0).select(1, 0), doubles({0, 2, 8, 10, 16, 18}, {6})));
  // Of blocks of eight, two and two rows: rows 0 to 3, 8 and 10.
  EXPECT_TRUE(at::equal(part_of(whole, {0, {4, 1, 1}}, 2, 0).select(1, 0), doubles({0, 2, 4, 6, 16, 20}, {6})));
}

}  // namespace
}  // namespace sluice
