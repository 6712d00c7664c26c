// The weights that every compute op of a schedule reads: WeightRule applied to an order. Versions depend only on the
// order of a stage's own ops, not on times, so they can be written into the program.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

// The fields of Instruction with the same names.
struct WeightRead {
  std::int32_t version = 0;
  std::int16_t horizon = 0;
  std::int32_t prediction = -1;
};

class WeightReads {
 public:
  // Takes graph, placement and rule from `program` and sets its updates, micro-batches per update and per step,
  // predictions and retained versions. Throws InputError if the rule is impossible.
  WeightReads(const Schedule& schedule, Program& program);

  const WeightRead& of_forward(const Op& op) const { return forward_[slot(op)]; }
  // newest: the stage's version when the backward runs. Numbers each new prediction.
  WeightRead of_backward(const Op& op, int newest);
  WeightRead of_recomputation(const Op& op, int newest) const;
  // A stage's version after `backwards` gradients of one of its replicas; 0 until a flush.
  int newest_after(int backwards) const;
  // For a stage whose W run on another rank: after this many I.
  int newest_after_delay(int input_gradients) const;

 private:
  void count_updates();
  void read_newest();
  void read_same_version_everywhere();
  void read_previous_version();
  void predict_forwards();
  // Updates between a stage's forward and backward of one batch once the pipe is full: one for each stage after it.
  int lag(std::size_t stage) const { return static_cast<int>(program_.graph.size() - 1 - stage); }
  std::size_t slot(const Op& op) const { return op.stage.index() * microbatches_ + op.micro.index(); }

  const Schedule& schedule_;
  Program& program_;
  std::size_t microbatches_;
  std::vector<WeightRead> forward_;                             // [stage][micro]
  std::map<std::pair<StageId, int>, int> backward_prediction_;  // (stage, version) -> id
};

}  // namespace sluice
