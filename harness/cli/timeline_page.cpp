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
  explicit Boxes(const Trace& trace) : chunks_(trace.sequence_chunks) {
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) add_rank(static_cast<int>(r), trace.ranks[r]);
    for (const TraceMessage& m : trace.messages) add_message(m);
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
  using Key = std::tuple<int, int, int, bool>;

  void add_rank(int rank, const std::vector<TraceEvent>& events) {
    for (std::size_t k = 0; k < events.size(); ++k) {
      const TraceEvent& first = events[k];
      const bool pair = first.instruction.overlapped && k + 1 < events.size();
      const TraceEvent& second = pair ? events[k + 1] : first;
      std::string name = to_text(first.instruction, chunks_);
      if (pair) name = "(" + name + ";" + to_text(second.instruction, chunks_) + ")";
      for (const TraceEvent* e : {&first, &second})
        if (e->instruction.opcode == Opcode::forward || reads_stash(e->instruction.opcode))
          box_of_[{rank, e->instruction.stage.value, e->instruction.micro.value,
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

  void add_message(const TraceMessage& m) {
    if (!is_along_edge(m.send.opcode)) return;
    const bool forward = m.send.opcode == Opcode::send_activation;
    const auto from = box_of_.find({m.from.value, m.send.stage.value, m.send.micro.value, forward});
    const auto to = box_of_.find({m.to.value, m.send.peer_stage.value, m.send.micro.value, forward});
    if (from == box_of_.end() || to == box_of_.end()) return;
    boxes_[to->second].waits.emplace_back(from->second, std::max(0.0, m.end - boxes_[from->second].end));
  }

  const int chunks_;
  std::vector<Box> boxes_;
  std::map<Key, std::size_t> box_of_;
};

}  // namespace

std::string timeline_page(const TimelinePage& page, const Trace& trace) {
  std::size_t count = 0;
  for (const auto& rank : trace.ranks) count += rank.size();
  if (count > kMaxPageOps)
    throw InputError("--html", fmt::format("the timeline has {} ops", count),
                     fmt::format("a page has at most {}: use fewer micro-batches, or --trace", kMaxPageOps));
  Json ranks = Json::array(), colors = Json::object(), computes = Json::array(), kinds = Json::array();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r)
    ranks.push_back(r < page.ranks.size() ? page.ranks[r] : fmt::format("rank {}", r));
  const Json ops = Boxes(trace).json();
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

OutputFile timeline_page_file(const std::string& file) {
  return {file, "a timeline of sluice", [](const std::string& text) {
            return text.starts_with(kPageBegin) && text.find("<title>Timeline</title>") != std::string::npos;
          }};
}

}  // namespace sluice
