// Tensors that are sent to another process: in the messages of a program (TensorCodec) and, between runs, for an
// evaluation or a checkpoint. They keep their strides, because kernels add in another order over another layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "harness/exec/process_group.h"
#include "harness/exec/torch/stage/memory_counter.h"

namespace sluice {

// For messages whose payload is a TensorMessage.
class TensorCodec : public MessageCodec {
 public:
  MemoryCounters* receiver = nullptr;  // of the rank whose buffers include received messages
  Encoded encode(Message& message) override;
  Message make_room(std::span<const std::byte> header, std::vector<std::span<std::byte>>& parts) override;
};

void send_tensors(ProcessGroup& processes, int to, std::span<const at::Tensor> tensors);
std::vector<at::Tensor> receive_tensors(ProcessGroup& processes, int from);
// The root's tensor, in every member.
at::Tensor broadcast_tensor(ProcessGroup& processes, const at::Tensor& tensor, int root);

}  // namespace sluice
