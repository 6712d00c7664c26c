// The input gradient of a linear layer or a convolution, split by input channels: each is a column of one product, so
// two ranks can each compute some of them, from the same output gradient and the weights of their own channels.
#pragma once

#include <ATen/ATen.h>

#include "harness/model/layer_spec.h"

namespace sluice {

// The weights of `count` input channels from `first` on, dense and their own; `weight` is the layer's first parameter.
at::Tensor channels_of_weight(const at::Tensor& weight, std::int64_t first, std::int64_t count);
// The gradient of those channels. dy: of the layer's output; input_shape: of the whole input, without the batch.
// Throws std::invalid_argument for other layers.
at::Tensor channel_gradient(const LayerSpec& layer, const at::Tensor& dy, const at::Tensor& weight_of_channels,
                            const Shape& input_shape);
// The whole gradient from that of the first channels and that of the others.
at::Tensor joined_channels(const LayerSpec& layer, const at::Tensor& first, const at::Tensor& others);

}  // namespace sluice
