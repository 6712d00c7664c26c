#include "harness/train/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace sluice {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool reads_several_versions(const Trace& trace) {
  std::map<StageId, std::int32_t> version_of;
  for (const auto& rank : trace.ranks)
    for (const TraceEvent& event : rank)
      if (is_compute(event.instruction.opcode)) {
        const auto [known, is_new] = version_of.emplace(event.instruction.stage, event.instruction.version);
        if (known->second != event.instruction.version) return true;
      }
  return false;
}

double first_start(const Trace& trace) {
  double first = kNever;
  for (const auto* lists : {&trace.ranks, &trace.collectives, &trace.host_copies})
    for (const auto& rank : *lists)
      if (!rank.empty()) first = std::min(first, rank.front().start);
  return first;
}

std::string text_of(const Instruction& instruction, int sequence_chunks) {
  if (instruction.opcode == Opcode::optimizer_step) return "step";
  if (instruction.opcode == Opcode::reduce_gradients) return "reduce";
  return to_text(instruction, sequence_chunks);
}

// A record holds few digits of it, and critical_path() (plots/timeline_ops.h) allows for ten times that.
double to_tenth_of_ns(double seconds) { return std::round(seconds * 1e10) / 1e10; }

class Timeline {
 public:
  Timeline(const Trace& trace, std::size_t max_compute_ops)
      : trace_(trace),
        max_compute_ops_(std::min(
            max_compute_ops, std::max(std::size_t{1}, kTimelineOps / std::max(std::size_t{1}, trace.ranks.size())))),
        begin_(first_start(trace)),
        reads_several_versions_(reads_several_versions(trace)) {}

  std::vector<TimelineOp> ops() {
    std::vector<double> shown_until;
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
      shown_until.push_back(add_ops(r));
      for (const auto* lane : {&trace_.collectives, &trace_.host_copies})
        if (r < lane->size()) add_lane((*lane)[r], r, shown_until.back());
    }
    add_messages(shown_until);
    return std::move(ops_);
  }

 private:
  TimelineOp& add(std::size_t rank, const std::string& text, double start, double end) {
    return ops_.emplace_back(
        TimelineOp{static_cast<int>(rank), text, to_tenth_of_ns(start - begin_), to_tenth_of_ns(end - begin_)});
  }

  // Returns when the first op starts that is left out.
  double add_ops(std::size_t rank) {
    const std::vector<TraceEvent>& events = trace_.ranks[rank];
    std::size_t compute_ops = 0;
    for (std::size_t k = 0; k < events.size(); ++k) {
      const TraceEvent& event = events[k];
      if (is_compute(event.instruction.opcode) && ++compute_ops > max_compute_ops_) return event.start;
      if (event.instruction.overlapped &&
          k + 1 < events.size()) {  // a forward and a backward in parallel: one step of the rank
        const TraceEvent& second = events[++k];
        ++compute_ops;
        const int chunks = trace_.sequence_chunks;
        add(rank, "(" + to_text(event.instruction, chunks) + ";" + to_text(second.instruction, chunks) + ")",
            event.start, second.end);
        continue;
      }
      TimelineOp& op = add(rank, text_of(event.instruction, trace_.sequence_chunks), event.start, event.end);
      if (is_compute(event.instruction.opcode) && reads_several_versions_) op.version = event.instruction.version;
    }
    return kNever;
  }

  void add_lane(const std::vector<TraceEvent>& events, std::size_t rank, double shown_until) {
    for (const TraceEvent& event : events)
      if (event.start < shown_until)
        add(rank, to_text(event.instruction, trace_.sequence_chunks), event.start, event.end);
  }

  void add_messages(const std::vector<double>& shown_until) {
    for (const TraceMessage& m : trace_.messages)
      if (m.start < shown_until[m.from.index()] && m.end > m.start) {
        TimelineOp& op = add(m.from.index(), to_text(m.send, trace_.sequence_chunks), m.start, m.end);
        op.to = m.to.value;
        op.bytes = std::llround(m.bytes);
      }
  }

  const Trace& trace_;
  std::size_t max_compute_ops_;
  double begin_;  // of the timeline, in the trace's seconds
  bool reads_several_versions_;
  std::vector<TimelineOp> ops_;
};

}  // namespace

std::vector<TimelineOp> timeline_of(const Trace& trace, std::size_t max_compute_ops) {
  return Timeline(trace, max_compute_ops).ops();
}

void add_bubbles(Record& record, const Trace& trace) {
  const Bubbles b = bubbles(trace);
  record.observed.bubble_ratio = b.bubble_ratio;
  record.observed.span_bubble = b.span_bubble;
}

}  // namespace sluice
