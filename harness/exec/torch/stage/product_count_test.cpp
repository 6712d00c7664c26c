// Running the input gradient I and the weight gradient W apart does no product twice: F + I + W
// multiply exactly as often as forward and backward of torch's own functions under autograd, whose
// backward is whole. Multiplications are counted where torch dispatches them.
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <set>

#include "harness/exec/session.h"
#include "harness/exec/torch/layers/autograd_reference.h"
#include "harness/exec/torch/layers/layer.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"

namespace sluice {
namespace {

// Multiplications of products with a matrix; convolutions by the pass (output, input gradient and
// weight gradient of one multiply equally often). Scores and mixtures of attention have no weights:
// their kernels' calls are counted, of which one goes forward and one backward.
struct Work {
  std::int64_t multiplications = 0, convolutions = 0, products = 0, attentions = 0;
  friend bool operator==(const Work&, const Work&) = default;
};
Work operator-(const Work& a, const Work& b) {
  return {a.multiplications - b.multiplications, a.convolutions - b.convolutions, a.products - b.products,
          a.attentions - b.attentions};
}

std::atomic<std::int64_t> multiplications, convolutions, products, attentions;

void count(const at::RecordFunction& call) {
  static const std::set<std::string> kAdded{"aten::addmm", "aten::addmm_"};
  const std::string name = call.name();
  if (const bool added = kAdded.contains(name); added || name == "aten::mm") {
    const auto inputs = call.inputs();
    const at::Tensor a = inputs[added ? 1 : 0].toTensor(), b = inputs[added ? 2 : 1].toTensor();
    multiplications += a.numel() * b.size(-1);
    ++products;
  } else if (name == "mkldnn::_linear_pointwise") {
    const auto inputs = call.inputs();  // x [m, k], w [n, k]
    multiplications += inputs[0].toTensor().numel() * inputs[1].toTensor().size(0);
    ++products;
  } else if (name.starts_with("aten::_scaled_dot_product_flash_attention_for_cpu")) {
    ++attentions;
  } else if (name == "aten::convolution") {
    ++convolutions;
  } else if (name == "aten::convolution_backward") {
    const auto mask = call.inputs().back().toBoolList();  // of input, weight, bias
    convolutions += (mask[0] ? 1 : 0) + (mask[1] ? 1 : 0);
  }
}

Work so_far() { return {multiplications, convolutions, products, attentions}; }

// Counts on every thread while it lives.
class Counting {
 public:
  Counting()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
              count(call);
              return nullptr;
            })
                .needsInputs(true)
                .scopes({at::RecordScope::FUNCTION}))) {}
  ~Counting() { at::removeCallback(handle_); }
  Work done() const { return so_far() - before_; }

 private:
  at::CallbackHandle handle_;
  Work before_ = so_far();
};

