#include "harness/exec/torch/stage/micro_batch_slices.h"

#include <utility>
#include <vector>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {

int slices_per_op(const StageGraph& graph, StageId stage, StageId peer) {
  return graph.microbatches_per_op_of(stage) / microbatches_per_message(graph, stage, peer);
}

MicroBatchSlice slice_of_message(const StageGraph& graph, StageId stage, Micro message, StageId peer) {
  const Micro op = op_of_message(graph, stage, message, peer);
  return {.op = op,
          .number = message.value - messages_of(graph, stage, op, peer).first,
          .of = slices_per_op(graph, stage, peer)};
}

at::Tensor rows_of(const at::Tensor& tensor, const MicroBatchSlice& slice) {
  if (slice.whole()) return tensor;
  const std::int64_t rows = tensor.size(0) / slice.of;
  return tensor.narrow(0, slice.number * rows, rows);
}

static std::vector<std::int64_t> whole_sizes(const at::Tensor& part, const MicroBatchSlice& slice) {
  std::vector<std::int64_t> sizes = part.sizes().vec();
  sizes[0] *= slice.of;
  return sizes;
}

void put_rows(at::Tensor& tensor, at::Tensor part, const MicroBatchSlice& slice) {
  if (slice.whole()) {
    tensor = std::move(part);
    return;
  }
  if (!tensor.defined()) tensor = at::empty(whole_sizes(part, slice), part.options());
  rows_of(tensor, slice).copy_(part);
}

void add_rows(at::Tensor& sum, at::Tensor part, const MicroBatchSlice& slice) {
  if (slice.whole()) {
    sum = sum.defined() ? sum.add(part) : std::move(part);
    return;
  }
  if (!sum.defined()) {
    sum = at::zeros(whole_sizes(part, slice), part.options());
  } else if (!is_sole_owner(sum)) {
    sum = sum.clone();
  }
  rows_of(sum, slice).add_(part);
}

}  // namespace sluice
