// make_layer, and what several layers share: affine maps on rows and their gradients.
#include "harness/exec/torch/layers.h"

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

}  // namespace

bool is_sole_owner(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

at::Tensor as_rows(const at::Tensor& x) { return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)}); }

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias) {
  return bias ? at::addmm(*bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor real_tokens(const at::Tensor& ids, const at::Tensor& like) {
  return ids.ne(0).to(like.scalar_type()).unsqueeze(2);
}

void add_column_sums(const at::Tensor& dz, const at::Tensor& sums) {
  const bool plain = dz.is_cpu() && dz.is_contiguous() && sums.is_contiguous() &&
                     dz.numel() <= small_sum && dz.scalar_type() == sums.scalar_type();
  if (plain && dz.scalar_type() == at::kFloat) {
    add_rows<float>(dz, sums);
  } else if (plain && dz.scalar_type() == at::kDouble) {
    add_rows<double>(dz, sums);
  } else {
    sums.add_(dz.sum(0));
  }
}

void add_affine_gradients(const at::Tensor& dz, const at::Tensor& x,
                          const at::Tensor& weight_gradient, const at::Tensor* bias_gradient) {
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

void WeightlessLayer::weight_gradient(std::span<LayerStash* const> stashes,
                                      std::span<const at::Tensor>) {
  clear(stashes);
}

std::unique_ptr<Layer> make_layer(const LayerSpec& spec, std::span<const Shape> input_shapes,
                                  int index_in_model, const at::TensorOptions& options) {
  return std::visit(
      [&]<class Kind>(const Kind& kind) -> std::unique_ptr<Layer> {
        if constexpr (std::is_same_v<Kind, BatchNorm>) {
          return make(kind, options);
        } else if constexpr (std::is_same_v<Kind, Dropout>) {
          return make(kind, index_in_model);
        } else if constexpr (std::is_same_v<Kind, Concat> || std::is_same_v<Kind, Flatten> ||
                             std::is_same_v<Kind, CrossEntropyLoss>) {
          return make(kind, input_shapes);
        } else {
          return make(kind);
        }
      },
      spec.kind);
}

}  // namespace sluice
