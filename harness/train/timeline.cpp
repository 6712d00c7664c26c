#include "harness/train/timeline.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace sluice {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double first_start(const Trace& trace) {
  double first = kNever;
  for (const auto* lists : {&trace.ranks, &trace.collectives})
    for (const auto& rank : *lists)
      if (!rank.empty()) first = std::min(first, rank.front().start);
  return first;
}

std::string text_of(const Instruction& instruction) {
  if (instruction.opcode == Opcode::optimizer_step) return "step";
  if (instruction.opcode == Opcode::reduce_gradients) return "reduce";
  return to_text(instruction);
}

class Timeline {
 public:
  Timeline(const Trace& trace, std::size_t most_compute_ops)
      : trace_(trace), most_compute_ops_(most_compute_ops), begin_(first_start(trace)) {}

  std::vector<TimelineOp> ops() {
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
      const double shown_until = add_ops(r);
      if (r < trace_.collectives.size()) add_collectives(r, shown_until);
    }
    return std::move(ops_);
  }

 private:
  void add(std::size_t rank, const std::string& text, double start, double end) {
    ops_.push_back({static_cast<int>(rank), text, start - begin_, end - begin_});
  }

  // Returns when the first op starts that is left out.
  double add_ops(std::size_t rank) {
    const std::vector<TraceEvent>& events = trace_.ranks[rank];
    std::size_t compute_ops = 0;
    for (std::size_t k = 0; k < events.size(); ++k) {
      const TraceEvent& event = events[k];
      if (is_compute(event.instruction.opcode) && ++compute_ops > most_compute_ops_) return event.start;
      if (event.instruction.overlapped && k + 1 < events.size()) {  // a forward beside a backward: one step of the rank
        const TraceEvent& second = events[++k];
        ++compute_ops;
        add(rank, "(" + to_text(event.instruction) + ";" + to_text(second.instruction) + ")", event.start, second.end);
        continue;
      }
      add(rank, text_of(event.instruction), event.start, event.end);
    }
    return kNever;
  }

  void add_collectives(std::size_t rank, double shown_until) {
    for (const TraceEvent& event : trace_.collectives[rank])
      if (event.start < shown_until) add(rank, to_text(event.instruction), event.start, event.end);
  }

  const Trace& trace_;
  std::size_t most_compute_ops_;
  double begin_;  // of the timeline, in the trace's seconds
  std::vector<TimelineOp> ops_;
};

}  // namespace

void add_timeline(Record& record, const Trace& trace, std::size_t most_compute_ops) {
  const Bubbles b = bubbles(trace);
  record.observed["bubble_ratio"] = b.bubble_ratio;
  record.observed["span_bubble"] = b.span_bubble;
  record.timeline = Timeline(trace, most_compute_ops).ops();
}

}  // namespace sluice
