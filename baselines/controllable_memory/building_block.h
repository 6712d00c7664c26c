// Building blocks: how one micro-batch passes through p ranks and back, twice. Rank r holds stage r (going down) and
// stage 2p - 1 - r (coming back). Every op lasts one slot here. A block that no rank would run two ops of in the same
// slot (modulo six) is repeated every six slots, the work of one micro-batch on one rank; how long its F wait for their
// I decides how many activations a rank holds (Qi et al., NeurIPS 2024, section 3).
#pragma once

#include <array>
#include <vector>

namespace sluice {

// What one micro-batch does on a rank, in this order: F of stage r, F of stage 2p - 1 - r, I of stage 2p - 1 - r, I of
// stage r. Weight gradients are no part of a block: they take what is free.
enum class Pass { forward_down, forward_up, backward_down, backward_up };
inline constexpr std::array kPasses = {Pass::forward_down, Pass::forward_up, Pass::backward_down, Pass::backward_up};
inline constexpr int index_of(Pass pass) { return static_cast<int>(pass); }
inline constexpr int kBlockInterval = 6;  // slots between the same pass of two micro-batches on a rank

// Of each rank, the slots of the four passes of micro-batch 0.
using BuildingBlock = std::vector<std::array<int, 4>>;

// From rank to rank one slot in all four directions: the shortest stay there is, about p/3 micro-batches a rank.
BuildingBlock v_min_block(int ranks);
// Two slots down, one up: about p/2.
BuildingBlock v_half_block(int ranks);
// Four slots down, two up: p, without a bubble.
BuildingBlock v_zb_block(int ranks);

// Blocks of two parts: from rank to rank the passes that go down take `first` slots for `changes` ranks and `second`
// slots from there on, those that come up one slot; gaps[i] slots lie between pass i and pass i + 1 on the rank where
// the micro-batch turns. Empty where two ops of a rank would meet in a slot.
BuildingBlock two_part_block(int ranks, int first, int second, int changes, const std::array<int, 3>& gaps);

// Whether the block can be repeated: on every rank its four slots differ modulo six.
bool repeats(const BuildingBlock& block);

}  // namespace sluice
