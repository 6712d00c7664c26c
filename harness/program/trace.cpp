#include "harness/program/trace.h"

#include <algorithm>
#include <limits>

namespace sluice {

Bubbles bubbles(const Trace& trace) {
  Bubbles result;
  double first = std::numeric_limits<double>::infinity(), last = 0, busiest = 0;
  std::vector<double> busy(trace.ranks.size(), 0);
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    double own_first = std::numeric_limits<double>::infinity(), own_last = 0;
    for (const TraceEvent& event : trace.ranks[r]) {
      if (!is_compute(event.instruction.opcode)) continue;
      own_first = std::min(own_first, event.start);
      own_last = std::max(own_last, event.end);
      busy[r] += event.end - event.start;
    }
    first = std::min(first, own_first);
    last = std::max(last, own_last);
    busiest = std::max(busiest, busy[r]);
    result.max_span = std::max(result.max_span, own_last - own_first);
  }
  if (!(last > first)) return result;
  result.makespan = last - first;
  double idle = 0;
  for (const double b : busy) {
    result.idle.push_back(result.makespan - b);
    idle += result.idle.back();
  }
  result.bubble_ratio = idle / (static_cast<double>(busy.size()) * result.makespan);
  result.span_bubble = 1 - busiest / result.max_span;
  return result;
}

}  // namespace sluice
