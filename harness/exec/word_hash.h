// A hash of many bytes, for comparing data in two places: weights before and after a move, outputs of two runs, data of
// two processes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

// FNV-1a over words of 8 bytes, the last one filled with zeros. `hash`: of the preceding bytes.
inline std::uint64_t word_hash(const void* data, std::size_t size, std::uint64_t hash = 0xcbf29ce484222325) {
  const auto* bytes = static_cast<const char*>(data);
  for (std::size_t k = 0; k < size; k += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + k, std::min<std::size_t>(8, size - k));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;  // so that the high bytes of a word reach the low ones of the hash
  }
  return hash;
}

}  // namespace sluice
