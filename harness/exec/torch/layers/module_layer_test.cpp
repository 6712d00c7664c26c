// A Module is TorchScript under autograd: F, I and W have autograd's numbers, with whichever weights I is given.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/exec/torch/layers/autograd_reference.h"
#include "harness/exec/torch/layers/layers.h"
#include "harness/exec/torch/layers/script_module.h"
#include "harness/exec/torch/stage/memory_counter.h"

namespace sluice {
namespace {

std::string folder() { return testing::TempDir() + "/module_layer_test"; }

LayerSpec layer_of(Module module) { return {.name = "part", .kind = std::move(module), .inputs = {0}}; }

// Two products on the way to the input, a norm, a skip, and a weight that acts by itself.
constexpr const char* kBlock = R"(
def forward(self, x, a, b, scale):
    return x + torch.matmul(torch.tanh(torch.matmul(torch.layer_norm(x, [4]), a.t())), b.t()) * scale
def evaluate(self, x, a, b, scale):
    return self.forward(x, a, b, scale)
)";
at::Tensor block(const at::Tensor& x, const Tensors& w) {
  return x + at::matmul(at::tanh(at::matmul(at::layer_norm(x, {4}), w[0].t())), w[1].t()) * w[2];
}

struct Gradients {
  at::Tensor y, dx;
  Tensors dw;
};

// By autograd.
template <class Function>
Gradients expected(Function function, const at::Tensor& x, const Tensors& weights, const at::Tensor& dy) {
  const at::Tensor leaf = leaves({x})[0];
  const Tensors w = leaves(weights);
  const at::Tensor y = function(leaf, w);
  y.backward(dy);
  return {y.detach(), leaf.grad(), gradients_of(w)};
}

// By the layer. of_input: the weights of I.
Gradients found(Layer& layer, const at::Tensor& x, const Tensors& weights, const at::Tensor& dy,
                const Tensors& of_input = {}) {
  const c10::InferenceMode guard;
  const at::Tensor input = x.clone(), gradient = dy.clone();  // made under the guard, as a stage's
  LayerStash stash;
  Gradients g;
  g.y = layer.forward({&input, 1}, weights, {}, {}, false, &stash);
  g.dx = layer.input_gradient(gradient, of_input.empty() ? weights : of_input, {true}, stash)[0];
  for (const at::Tensor& w : weights) g.dw.push_back(at::ones_like(w));  // what is there already stays
  LayerStash* const one = &stash;
  layer.weight_gradient({&one, 1}, g.dw);
  for (const at::Tensor& w : g.dw) w.sub_(1);
  EXPECT_TRUE(stash.kept.empty());
  return g;
}

void expect_equal(const Gradients& ours, const Gradients& theirs) {
  EXPECT_TRUE(at::allclose(ours.y, theirs.y, 1e-10, 1e-12));
  EXPECT_TRUE(at::allclose(ours.dx, theirs.dx, 1e-10, 1e-12));
  for (std::size_t i = 0; i < theirs.dw.size(); ++i)
    EXPECT_TRUE(at::allclose(ours.dw[i], theirs.dw[i], 1e-10, 1e-12)) << "weight " << i;
}

class ModuleLayer : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    x_ = torch::randn({5, 4}, at::kDouble);
    dy_ = torch::randn({5, 4}, at::kDouble);
    weights_ = {torch::randn({6, 4}, at::kDouble), torch::randn({4, 6}, at::kDouble), torch::randn({4}, at::kDouble)};
  }
  Module written(const std::string& name, const std::string& source) const {
    return script_module(folder(), name, {.output = {4}}, source, weights_);
  }
  std::unique_ptr<Layer> make_it(const Module& module) const { return make_module(layer_of(module), 1, at::kDouble); }

  at::Tensor x_, dy_;
  Tensors weights_;
};

TEST_F(ModuleLayer, MatchesAutograd) {
  const auto layer = make_it(written("block", kBlock));
  expect_equal(found(*layer, x_, weights_, dy_), expected(block, x_, weights_, dy_));
}

