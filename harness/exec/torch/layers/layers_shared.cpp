// make_layer, and what several layers share: affine maps on rows and their gradients.
#include <ATen/core/dispatch/Dispatcher.h>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

// Below this many elements a plain loop is faster than the fixed cost of a reduction in ATen.
constexpr std::int64_t small_sum = 1 << 15;

template <class T>
void add_rows(const at::Tensor& rows, const at::Tensor& sums) {
  const T* source = rows.const_data_ptr<T>();
  T* const target = sums.mutable_data_ptr<T>();
  const std::int64_t height = rows.size(0), width = rows.size(1);
  for (std::int64_t r = 0; r < height; ++r, source += width) {
    for (std::int64_t c = 0; c < width; ++c) target[c] += source[c];
  }
}

// Below this many multiplications oneDNN's fixed cost (10 us) is more than it saves.
constexpr std::int64_t small_product = 1 << 22;

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                   std::string_view, c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);

// oneDNN's x w^T + bias, which torch has no function for; null in a torch without oneDNN.
const c10::TypedOperatorHandle<LinearPointwise>* onednn_linear() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<LinearPointwise>> {
    const auto op = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!op || !at::hasMKLDNN()) return std::nullopt;
    return op->typed<LinearPointwise>();
  }();
  return found ? &*found : nullptr;
}

}  // namespace

bool is_sole_owner(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

at::Tensor as_rows(const at::Tensor& x) { return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)}); }

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor* bias) {
  if (a.is_cpu() && a.scalar_type() == at::kFloat && a.numel() * b.size(1) >= small_product)
    if (const auto* linear = onednn_linear())
      return linear->call(a, b.t(), bias ? std::optional(*bias) : std::nullopt, "none",
                          c10::List<std::optional<at::Scalar>>(), "");
  return bias ? at::addmm(*bias, a, b) : at::mm(a, b);
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias) {
  return product(x, weight.t(), bias);
}

at::Tensor real_tokens(const at::Tensor& ids, const at::Tensor& like) {
  return ids.ne(0).to(like.scalar_type()).unsqueeze(2);
}

void add_column_sums(const at::Tensor& dz, const at::Tensor& sums) {
  const bool plain = dz.is_cpu() && dz.is_contiguous() && sums.is_contiguous() && dz.numel() <= small_sum &&
                     dz.scalar_type() == sums.scalar_type();
  if (plain && dz.scalar_type() == at::kFloat) {
    add_rows<float>(dz, sums);
  } else if (plain && dz.scalar_type() == at::kDouble) {
    add_rows<double>(dz, sums);
  } else {
    sums.add_(dz.sum(0));
  }
}

void add_affine_gradients(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& weight_gradient,
                          const at::Tensor* bias_gradient) {
  weight_gradient.addmm_(dz.t(), x);
  if (bias_gradient) add_column_sums(dz, *bias_gradient);
}

at::Tensor stacked(std::span<LayerStash* const> stashes, std::size_t position) {
  if (stashes.size() == 1) return stashes[0]->kept[position];
  std::vector<at::Tensor> parts;
  parts.reserve(stashes.size());
  for (const LayerStash* stash : stashes) parts.push_back(stash->kept[position]);
  return at::cat(parts);
}

void clear(std::span<LayerStash* const> stashes) {
  for (LayerStash* stash : stashes) stash->kept.clear();
}

std::vector<at::Tensor> WeightlessLayer::input_gradient(const at::Tensor& dy, std::span<const at::Tensor>,
                                                        const std::vector<bool>& needs_input, LayerStash& stash) {
  std::vector<at::Tensor> dx(needs_input.size());
  for (std::size_t i = 0; i < dx.size(); ++i)
    if (needs_input[i]) dx[i] = gradient(dy, i, stash);
  stash.kept.clear();
  return dx;
}

void WeightlessLayer::weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor>) {
  clear(stashes);
}

std::unique_ptr<Layer> make_layer(const LayerSpec& spec, std::span<const Shape> input_shapes, int index_in_model,
                                  const at::TensorOptions& options) {
  return std::visit(
      [&]<class Kind>(const Kind& kind) -> std::unique_ptr<Layer> {
        if constexpr (std::is_same_v<Kind, BatchNorm>) {
          return make(kind, options);
        } else if constexpr (std::is_same_v<Kind, Dropout>) {
          return make(kind, index_in_model);
        } else if constexpr (std::is_same_v<Kind, Module>) {
          return make_module(spec, index_in_model, options);
        } else if constexpr (std::is_same_v<Kind, SequencePool> || std::is_same_v<Kind, Concat> ||
                             std::is_same_v<Kind, Flatten> || std::is_same_v<Kind, CrossEntropyLoss>) {
          return make(kind, input_shapes);
        } else {
          return make(kind);
        }
      },
      spec.kind);
}

}  // namespace sluice
