// The oracle of the tests: every layer kind, and whole models, in torch's own functions, which autograd can
// differentiate. Only tests include this.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

using Tensors = std::vector<at::Tensor>;

inline at::Tensor reference_activation(Activation::Kind kind, const at::Tensor& x) {
  switch (kind) {
    case Activation::Kind::relu:
      return torch::relu(x);
    case Activation::Kind::tanh:
      return torch::tanh(x);
    case Activation::Kind::sigmoid:
      return torch::sigmoid(x);
    case Activation::Kind::gelu_tanh:
      return torch::gelu(x, "tanh");
    case Activation::Kind::silu:
      return torch::silu(x);
    case Activation::Kind::leaky_relu:
      return torch::where(x < 0, 0.01 * x, x);
    case Activation::Kind::relu6:
      return torch::relu6(x);
    case Activation::Kind::hardsigmoid:
      return torch::hardsigmoid(x);  // whose derivative is that of a float
    case Activation::Kind::hardswish:
      return x * torch::relu6(x + 3) / 6;
    case Activation::Kind::gelu:
      break;
  }
  return torch::gelu(x);
}

struct ReferenceLayer {
  const Tensors& x;
  const Tensors& w;
  const at::Tensor& target;

  at::Tensor operator()(const Linear& k) const { return torch::linear(x[0], w[0], k.bias ? w[1] : at::Tensor()); }
  at::Tensor operator()(const Conv2d& k) const {
    return torch::conv2d(x[0], w[0], k.bias ? w[1] : at::Tensor(), k.stride, {k.padding, k.padding_across()}, 1,
                         k.groups);
  }
  at::Tensor operator()(const ConvNd& k) const {
    const at::Tensor bias = k.bias ? w[1] : at::Tensor();
    const std::size_t d = k.kernel.size();
    const auto given = [d](const std::vector<std::int64_t>& v, std::int64_t usual) {
      return v.empty() ? std::vector<std::int64_t>(d, usual) : v;
    };
    const auto stride = given(k.stride, 1), padding = given(k.padding, 0), dilation = given(k.dilation, 1);
    if (d == 1) return torch::conv1d(x[0], w[0], bias, stride, padding, dilation, k.groups);
    if (d == 2) return torch::conv2d(x[0], w[0], bias, stride, padding, dilation, k.groups);
    return torch::conv3d(x[0], w[0], bias, stride, padding, dilation, k.groups);
  }
  at::Tensor operator()(const ConvTranspose2d& k) const {
    return torch::conv_transpose2d(x[0], w[0], k.bias ? w[1] : at::Tensor(), k.stride, k.padding);
  }
  at::Tensor operator()(const Pool2d& k) const {
    switch (k.mode) {
      case Pool2d::Mode::max:
        return torch::max_pool2d(x[0], k.kernel, k.stride, k.padding);
      case Pool2d::Mode::average:
        return torch::avg_pool2d(x[0], k.kernel, k.stride, k.padding);
      case Pool2d::Mode::global_average:
        break;
    }
    return x[0].dim() == 4 ? torch::adaptive_avg_pool2d(x[0], {1, 1})
                           : x[0].flatten(2).mean(2).view({x[0].size(0), x[0].size(1), 1});
  }
  at::Tensor operator()(const Upsample& k) const {
    return x[0].repeat_interleave(k.factor, 2).repeat_interleave(k.factor, 3);
  }
  at::Tensor operator()(const InstanceNorm& k) const {
    return torch::instance_norm(x[0], {}, {}, {}, {}, true, 0.0, k.epsilon, false);
  }
  at::Tensor operator()(const BatchNorm& k) const {
    return torch::batch_norm(x[0], w[0], w[1], {}, {}, true, k.momentum, k.epsilon, false);
  }
  at::Tensor operator()(const GroupNorm& k) const { return torch::group_norm(x[0], k.groups, w[0], w[1], k.epsilon); }
  at::Tensor operator()(const LayerNorm& k) const {
    return torch::layer_norm(x[0], {k.features}, w[0], w[1], k.epsilon);
  }
  at::Tensor operator()(const RmsNorm& k) const { return torch::rms_norm(x[0], {k.features}, w[0], k.epsilon); }
  at::Tensor operator()(const Activation& k) const { return reference_activation(k.kind, x[0]); }
  at::Tensor operator()(const Dropout&) const { throw std::logic_error("dropout has no deterministic reference"); }
  at::Tensor operator()(const Embedding&) const { return torch::embedding(w[0], x[0]); }
  at::Tensor operator()(const PositionEmbedding&) const {
    return x[0] + torch::embedding(w[0], torch::arange(x[0].size(1))).unsqueeze(0);
  }
  at::Tensor operator()(const PatchEmbedding& k) const {
    return torch::conv2d(x[0], w[0], w[1], /*stride=*/k.patch).flatten(2).transpose(1, 2);
  }
  at::Tensor operator()(const ClassToken& k) const {
    return torch::cat({w[0].view({1, 1, k.width}).expand({x[0].size(0), 1, k.width}), x[0]}, 1);
  }
  at::Tensor operator()(const LstmCell& k) const {
    const auto [h, c] = torch::lstm_cell(x[0], {x[1].narrow(1, 0, k.hidden), x[1].narrow(1, k.hidden, k.hidden)}, w[0],
                                         w[1], w[2], w[3]);
    return torch::cat({h, c}, 1);
  }
  // Sample by sample without its padding, which torch's own LSTM knows nothing of.
  at::Tensor operator()(const Lstm& k) const {
    const std::int64_t steps = x[0].size(1);
    Tensors rows;
    for (std::int64_t b = 0; b < x[0].size(0); ++b) {
      const std::int64_t real = x.size() > 1 ? x[1][b].ne(0).sum().item<std::int64_t>() : steps;
      at::Tensor row = x[0].narrow(0, b, 1).narrow(1, 0, real);
      if (k.reverse) row = row.flip(1);
      const at::Tensor zero = torch::zeros({1, 1, k.hidden}, x[0].options());
      at::Tensor y = std::get<0>(torch::lstm(row, {zero, zero}, w, /*has_biases=*/true,
                                             /*num_layers=*/1, /*dropout=*/0.0, /*train=*/true,
                                             /*bidirectional=*/false, /*batch_first=*/true));
      if (k.reverse) y = y.flip(1);
      rows.push_back(torch::constant_pad_nd(y, {0, 0, 0, steps - real}));
    }
    return torch::cat(rows);
  }
  // The layer's weights one after another; undefined where there is none.
  struct Next {
    std::span<const at::Tensor> weights;
    std::size_t at = 0;
    at::Tensor operator()(bool has_one = true) { return has_one ? weights[at++] : at::Tensor(); }
  };
  static at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t heads,
                           bool causal, const at::Tensor& ids) {
    const std::int64_t batch = q.size(0), width = q.size(2) / heads;
    const auto split = [&](const at::Tensor& rows) { return rows.reshape({batch, -1, heads, width}).transpose(1, 2); };
    at::Tensor scores = torch::matmul(split(q), split(k).transpose(2, 3)) / std::sqrt(static_cast<double>(width));
    if (causal) {
      const at::Tensor later = torch::ones({q.size(1), k.size(1)}, at::kBool).triu(1);
      scores = scores.masked_fill(later, -INFINITY);
    }
    if (ids.defined()) scores = scores.masked_fill(ids.eq(0).unsqueeze(1).unsqueeze(1), -INFINITY);
    return torch::matmul(scores.softmax(-1), split(v)).transpose(1, 2).reshape(q.sizes());
  }
  // As complex numbers: the pair (i, i + d / 2) of a head times e^(i t base^(-2i / d)).
  static at::Tensor turned(const at::Tensor& rows, const Attention& k) {
    if (k.rotary == 0) return rows;
    const std::int64_t steps = rows.size(1), half = k.heads_width() / k.heads / 2, heads = rows.size(2) / half / 2;
    const at::Tensor angle = torch::outer(torch::arange(steps, at::kDouble),
                                          torch::pow(k.rotary, torch::arange(half, at::kDouble) / -double(half)));
    const at::Tensor pairs = rows.reshape({rows.size(0), steps, heads, 2, half});
    const at::Tensor turn = torch::polar(torch::ones_like(angle), angle).unsqueeze(1);
    const at::Tensor made = torch::complex(pairs.select(3, 0), pairs.select(3, 1)) * turn;
    return torch::stack({torch::real(made), torch::imag(made)}, 3).reshape(rows.sizes());
  }
  at::Tensor operator()(const Attention& k) const {
    Next weight{w};
    const at::Tensor projection = weight(), projected = torch::linear(x[0], projection, weight(k.qkv_bias));
    Tensors qkv = projected.split_with_sizes({k.heads_width(), k.kv_width(), k.kv_width()}, 2);
    for (int i = 0; i < 2; ++i) qkv[i] = turned(qkv[i], k);
    const std::int64_t head = k.heads_width() / k.heads;
    for (int i = 1; i < 3; ++i) {  // a query head's own copy of its key and value head
      Tensors copies;
      for (std::int64_t h = 0; h < k.heads; ++h)
        copies.push_back(qkv[i].narrow(2, h / k.queries_per_kv() * head, head));
      qkv[i] = torch::cat(copies, 2);
    }
    const at::Tensor ids = x.size() > 1 ? x[1] : at::Tensor();
    const at::Tensor attended = attend(qkv[0], qkv[1], qkv[2], k.heads, k.causal, ids), proj = weight();
    return torch::linear(attended, proj, weight(k.proj_bias));
  }
  at::Tensor operator()(const CrossAttention& k) const {
    Next weight{w};
    const at::Tensor to_q = weight(), q = torch::linear(x[0], to_q, weight(k.bias)), to_kv = weight();
    const Tensors kv = torch::linear(x[1], to_kv, weight(k.bias)).chunk(2, 2);
    const at::Tensor ids = x.size() > 2 ? x[2] : at::Tensor();
    const at::Tensor attended = attend(q, kv[0], kv[1], k.heads, false, ids), proj = weight();
    return torch::linear(attended, proj, weight(k.bias));
  }
  // Pair by pair: the sinusoids of every difference of positions, projected, as a table [steps, steps, inner].
  at::Tensor operator()(const RelativeAttention& k) const {
    const std::int64_t batch = x[0].size(0), steps = x[0].size(1), head = k.heads_width() / k.heads;
    const Tensors qkv = torch::linear(x[0], w[0]).chunk(3, 2);
    const at::Tensor position = torch::arange(steps, at::kDouble);
    const at::Tensor apart = position.unsqueeze(1) - position.unsqueeze(0);
    const at::Tensor even = torch::arange(0, k.width, 2, at::kDouble);
    const at::Tensor angle = apart.unsqueeze(2) / torch::pow(10000.0, even / double(k.width));
    const at::Tensor table = torch::linear(torch::cat({angle.sin(), angle.cos()}, 2), w[1]);
    const auto split = [&](const at::Tensor& rows) { return rows.reshape({batch, steps, k.heads, head}); };
    const at::Tensor q = split(qkv[0]), key = split(qkv[1]), value = split(qkv[2]);
    const at::Tensor content = torch::einsum("bihd,bjhd->bhij", {q + w[2].view({k.heads, head}), key});
    const at::Tensor distance = torch::einsum(
        "bihd,ijhd->bhij", {q + w[3].view({k.heads, head}), table.reshape({steps, steps, k.heads, head})});
    const at::Tensor p = ((content + distance) / std::sqrt(double(head))).softmax(-1);
    return torch::linear(torch::einsum("bhij,bjhd->bihd", {p, value}).reshape({batch, steps, -1}), w[4]);
  }
  // Token by token, and of a token expert by expert.
  at::Tensor operator()(const Experts& k) const {
    const std::int64_t batch = x[0].size(0), tokens = x[0].numel() / batch / k.features;
    const at::Tensor rows = x[0].reshape({batch, tokens, k.features}), scores = torch::matmul(rows, w[0].t());
    const auto function = [&](const at::Tensor& v) { return reference_activation(k.activation, v); };
    Tensors results;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::vector<std::int64_t> taken(static_cast<std::size_t>(k.experts), 0);
      for (std::int64_t t = 0; t < tokens; ++t) {
        std::vector<std::int64_t> order(static_cast<std::size_t>(k.experts));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, std::greater<>(),
                                 [&](std::int64_t e) { return scores[b][t][e].item<double>(); });
        order.resize(static_cast<std::size_t>(k.top_k));
        const at::Tensor p = scores[b][t].index_select(0, torch::tensor(order)).softmax(0);
        at::Tensor y = torch::zeros_like(rows[b][t]);
        for (std::size_t c = 0; c < order.size(); ++c) {
          const std::int64_t e = order[c];
          const bool fits =
              k.capacity == 0 || double(taken[e]++) < k.capacity * double(tokens * k.top_k) / double(k.experts);
          if (!fits) continue;
          const at::Tensor &up = w[k.gated ? 2 : 1], &down = w[k.gated ? 3 : 2];
          const at::Tensor inner = torch::mv(up[e], rows[b][t]);
          y = y +
              p[c] * torch::mv(down[e], k.gated ? function(torch::mv(w[1][e], rows[b][t])) * inner : function(inner));
        }
        results.push_back(y);
      }
    }
    return torch::stack(results).view(x[0].sizes());
  }
  at::Tensor operator()(const SequencePool& k) const {
    if (k.mode == SequencePool::Mode::first) return x[0].select(1, 0);
    if (x.size() == 1) return k.mode == SequencePool::Mode::mean ? x[0].mean(1) : x[0].select(1, x[0].size(1) - 1);
    Tensors rows;
    for (std::int64_t b = 0; b < x[0].size(0); ++b) {
      const at::Tensor row = x[0][b].narrow(0, 0, x[1][b].ne(0).sum().item<std::int64_t>());
      rows.push_back(k.mode == SequencePool::Mode::mean ? row.mean(0) : row[row.size(0) - 1]);
    }
    return torch::stack(rows);
  }
  at::Tensor operator()(const Add&) const {
    at::Tensor y = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) y = y + x[i];
    return y;
  }
  at::Tensor operator()(const Multiply&) const { return x[0] * x[1]; }
  at::Tensor operator()(const Concat& k) const { return torch::cat(x, k.axis + 1); }
  at::Tensor operator()(const Flatten&) const { return x[0].flatten(1); }
  at::Tensor operator()(const Permute& k) const {
    std::vector<std::int64_t> axes{0};
    for (const std::int64_t axis : k.axes) axes.push_back(axis + 1);
    return x[0].permute(axes);
  }
  at::Tensor operator()(const Module&) const { throw std::logic_error("a Module is its own reference"); }
  at::Tensor operator()(const CrossEntropyLoss&) const {
    if (x[0].dim() == 2) return torch::nn::functional::cross_entropy(x[0], target);
    at::Tensor sum = torch::zeros({}, x[0].options());
    for (std::int64_t b = 0; b < x[0].size(0); ++b)  // means without positions of -100
      sum = sum + torch::nn::functional::cross_entropy(x[0][b], target[b]);
    return sum / x[0].size(0);
  }
  at::Tensor operator()(const MseLoss&) const { return torch::mse_loss(x[0], target); }
  at::Tensor operator()(const BinaryCrossEntropyLoss&) const {
    return (torch::log1p(x[0].exp()) - x[0] * target).mean();
  }
};

inline at::Tensor reference_layer(const LayerKind& kind, const Tensors& x, const Tensors& w, const at::Tensor& target) {
  return std::visit(ReferenceLayer{x, w, target}, kind);
}

// The last layer's output. weights: [layer][parameter].
inline at::Tensor reference_model(const ModelGraph& model, const Tensors& inputs, const std::vector<Tensors>& weights,
                                  const at::Tensor& target) {
  Tensors values;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    Tensors x;
    for (const int input : model.layers[i].inputs) {
      x.push_back(input < 0 ? inputs[-(input + 1)] : values[input]);
    }
    Tensors w = weights[i];
    if (model.layers[i].tied_to >= 0) w.insert(w.begin(), weights[model.layers[i].tied_to].front());
    values.push_back(reference_layer(model.layers[i].kind, x, w, target));
  }
  return values.back();
}

// PipelineReplicas that autograd may differentiate by.
inline Tensors leaves(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    at::Tensor leaf = tensor.detach().clone();
    if (leaf.is_floating_point()) leaf.requires_grad_();
    result.push_back(std::move(leaf));
  }
  return result;
}

inline Tensors gradients_of(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.grad());
  return result;
}

}  // namespace sluice
