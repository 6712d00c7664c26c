#include "harness/exec/torch/layers/member_layer.h"

#include <numeric>
#include <stdexcept>
#include <utility>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {

void TensorGroup::join(Transport& transport, int group, int member) {
  transport_ = &transport;
  group_ = group;
  member_ = member;
  sums_ = {};
}

void TensorGroup::sum(at::Tensor& tensor) {
  if (!transport_) throw std::logic_error("a shared layer runs outside of its group");
  tensor = tensor.contiguous();
  const ElementType type = tensor.scalar_type() == at::kDouble ? ElementType::float64 : ElementType::float32;
  transport_->all_reduce(group_, member_, tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type);
  sums_ += {1, static_cast<std::int64_t>(tensor.nbytes())};
}

namespace {

// A layer whose output, or input gradient, the group sums.
class SharedLayer final : public Layer {
 public:
  SharedLayer(std::unique_ptr<Layer> own, const LayerSplit& split, int member, TensorGroup& group)
      : own_(std::move(own)), split_(split), member_(member), group_(group) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor& target,
                     const ForwardMode& mode, bool may_overwrite, LayerStash* stash) override {
    std::vector<at::Tensor> used(weights.begin(), weights.end());
    if (split_.added_once >= 0 && member_ > 0) {
      at::Tensor& once = used[split_.added_once];
      once = at::zeros_like(once);
    }
    at::Tensor y = own_->forward(in, used, target, mode, may_overwrite, stash);
    if (!split_.forward_sums.empty()) group_.sum(y);
    return y;
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    std::vector<at::Tensor> dx = own_->input_gradient(dy, weights, needs_input, stash);
    if (!split_.input_gradient_sums.empty())
      for (at::Tensor& part : dx)
        if (part.defined()) group_.sum(part);
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    own_->weight_gradient(stashes, gradients);
  }
  std::vector<at::Tensor> buffers() const override { return own_->buffers(); }

 private:
  std::unique_ptr<Layer> own_;
  const LayerSplit& split_;
  int member_;
  TensorGroup& group_;
};

// A range of an embedding's rows: zeros for the tokens of others. Where the split says so, the group sums the outputs;
// otherwise a layer behind adds them.
class EmbeddingRange final : public Layer {
 public:
  EmbeddingRange(const LayerSplit& split, int member, TensorGroup& group)
      : split_(split), member_(member), group_(group) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    rows_ = weights[0].size(0);
    const at::Tensor elsewhere = is_elsewhere(in[0]);
    at::Tensor y = at::embedding(weights[0], own_row(in[0], elsewhere));
    y.masked_fill_(elsewhere.unsqueeze(-1), 0);
    if (!split_.forward_sums.empty()) group_.sum(y);
    if (stash) stash->kept.push_back(in[0]);
    return y;
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor>, const std::vector<bool>&,
                                         LayerStash& stash) override {
    stash.kept.push_back(dy);
    return std::vector<at::Tensor>(1);  // token ids have no gradient
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    rows_ = gradients[0].size(0);
    for (LayerStash* stash : stashes) {
      const at::Tensor elsewhere = is_elsewhere(stash->kept[0]);
      const at::Tensor here = elsewhere.logical_not().reshape({-1}).nonzero().squeeze(1);
      gradients[0].index_add_(0, own_row(stash->kept[0], elsewhere).reshape({-1}).index_select(0, here),
                              as_rows(stash->kept[1]).index_select(0, here));
    }
    clear(stashes);
  }

 private:
  at::Tensor is_elsewhere(const at::Tensor& ids) const {
    return at::logical_or(ids.lt(member_ * rows_), ids.ge((member_ + 1) * rows_));
  }
  at::Tensor own_row(const at::Tensor& ids, const at::Tensor& elsewhere) const {
    return ids.sub(member_ * rows_).masked_fill_(elsewhere, 0);
  }

  const LayerSplit& split_;
  int member_;
  TensorGroup& group_;
  std::int64_t rows_ = 0;
};

