// A layer of a tensor-parallel group (model/tensor_split.h): each device has a part of its weights, and the parts of
// its output, or of its input gradient, are summed over the group inside the op.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "harness/exec/torch/layers/layer.h"
#include "harness/exec/transport.h"
#include "harness/model/tensor_split.h"

namespace sluice {

// A rank's tensor-parallel group during a run.
class TensorGroup {
 public:
  // From now on sums use this group of the transport, which must outlive the run; counts begin again.
  void join(Transport& transport, int group, int member);
  // Replaces the tensor, which is contiguous and not shared, by the sum over the members, equal to the last bit on all.
  void sum(at::Tensor& tensor);
  const TensorSums& sums() const { return sums_; }

 private:
  Transport* transport_ = nullptr;
  int group_ = 0, member_ = 0;
  TensorSums sums_;
};

// The group of a stage; null: all layers are whole. Both outlive the stage.
struct TensorShare {
  const TensorModel* model = nullptr;
  TensorGroup* group = nullptr;
};

// Layer `index` of model.all; input_shapes as its member has them.
std::unique_ptr<Layer> make_member_layer(const TensorModel& model, int index, std::span<const Shape> input_shapes,
                                         const at::TensorOptions& options, TensorGroup& group);

// The part of a whole parameter that a member holds, a copy; and the whole one of all members' parts in their order.
at::Tensor part_of(const at::Tensor& whole, const ParameterPart& part, int degree, int member);
at::Tensor whole_of(std::span<const at::Tensor> parts, const ParameterPart& part);

}  // namespace sluice
