// WeightRule: which weight version each F, B, I, W reads, and when a stage's optimizer steps.
// A version is the number of the stage's own updates it contains (0 = initial). The rules are
// static: with a fixed op order, versions do not depend on timing (specs/async_systems.md section
// 0), so lowering writes the version into every instruction and neither clock has to discover it.
#pragma once

#include <string>

namespace sluice {

struct WeightRule {
  enum class Update {
    flush,           // once, after the last backward of the schedule (synchronous systems)
    every_backward,  // after each `accumulate` backwards of the stage
  };
  enum class Forward {
    newest,
    injected,  // PipeDream's vertical sync: the version stage 0 had when the batch entered
  };
  enum class Backward {
    same_as_forward,  // weight stashing: the forward's tensor (PipeDream)
    newest,           // whatever is newest (naive 1F1B); the gradient is then of no single function
  };
  Update update = Update::flush;
  Forward forward = Forward::newest;
  Backward backward = Backward::same_as_forward;
  int accumulate = 1;

  bool synchronous() const { return update == Update::flush; }
};

}  // namespace sluice
