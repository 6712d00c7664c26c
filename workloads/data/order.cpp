#include "workloads/data/order.h"

#include <numeric>
#include <utility>

namespace sluice {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
struct Generator {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform below `bound`: draws that would favour small values are thrown away.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t limit = bound * (UINT64_MAX / bound);
    for (;;)
      if (const std::uint64_t draw = next(); draw < limit) return draw % bound;
  }
};

}  // namespace

std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, int epoch) {
  std::vector<std::int64_t> order(samples);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Generator generator{seed};
  generator.state = generator.next() + static_cast<std::uint64_t>(epoch);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[generator.below(i)]);
  return order;
}

}  // namespace sluice
