#include "harness/program/trace.h"

namespace sluice {

void MicroBatchTimes::add(const Program& program, const Instruction& forward, int iteration, double start, double end) {
  const std::size_t s = forward.stage.index();
  const bool enters = program.graph.predecessors[s].empty(), leaves = program.graph.successors[s].empty();
  if (!enters && !leaves) return;
  const int at_once = program.graph.microbatches_per_op_of(forward.stage);
  const int first = iteration * program.microbatches + forward.micro.value * at_once;
  for (int m = first; m < first + at_once; ++m) {
    const auto k = static_cast<std::size_t>(m);
    if (enters) entered[k] = std::min(entered[k], start);
    if (leaves) left[k] = std::max(left[k], end);
  }
}

Bubbles bubbles_of(std::span<const BusyTime> ranks) {
  Bubbles result;
  BusyTime all;
  double busiest = 0;
  for (const BusyTime& rank : ranks) {
    all.first = std::min(all.first, rank.first);
    all.last = std::max(all.last, rank.last);
    busiest = std::max(busiest, rank.busy);
    result.max_span = std::max(result.max_span, rank.last - rank.first);
  }
  if (!(all.last > all.first)) return result;
  result.makespan = all.last - all.first;
  double idle = 0;
  for (const BusyTime& rank : ranks) {
    result.idle.push_back(std::max(result.makespan - rank.busy, 0.0));  // sums of times may differ in the last digit
    idle += result.idle.back();
  }
  result.bubble_ratio = idle / (static_cast<double>(ranks.size()) * result.makespan);
  result.span_bubble = 1 - busiest / result.max_span;
  return result;
}

Bubbles bubbles(const Trace& trace) {
  std::vector<BusyTime> ranks(trace.ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const TraceEvent& event : trace.ranks[r])
      if (is_compute(event.instruction.opcode)) ranks[r].add(event.start, event.end, event.end - event.start);
  return bubbles_of(ranks);
}

}  // namespace sluice
