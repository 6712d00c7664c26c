// See timeline_ops.h.
#include "plots/timeline_ops.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "results/metrics.h"

namespace sluice {
namespace {

TimelinePart read_part(const std::string& op) {
  const auto digits = [&op](std::size_t from) {
    std::size_t end = from;
    while (end < op.size() && std::isdigit(static_cast<unsigned char>(op[end]))) ++end;
    return end;
  };
  const std::size_t kind = digits(0);
  if (kind > 0 && kind < 9 && kind < op.size()) {
    std::size_t end = digits(kind + 1);
    if (end > kind + 1 && end + 1 < op.size() && op[end] == '.') end = digits(end + 1);  // the chunk of a sequence
    const bool compute = std::string("FBIWR").find(op[kind]) != std::string::npos;
    if (compute && end == op.size() && end > kind + 1)
      return {std::string(1, op[kind]), op.substr(kind + 1), std::stoi(op.substr(0, kind))};
  }
  std::string lower = op;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto says = [&](const char* word) { return lower.find(word) != std::string::npos; };
  return {says("step")     ? "optimizer step"
          : says("reduce") ? "reduction"
          : says("gather") ? "gather"
                           : "communication",
          "", -1};
}

// Finds what lets an op begin.
class Predecessors {
 public:
  explicit Predecessors(const Record& record) : ops_(record.timeline) {
    for (std::size_t k = 0; k < ops_.size(); ++k) {
      parts_.push_back(read_parts(ops_[k].op));
      if (ops_[k].to) continue;  // a message lets its receiver begin, but the op that sent it stands for both
      by_rank_[ops_[k].rank].push_back(k);
      for (const TimelinePart& part : parts_.back())
        if (part.stage >= 0) {
          makers_[{part.kind[0], part.stage, part.micro}].push_back(k);
          last_stage_ = std::max(last_stage_, part.stage);
        }
    }
    for (auto& [rank, list] : by_rank_)
      std::ranges::stable_sort(list, {}, [this](std::size_t k) { return ops_[k].end; });
    if (record.plan) edges_ = record.plan->edges;
    if (edges_.empty()) {
      for (int stage = 0; stage < last_stage_; ++stage) edges_.emplace_back(stage, stage + 1);
    }
  }

  std::optional<std::size_t> of(std::size_t k) const {
    std::optional<std::size_t> best;
    const double slack = 1e-9 * std::max(1.0, ops_[k].start);
    const auto take = [&](std::size_t other) {
      if (other == k || ops_[other].end > ops_[k].start + slack) return;
      if (!best || ops_[other].end > ops_[*best].end) best = other;
    };
    const std::vector<std::size_t>& own = by_rank_.at(ops_[k].rank);
    const auto after =
        std::ranges::upper_bound(own, ops_[k].start + slack, {}, [this](std::size_t other) { return ops_[other].end; });
    // The last that had ended; one of no length may be the op itself.
    for (auto at = after; at != own.begin();) {
      take(*--at);
      if (best) break;
    }
    for (const TimelinePart& part : parts_[k]) {
      if (part.stage < 0) continue;
      const auto made = [&](const char* kinds, int stage) {
        for (const char* kind = kinds; *kind; ++kind)
          if (const auto found = makers_.find({*kind, stage, part.micro}); found != makers_.end())
            for (const std::size_t other : found->second) take(other);
      };
      if (part.kind == "F")
        for (const auto& [from, to] : edges_)
          if (to == part.stage) made("F", from);
      if (part.kind == "B" || part.kind == "I") {
        made("F", part.stage);
        for (const auto& [from, to] : edges_)
          if (from == part.stage) made("BI", to);
      }
      if (part.kind == "W") made("I", part.stage);
    }
    return best;
  }

