#include "harness/cli/timeline_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/cli/chrome_trace.h"
#include "plots/page_files.h"
#include "plots/timeline_ops.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {

namespace {

constexpr const char* kPageBegin = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">";

// One box of the page: an op, or two that overlap.
struct Box {
  int rank = 0;
  std::string kind, name;
  double start = 0, end = 0;
  std::vector<std::pair<std::size_t, double>> waits;  // number of the box that sends, seconds of the message
};

class Boxes {
 public:
  explicit Boxes(const Trace& trace) {
    for (std::size_t r = 0; r < trace.ranks.size(); ++r)
      add_rank(static_cast<int>(r), trace.ranks[r], trace.sequence_chunks);
    for (const TraceMessage& m : trace.messages)
      if (is_along_edge(m.send.opcode))
        add_message(m.send.opcode == Opcode::send_activation, {m.from.value, m.send.stage.value},
                    {m.to.value, m.send.peer_stage.value}, micro_text(m.send.micro, trace.sequence_chunks), m.end);
  }

  explicit Boxes(const Record& record) {
    std::vector<const TimelineOp*> ops;
    for (const TimelineOp& op : record.timeline)
      if (!op.to && !moves_data(read_parts(op.op).front())) ops.push_back(&op);
    std::ranges::stable_sort(ops, {}, [](const TimelineOp* op) { return std::tuple(op->rank, op->start); });
    for (const TimelineOp* op : ops) {
      const std::vector<TimelinePart> parts = read_parts(op->op);
      for (const TimelinePart& part : parts)
        if (part.kind == "F" || part.kind == "B" || part.kind == "I")
          box_of_[{op->rank, part.stage, part.micro, part.kind == "F"}] = boxes_.size();
      boxes_.push_back({op->rank, op_kind(parts.back().kind).title, op->op, op->start, op->end, {}});
    }
    for (const TimelineOp& op : record.timeline)
      if (const auto m = read_message(op.op); op.to && m)
        add_message(m->forward, {op.rank, m->from}, {*op.to, m->to}, m->micro, op.end);
  }

  Json json() const {
    Json ops = Json::array();
    for (std::size_t k = 0; k < boxes_.size(); ++k) {
      const Box& box = boxes_[k];
      double ready = k > 0 && boxes_[k - 1].rank == box.rank ? boxes_[k - 1].end : 0;
      Json waits = Json::array();
      for (const auto& [from, seconds] : box.waits) {
        ready = std::max(ready, boxes_[from].end + seconds);
        waits.push_back(Json::array({from, seconds}));
      }
      ops.push_back(
          Json::array({box.rank, box.kind, box.name, box.end - box.start, std::max(0.0, box.start - ready), waits}));
    }
    return ops;
  }

 private:
  // Of a forward, or of the backward or input gradient: rank, stage, micro-batch, and whether it is the forward.
  using Key = std::tuple<int, int, std::string, bool>;

  void add_rank(int rank, const std::vector<TraceEvent>& events, int chunks) {
    for (std::size_t k = 0; k < events.size(); ++k) {
      const TraceEvent& first = events[k];
      const bool pair = first.instruction.overlapped && k + 1 < events.size();
      const TraceEvent& second = pair ? events[k + 1] : first;
      std::string name = to_text(first.instruction, chunks);
      if (pair) name = "(" + name + ";" + to_text(second.instruction, chunks) + ")";
      for (const TraceEvent* e : {&first, &second})
        if (e->instruction.opcode == Opcode::forward || reads_stash(e->instruction.opcode))
          box_of_[{rank, e->instruction.stage.value, micro_text(e->instruction.micro, chunks),
                   e->instruction.opcode == Opcode::forward}] = boxes_.size();
      boxes_.push_back({rank,
                        op_category((pair ? second : first).instruction.opcode),
                        std::move(name),
                        first.start,
                        std::max(first.end, second.end),
                        {}});
      k += pair;
    }
  }

  struct Place {
    int rank, stage;
  };
  void add_message(bool forward, Place from, Place to, const std::string& micro, double end) {
    const auto sender = box_of_.find({from.rank, from.stage, micro, forward});
    const auto receiver = box_of_.find({to.rank, to.stage, micro, forward});
    if (sender == box_of_.end() || receiver == box_of_.end()) return;
    boxes_[receiver->second].waits.emplace_back(sender->second, std::max(0.0, end - boxes_[sender->second].end));
  }

  std::vector<Box> boxes_;
  std::map<Key, std::size_t> box_of_;
};

}  // namespace

static std::string filled(const TimelinePage& page, const Boxes& boxes, std::size_t rank_count) {
  const Json ops = boxes.json();
  if (ops.size() > kMaxPageOps)
    throw InputError("--html", fmt::format("the timeline has {} ops", ops.size()),
                     fmt::format("a page has at most {}: use fewer micro-batches, or --trace", kMaxPageOps));
  Json ranks = Json::array(), colors = Json::object(), computes = Json::array(), kinds = Json::array();
  for (std::size_t r = 0; r < rank_count; ++r)
    ranks.push_back(r < page.ranks.size() ? page.ranks[r] : fmt::format("rank {}", r));
  for (const OpLook& look : kOpKinds) {
    if (std::ranges::none_of(ops, [&](const Json& op) { return op[1] == look.title; })) continue;
    colors[look.title] = Json::array({look.color, look.ink});
    kinds.push_back(look.title);
    if (std::string(look.name).size() == 1) computes.push_back(look.title);
  }
  const Json data = {{"title", page.title}, {"about", page.about},  {"what", page.what}, {"ranks", ranks},
                     {"ops", ops},          {"computes", computes}, {"colors", colors},  {"kinds", kinds}};
  return filled_page("timeline.html", {{"data", script_json(data)}});
}

std::string timeline_page(const TimelinePage& page, const Trace& trace) {
  return filled(page, Boxes(trace), trace.ranks.size());
}

std::string timeline_page(const Record& record) {
  const bool step = !is_asynchronous(record) && !is_inference(record);
  return filled(
      {.title = fmt::format("{}, {} on {}", system_style(record.system).title, record.workload, record.cluster),
       .about = fmt::format("{} samples per update, {}; costs: {}", record.batch,
                            record.clock == Clock::wall ? "measured" : "simulated", record.cost_source),
       .what = step ? "one update" : "the first batches",
       .ranks = {}},
      Boxes(record), static_cast<std::size_t>(record.ranks));
}

OutputFile timeline_page_file(const std::string& file) {
  return {file, "a timeline of sluice", [](const std::string& text) {
            return text.starts_with(kPageBegin) && text.find("<title>Timeline</title>") != std::string::npos;
          }};
}

}  // namespace sluice
