// RunPolicy: what a run decides about its updates, whatever system it runs.
#pragma once

namespace sluice {

struct RunPolicy {
  // Micro-batches at the end of a run that are too few for an update: dropped, or an update of their own with their
  // mean gradient. For systems without a flush that accumulate.
  enum class Leftover { drop, partial } leftover = Leftover::drop;
  // Systems with a flush: no rank begins the next update before every rank has stepped, as where the step needs a norm
  // over all gradients. Without it a rank goes on as soon as its own stages have stepped.
  bool step_barrier = false;
};

}  // namespace sluice
