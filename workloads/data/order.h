// The data order: one seeded shuffle per epoch, the same for every system, on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// A permutation of 0 .. samples - 1 that depends on (samples, seed, epoch) only. Own generator (SplitMix64) and own
// bounded draw: the standard library's distributions differ between implementations.
std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, int epoch);

}  // namespace sluice
