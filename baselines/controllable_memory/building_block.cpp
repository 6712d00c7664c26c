#include "baselines/controllable_memory/building_block.h"

namespace sluice {

namespace {

// slot_of(rank): the slots of the four passes.
template <class SlotsOf>
BuildingBlock block_of(int ranks, SlotsOf slots_of) {
  BuildingBlock block;
  for (int r = 0; r < ranks; ++r) block.push_back(slots_of(r));
  return block;
}

}  // namespace

// Without the gap before the backward, passes 0 and 2 would meet where three divides p.
BuildingBlock v_min_block(int p) {
  const int gap = p % 3 == 0 ? 2 : 0;
  return block_of(p, [&](int r) { return std::array{r, 2 * p - 1 - r, 2 * p + gap + r, 4 * p + gap - 1 - r}; });
}

// Without the gap, passes 1 and 3 would meet where p is even.
BuildingBlock v_half_block(int p) {
  const int gap = p % 2 == 0 ? 3 : 0;
  return block_of(p, [&](int r) {
    return std::array{2 * r, 3 * p - 2 - r, 3 * p - 1 + gap + 2 * r, 6 * p - 2 + gap - r};
  });
}

BuildingBlock v_zb_block(int p) {
  return block_of(p, [&](int r) {
    return std::array{4 * r, 6 * p - 5 - 2 * r, 6 * p - 4 + 4 * r, 12 * p - 9 - 2 * r};
  });
}

BuildingBlock two_part_block(int p, int first, int second, int changes, const std::array<int, 3>& gaps) {
  const auto down = [&](int r) { return r <= changes ? first * r : first * changes + second * (r - changes); };
  const int forward_up = down(p - 1) + gaps[0];            // on the last rank
  const int backward_down = forward_up + p - 1 + gaps[1];  // on the first
  const int backward_up = backward_down + down(p - 1) + gaps[2];
  BuildingBlock block = block_of(p, [&](int r) {
    return std::array{down(r), forward_up + p - 1 - r, backward_down + down(r), backward_up + p - 1 - r};
  });
  if (!repeats(block)) block.clear();
  return block;
}

bool repeats(const BuildingBlock& block) {
  for (const auto& slots : block) {
    unsigned taken = 0;
    for (const int slot : slots) taken |= 1U << (slot % kBlockInterval);
    if (__builtin_popcount(taken) != 4) return false;
  }
  return true;
}

}  // namespace sluice
