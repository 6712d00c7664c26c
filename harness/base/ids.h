// Strong integer ids. A stage number is not a rank and a rank is not a micro-batch; mixing them up is the most frequent
// mistake in pipeline code, so the compiler rejects it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice {

template <class Tag>
struct Id {
  std::int32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using StageId = Id<struct StageTag>;    // a vertex of the plan's stage DAG, numbered from 0
using Rank = Id<struct RankTag>;        // one executing device (a thread, or an MPI process)
using Micro = Id<struct MicroTag>;      // a micro-batch (synchronous) or mini-batch (asynchronous)
using DeviceId = Id<struct DeviceTag>;  // an entry of Cluster::devices

}  // namespace sluice

template <class Tag>
struct std::hash<sluice::Id<Tag>> {
  std::size_t operator()(sluice::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
