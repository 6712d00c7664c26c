// From a building block to the order of a whole update: the block is repeated, weight gradients take free slots, and
// the warm-up and the end are packed without raising the memory (as in the authors' released generator).
#pragma once

#include <optional>
#include <vector>

#include "baselines/controllable_memory/building_block.h"
#include "harness/pipeline/schedule.h"

namespace sluice {

// Activations are counted in those of one stage: one more at an F, one less at the end of a W. Two make a micro-batch
// of a rank.
class VOrder {
 public:
  VOrder(const BuildingBlock& block, int microbatches);

  // Most activations on any rank, weight gradients in the slots that are free.
  int peak() const;

  // Moves ops of the warm-up and of the end into earlier free slots as far as no rank then holds more activations than
  // `most`; nothing: than the block repeated holds.
  void improve(std::optional<int> most = std::nullopt);

  // The order of every rank; the weight gradients of the stage whose backward comes first before the other's.
  std::vector<std::vector<Op>> ops() const;

 private:
  static constexpr int kWeightGradient = 4;  // a further kind of event after the four passes
  struct Event {
    int slot, rank, kind, micro;
    friend auto operator<=>(const Event&, const Event&) = default;
  };
  enum class Occupant : unsigned char { none, forward, input_gradient, weight_gradient };  // of a slot

  class Line;

  int stage_of(int rank, Pass pass) const;
  std::vector<Occupant> occupants(int rank) const;
  std::vector<int> free_slots_for_weight_gradients(int rank) const;
  void place_weight_gradients();
  std::vector<Event> events() const;  // in the order of slots
  int inputs_there(int rank, int kind, int micro) const;
  int earliest(const Event& event) const;
  void pack(bool with_weight_gradients, std::optional<int> most);
  void squeeze();

  int p_, m_;
  std::vector<std::array<std::vector<int>, 4>> slots_;   // [rank][pass][micro-batch]
  std::vector<std::vector<int>> weight_gradient_slots_;  // per rank, both stages together; empty: not placed
};

}  // namespace sluice
