// DAPPLE's latency of one synchronous iteration (Fan et al., PPoPP 2021, section 4), from memory: computation
// stages with network stages between them, M micro-batches, and a pivot stage Q that is never idle:
//
//   L = Tw + Ts + Te,   Tw = sum over s <= Q of F_s,   Ts = (M - 1)(F_Q + B_Q),
//   Te = max over s of AR_s + ( sum over s..Q of B, if s <= Q;  - sum over Q..s-1 of B, if s > Q )
//
// An approximation: it may be below a real 1F1B run, and above it where a full-duplex link is the
// pivot, since it charges both directions to one stage.
#pragma once

#include <span>

namespace sluice {

struct LatencyStage {
  double forward = 0, backward = 0;  // seconds of one micro-batch
  double all_reduce = 0;             // seconds, after the last backward; 0 for network stages
};

struct PipelineLatency {
  double seconds = 0;
  int pivot = 0;  // index into the stages, network stages counted
  double warm_up = 0, steady = 0, ending = 0;
};

PipelineLatency pipeline_latency(std::span<const LatencyStage> stages, int microbatches);

}  // namespace sluice
