#include "harness/train/run_segment.h"

#include <utility>

#include "harness/sim/simulate.h"

namespace sluice {

static SegmentResult execute_segment(const Program& program, Session& session, const RunRequest& request) {
  RunResult run = session.run(program, request);
  return {.losses = std::move(run.losses),
          .update_end = std::move(run.execution.update_end),
          .seconds = run.execution.seconds,
          .trace = std::move(run.execution.trace),
          .diverged = run.execution.diverged};
}

static void take_virtual_times(const Prepared& p, const Program& program, int iterations, bool traced,
                               SegmentResult& result) {
  Simulation simulation = simulate(program, costs_of(p.plan, p.costs, p.cluster), p.cluster, p.ranks.devices,
                                   {.iterations = iterations, .trace = traced});
  result.update_end = std::move(simulation.update_end);
  result.seconds = simulation.end;
  result.trace = std::move(simulation.trace);
}

SegmentResult run_segment(const RunCase& c, const Prepared& prepared, const Program& program, Session* session,
                          RunRequest request, bool traced) {
  const bool on_wall = c.clock == Clock::wall;
  if (traced && on_wall) request.traced_iteration = request.iterations / 2;
  SegmentResult result;
  if (session) result = execute_segment(program, *session, request);
  if (!on_wall) take_virtual_times(prepared, program, request.iterations, traced, result);
  return result;
}

}  // namespace sluice
