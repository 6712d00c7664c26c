// Convolutions, pooling and the normalisations.
#include <numeric>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

// A tensor without memory that has a shape: some of ATen's backwards ask the input for nothing else.
at::Tensor shape_only(at::IntArrayRef shape, const at::TensorOptions& options) {
  return at::empty({1}, options).expand(shape);
}

// A convolution, or the transpose of one.
class ConvLayer final : public Layer {
 public:
  explicit ConvLayer(const Conv2d& k)
      : ConvLayer(ConvNd{.in = k.in,
                         .out = k.out,
                         .kernel = {k.kernel, k.kernel_across()},
                         .stride = {k.stride, k.stride},
                         .padding = {k.padding, k.padding_across()},
                         .bias = k.bias,
                         .groups = k.groups}) {}
  explicit ConvLayer(const ConvTranspose2d& k)
      : ConvLayer(ConvNd{.in = k.in,
                         .out = k.out,
                         .kernel = {k.kernel, k.kernel},
                         .stride = {k.stride, k.stride},
                         .padding = {k.padding, k.padding},
                         .bias = k.bias},
                  true) {}
  explicit ConvLayer(const ConvNd& spec, bool transposed = false) : spec_(spec), transposed_(transposed) {
    for (std::size_t i = 0; i < spec.kernel.size(); ++i) {
      stride_.push_back(spec.stride_at(i)), padding_.push_back(spec.padding_at(i));
      dilation_.push_back(spec.dilation_at(i));
    }
    more_output_.resize(spec.kernel.size());
  }

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    std::optional<at::Tensor> bias;
    if (spec_.bias) bias = weights[1];
    if (stash) stash->kept.push_back(in[0]);
    return at::convolution(in[0], weights[0], bias, stride_, padding_, dilation_, transposed_, more_output_,
                           spec_.groups);
  }

  // Keeps {x, dy} for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) {
      dx[0] = std::get<0>(backward(dy, stash.kept[0], weights[0], {true, false, false}));
    }
    stash.kept.push_back(dy);
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    // The kernel asks the weight for its shape only, so the gradient, which has it, stands in.
    const auto [unused, weight, bias] =
        backward(stacked(stashes, 1), stacked(stashes, 0), gradients[0], {false, true, spec_.bias});
    gradients[0].add_(weight);
    if (spec_.bias) gradients[1].add_(bias);
    clear(stashes);
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& dy, const at::Tensor& x,
                                                          const at::Tensor& weight, std::array<bool, 3> mask) const {
    const std::int64_t bias_size[] = {spec_.out};
    return at::convolution_backward(dy, x, weight, at::IntArrayRef(bias_size), stride_, padding_, dilation_,
                                    transposed_, more_output_, spec_.groups, mask);
  }

  ConvNd spec_;
  bool transposed_;
  std::vector<std::int64_t> stride_, padding_, dilation_, more_output_;
};

class PoolLayer final : public WeightlessLayer {
 public:
  explicit PoolLayer(const Pool2d& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash* stash) override {
    const at::Tensor& x = in[0];
    shape_ = x.sizes().vec();
    if (spec_.mode == Pool2d::Mode::global_average) {
      std::vector<std::int64_t> all(shape_.size() - 2);
      std::iota(all.begin(), all.end(), 2);
      return x.mean(all, /*keepdim=*/true);
    }
    if (spec_.mode == Pool2d::Mode::average) {
      return at::avg_pool2d(x, kernel(), stride(), padding());
    }
    auto [y, indices] = at::max_pool2d_with_indices(x, kernel(), stride(), padding());
    if (stash) stash->kept.push_back(std::move(indices));
    return y;
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    std::vector<std::int64_t> shape = shape_;
    shape[0] = dy.size(0);
    if (spec_.mode == Pool2d::Mode::global_average) {
      const auto area = static_cast<double>(elements(shape) / (shape[0] * shape[1]));
      return at::empty(shape, dy.options()).copy_((dy / area).expand(shape));
    }
    const at::Tensor x = shape_only(shape, dy.options());
    if (spec_.mode == Pool2d::Mode::average) {
      return at::avg_pool2d_backward(dy, x, kernel(), stride(), padding(), /*ceil_mode=*/false,
                                     /*count_include_pad=*/true, std::nullopt);
    }
    return at::max_pool2d_with_indices_backward(dy, x, kernel(), stride(), padding(), {1, 1},
                                                /*ceil_mode=*/false, stash.kept[0]);
  }

