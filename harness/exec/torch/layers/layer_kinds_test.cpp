// What single kinds of layers promise besides right gradients (layers_test.cpp).
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "harness/exec/torch/layers/autograd_reference.h"
#include "harness/exec/torch/layers/layers.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {
namespace {

using Kind = Activation::Kind;

TEST(Activation, WritesOverItsInputOnlyWhenAllowed) {
  const c10::InferenceMode guard;
  for (const Kind kind : {Kind::relu, Kind::tanh, Kind::sigmoid}) {
    const auto layer = make(Activation{kind});
    at::Tensor x = at::randn({2, 3});
    const at::Tensor apart = layer->forward({&x, 1}, {}, {}, {}, false, nullptr);
    EXPECT_NE(apart.const_data_ptr(), x.const_data_ptr());
    const at::Tensor over = layer->forward({&x, 1}, {}, {}, {}, true, nullptr);
    EXPECT_EQ(over.const_data_ptr(), x.const_data_ptr());
    EXPECT_TRUE(at::equal(over, apart));
  }
}

TEST(Activation, WritesOverAGradientThatNobodyElseHolds) {
  const c10::InferenceMode guard;
  const auto layer = make(Activation{Kind::relu});
  const at::Tensor x = at::randn({4, 3});
  LayerStash stash;
  layer->forward({&x, 1}, {}, {}, {}, false, &stash);
  at::Tensor dy = at::randn({4, 3});
  const void* const memory = dy.const_data_ptr();
  const at::Tensor expected = dy * (x > 0);
  const Tensors dx = layer->input_gradient(dy, {}, {true}, stash);
  EXPECT_EQ(dx[0].const_data_ptr(), memory);
  EXPECT_TRUE(at::equal(dx[0], expected));
  // A view elsewhere forbids it.
  layer->forward({&x, 1}, {}, {}, {}, false, &stash);
  at::Tensor held = at::randn({4, 3});
  const at::Tensor view = held.view({12});
  const at::Tensor copy = held.clone();
  layer->input_gradient(held, {}, {true}, stash);
  EXPECT_TRUE(at::equal(held, copy));
}

TEST(Dropout, MaskDependsOnSeedLayerAndSequenceOnly) {
  const c10::InferenceMode guard;
  const at::Tensor x = at::rand({50, 40}) + 1;
  const auto run = [&](int index, ForwardMode mode) {
    return make(Dropout{0.25}, index)->forward({&x, 1}, {}, {}, mode, false, nullptr);
  };
  const at::Tensor y = run(3, {.training = true, .seed = 7, .sequence = 11});
  EXPECT_TRUE(at::equal(y, run(3, {.training = true, .seed = 7, .sequence = 11})));
  EXPECT_FALSE(at::equal(y, run(4, {.training = true, .seed = 7, .sequence = 11})));
  EXPECT_FALSE(at::equal(y, run(3, {.training = true, .seed = 8, .sequence = 11})));
  EXPECT_FALSE(at::equal(y, run(3, {.training = true, .seed = 7, .sequence = 12})));
  EXPECT_NEAR((y == 0).to(at::kDouble).mean().item<double>(), 0.25, 0.04);
  EXPECT_TRUE(at::equal(run(3, {.training = false, .seed = 7, .sequence = 11}), x));
}

TEST(Dropout, SeveralMicroBatchesAtOnceHaveTheMasksOfEach) {
  const c10::InferenceMode guard;
  const at::Tensor x = at::rand({12, 40}) + 1;
  const auto layer = make(Dropout{0.25}, 3);
  const at::Tensor all =
      layer->forward({&x, 1}, {}, {}, {.seed = 7, .sequence = 6, .micro_batches = 3}, false, nullptr);
  for (int m = 0; m < 3; ++m) {
    const at::Tensor part = x.narrow(0, 4 * m, 4).clone();
    EXPECT_TRUE(at::equal(all.narrow(0, 4 * m, 4),
                          layer->forward({&part, 1}, {}, {}, {.seed = 7, .sequence = 6 + m}, false, nullptr)));
  }
}

TEST(Dropout, ScalesWhatItKeepsAndKeepsOneByteAnElement) {
  const c10::InferenceMode guard;
  const auto layer = make(Dropout{0.25}, 0);
  const at::Tensor x = at::rand({5, 4}, at::kDouble) + 1;
  StageStashTensors stash;
  stash.layers.resize(1);
  const at::Tensor y = layer->forward({&x, 1}, {}, {}, {}, false, &stash.layers[0]);
  EXPECT_EQ(StageModule::stash_bytes(stash), 20);
  const at::Tensor factor = (y != 0).to(at::kDouble) / 0.75;
  EXPECT_TRUE(at::allclose(y, x * factor, 0, 1e-12));
  const at::Tensor dy = at::randn({5, 4}, at::kDouble);
  EXPECT_TRUE(at::allclose(layer->input_gradient(dy, {}, {true}, stash.layers[0])[0], dy * factor, 0, 1e-12));
  EXPECT_EQ(StageModule::stash_bytes(stash), 0);
}

TEST(BatchNorm, EvaluatesWithTheRunningStatisticsOfTraining) {
  const c10::InferenceMode guard;
  const auto layer = make(BatchNorm{.features = 2, .momentum = 0.5}, at::kDouble);
  const Tensors w{at::ones({2}, at::kDouble), at::zeros({2}, at::kDouble)};
  const at::Tensor x = at::tensor({1.0, 10.0, 3.0, 30.0}, at::kDouble).view({2, 2});
  layer->forward({&x, 1}, w, {}, {}, false, nullptr);
  // Means 2 and 20 move half of the way from 0; unbiased variances 2 and 200 from 1.
  const Tensors state = layer->buffers();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_TRUE(at::allclose(state[0], at::tensor({1.0, 10.0}, at::kDouble)));
  EXPECT_TRUE(at::allclose(state[1], at::tensor({1.5, 100.5}, at::kDouble)));
  const at::Tensor y = layer->forward({&x, 1}, w, {}, {.training = false}, false, nullptr);
  EXPECT_NEAR(y[0][0].item<double>(), 0, 1e-6);
  EXPECT_NEAR(y[1][1].item<double>(), 20 / std::sqrt(100.5 + 1e-5), 1e-9);
  EXPECT_TRUE(at::allclose(state[0], at::tensor({1.0, 10.0}, at::kDouble)));
}

TEST(CrossEntropy, IsTheMeanOverASamplesRealPositions) {
  const c10::InferenceMode guard;
  const Shape prediction{3, 4};
  const auto layer = make(CrossEntropyLoss{}, {&prediction, 1});
  const at::Tensor x = at::randn({2, 3, 4}, at::kDouble);
  const at::Tensor target = at::tensor({2, 1, 0, 3, -100, -100}, at::kLong).view({2, 3});
  const at::Tensor log_p = at::log_softmax(x, 2);
  const auto p = [&](int b, int t, int c) { return log_p[b][t][c].item<double>(); };
  LayerStash stash;
  const at::Tensor loss = layer->forward({&x, 1}, {}, target, {}, false, &stash);
  EXPECT_NEAR(loss.item<double>(), -((p(0, 0, 2) + p(0, 1, 1) + p(0, 2, 0)) / 3 + p(1, 0, 3)) / 2, 1e-12);
  const at::Tensor dx = layer->input_gradient(at::ones({}, at::kDouble), {}, {true}, stash)[0];
  EXPECT_TRUE(at::equal(dx[1].narrow(0, 1, 2), at::zeros({2, 4}, at::kDouble)));
  EXPECT_NEAR(dx[1][0][3].item<double>(), (std::exp(p(1, 0, 3)) - 1) / 2, 1e-12);
  EXPECT_NEAR(dx[0][0][3].item<double>(), std::exp(p(0, 0, 3)) / 6, 1e-12);
}

TEST(Padding, DoesNotChangeWhatStandsBeforeIt) {
  // The same two tokens, alone and with padding after them: layers over real tokens must agree.
  const c10::InferenceMode guard;
  const at::Tensor x = at::randn({1, 2, 6}, at::kDouble);
  const at::Tensor longer = at::cat({x, at::randn({1, 3, 6}, at::kDouble)}, 1);
  const at::Tensor two = at::tensor({5, 7}, at::kLong).view({1, 2});
  const at::Tensor five = at::tensor({5, 7, 0, 0, 0}, at::kLong).view({1, 5});
  const std::vector<Shape> short_shapes{{2, 6}, {2}}, long_shapes{{5, 6}, {5}};
  for (const LayerKind& kind :
       {LayerKind(Lstm{6, 4, true}), LayerKind(Lstm{6, 4}), LayerKind(Attention{6, 2}),
        LayerKind(SequencePool{SequencePool::Mode::mean}), LayerKind(SequencePool{SequencePool::Mode::last})}) {
    SCOPED_TRACE(kind_name(kind));
    const LayerSpec spec{.name = "layer", .kind = kind, .inputs = {}};
    Tensors w;
    for (const ParameterSpec& parameter : parameters(spec)) w.push_back(at::randn(parameter.shape, at::kDouble));
    const Tensors plain{x, two}, with_padding{longer, five};
    const at::Tensor a = make_layer(spec, short_shapes, 0, at::kDouble)->forward(plain, w, {}, {}, false, nullptr);
    at::Tensor b = make_layer(spec, long_shapes, 0, at::kDouble)->forward(with_padding, w, {}, {}, false, nullptr);
    if (b.dim() == 3) b = b.narrow(1, 0, 2);
    EXPECT_TRUE(at::allclose(a, b, 0, 1e-12));
  }
}

// One expert that doubles, one that triples and one of zeros, of vectors of one number: x goes to the first where it is
// negative, to the second where it is positive.
struct SmallExperts {
  Experts spec{.features = 1,
               .hidden = 1,
               .experts = 3,
               .top_k = 1,
               .gated = false,
               .activation = Kind::leaky_relu,
               .capacity = 0};
  Tensors weights{at::tensor({-1.0, 1.0, 0.0}, at::kDouble).view({3, 1}),
                  at::tensor({-1.0, 1.0, 0.0}, at::kDouble).view({3, 1, 1}),
                  at::tensor({-2.0, 3.0, 0.0}, at::kDouble).view({3, 1, 1})};

