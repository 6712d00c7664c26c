#include "harness/exec/torch/stage/tensor_message.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>

namespace sluice {

namespace {

TensorMessage& payload(const Message& message) { return *static_cast<TensorMessage*>(message.payload.get()); }

// Bytes from a tensor's first element to the end of its last one.
std::int64_t extent(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) elements += (tensor.size(d) - 1) * tensor.stride(d);
  return elements * static_cast<std::int64_t>(tensor.element_size());
}

struct Shared {
  const void* storage;
  at::ScalarType type;
  std::byte *first, *last;  // what of it the message needs
};

}  // namespace

// How many numbers, these; how many blocks, their bytes; then of each tensor its type (-1:
// undefined), block, first element in it, number of dimensions, sizes, strides.
TensorBlocks blocks_of(TensorMessage& message) {
  const c10::InferenceMode no_autograd;
  const auto storage_of = [](const at::Tensor& t) {
    return static_cast<const void*>(t.storage().unsafeGetStorageImpl());
  };
  const auto is_shared = [&](const at::Tensor& tensor) {
    return std::ranges::count_if(message.tensors, [&](const at::Tensor& other) {
             return other.defined() && storage_of(other) == storage_of(tensor);
           }) > 1;
  };
  std::vector<Shared> blocks;
  std::vector<std::size_t> block_of;
  for (at::Tensor& tensor : message.tensors) {
    block_of.push_back(blocks.size());
    if (!tensor.defined()) continue;
    if (!tensor.is_non_overlapping_and_dense() && !is_shared(tensor)) tensor = tensor.contiguous();
    auto* const first = static_cast<std::byte*>(tensor.data_ptr());
    auto* const last = first + extent(tensor);
    const auto known = std::ranges::find_if(
        blocks, [&](const Shared& b) { return b.storage == storage_of(tensor) && b.type == tensor.scalar_type(); });
    if (known == blocks.end() || tensor.numel() == 0) {
      blocks.push_back({tensor.numel() == 0 ? nullptr : storage_of(tensor), tensor.scalar_type(), first, last});
      continue;
    }
    block_of.back() = static_cast<std::size_t>(known - blocks.begin());
    known->first = std::min(known->first, first);
    known->last = std::max(known->last, last);
  }
  TensorBlocks result;
  const auto add = [&](auto value) { result.header.push_back(static_cast<std::int64_t>(value)); };
  const auto add_all = [&](auto values) { result.header.insert(result.header.end(), values.begin(), values.end()); };
  add(message.numbers.size());
  add_all(message.numbers);
  add(blocks.size());
  for (const Shared& b : blocks) {
    result.blocks.emplace_back(b.first, b.last);
    add(b.last - b.first);
  }
  for (std::size_t k = 0; k < message.tensors.size(); ++k) {
    const at::Tensor& tensor = message.tensors[k];
    if (!tensor.defined()) {
      add(-1);
      continue;
    }
    add(tensor.scalar_type());
    add(block_of[k]);
    add((static_cast<std::byte*>(tensor.data_ptr()) - blocks[block_of[k]].first) /
        static_cast<std::ptrdiff_t>(tensor.element_size()));
    add(tensor.dim());
    add_all(tensor.sizes());
    add_all(tensor.strides());
  }
  return result;
}

std::shared_ptr<TensorMessage> message_of(std::span<const std::int64_t> header,
                                          const std::function<at::Tensor(std::int64_t)>& make_block,
                                          std::vector<std::span<std::byte>>* blocks) {
  const c10::InferenceMode no_autograd;
  const auto next = [&] {
    const std::int64_t value = header.front();
    header = header.subspan(1);
    return value;
  };
  const auto take = [&](std::int64_t n) {
    const auto values = header.first(static_cast<std::size_t>(n));
    header = header.subspan(static_cast<std::size_t>(n));
    return values;
  };
  auto message = std::make_shared<TensorMessage>();
  const auto numbers = take(next());
  message->numbers.assign(numbers.begin(), numbers.end());
  std::vector<at::Tensor> memory;
  for (const std::int64_t bytes : take(next())) {
    memory.push_back(make_block(bytes));
    if (blocks)
      blocks->emplace_back(static_cast<std::byte*>(memory.back().data_ptr()), static_cast<std::size_t>(bytes));
  }
  while (!header.empty()) {
    at::Tensor& tensor = message->tensors.emplace_back();
    const std::int64_t type = next();
    if (type < 0) continue;
    const at::Tensor& block = memory.at(next());
    const std::int64_t first = next(), dimensions = next();
    const auto sizes = take(dimensions), strides = take(dimensions);
    tensor = block.view(static_cast<at::ScalarType>(type))
                 .as_strided(at::IntArrayRef(sizes.data(), sizes.size()),
                             at::IntArrayRef(strides.data(), strides.size()), first);
  }
  return message;
}

std::vector<std::int64_t> TensorBuffers::header(const Message& message) {
  for (const at::Tensor& tensor : payload(message).tensors)
    if (tensor.defined() && tensor.device().type() != device_)
      throw std::logic_error("a message between devices holds a tensor of " + tensor.device().str());
  return blocks_of(payload(message)).header;
}

Message TensorBuffers::room_for(std::span<const std::int64_t> header, DeviceCalls::Stream stream) {
  return {message_of(header, [&](std::int64_t bytes) { return make_block_(bytes, stream); })};
}

std::vector<DeviceBuffer> TensorBuffers::buffers(const Message& message) {
  std::vector<DeviceBuffer> all;
  for (const std::span<std::byte> block : blocks_of(payload(message)).blocks)
    all.push_back({block.data(), block.size()});
  return all;
}

}  // namespace sluice
