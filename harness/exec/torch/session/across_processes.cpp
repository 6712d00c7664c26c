#include "harness/exec/torch/session/across_processes.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cstring>

#include "harness/exec/bytes.h"
#include "harness/exec/torch/stage/tensor_message.h"

namespace sluice {

namespace {

// The tensor, or a copy, in memory without gaps, which can be sent from where it lies; in any order of its dimensions.
at::Tensor dense(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_cpu()) return dense(tensor.cpu());
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return tensor;
  return tensor.contiguous();
}

std::string describe(std::span<const at::Tensor> tensors) {
  ByteWriter out;
  out.value(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    out.value(tensor.defined());
    if (!tensor.defined()) continue;
    out.value(tensor.scalar_type());
    out.list(tensor.sizes().vec());
    out.list(tensor.strides().vec());
  }
  return out.bytes();
}

std::vector<at::Tensor> make(const std::string& description) {
  ByteReader in(description);
  std::vector<at::Tensor> tensors(in.value<std::size_t>());
  for (at::Tensor& tensor : tensors) {
    if (!in.value<bool>()) continue;
    const auto type = in.value<at::ScalarType>();
    std::vector<std::int64_t> sizes, strides;
    in.list(sizes);
    in.list(strides);
    tensor = at::empty_strided(sizes, strides, at::TensorOptions().dtype(type));
  }
  return tensors;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

std::vector<std::byte> as_bytes(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

MessageCodec::Encoded TensorCodec::encode(Message& message) {
  const MemoryScope scope(receiver, MemoryKind::buffers);
  TensorBlocks blocks = blocks_of(*static_cast<TensorMessage*>(message.payload.get()));
  const auto header = std::as_bytes(std::span(blocks.header));
  return {{header.begin(), header.end()}, std::move(blocks.blocks)};
}

Message TensorCodec::make_room(std::span<const std::byte> header, std::vector<std::span<std::byte>>& parts) {
  const c10::InferenceMode no_autograd;
  const MemoryScope scope(receiver, MemoryKind::buffers);
  std::vector<std::int64_t> numbers(header.size() / sizeof(std::int64_t));
  std::memcpy(numbers.data(), header.data(), header.size());
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  return {message_of(
      numbers, [&](std::int64_t n) { return at::empty({n}, bytes); }, &parts)};
}

void send_tensors(ProcessGroup& processes, int to, std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> ready;
  for (const at::Tensor& tensor : tensors) ready.push_back(dense(tensor));
  processes.send(to, as_bytes(describe(ready)));
  for (const at::Tensor& tensor : ready)
    if (tensor.defined()) processes.send(to, bytes_of(tensor));
}

std::vector<at::Tensor> receive_tensors(ProcessGroup& processes, int from) {
  const c10::InferenceMode no_autograd;
  std::vector<at::Tensor> tensors = make(as_text(processes.receive(from)));
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const std::vector<std::byte> bytes = processes.receive(from);
    std::copy(bytes.begin(), bytes.end(), bytes_of(tensor).begin());
  }
  return tensors;
}

at::Tensor broadcast_tensor(ProcessGroup& processes, const at::Tensor& tensor, int root) {
  const c10::InferenceMode no_autograd;
  const at::Tensor own = processes.rank() == root ? dense(tensor) : tensor;
  const std::string description =
      processes.broadcast(processes.rank() == root ? describe(std::span(&own, 1)) : "", root);
  const std::string bytes = processes.broadcast(processes.rank() == root ? as_text(bytes_of(own)) : "", root);
  if (processes.rank() == root) return own;
  const at::Tensor result = make(description).front();
  std::memcpy(result.data_ptr(), bytes.data(), bytes.size());
  return result;
}

}  // namespace sluice