  std::array<std::int64_t, 2> kernel() const { return {spec_.kernel, spec_.kernel}; }
  std::array<std::int64_t, 2> stride() const { return {spec_.stride, spec_.stride}; }
  std::array<std::int64_t, 2> padding() const { return {spec_.padding, spec_.padding}; }

  Pool2d spec_;
  std::vector<std::int64_t> shape_;  // of the input; the same in every micro-batch, except its samples
};

class UpsampleLayer final : public WeightlessLayer {
 public:
  explicit UpsampleLayer(const Upsample& spec) : factor_(spec.factor) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash*) override {
    const at::Tensor& x = in[0];
    return at::upsample_nearest2d(x, at::IntArrayRef({x.size(2) * factor_, x.size(3) * factor_}));
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash&) override {
    const std::int64_t height = dy.size(2), width = dy.size(3);
    return at::upsample_nearest2d_backward(dy, {height, width},
                                           {dy.size(0), dy.size(1), height / factor_, width / factor_});
  }

  std::int64_t factor_;
};

// As a batch norm over samples times features, of a batch of one.
class InstanceNormLayer final : public WeightlessLayer {
 public:
  explicit InstanceNormLayer(const InstanceNorm& spec) : epsilon_(spec.epsilon) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash* stash) override {
    auto [y, mean, inverse] =
        at::native_batch_norm(as_one_sample(in[0]), {}, {}, {}, {}, /*training=*/true, /*momentum=*/0, epsilon_);
    if (stash) stash->kept = {in[0], std::move(mean), std::move(inverse)};
    return y.view(in[0].sizes());
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    return std::get<0>(at::native_batch_norm_backward(as_one_sample(dy), as_one_sample(stash.kept[0]), {}, {}, {},
                                                      stash.kept[1], stash.kept[2], /*train=*/true, epsilon_,
                                                      {true, false, false}))
        .view(dy.sizes());
  }

  static at::Tensor as_one_sample(const at::Tensor& x) {
    return x.reshape({1, x.size(0) * x.size(1), x.size(2), x.size(3)});
  }

  double epsilon_;
};

// The normalisations with weights get their weight gradients in the pass that computes dx, and keep only those small
// sums until W.
class NormLayer : public Layer {
 public:
  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (const LayerStash* stash : stashes) {
      for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].add_(stash->kept[i]);
    }
    clear(stashes);
  }

 protected:
  static std::vector<at::Tensor> keep_sums(std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients,
                                           LayerStash& stash) {
    auto& [dx, weight, bias] = gradients;
    stash.kept.clear();
    stash.kept.push_back(std::move(weight));
    stash.kept.push_back(std::move(bias));
    std::vector<at::Tensor> result(1);
    result[0] = std::move(dx);
    return result;
  }
};

class BatchNormLayer final : public NormLayer {
 public:
  BatchNormLayer(const BatchNorm& spec, const at::TensorOptions& options)
      : spec_(spec), mean_(at::zeros({spec.features}, options)), variance_(at::ones({spec.features}, options)) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    auto [y, mean, inverse] = at::native_batch_norm(in[0], weights[0], weights[1], mean_, variance_, mode.training,
                                                    mode.recomputing ? 0 : spec_.momentum, spec_.epsilon);
    if (stash) stash->kept = {in[0], std::move(mean), std::move(inverse)};
    return y;
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    return keep_sums(
        at::native_batch_norm_backward(dy, stash.kept[0], weights[0], mean_, variance_, stash.kept[1], stash.kept[2],
                                       /*train=*/true, spec_.epsilon, {needs_input[0], true, true}),
        stash);
  }

  std::vector<at::Tensor> buffers() const override { return {mean_, variance_}; }

 private:
  BatchNorm spec_;
  at::Tensor mean_, variance_;
};