TEST_F(ModuleLayer, AWeightThatIsReadTwiceHasTheSumOfBothGradients) {
  const auto layer = make_it(written("twice", R"(
def forward(self, x, a, b, scale):
    y = torch.matmul(torch.matmul(x, a.t()), b.t())
    return torch.matmul(torch.matmul(y, a.t()), b.t()) * scale
def evaluate(self, x, a, b, scale):
    return x
)"));
  const auto twice = [](const at::Tensor& x, const Tensors& w) {
    const at::Tensor y = at::matmul(at::matmul(x, w[0].t()), w[1].t());
    return at::matmul(at::matmul(y, w[0].t()), w[1].t()) * w[2];
  };
  expect_equal(found(*layer, x_, weights_, dy_), expected(twice, x_, weights_, dy_));
}

// As Linear: dx = dy W of the weights that I is given, and dW = dy^T x.
TEST_F(ModuleLayer, InputGradientsAreOfTheWeightsThatTheyAreGiven) {
  weights_ = {torch::randn({4, 4}, at::kDouble)};
  const auto layer = make_it(written("linear", R"(
def forward(self, x, w):
    return torch.matmul(x, w.t())
def evaluate(self, x, w):
    return torch.matmul(x, w.t())
)"));
  const Tensors others{torch::randn({4, 4}, at::kDouble)};
  const Gradients g = found(*layer, x_, weights_, dy_, others);
  EXPECT_TRUE(at::allclose(g.y, at::matmul(x_, weights_[0].t())));
  EXPECT_TRUE(at::allclose(g.dx, at::matmul(dy_, others[0])));
  EXPECT_TRUE(at::allclose(g.dw[0], at::matmul(dy_.t(), x_)));
}

TEST_F(ModuleLayer, WithoutAWantedInputHasItsWeightGradientsAlone) {
  const auto layer = make_it(written("block", kBlock));
  const c10::InferenceMode guard;
  LayerStash stash;
  layer->forward({&x_, 1}, weights_, {}, {}, false, &stash);
  EXPECT_FALSE(layer->input_gradient(dy_, weights_, {false}, stash)[0].defined());
  Tensors dw;
  for (const at::Tensor& w : weights_) dw.push_back(at::zeros_like(w));
  LayerStash* const one = &stash;
  layer->weight_gradient({&one, 1}, dw);
  c10::InferenceMode off(false);
  const Gradients theirs = expected(block, x_, weights_, dy_);
  for (std::size_t i = 0; i < dw.size(); ++i) EXPECT_TRUE(at::allclose(dw[i], theirs.dw[i]));
}

TEST_F(ModuleLayer, EvaluatesByItsOtherMethodAndKeepsNothing) {
  const auto layer = make_it(written("modes", R"(
def forward(self, x, a, b, scale):
    return 2 * x
def evaluate(self, x, a, b, scale):
    return 3 * x
)"));
  const c10::InferenceMode guard;
  EXPECT_TRUE(at::equal(layer->forward({&x_, 1}, weights_, {}, {.training = false}, false, nullptr), 3 * x_));
  EXPECT_TRUE(at::equal(layer->forward({&x_, 1}, weights_, {}, {}, false, nullptr), 2 * x_));
}

// A view of the input is the layer's own tensor, since a later layer may write over it.
TEST_F(ModuleLayer, GivesNoViewOfItsInput) {
  const auto layer = make_it(written("view", R"(
def forward(self, x, a, b, scale):
    return x.view(x.size(0), -1)
def evaluate(self, x, a, b, scale):
    return x.view(x.size(0), -1)
)"));
  const c10::InferenceMode guard;
  const at::Tensor y = layer->forward({&x_, 1}, weights_, {}, {}, false, nullptr);
  EXPECT_FALSE(y.storage().is_alias_of(x_.storage()));
}

TEST_F(ModuleLayer, RunningStatisticsCountAMicroBatchOnce) {
  weights_.clear();
  const Module module = script_module(folder(), "statistics", {.output = {4}}, R"(
def forward(self, x, mean):
    mean.mul_(0.5).add_(0.5 * x.detach().mean(0))
    return 2 * x
def evaluate(self, x, mean):
    return x - mean
)",
                                      {}, {torch::zeros({4}, at::kDouble)});
  const auto layer = make_it(module);
  const c10::InferenceMode guard;
  LayerStash stash;
  layer->forward({&x_, 1}, {}, {}, {}, false, nullptr);
  layer->forward({&x_, 1}, {}, {}, {.recomputing = true}, false, &stash);
  EXPECT_TRUE(at::allclose(layer->buffers().at(0), 0.5 * x_.mean(0)));
  EXPECT_TRUE(at::allclose(layer->input_gradient(dy_, {}, {true}, stash)[0], 2 * dy_));
  EXPECT_TRUE(
      at::allclose(layer->forward({&x_, 1}, {}, {}, {.training = false}, false, nullptr), x_ - 0.5 * x_.mean(0)));
}

TEST_F(ModuleLayer, RandomNumbersDependOnSeedLayerAndMicroBatchOnly) {
  const auto run = [&](int index, const ForwardMode& mode, const at::Tensor& x) {
    const Module module = script_module(folder(), "random", {.output = {4}, .random = {4, 2}}, R"(
def forward(self, x, u, v):
    return x * (u > 0.5) + v[:, :1]
def evaluate(self, x):
    return x
)",
                                        {});
    const c10::InferenceMode guard;
    return make_module(layer_of(module), index, at::kDouble)->forward({&x, 1}, {}, {}, mode, false, nullptr);
  };
  const at::Tensor x = torch::ones({6, 4}, at::kDouble);
  const at::Tensor y = run(1, {.seed = 7, .sequence = 4, .micro_batches = 2}, x);
  EXPECT_TRUE(at::equal(y.narrow(0, 0, 3), run(1, {.seed = 7, .sequence = 4}, x.narrow(0, 0, 3))));
  EXPECT_TRUE(at::equal(y.narrow(0, 3, 3), run(1, {.seed = 7, .sequence = 5}, x.narrow(0, 3, 3))));
  EXPECT_FALSE(at::equal(y, run(2, {.seed = 7, .sequence = 4, .micro_batches = 2}, x)));
  EXPECT_FALSE(at::equal(y, run(1, {.seed = 8, .sequence = 4, .micro_batches = 2}, x)));
}

TEST_F(ModuleLayer, StartsWithTheWeightsInItsFile) {
  const Module module = written("block", kBlock);
  ModelGraph model{.name = "m", .inputs = {{.shape = {4}}}, .layers = {layer_of(module)}};
  model.layers[0].inputs = {-1};
  const Tensors stored = stored_weights(model.layers[0]);
  ASSERT_EQ(stored.size(), 3u);
  for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_TRUE(at::equal(stored[i], weights_[i]));
  EXPECT_EQ(parameter_count(model), 24 + 24 + 4);
}

// Autograd keeps the input, tanh's output [5, 6] (also the second product's operand), the norm's output [5, 4], mean
// and deviation, and the product before scaling; after I the gradients at both products, the norm and the scale.
TEST_F(ModuleLayer, KeepsWhatAutogradSavesAndNoWeight) {
  install_counting_allocator();
  const auto layer = make_it(written("block", kBlock));
  MemoryCounters* const counters = new_counters();
  const c10::InferenceMode guard;
  const auto held = [&](const std::function<void()>& work) {
    const MemoryCounters::Mark mark = counters->begin_window();
    {
      const MemoryScope scope(counters, MemoryKind::activations);
      work();
    }
    return counters->end_window(mark).left;
  };
  LayerStash stash;
  Tensors dx;
  // Row by row: 6 + 4 + 4 numbers, and mean and deviation.
  EXPECT_EQ(held([&] { layer->forward({&x_, 1}, weights_, {}, {}, false, &stash); }), 5 * (6 + 4 + 4 + 2) * 8);
  // The gradients of the scaled product's factor, both products' results.
  EXPECT_EQ(held([&] { dx = layer->input_gradient(dy_, weights_, {true}, stash); }), 5 * (4 + 6 + 4) * 8);
}

// Bytes that are cut off or changed under a digest that fits them: an error, or what is there is good.
TEST_F(ModuleLayer, DamagedArchivesAreErrors) {
  const Module module = written("block", kBlock);
  const std::string whole = read_module_file(layer_of(module));
  const auto error = [&](const std::string& content) {
    std::ofstream(folder() + "/damaged.pt", std::ios::binary) << content;
    Module other = module;
    other.file = "damaged.pt", other.bytes = static_cast<std::int64_t>(content.size());
    other.digest = module_digest(content);
    try {
      make_it(other);
      stored_weights(layer_of(other));
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error(whole), "");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += whole.size() / 40)
    EXPECT_NE(error(whole.substr(0, bytes)).find("damaged.pt: LibTorch reads no TorchScript in it: "),
              std::string::npos)
        << bytes;
  int errors = 0;
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 200) {
    std::string changed = whole;
    changed[at] = static_cast<char>(~changed[at]);
    errors += !error(changed).empty();
  }
  EXPECT_GT(errors, 40);
}

TEST_F(ModuleLayer, AFailureOfTheScriptNamesTheLayer) {
  const auto layer = make_it(written("fails", R"(
def forward(self, x, a, b, scale):
    return x.view(7, 9)
def evaluate(self, x, a, b, scale):
    return x
)"));
  const c10::InferenceMode guard;
  const std::string error = error_of([&] { layer->forward({&x_, 1}, weights_, {}, {}, false, nullptr); });
  EXPECT_TRUE(error.starts_with("layer 'part' (Module): its TorchScript fails: ")) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST_F(ModuleLayer, WithoutAWayToAnInputOrAWeightIsAnErrorOnceItTrains) {
  const auto layer = make_it(written("detached", R"(
def forward(self, x, a, b, scale):
    return x.detach() * 2
def evaluate(self, x, a, b, scale):
    return x
)"));
  const c10::InferenceMode guard;
  LayerStash stash;
  EXPECT_NE(error_of([&] {
              layer->forward({&x_, 1}, weights_, {}, {}, false, &stash);
            }).find("depends on no weight and no input"),
            std::string::npos);
}

TEST_F(ModuleLayer, AnInputWithoutInfluenceHasTheGradientZero) {
  const Module module = script_module(folder(), "one", {.output = {4}}, R"(
def forward(self, x, z, w):
    return x * w
def evaluate(self, x, z, w):
    return x * w
)",
                                      {weights_[2]});
  const auto layer = make_it(module);
  const c10::InferenceMode guard;
  LayerStash stash;
  const Tensors in{x_, dy_};
  layer->forward(in, {&weights_[2], 1}, {}, {}, false, &stash);
  const Tensors dx = layer->input_gradient(dy_, {&weights_[2], 1}, {true, true}, stash);
  EXPECT_TRUE(at::allclose(dx[0], dy_ * weights_[2]));
  EXPECT_TRUE(at::equal(dx[1], at::zeros_like(dy_)));
}

TEST_F(ModuleLayer, MistakesAreNamed) {
  const Module module = written("block", kBlock);
  const auto error = [&](const Module& m) { return error_of([&] { make_it(m); }); };
  Module other = module;
  other.file = "none.pt";
  EXPECT_EQ(error(other), folder() +
                              "/none.pt: no such file; layer 'part' (Module) has its TorchScript and weights "
                              "there; write them again, with the model file, by workloads/import_pytorch.py --layers");
  other = module, other.bytes -= 1;
  EXPECT_NE(
      error(other).find("has " + std::to_string(module.bytes) + " bytes, expected " + std::to_string(other.bytes)),
      std::string::npos);
  other = module, other.digest = "00000000";
  EXPECT_NE(error(other).find("has the digest " + module.digest + ", expected 00000000"), std::string::npos);
  other = module, other.weights[0] = {4, 6};
  EXPECT_EQ(error_of([&] { stored_weights(layer_of(other)); }),
            folder() + "/block.pt: weight_0 is [6, 4], the model file declares [4, 6]");
  std::ofstream(folder() + "/text.pt") << "no archive";
  other = module, other.file = "text.pt", other.bytes = 10, other.digest = module_digest("no archive");
  EXPECT_NE(error(other).find(folder() + "/text.pt: "), std::string::npos) << error(other);
  other = module, other.output = {5};
  const auto layer = make_it(other);
  EXPECT_EQ(error_of([&] {
              layer->forward({&x_, 1}, weights_, {}, {}, false, nullptr);
            }),
            "layer 'part' (Module): its TorchScript gives [5, 4], the model file declares [5, 5]");
  EXPECT_EQ(error_of([&] { make_module(layer_of(module), 1, at::kBFloat16); }),
            "layer 'part' (Module): computes in fp32; leave the precision out");
}

}  // namespace
}  // namespace sluice
