#include "harness/program/trace.h"

namespace sluice {

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
    result.idle.push_back(result.makespan - rank.busy);
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
