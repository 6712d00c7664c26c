// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): pseudo-random numbers that are the same on every machine.
#pragma once

#include <cstdint>

namespace sluice {

// Spreads a difference in one bit over all bits; 0 stays 0.
constexpr std::uint64_t mixed_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The generator's next number.
constexpr std::uint64_t next_splitmix64(std::uint64_t& state) { return mixed_bits(state += 0x9e3779b97f4a7c15u); }

// The first number of a generator whose state is x: neighbouring x give unrelated numbers.
constexpr std::uint64_t splitmix64(std::uint64_t x) { return next_splitmix64(x); }

}  // namespace sluice
