#include "workloads/data/order.h"

#include <numeric>
#include <utility>

#include "harness/base/splitmix64.h"

namespace sluice {

namespace {

// Uniform below `bound`: draws that would favour small values are thrown away.
std::uint64_t below(std::uint64_t& state, std::uint64_t bound) {
  const std::uint64_t limit = bound * (UINT64_MAX / bound);
  for (;;)
    if (const std::uint64_t draw = next_splitmix64(state); draw < limit) return draw % bound;
}

}  // namespace

std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, int epoch) {
  std::vector<std::int64_t> order(samples);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::uint64_t state = splitmix64(seed) + static_cast<std::uint64_t>(epoch);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(state, i)]);
  return order;
}

}  // namespace sluice
