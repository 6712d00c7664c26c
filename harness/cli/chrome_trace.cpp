#include "harness/cli/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "harness/base/json.h"
#include "harness/program/program.h"
#include "plots/timeline_ops.h"
#include "results/system_style.h"

namespace sluice {

namespace {

constexpr double kMicroseconds = 1e6;  // the format's unit of time

// The events of a trace. A lane is a row: a rank's ops, or what runs at the same time as these.
class Events {
 public:
  Events(const std::string& title, std::size_t ranks) : ranks_(static_cast<int>(ranks)) {
    events_.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 0}, {"args", {{"name", title}}}});
  }

  void name_rank(int rank, const std::string& name) { name_lane(rank, 2 * rank, name); }
  // A second lane of the rank, below its first.
  int second_lane(int rank) {
    const int lane = ranks_ + rank;
    if (named_.insert(lane).second) name_lane(lane, 2 * rank + 1, fmt::format("rank {}: transfers", rank));
    return lane;
  }
  void op(int lane, const std::string& name, const std::string& what, double start, double end, const Json& args) {
    add(lane, {{"name", name},
               {"cat", what},
               {"ph", "X"},
               {"ts", start * kMicroseconds},
               {"dur", (end - start) * kMicroseconds},
               {"args", args}});
  }
  void mark(int lane, const std::string& name, double when) {
    add(lane, {{"name", name}, {"ph", "i"}, {"s", "t"}, {"ts", when * kMicroseconds}});
  }
  // Messages may overlap: each has a row of its own as long as it takes.
  void message(const std::string& name, const Json& args, double start, double end) {
    const int id = next_id_++;
    const auto half = [&](const char* phase, double when) {
      return Json{{"name", name}, {"cat", "message"}, {"ph", phase},
                  {"id", id},     {"pid", 0},         {"ts", when * kMicroseconds}};
    };
    Json begin = half("b", start);
    begin["args"] = args;
    events_.push_back(begin);
    events_.push_back(half("e", end));
  }
  // From within the end of an op to within the begin of another; both have a `start` and an `end`.
  void arrow(int from, const auto& maker, int to, const auto& reader) {
    constexpr double kInside = 0.999;
    const int id = next_id_++;
    const double start = maker.start + kInside * (maker.end - maker.start);
    const double end = reader.start + (1 - kInside) * (reader.end - reader.start);
    add(from, {{"name", "message"}, {"cat", "flow"}, {"ph", "s"}, {"id", id}, {"ts", start * kMicroseconds}});
    add(to, {{"name", "message"}, {"cat", "flow"}, {"ph", "f"}, {"bp", "e"}, {"id", id}, {"ts", end * kMicroseconds}});
  }
  void count(const std::string& name, double when, const Json& values) {
    events_.push_back({{"name", name}, {"ph", "C"}, {"pid", 0}, {"ts", when * kMicroseconds}, {"args", values}});
  }

  std::string text() const { return Json{{"traceEvents", events_}, {"displayTimeUnit", "ms"}}.dump() + "\n"; }

 private:
  void add(int lane, Json event) {
    event["pid"] = 0;
    event["tid"] = lane;
    events_.push_back(std::move(event));
  }
  void name_lane(int lane, int position, const std::string& name) {
    add(lane, {{"name", "thread_name"}, {"ph", "M"}, {"args", {{"name", name}}}});
    add(lane, {{"name", "thread_sort_index"}, {"ph", "M"}, {"args", {{"sort_index", position}}}});
  }

  Json events_ = Json::array();
  int ranks_, next_id_ = 1;
  std::set<int> named_;  // second lanes
};

class ProgramTrace {
 public:
  explicit ProgramTrace(const TraceOfProgram& of)
      : of_(of), chunks_(of.trace.sequence_chunks), events_(of.title, of.trace.ranks.size()) {}

  std::string text() {
    for (std::size_t r = 0; r < of_.trace.ranks.size(); ++r) {
      add_ops(r);
      for (const auto* lane : {&of_.trace.collectives, &of_.trace.host_copies})
        if (r < lane->size())
          for (const TraceEvent& e : (*lane)[r]) add_op(events_.second_lane(static_cast<int>(r)), e);
      if (r < of_.memory.size() && !of_.memory[r].timeline.empty())
        add_bytes(r);
      else
        add_held(r);
    }
    for (const TraceMessage& message : of_.trace.messages) add_message(message);
    return events_.text();
  }

 private:
  // Of a forward, or of the backward or input gradient: rank, stage, micro-batch, and whether it is the forward.
  using Key = std::tuple<int, int, int, bool>;