// Cross entropy of a range of the classes. One sum over the group carries what all need: every member's logarithm of
// the sum of its exponentials, in a row of its own, and the target's score, from the member that has it. No score is
// exponentiated without its row's largest taken away first.
class ClassRangeLoss final : public WeightlessLayer {
 public:
  ClassRangeLoss(int members, int member, TensorGroup& group) : members_(members), member_(member), group_(group) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor& target,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor scores = as_rows(in[0]);
    const auto [column, here] = own_column(target, scores.size(1));
    at::Tensor all = at::zeros({members_ + 1, scores.size(0)}, scores.options());
    all[member_].copy_(at::logsumexp(scores, 1));
    all[members_].copy_(scores.gather(1, column.unsqueeze(1)).squeeze(1).mul(here.to(scores.scalar_type())));
    group_.sum(all);
    const at::Tensor log_sum = at::logsumexp(all.narrow(0, 0, members_), 0);
    at::Tensor loss = log_sum.sub(all[members_]).mul(shares(target, scores)).sum();
    if (stash) stash->kept = {at::sub(scores, log_sum.unsqueeze(1)), target};
    return loss;
  }

 private:
  // d scores = (softmax - one at the target) times the position's share of the loss, for the own classes.
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    const at::Tensor &log_p = stash.kept[0], &target = stash.kept[1];
    const auto [column, here] = own_column(target, log_p.size(1));
    at::Tensor d_scores = log_p.exp();
    d_scores.scatter_add_(1, column.unsqueeze(1), here.to(log_p.scalar_type()).neg_().unsqueeze(1));
    d_scores.mul_((shares(target, log_p) * dy).unsqueeze(1));
    std::vector<std::int64_t> shape = target.sizes().vec();
    shape.push_back(-1);
    return d_scores.view(shape);
  }

  // Per row, the target's column among the own classes (0 where it is another member's, or there is none), and whether
  // it is there.
  std::pair<at::Tensor, at::Tensor> own_column(const at::Tensor& target, std::int64_t classes) const {
    const at::Tensor column = target.reshape({-1}).sub(member_ * classes);
    at::Tensor here = at::logical_and(column.ge(0), column.lt(classes));
    return {column.masked_fill(here.logical_not(), 0), here};
  }
  // As in the whole loss; a sample of one class has one position.
  static at::Tensor shares(const at::Tensor& target, const at::Tensor& like) {
    const at::Tensor positions = target.reshape({target.size(0), -1});
    return loss_shares(positions, real_positions(positions, like));
  }

  int members_, member_;
  TensorGroup& group_;
};

}  // namespace

std::unique_ptr<Layer> make_member_layer(const TensorModel& model, int index, std::span<const Shape> input_shapes,
                                         const at::TensorOptions& options, TensorGroup& group) {
  const LayerSpec& spec = model.all.layers[index];
  const LayerSplit& split = model.split_of(index);
  const int member = model.member_of(index), layer = model.whole_layer(index);
  switch (split.rule) {
    case LayerSplit::Rule::rows:
      return std::make_unique<EmbeddingRange>(split, member, group);
    case LayerSplit::Rule::classes:
      return std::make_unique<ClassRangeLoss>(model.degree, member, group);
    case LayerSplit::Rule::whole:
      return make_layer(spec, input_shapes, layer, options);
    default:
      break;
  }
  if (const auto* dropout = std::get_if<Dropout>(&spec.kind)) return make(*dropout, layer, model.degree, member);
  const auto* experts = std::get_if<Experts>(&spec.kind);
  return std::make_unique<SharedLayer>(
      experts ? make(*experts, member * experts->held, [&group](at::Tensor& part) { group.sum(part); })
              : make_layer(spec, input_shapes, layer, options),
      split, member, group);
}

static std::vector<at::Tensor> blocks_of(const at::Tensor& tensor, const ParameterPart& part) {
  const std::int64_t units = std::accumulate(part.blocks.begin(), part.blocks.end(), std::int64_t{0});
  std::vector<std::int64_t> sizes;
  for (const std::int64_t block : part.blocks) sizes.push_back(tensor.size(part.dimension) / units * block);
  return tensor.split_with_sizes(sizes, part.dimension);
}

at::Tensor part_of(const at::Tensor& whole, const ParameterPart& part, int degree, int member) {
  if (part.dimension < 0) return whole.clone();
  std::vector<at::Tensor> own;
  for (const at::Tensor& block : blocks_of(whole, part)) own.push_back(block.chunk(degree, part.dimension)[member]);
  return at::cat(own, part.dimension);
}

at::Tensor whole_of(std::span<const at::Tensor> parts, const ParameterPart& part) {
  if (part.dimension < 0) return parts.front();
  std::vector<at::Tensor> by_block;  // the first block's parts, the second's, ...
  for (std::size_t b = 0; b < part.blocks.size(); ++b)
    for (const at::Tensor& p : parts) by_block.push_back(blocks_of(p, part)[b]);
  return at::cat(by_block, part.dimension);
}

}  // namespace sluice