  at::Tensor operator()(const at::Tensor& x) const {
    return make(spec)->forward({&x, 1}, weights, {}, {}, false, nullptr);
  }
};

TEST(ExpertsLayer, OfEqualScoresTakesTheLowerNumber) {
  const c10::InferenceMode guard;
  SmallExperts experts;
  const at::Tensor x = at::tensor({-5.0, 4.0}, at::kDouble).view({1, 2, 1});
  EXPECT_TRUE(at::equal(experts(x), at::tensor({-10.0, 12.0}, at::kDouble).view({1, 2, 1})));
  experts.weights[0].zero_();  // 2 (-x) and leaky: -(-2 x 0.01 x 4)
  EXPECT_TRUE(at::allclose(experts(x), at::tensor({-10.0, 0.08}, at::kDouble).view({1, 2, 1})));
}

TEST(ExpertsLayer, DropsLaterTokensOfEverySampleByItself) {
  const c10::InferenceMode guard;
  SmallExperts experts;
  experts.spec.capacity = 1.5;  // 1.5 x 4 / 3 = 2 tokens
  const at::Tensor x = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, -1.0, 6.0, 7.0}, at::kDouble).view({2, 4, 1});
  const at::Tensor y = at::tensor({3.0, 6.0, 0.0, 0.0, 15.0, -2.0, 18.0, 0.0}, at::kDouble).view({2, 4, 1});
  EXPECT_TRUE(at::equal(experts(x), y));
  for (int sample = 0; sample < 2; ++sample)
    EXPECT_TRUE(at::equal(experts(x.narrow(0, sample, 1)), y.narrow(0, sample, 1)));
}

