// RunPolicy: what a run decides about its updates, or in inference about its queues, whatever system it runs.
#pragma once

namespace sluice {

struct RunPolicy {
  // Micro-batches at the end of a run that are too few for an update: dropped, or an update of their own with their
  // mean gradient. For systems without a flush that accumulate.
  enum class Leftover { drop, partial } leftover = Leftover::drop;
  // Systems with a flush: no rank begins the next update before every rank has stepped, as where the step needs a norm
  // over all gradients. Without it a rank goes on as soon as its own stages have stepped.
  bool step_barrier = false;
  // Systems with a flush: every step waits for the norm over the gradients of all stages, which a reduce_norm sums.
  bool clip_norm = false;
  // Inference: how many micro-batches a stage may have made that the next one has not begun. Nothing flows back from
  // the last stage, so without a bound a fast stage would run away from a slow one. 0: no bound.
  int queue = 0;
};

}  // namespace sluice
