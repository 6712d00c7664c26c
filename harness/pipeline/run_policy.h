// RunPolicy: settings of a run for its updates, or for its queues in inference, that apply to any system.
#pragma once

namespace sluice {

struct RunPolicy {
  // Micro-batches at the end of a run that are too few for an update. drop: discard; partial: one update with their
  // mean gradient. For systems without a flush that accumulate.
  enum class Leftover { drop, partial } leftover = Leftover::drop;
  // Systems with a flush: no rank begins the next update before every rank has stepped, as a step with a norm over all
  // gradients requires. false: a rank continues once its own stages have stepped.
  bool step_barrier = false;
  // Systems with a flush: every step waits for the norm over the gradients of all stages, which a reduce_norm sums.
  bool clip_norm = false;
  // Inference: limit on the micro-batches that a stage has finished and the next one has not begun. Nothing flows back
  // from the last stage, so without a limit a fast stage runs ahead of a slow one. 0: no limit.
  int queue = 0;
};

}  // namespace sluice
