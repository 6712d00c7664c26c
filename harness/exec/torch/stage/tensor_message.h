// The content of a worker's message, and its form for another process or GPU: blocks of memory, sent without a copy,
// and a header that describes their tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/exec/nccl/nccl_transport.h"

namespace sluice {

// The payload of every Message between workers. An undefined tensor stays one.
struct TensorMessage {
  std::vector<at::Tensor> tensors;    // on the sender's device
  std::vector<std::int64_t> numbers;  // for the host: number of tensors that each layer kept (a stash)
};

// Tensors keep their strides, because kernels add in another order over another layout. Tensors that share memory (a
// stash that keeps a tensor twice, or views of one) are sent once and also share memory at the receiver.
struct TensorBlocks {
  std::vector<std::int64_t> header;
  std::vector<std::span<std::byte>> blocks;  // of the message's memory
};
// Replaces a tensor with gaps in its memory by a dense copy, unless other tensors of the message share that memory.
TensorBlocks blocks_of(TensorMessage& message);
// make_block(bytes): a tensor of `bytes` bytes, for a block to be received into. blocks: the memory of these.
std::shared_ptr<TensorMessage> message_of(std::span<const std::int64_t> header,
                                          const std::function<at::Tensor(std::int64_t)>& make_block,
                                          std::vector<std::span<std::byte>>* blocks = nullptr);

// For NCCL, which sends memory of GPUs only: the header is sent before it, between the hosts.
class TensorBuffers : public MessageBuffers {
 public:
  // Bytes of memory of the calling rank's device, to be written on the stream.
  using MakeBlock = std::function<at::Tensor(std::int64_t bytes, DeviceCalls::Stream)>;
  // device: where the tensors of messages must be.
  TensorBuffers(at::DeviceType device, MakeBlock make_block) : device_(device), make_block_(std::move(make_block)) {}

  // Throws std::logic_error if a tensor is elsewhere, where NCCL cannot read it.
  std::vector<std::int64_t> header(const Message& message) override;
  Message room_for(std::span<const std::int64_t> header, DeviceCalls::Stream stream) override;
  std::vector<DeviceBuffer> buffers(const Message& message) override;

 private:
  at::DeviceType device_;
  MakeBlock make_block_;
};

}  // namespace sluice