TEST(Product, OfLargeMatricesIsThatOfDoublesWhateverTheirLayout) {
  at::manual_seed(5);
  const auto near = [](const at::Tensor& ours, const at::Tensor& exact) {
    return ours.is_contiguous() && ((ours.to(at::kDouble) - exact).norm() / exact.norm()).item<double>() < 1e-6;
  };
  // Below and above the size from which they are oneDNN's.
  for (const auto& [m, k, n] : {std::tuple{8, 64, 64}, {128, 256, 768}, {50, 1000, 300}}) {
    const at::Tensor a = at::randn({m, k}), b = at::randn({k, n}), bias = at::randn({n});
    const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    const at::Tensor columns_first = b.t().contiguous().t();
    for (const at::Tensor& right : {b, columns_first}) {
      EXPECT_TRUE(near(product(a, right), exact)) << m << " " << k << " " << n;
      EXPECT_TRUE(near(product(a.t().contiguous().t(), right), exact));
      EXPECT_TRUE(near(product(a, right, &bias), exact + bias));
      // The same bits every time: on them rests what is said of equal weights.
      EXPECT_TRUE(at::equal(product(a, right), product(a, right)));
    }
    EXPECT_TRUE(at::equal(product(a.to(at::kDouble), b.to(at::kDouble)), exact));
  }
}

