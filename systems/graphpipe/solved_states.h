// The memo of GraphPipe's dynamic program: from a state's key to the index of its solutions. Open addressing, since
// most of a search is asking it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

class SolvedStates {  // keys are never 0
 public:
  std::size_t size() const { return size_; }
  void clear() {
    std::ranges::fill(slots_, Slot{});
    size_ = 0;
  }
  const std::size_t* find(std::uint64_t key) const {  // null: not solved yet
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place_of(key)];
    return slot.key == key ? &slot.index : nullptr;
  }
  void add(std::uint64_t key, std::size_t index) {
    if (2 * ++size_ > slots_.size()) {
      std::vector<Slot> old(std::max<std::size_t>(64, 4 * slots_.size()));
      std::swap(old, slots_);
      for (const Slot& slot : old)
        if (slot.key != 0) slots_[place_of(slot.key)] = slot;
    }
    slots_[place_of(key)] = {key, index};
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::size_t index = 0;
  };
  // Where the key is, or would go.
  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;  // a power of two
    std::size_t place = (key * 0x9e3779b97f4a7c15U) >> 32 & mask;
    while (slots_[place].key != 0 && slots_[place].key != key) place = (place + 1) & mask;
    return place;
  }
  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace sluice
