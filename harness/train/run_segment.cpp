#include "harness/train/run_segment.h"

#include <utility>

#include "harness/case/predict_update.h"
#include "harness/sim/simulate.h"

namespace sluice {

static SegmentResult execute_segment(const Program& program, Session& session, const RunRequest& request) {
  RunResult run = session.run(program, request);
  return {.losses = std::move(run.losses),
          .update_end = std::move(run.execution.update_end),
          .seconds = run.execution.seconds,
          .micro_batches = std::move(run.execution.micro_batches),
          .output_digests = std::move(run.output_digests),
          .trace = std::move(run.execution.trace),
          .diverged = run.execution.diverged,
          .ended = run.execution.ended};
}

static void take_virtual_times(const Prepared& p, const Program& program, int iterations, double start, bool traced,
                               SegmentResult& result) {
  Simulation simulation =
      simulate(program, costs_of(p), p.cluster, p.ranks.devices,
               {.iterations = iterations, .trace = traced, .interference = &p.interference, .start = start});
  result.update_end = std::move(simulation.update_end);
  result.seconds = simulation.end;
  result.micro_batches = std::move(simulation.micro_batches);
  result.trace = std::move(simulation.trace);
}

SegmentResult run_segment(const RunCase& c, const Prepared& prepared, const Program& program, Session* session,
                          RunRequest request, double start, bool traced) {
  const bool on_wall = c.clock == Clock::wall;
  if (traced && on_wall) request.traced_iteration = request.iterations / 2;
  SegmentResult result;
  if (session) result = execute_segment(program, *session, request);
  if (!on_wall) take_virtual_times(prepared, program, request.iterations, start, traced, result);
  return result;
}

}  // namespace sluice