TEST(AttentionCore, ProductsAgreeWithTheFlashKernel) {
  const c10::InferenceMode guard;
  for (const bool causal : {false, true}) {
    const at::Tensor q = at::randn({2, 3, 5, 4}, at::kDouble), k = at::randn_like(q), v = at::randn_like(q),
                     dy = at::randn_like(q);
    const AttentionCore flash = attend_flash(q, k, v, causal);
    const AttentionCore products = attend_products(q, k, v, causal);
    EXPECT_TRUE(at::allclose(products.output, flash.output, 0, 1e-12));
    EXPECT_TRUE(at::allclose(products.log_sum_exp, flash.log_sum_exp, 0, 1e-12));
    const auto a = attend_flash_backward(dy, q, k, v, flash, causal);
    const auto b = attend_products_backward(dy, q, k, v, products, causal);
    EXPECT_TRUE(at::allclose(a.q, b.q, 0, 1e-12));
    EXPECT_TRUE(at::allclose(a.k, b.k, 0, 1e-12));
    EXPECT_TRUE(at::allclose(a.v, b.v, 0, 1e-12));
  }
}

TEST(AttentionCore, ProductsAgreeWithTheFlashKernelAcrossSequencesWithPadding) {
  const c10::InferenceMode guard;
  const at::Tensor q = at::randn({2, 3, 5, 4}, at::kDouble), k = at::randn({2, 3, 7, 4}, at::kDouble),
                   v = at::randn_like(k), dy = at::randn_like(q);
  const at::Tensor ids = at::tensor({1, 2, 3, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 0}, at::kLong).view({2, 7});
  const AttentionCore flash = attend_flash(q, k, v, false, ids);
  const AttentionCore products = attend_products(q, k, v, false, ids);
  EXPECT_TRUE(at::allclose(products.output, flash.output, 0, 1e-12));
  const auto a = attend_flash_backward(dy, q, k, v, flash, false, ids);
  const auto b = attend_products_backward(dy, q, k, v, products, false, ids);
  EXPECT_TRUE(at::allclose(a.q, b.q, 0, 1e-12));
  EXPECT_TRUE(at::allclose(a.k, b.k, 0, 1e-12));
  EXPECT_TRUE(at::allclose(a.v, b.v, 0, 1e-12));
  EXPECT_TRUE(at::equal(a.k[0].narrow(1, 3, 4), at::zeros({3, 4, 4}, at::kDouble)));
}

}  // namespace
}  // namespace sluice