class GroupNormLayer final : public NormLayer {
 public:
  explicit GroupNormLayer(const GroupNorm& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor x = in[0].contiguous();
    auto [y, mean, inverse] = at::native_group_norm(x, weights[0], weights[1], x.size(0), spec_.features,
                                                    elements_of_a_feature(x), spec_.groups, spec_.epsilon);
    if (stash) stash->kept = {in[0], std::move(mean), std::move(inverse)};
    return y;
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const at::Tensor x = stash.kept[0].contiguous();
    return keep_sums(at::native_group_norm_backward(dy.contiguous(), x, stash.kept[1], stash.kept[2], weights[0],
                                                    x.size(0), spec_.features, elements_of_a_feature(x), spec_.groups,
                                                    {needs_input[0], true, true}),
                     stash);
  }

 private:
  std::int64_t elements_of_a_feature(const at::Tensor& x) const { return x.numel() / (x.size(0) * spec_.features); }

  GroupNorm spec_;
};

class LayerNormLayer final : public NormLayer {
 public:
  explicit LayerNormLayer(const LayerNorm& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    auto [y, mean, inverse] = at::native_layer_norm(in[0], {spec_.features}, weights[0], weights[1], spec_.epsilon);
    if (stash) stash->kept = {in[0], std::move(mean), std::move(inverse)};
    return y;
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    return keep_sums(at::native_layer_norm_backward(dy, stash.kept[0], {spec_.features}, stash.kept[1], stash.kept[2],
                                                    weights[0], weights[1], {needs_input[0], true, true}),
                     stash);
  }

 private:
  LayerNorm spec_;
};

class RmsNormLayer final : public NormLayer {
 public:
  explicit RmsNormLayer(const RmsNorm& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    at::Tensor inverse = at::mul(in[0], in[0]).mean(-1, /*keepdim=*/true).add_(spec_.epsilon).rsqrt_();
    at::Tensor y = at::mul(in[0], inverse).mul_(weights[0]);
    if (stash) stash->kept = {in[0], std::move(inverse)};
    return y;
  }

  // With n = x r, r the reciprocal root: dW = sum dy n, dx = r (dy W - n mean(dy W n)).
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const at::Tensor inverse = stash.kept[1], normal = at::mul(stash.kept[0], inverse);
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) {
      const at::Tensor scaled = at::mul(dy, weights[0]);
      const at::Tensor along = at::mul(scaled, normal).mean(-1, /*keepdim=*/true);
      dx[0] = at::sub(scaled, at::mul(normal, along)).mul_(inverse);
    }
    stash.kept = {as_rows(at::mul(dy, normal)).sum(0)};
    return dx;
  }

 private:
  RmsNorm spec_;
};

}  // namespace

std::unique_ptr<Layer> make(const Conv2d& spec) { return std::make_unique<ConvLayer>(spec); }
std::unique_ptr<Layer> make(const ConvNd& spec) { return std::make_unique<ConvLayer>(spec); }
std::unique_ptr<Layer> make(const ConvTranspose2d& spec) { return std::make_unique<ConvLayer>(spec); }
std::unique_ptr<Layer> make(const Pool2d& spec) { return std::make_unique<PoolLayer>(spec); }
std::unique_ptr<Layer> make(const BatchNorm& spec, const at::TensorOptions& options) {
  return std::make_unique<BatchNormLayer>(spec, options);
}
std::unique_ptr<Layer> make(const Upsample& spec) { return std::make_unique<UpsampleLayer>(spec); }
std::unique_ptr<Layer> make(const InstanceNorm& spec) { return std::make_unique<InstanceNormLayer>(spec); }
std::unique_ptr<Layer> make(const GroupNorm& spec) { return std::make_unique<GroupNormLayer>(spec); }
std::unique_ptr<Layer> make(const LayerNorm& spec) { return std::make_unique<LayerNormLayer>(spec); }
std::unique_ptr<Layer> make(const RmsNorm& spec) { return std::make_unique<RmsNormLayer>(spec); }

}  // namespace sluice
