#include "harness/cli/chrome_trace.h"

#include <fmt/format.h>

#include "harness/base/json.h"
#include "harness/program/program.h"

namespace sluice {

namespace {

constexpr double kMicroseconds = 1e6;  // the format's unit of time

// The events of one rank.
class RankEvents {
 public:
  RankEvents(Json& events, int rank, const Placement& placement, const RankCollectives& collectives)
      : events_(events), rank_(rank), placement_(placement), collectives_(collectives) {}

  void add(const std::vector<TraceEvent>& trace, int sequence_chunks) {
    events_.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 0}, {"tid", rank_}, {"args", {{"name", name()}}}});
    for (std::size_t k = 0; k < trace.size(); ++k) {
      const TraceEvent& e = trace[k];
      const bool scheduled = is_scheduled(e.instruction.opcode);
      if (scheduled) mark_collectives(e);
      events_.push_back({{"name", to_text(e.instruction, sequence_chunks)},
                         {"ph", "X"},
                         {"pid", 0},
                         {"tid", rank_},
                         {"ts", e.start * kMicroseconds},
                         {"dur", (e.end - e.start) * kMicroseconds}});
      if (e.instruction.overlapped)
        events_.back()["args"] = {{"overlapped with", to_text(trace.at(k + 1).instruction, sequence_chunks)}};
      if (scheduled) count_held(e);
    }
  }

 private:
  std::string name() const { return "rank " + std::to_string(rank_); }

  void mark_collectives(const TraceEvent& e) {
    mark("gather", collectives_.gathers, next_gather_, e.start);
    mark("reduce", collectives_.reductions, next_reduction_, e.end);
    ++op_;
  }

  // The collectives of the present op; `all` are in the order of the ops, and those before `next` are marked.
  void mark(const char* what, const std::vector<Collective>& all, std::size_t& next, double when) {
    for (; next < all.size() && all[next].op == op_; ++next)
      events_.push_back({{"name", fmt::format("{} {}", what, all[next].stage.value)},
                         {"ph", "i"},
                         {"s", "t"},
                         {"pid", 0},
                         {"tid", rank_},
                         {"ts", when * kMicroseconds}});
  }

  // How many micro-batches the rank holds once the op has begun (forward) or ended (the others).
  void count_held(const TraceEvent& e) {
    const Opcode opcode = e.instruction.opcode;
    until_input_gradient_ += opcode == Opcode::forward;
    until_input_gradient_ -= opcode == Opcode::backward || opcode == Opcode::input_gradient;
    // Where W runs on another rank, what it reads is on that rank from I on.
    const bool is_here = !placement_.has_weight_gradient_rank(e.instruction.stage);
    until_weight_gradient_ += is_here && opcode == Opcode::input_gradient;
    until_weight_gradient_ -= is_here && opcode == Opcode::weight_gradient;
    events_.push_back(
        {{"name", name() + " holds"},
         {"ph", "C"},
         {"pid", 0},
         {"ts", (opcode == Opcode::forward ? e.start : e.end) * kMicroseconds},
         {"args",
          {{"for the input gradient", until_input_gradient_}, {"for the weight gradient", until_weight_gradient_}}}});
  }

  Json& events_;
  int rank_;
  const Placement& placement_;
  const RankCollectives& collectives_;
  std::size_t op_ = 0;  // of the schedule's list
  std::size_t next_gather_ = 0, next_reduction_ = 0;
  int until_input_gradient_ = 0, until_weight_gradient_ = 0;
};

}  // namespace

OutputFile chrome_trace_file(const std::string& file) {
  return {file, "a trace of sluice schedule",
          [](const std::string& text) { return text.starts_with(R"({"displayTimeUnit":"ms","traceEvents":[)"); }};
}

std::string chrome_trace(const Trace& trace, const Placement& placement,
                         const std::vector<RankCollectives>& collectives) {
  Json events = Json::array();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r)
    RankEvents(events, static_cast<int>(r), placement, collectives[r]).add(trace.ranks[r], trace.sequence_chunks);
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace sluice