  void add_op(int lane, const TraceEvent& e, const std::string& overlapped_with = "") {
    const Instruction& i = e.instruction;
    Json args = {{"stage", i.stage.value}};
    if (is_compute(i.opcode)) args["micro-batch"] = i.micro.value / chunks_;
    if (is_compute(i.opcode) && chunks_ > 1) args["chunk"] = i.micro.value % chunks_;
    if (reads_weights(i.opcode) || i.opcode == Opcode::optimizer_step) args["version"] = i.version;
    if (reads_weights(i.opcode) && i.horizon != 0) args["predicted updates ahead"] = i.horizon;
    if (!overlapped_with.empty()) args["overlapped with"] = overlapped_with;
    events_.op(lane, to_text(i, chunks_), op_category(i.opcode), e.start, e.end, args);
  }

  void add_ops(std::size_t r) {
    const int rank = static_cast<int>(r);
    events_.name_rank(rank, r < of_.ranks.size() ? of_.ranks[r] : fmt::format("rank {}", r));
    const std::vector<TraceEvent>& trace = of_.trace.ranks[r];
    std::size_t op = 0, gather = 0, reduction = 0;
    for (std::size_t k = 0; k < trace.size(); ++k) {
      const Instruction& i = trace[k].instruction;
      add_op(rank, trace[k], i.overlapped ? to_text(trace.at(k + 1).instruction, chunks_) : "");
      if (i.opcode == Opcode::forward || reads_stash(i.opcode))
        ops_[{rank, i.stage.value, i.micro.value, i.opcode == Opcode::forward}] = &trace[k];
      if (!is_scheduled(i.opcode)) continue;
      if (!of_.marked.empty()) {
        mark(rank, "gather", of_.marked[r].gathers, op, gather, trace[k].start);
        mark(rank, "reduce", of_.marked[r].reductions, op, reduction, trace[k].end);
      }
      ++op;
    }
  }

  // The collectives of op number `op`; `all` are in the order of the ops, and those before `next` are marked.
  void mark(int rank, const char* what, const std::vector<Collective>& all, std::size_t op, std::size_t& next,
            double when) {
    for (; next < all.size() && all[next].op == op; ++next)
      events_.mark(rank, fmt::format("{} {}", what, all[next].stage.value), when);
  }

  // Micro-batches that the rank holds once an op has begun (forward) or ended (the others).
  void add_held(std::size_t r) {
    int until_input_gradient = 0, until_weight_gradient = 0;
    for (const TraceEvent& e : of_.trace.ranks[r]) {
      const Opcode opcode = e.instruction.opcode;
      if (!is_scheduled(opcode)) continue;
      until_input_gradient += opcode == Opcode::forward;
      until_input_gradient -= reads_stash(opcode);
      // Where W runs on another rank, what it reads is on that rank from I on.
      const bool is_here = !of_.program.placement.has_weight_gradient_rank(e.instruction.stage);
      until_weight_gradient += is_here && opcode == Opcode::input_gradient;
      until_weight_gradient -= is_here && opcode == Opcode::weight_gradient;
      events_.count(
          fmt::format("rank {} holds", r), opcode == Opcode::forward ? e.start : e.end,
          {{"for the input gradient", until_input_gradient}, {"for the weight gradient", until_weight_gradient}});
    }
  }

  // The events of a rank are the instructions of its program that take time, in their order.
  void add_bytes(std::size_t r) {
    const std::vector<TraceEvent>& trace = of_.trace.ranks[r];
    const std::vector<Instruction>& program = of_.program.ranks[r];
    std::size_t event = 0, instruction = 0;
    double when = trace.empty() ? 0 : trace.front().start;
    for (const MemoryPoint& point : of_.memory[r].timeline) {
      for (; instruction <= point.instruction; ++instruction) {
        const Opcode opcode = program[instruction].opcode;
        if (event >= trace.size() || trace[event].instruction.opcode != opcode) continue;
        when = opcode == Opcode::forward ? trace[event].start : trace[event].end;
        ++event;
      }
      events_.count(fmt::format("rank {} bytes", r), when,
                    {{"weights", point.weights.value},
                     {"weight versions", point.versions.value},
                     {"gradients", point.gradients.value},
                     {"optimizer", point.optimizer.value},
                     {"activations", point.activations.value}});
    }
  }