struct Case {
  std::string name;
  LayerKind kind;
  std::vector<Shape> inputs;  // without the batch dimension
  // torch's LSTM multiplies the zero state before the first step, forward and for W; we do not.
  std::int64_t spared = 0;
  std::int64_t attentions = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ProductsOfALayer : public testing::TestWithParam<Case> {};

TEST_P(ProductsOfALayer, AreThoseOfAnUnsplitBackward) {
  const LayerSpec spec{.name = "layer", .kind = GetParam().kind, .inputs = {}};
  Tensors x, weights, gradients;
  for (Shape shape : GetParam().inputs) {
    shape.insert(shape.begin(), 3);
    x.push_back(torch::randn(shape, at::kDouble));
  }
  for (const ParameterSpec& parameter : parameters(spec)) {
    weights.push_back(torch::randn(parameter.shape, at::kDouble));
    gradients.push_back(at::zeros_like(weights.back()));
  }
  const Counting counting;
  {
    const at::Tensor y = reference_layer(spec.kind, leaves(x), leaves(weights), {});
    y.backward(torch::randn(y.sizes(), at::kDouble));
  }
  const Work whole = counting.done();

  const c10::InferenceMode no_autograd;
  const auto layer = make_layer(spec, GetParam().inputs, 0, at::TensorOptions(at::kDouble));
  LayerStash stash;
  const at::Tensor y = layer->forward(x, weights, {}, {}, false, &stash);
  const Work f = counting.done() - whole;
  layer->input_gradient(torch::randn(y.sizes(), at::kDouble), weights, std::vector<bool>(x.size(), true), stash);
  const Work i = counting.done() - whole - f;
  LayerStash* const one = &stash;
  layer->weight_gradient({&one, 1}, gradients);
  const Work w = counting.done() - whole - f - i;

  EXPECT_GT(f.multiplications + f.convolutions, 0);
  EXPECT_GT(i.multiplications + i.convolutions, 0);
  EXPECT_GT(w.multiplications + w.convolutions, 0);
  EXPECT_EQ(f.convolutions + i.convolutions + w.convolutions, whole.convolutions);
  EXPECT_EQ(f.attentions, GetParam().attentions);
  EXPECT_EQ(i.attentions, GetParam().attentions);
  EXPECT_EQ(w.attentions, 0);
  EXPECT_EQ(f.multiplications + i.multiplications + w.multiplications + GetParam().spared, whole.multiplications)
      << f.multiplications << " + " << i.multiplications << " + " << w.multiplications;
}

INSTANTIATE_TEST_SUITE_P(Layers, ProductsOfALayer,
                         testing::Values(Case{"linear", Linear{7, 5}, {{7}}},
                                         Case{"linear_on_sequence", Linear{7, 5}, {{4, 7}}},
                                         Case{"conv", Conv2d{3, 4, 3}, {{3, 7, 6}}},
                                         Case{"conv_strided", Conv2d{3, 4, 3, 2, 1}, {{3, 8, 7}}},
                                         Case{"lstm_cell", LstmCell{5, 3}, {{5}, {6}}},
                                         Case{"lstm", Lstm{5, 3}, {{4, 5}}, 2 * 3 * 4 * 3 * 3},
                                         Case{"attention", Attention{6, 2}, {{5, 6}}, 0, 1},
                                         Case{"cross_attention", CrossAttention{6, 4, 2}, {{5, 6}, {3, 4}}, 0, 1}),
                         [](const auto& test) { return test.param.name; });

// The executor on two ranks: the same work whether the backward is whole, split, or split with the
// weight gradients of several micro-batches in one product, which are fewer and larger.
Work of_a_run(const std::string& schedule, bool batched) {
  SessionSpec spec;
  spec.model = {.name = "mlp",
                .inputs = {{.shape = {6}}},
                .layers = {{"first", Linear{6, 8}, {-1}},
                           {"tanh", Activation{Activation::Kind::tanh}, {0}},
                           {"second", Linear{8, 5}, {1}},
                           {"loss", MseLoss{}, {2}}}};
  spec.plan.stages = {{.layers = {0, 1}, .devices = {DeviceId(0)}}, {.layers = {2, 3}, .devices = {DeviceId(1)}}};
  spec.micro_batch = 3;
  spec.synthetic_batch = 12;
  spec.batched_weight_gradients = batched;
  const auto session = make_session(spec);
  const Program program = lower(parse_schedule(schedule), chain(2), one_stage_per_rank(2), WeightRule{});
  const Counting counting;
  session->run(program, {});
  return counting.done();
}

TEST(ProductsOfARun, AreTheSameHoweverTheBackwardIsCut) {
  const std::string whole = "rank 0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3\nrank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n";
  const std::string split =
      "rank 0: 0F0 0F1 0I0 0F2 0I1 0F3 0I2 0W0 0W1 0I3 0W2 0W3\n"
      "rank 1: 1F0 1I0 1F1 1I1 1F2 1I2 1F3 1I3 1W0 1W1 1W2 1W3\n";
  const Work one = of_a_run(whole, false);
  // Per micro-batch of 3 samples: 6 x 8 forward and W (no I: the input is data), 8 x 5 all three.
  EXPECT_EQ(one.multiplications, 4 * 3 * (2 * 6 * 8 + 3 * 8 * 5));
  EXPECT_EQ(one.products, 4 * 5);
  EXPECT_EQ(of_a_run(split, false), one);
  const Work batched = of_a_run(split, true);
  EXPECT_EQ(batched.multiplications, one.multiplications);
  EXPECT_EQ(batched.products, 4 * 3 + 2 + 1) << "two and two W of stage 0, four of stage 1";
  EXPECT_EQ(of_a_run(whole, true).products, 4 * 3 + 1 + 1) << "all W of a stage at the update";
}

}  // namespace
}  // namespace sluice
