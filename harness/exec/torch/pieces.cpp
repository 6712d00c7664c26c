#include "harness/exec/torch/pieces.h"

#include <utility>
#include <vector>

#include "harness/exec/torch/layers.h"

namespace sluice {

int pieces_per_op(const StageGraph& graph, StageId stage, StageId peer) {
  return graph.grouping_of(stage) / message_grouping(graph, stage, peer);
}

Piece piece_of_message(const StageGraph& graph, StageId stage, Micro message, StageId peer) {
  const Micro op = op_of_message(graph, stage, message, peer);
  return {.op = op,
          .number = message.value - messages_of(graph, stage, op, peer).first,
          .of = pieces_per_op(graph, stage, peer)};
}

at::Tensor rows_of(const at::Tensor& tensor, const Piece& piece) {
  if (piece.whole()) return tensor;
  const std::int64_t rows = tensor.size(0) / piece.of;
  return tensor.narrow(0, piece.number * rows, rows);
}

static std::vector<std::int64_t> whole_sizes(const at::Tensor& part, const Piece& piece) {
  std::vector<std::int64_t> sizes = part.sizes().vec();
  sizes[0] *= piece.of;
  return sizes;
}

void put_rows(at::Tensor& tensor, at::Tensor part, const Piece& piece) {
  if (piece.whole()) {
    tensor = std::move(part);
    return;
  }
  if (!tensor.defined()) tensor = at::empty(whole_sizes(part, piece), part.options());
  rows_of(tensor, piece).copy_(part);
}

void add_rows(at::Tensor& sum, at::Tensor part, const Piece& piece) {
  if (piece.whole()) {
    sum = sum.defined() ? sum.add(part) : std::move(part);
    return;
  }
  if (!sum.defined()) {
    sum = at::zeros(whole_sizes(part, piece), part.options());
  } else if (!is_sole_owner(sum)) {
    sum = sum.clone();
  }
  rows_of(sum, piece).add_(part);
}

}  // namespace sluice
