#include "harness/sim/waiting_messages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace sluice {

namespace {

// What an op takes from another rank: a forward activations, a backward gradients, a W a stash.
using Taken = std::tuple<Opcode, StageId, Micro>;

// When the rank's ops begin.
std::map<Taken, double> starts_of(const std::vector<TraceEvent>& events) {
  std::map<Taken, double> starts;
  for (const TraceEvent& e : events) {
    const Instruction& i = e.instruction;
    if (i.opcode == Opcode::forward) starts.try_emplace({Opcode::send_activation, i.stage, i.micro}, e.start);
    if (reads_stash(i.opcode)) starts.try_emplace({Opcode::send_gradient, i.stage, i.micro}, e.start);
    if (i.opcode == Opcode::weight_gradient) starts.try_emplace({Opcode::send_stash, i.stage, i.micro}, e.start);
  }
  return starts;
}

struct Change {
  double time = 0;  // seconds
  Bytes bytes;      // that begin to wait, or (negative) are taken
};

// Of each rank's messages, in order of time.
std::vector<std::vector<Change>> waiting(const Trace& trace) {
  std::vector<std::map<Taken, double>> starts;
  for (const auto& events : trace.ranks) starts.push_back(starts_of(events));
  std::vector<std::vector<Change>> changes(trace.ranks.size());
  for (const TraceMessage& m : trace.messages) {
    const StageId taker = m.send.opcode == Opcode::send_stash ? m.send.stage : m.send.peer_stage;
    const auto op = starts[m.to.index()].find({m.send.opcode, taker, m.send.micro});
    const double taken = op == starts[m.to.index()].end() ? m.end : std::max(op->second, m.end);
    if (taken <= m.start) continue;
    const Bytes size(std::llround(m.bytes));
    changes[m.from.index()].push_back({m.start, size});
    changes[m.from.index()].push_back({taken, Bytes(0) - size});
  }
  for (auto& of_rank : changes) std::ranges::stable_sort(of_rank, {}, &Change::time);
  return changes;
}

// The largest sum of what the rank has and what waits: between its ops, and in the middle of each, since a message that
// is taken as an op begins is gone before the op has allocated anything.
Bytes peak_of(const std::vector<Instruction>& instructions, const std::vector<TraceEvent>& events,
              const std::vector<MemoryPoint>& points, const std::vector<Change>& changes) {
  Bytes peak, now, left;
  auto change = changes.begin();
  auto event = events.begin();
  for (const MemoryPoint& point : points) {
    const Instruction& i = instructions[point.instruction];
    if (is_compute(i.opcode) || i.opcode == Opcode::optimizer_step) {
      event = std::find_if(event, events.end(), [&](const TraceEvent& e) {
        return e.instruction.opcode == i.opcode && e.instruction.stage == i.stage && e.instruction.micro == i.micro;
      });
      if (event == events.end()) break;
      for (; change != changes.end() && change->time <= event->start; ++change)
        peak = std::max(peak, left + (now += change->bytes));
      const double middle = (event->start + event->end) / 2;
      for (; change != changes.end() && change->time <= middle; ++change) now += change->bytes;
    }
    peak = std::max(peak, point.everything + now);
    left = point.left;
  }
  return peak;
}

}  // namespace

void add_waiting_messages(const Program& program, const Trace& trace, std::vector<RankMemory>& memory) {
  const std::vector<std::vector<Change>> changes = waiting(trace);
  for (std::size_t r = 0; r < memory.size(); ++r) {
    MemoryPoint& peak = memory[r].peak;
    const Bytes everything = peak_of(program.ranks[r], trace.ranks[r], memory[r].timeline, changes[r]);
    peak.buffers = std::max(peak.buffers, everything - (peak.total() - peak.buffers));
    memory[r].timeline.clear();
  }
}

}  // namespace sluice