  void add_message(const TraceMessage& m) {
    const Instruction& send = m.send;
    Json args = {{"from", fmt::format("rank {}, stage {}", m.from.value, send.stage.value)},
                 {"to", fmt::format("rank {}, stage {}", m.to.value, send.peer_stage.value)},
                 {"micro-batch", send.micro.value / chunks_}};
    if (m.bytes > 0) args["bytes"] = m.bytes;
    events_.message(to_text(send, chunks_), args, m.start, m.end);
    if (!is_along_edge(send.opcode)) return;
    const bool forward = send.opcode == Opcode::send_activation;
    const auto maker = ops_.find({m.from.value, send.stage.value, send.micro.value, forward});
    const auto reader = ops_.find({m.to.value, send.peer_stage.value, send.micro.value, forward});
    if (maker == ops_.end() || reader == ops_.end()) return;  // stages that take several micro-batches an op
    events_.arrow(m.from.value, *maker->second, m.to.value, *reader->second);
  }

  const TraceOfProgram& of_;
  const int chunks_;
  Events events_;
  std::map<Key, const TraceEvent*> ops_;
};

}  // namespace

const char* op_category(Opcode opcode) {
  static const std::map<Opcode, const char*> categories = {{Opcode::forward, "forward"},
                                                           {Opcode::backward, "backward"},
                                                           {Opcode::input_gradient, "input gradient"},
                                                           {Opcode::weight_gradient, "weight gradient"},
                                                           {Opcode::recompute, "recomputation"},
                                                           {Opcode::optimizer_step, "optimizer step"},
                                                           {Opcode::reduce_gradients, "reduction"},
                                                           {Opcode::reduce_copies, "reduction"},
                                                           {Opcode::reduce_norm, "reduction"},
                                                           {Opcode::reduce_scatter, "reduction"},
                                                           {Opcode::gather_weights, "gather"}};
  if (const auto category = categories.find(opcode); category != categories.end()) return category->second;
  return is_stash_move(opcode) ? "host copy" : "message";
}

OutputFile chrome_trace_file(const std::string& file) {
  return {file, "a trace of sluice",
          [](const std::string& text) { return text.starts_with(R"({"displayTimeUnit":"ms","traceEvents":[)"); }};
}

std::string chrome_trace(const TraceOfProgram& of) { return ProgramTrace(of).text(); }

std::string chrome_trace(const Record& record) {
  Events events(fmt::format("{}, {} on {}", system_style(record.system).title, record.workload, record.cluster),
                static_cast<std::size_t>(record.ranks));
  for (int r = 0; r < record.ranks; ++r) events.name_rank(r, fmt::format("rank {}", r));
  const auto micro_batch = [](const std::string& text) {  // "2", or "2.1": a chunk of its sequences
    const bool whole = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    return whole ? Json::parse(text) : Json(text);
  };
  // By rank, stage, micro-batch, and whether it is the forward.
  std::map<std::tuple<int, int, std::string, bool>, const TimelineOp*> ops;
  for (const TimelineOp& op : record.timeline)
    for (const TimelinePart& part : read_parts(op.op))
      if (part.kind == "F" || part.kind == "B" || part.kind == "I")
        ops.insert({{op.rank, part.stage, part.micro, part.kind == "F"}, &op});
  for (const TimelineOp& op : record.timeline) {
    if (op.to) {
      const std::optional<TimelineMessage> m = read_message(op.op);
      Json args = {{"from", fmt::format("rank {}", op.rank)}, {"to", fmt::format("rank {}", *op.to)}};
      if (m)
        args = {{"from", fmt::format("rank {}, stage {}", op.rank, m->from)},
                {"to", fmt::format("rank {}, stage {}", *op.to, m->to)},
                {"micro-batch", micro_batch(m->micro)}};
      if (op.bytes) args["bytes"] = *op.bytes;
      events.message(op.op, args, op.start, op.end);
      if (!m) continue;
      const auto maker = ops.find({op.rank, m->from, m->micro, m->forward});
      const auto reader = ops.find({*op.to, m->to, m->micro, m->forward});
      if (maker != ops.end() && reader != ops.end()) events.arrow(op.rank, *maker->second, *op.to, *reader->second);
      continue;
    }
    const std::vector<TimelinePart> parts = read_parts(op.op);
    Json args = Json::object();
    if (parts.front().stage >= 0) args["stage"] = parts.front().stage;
    if (!parts.front().micro.empty()) args["micro-batch"] = micro_batch(parts.front().micro);
    if (op.version) args["version"] = *op.version;
    events.op(moves_data(parts.front()) ? events.second_lane(op.rank) : op.rank, op.op,
              op_kind(parts.front().kind).title, op.start, op.end, args);
  }
  const std::vector<std::vector<HeldPoint>> held = held_over_time(record);
  for (std::size_t r = 0; r < held.size(); ++r)
    for (const HeldPoint& point : held[r])
      events.count(fmt::format("rank {} holds", r), point.seconds, {{"micro-batches", point.held}});
  return events.text();
}

}  // namespace sluice