 private:
  const std::vector<TimelineOp>& ops_;
  std::vector<std::vector<TimelinePart>> parts_;
  std::map<int, std::vector<std::size_t>> by_rank_;  // by rising end
  std::map<std::tuple<char, int, std::string>, std::vector<std::size_t>> makers_;
  std::vector<std::pair<int, int>> edges_;
  int last_stage_ = 0;
};

}  // namespace

const OpLook& op_kind(const std::string& name) {
  return *std::ranges::find_if(kOpKinds, [&](const OpLook& kind) { return name == kind.name; });
}

std::vector<TimelinePart> read_parts(const std::string& op) {
  const std::size_t middle = op.find(';');
  if (!op.starts_with('(') || !op.ends_with(')') || middle == std::string::npos) return {read_part(op)};
  return {read_part(op.substr(1, middle - 1)), read_part(op.substr(middle + 1, op.size() - middle - 2))};
}

std::optional<TimelineMessage> read_message(const std::string& op) {
  const bool forward = op.starts_with("send_activation ");
  const std::size_t from = op.find(' '), arrow = op.find("->"), micro = op.rfind(' ');
  if (!(forward || op.starts_with("send_gradient ")) || arrow == std::string::npos || micro < arrow)
    return std::nullopt;
  return TimelineMessage{forward, std::atoi(op.c_str() + from + 1), std::atoi(op.c_str() + arrow + 2),
                         op.substr(micro + 1)};
}

bool moves_data(const TimelinePart& part) {
  return part.kind == "gather" || part.kind == "reduction" || part.kind == "communication";
}

std::vector<std::size_t> critical_path(const Record& record) {
  if (record.timeline.empty()) return {};
  const Predecessors predecessors(record);
  const auto last = std::ranges::max_element(record.timeline, {}, [](const TimelineOp& op) {
    return op.to ? -std::numeric_limits<double>::infinity() : op.end;
  });
  if (last->to) return {};
  std::vector<std::size_t> path = {static_cast<std::size_t>(last - record.timeline.begin())};
  while (path.size() <= record.timeline.size()) {
    const auto before = predecessors.of(path.back());
    if (!before || std::ranges::count(path, *before) > 0) break;
    path.push_back(*before);
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<std::vector<HeldPoint>> held_over_time(const Record& record) {
  std::map<int, std::map<double, int>> changes;  // of a rank, by time
  bool backward = false;
  for (const TimelineOp& op : record.timeline)
    for (const TimelinePart& part : read_parts(op.op)) {
      backward |= part.kind == "B" || part.kind == "W";
    }
  if (!backward) return {};
  int ranks = record.ranks;
  for (const TimelineOp& op : record.timeline) {
    ranks = std::max(ranks, op.rank + 1);
    for (const TimelinePart& part : read_parts(op.op)) {
      if (part.kind == "F") ++changes[op.rank][op.start];
      if (part.kind == "B" || part.kind == "W") --changes[op.rank][op.end];
    }
  }
  std::vector<std::vector<HeldPoint>> result(static_cast<std::size_t>(ranks));
  for (const auto& [rank, steps] : changes) {
    // Backwards of forwards from before the timeline: as many were held when it began.
    int held = 0, least = 0;
    for (const auto& [at, change] : steps) least = std::min(least, held += change);
    held = -least;
    std::vector<HeldPoint>& points = result[rank];
    for (const auto& [at, change] : steps) points.push_back({at, held += change});
  }
  return result;
}

std::vector<TimeSpan> comparable_spans(const std::vector<const Record*>& records) {
  std::vector<TimeSpan> spans;
  std::vector<bool> goes_on;
  double longest_step = 0, shortest = std::numeric_limits<double>::infinity();
  for (const Record* record : records) {
    TimeSpan span{std::numeric_limits<double>::infinity(), 0};
    std::map<int, double> ends;  // of a rank
    for (const TimelineOp& op : record->timeline) {
      span.begin = std::min(span.begin, op.start);
      ends[op.rank] = std::max(ends[op.rank], op.end);
    }
    goes_on.push_back(is_asynchronous(*record) || is_inference(*record));
    const auto by_end = [](const auto& a, const auto& b) { return a.second < b.second; };
    span.end =
        (goes_on.back() ? std::ranges::min_element(ends, by_end) : std::ranges::max_element(ends, by_end))->second;
    if (goes_on.back()) {
      shortest = std::min(shortest, span.seconds());
    } else {
      longest_step = std::max(longest_step, span.seconds());
    }
    spans.push_back(span);
  }
  const double limit = longest_step > 0 ? longest_step : shortest;
  for (std::size_t k = 0; k < spans.size(); ++k)
    if (goes_on[k]) spans[k].end = std::min(spans[k].end, spans[k].begin + limit);
  return spans;
}

}  // namespace sluice
