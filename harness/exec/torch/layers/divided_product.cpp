#include "harness/exec/torch/layers/divided_product.h"

#include <stdexcept>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {

at::Tensor channels_of_weight(const at::Tensor& weight, std::int64_t first, std::int64_t count) {
  return weight.narrow(1, first, count).clone(at::MemoryFormat::Contiguous);  // [out, in, ...]
}

at::Tensor channel_gradient(const LayerSpec& layer, const at::Tensor& dy, const at::Tensor& weight_of_channels,
                            const Shape& input_shape) {
  const std::int64_t channels = weight_of_channels.size(1);
  if (std::holds_alternative<Linear>(layer.kind)) {
    std::vector<std::int64_t> shape = dy.sizes().vec();
    shape.back() = channels;
    return product(as_rows(dy), weight_of_channels).view(shape);
  }
  const auto* const spec = std::get_if<Conv2d>(&layer.kind);
  if (!spec) throw std::invalid_argument("the input gradient of layer '" + layer.name + "' cannot be divided");
  // The kernel asks the input for its shape only.
  const at::Tensor x =
      at::empty({1}, dy.options()).expand({dy.size(0), channels, input_shape.at(1), input_shape.at(2)});
  const std::int64_t bias_size[] = {spec->out};
  return std::get<0>(at::convolution_backward(dy, x, weight_of_channels, at::IntArrayRef(bias_size),
                                              {spec->stride, spec->stride}, {spec->padding, spec->padding_across()},
                                              {1, 1}, false, {0, 0}, 1, {true, false, false}));
}

at::Tensor joined_channels(const LayerSpec& layer, const at::Tensor& first, const at::Tensor& others) {
  return at::cat({first, others}, std::holds_alternative<Linear>(layer.kind) ? first.dim() - 1 : 1);
}

}  // namespace sluice
