// NCCL between processes: its use of the process group for the communicators' ids and the headers of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/exec/nccl/nccl_transport.h"
#include "harness/exec/process_group.h"

namespace sluice {

// Carries a message's header, the payload of the host transport's messages, to another process.
class HeaderCodec : public MessageCodec {
 public:
  Encoded encode(Message& message) override {
    const auto& numbers = *static_cast<std::vector<std::int64_t>*>(message.payload.get());
    const auto bytes = std::as_bytes(std::span(numbers));
    return {{bytes.begin(), bytes.end()}, {}};
  }
  Message make_room(std::span<const std::byte> header, std::vector<std::span<std::byte>>&) override {
    auto numbers = std::make_shared<std::vector<std::int64_t>>(header.size() / 8);
    std::memcpy(numbers->data(), header.data(), header.size());
    return {numbers, {}};
  }
};

// The first process makes the ids, and the process group broadcasts them. Collective.
inline std::vector<NcclId> shared_ids(const CommunicatorPlan& plan, DeviceCalls& calls, ProcessGroup& processes) {
  std::vector<NcclId> ids(plan.communicators.size());
  if (processes.rank() == 0) ids = NcclLinks::make_ids(plan, calls);
  const std::string all =
      processes.broadcast({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(NcclId)}, 0);
  std::memcpy(ids.data(), all.data(), all.size());
  return ids;
}

}  // namespace sluice
