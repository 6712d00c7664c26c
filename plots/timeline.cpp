// The timeline of one system, as the report's page draws it (page/timelines.js): a row a rank, a box an op, its
// micro-batch in it where it fits.
//
//   rank 0  [0][1][2][3]            [0 ][1 ][2 ][3 ]      blue F, green B (teal I, yellow W),
//   rank 1     [0][1][2][3][0 ][1 ][2 ][3 ]               grey is idle
//
// What moves data (gathers, reductions, the messages that a rank sends) has a lane of its own below the rank's compute;
// an overlapped pair shares the row, one above the other. A black line runs through the critical path. Where ops of a
// stage read several weight versions, the number of the version stands below the micro-batch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "harness/base/json.h"
#include "plots/charts.h"
#include "plots/interference_bands.h"
#include "plots/style.h"
#include "plots/timeline_ops.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxOps = 3000;  // of one timeline
constexpr double kTicks = 1'000'000;   // of a timeline: times are whole numbers of them

// Which part of its rank's row a box fills.
enum class Place { whole, upper, lower, lane };

// Idle share of the ranks while the timeline lasts: 1 - compute / (ranks * span).
double idle_share(const Record& record, int ranks, double begin, double end) {
  std::map<int, std::vector<std::pair<double, double>>> busy;
  for (const TimelineOp& op : record.timeline)
    if (!moves_data(read_parts(op.op).front())) busy[op.rank].emplace_back(op.start, op.end);
  double total = 0;
  for (auto& [rank, spans] : busy) {
    std::sort(spans.begin(), spans.end());
    double until = begin;
    for (const auto& [start, stop] : spans) {  // ops that overlap count once
      total += std::max(0.0, stop - std::max(start, until));
      until = std::max(until, stop);
    }
  }
  return 1 - total / (ranks * (end - begin));
}

}  // namespace

Timeline timeline_of_row(const std::string& name, const ComparisonRow& row) {
  const auto found = std::find_if(row.records.begin(), row.records.end(),
                                  [](const Record& r) { return has_metrics(r) && !r.timeline.empty(); });
  if (found == row.records.end()) return {name};
  const Record& record = *found;
  double begin = record.timeline.front().start, end = record.timeline.front().end;
  int ranks = record.ranks;
  std::map<int, std::set<int>> stages;  // of a rank, so that its chunks get shades
  std::vector<std::size_t> order;       // by start
  for (const TimelineOp& op : record.timeline) {
    order.push_back(order.size());
    begin = std::min(begin, op.start);
    end = std::max(end, op.end);
    ranks = std::max(ranks, op.rank + 1);
    for (const TimelinePart& part : read_parts(op.op))
      if (part.stage >= 0) stages[op.rank].insert(part.stage);
  }
  if (!(end > begin)) return {name};
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return record.timeline[k].start; });

  const double bubble = bubble_ratio(record).value_or(idle_share(record, ranks, begin, end));
  Timeline timeline{.name = name,
                    .title = fmt::format("{}, {}: bubble {:.1f} %", title_of(row), ranks_text(row.ranks), 100 * bubble),
                    .records = record.digest};
  if (const auto promised = record.theory ? record.theory->bubble_ratio : std::nullopt)
    timeline.title += fmt::format(" (theory for equal stages without messages: {:.1f} %)", 100 * *promised);
  timeline.notes = {fmt::format("{} micro-batch{}", row.microbatches, row.microbatches == 1 ? "" : "es")};
  if (order.size() > kMaxOps) {
    timeline.notes.push_back(fmt::format("the first {} of {} ops", kMaxOps, order.size()));
    order.resize(kMaxOps);
    end = begin;
    for (const std::size_t k : order) end = std::max(end, record.timeline[k].end);
  }
  const std::vector<std::size_t> path = critical_path(record);
  if (path.size() > 1) {
    double running = 0;
    for (const std::size_t k : path) running += record.timeline[k].end - record.timeline[k].start;
    const double length = record.timeline[path.back()].end - record.timeline[path.front()].start;
    timeline.notes.push_back(
        fmt::format("line: the critical path, {} ops; between them {:.1f} % of its time passes waiting", path.size(),
                    100 * std::max(0.0, 1 - running / length)));
  }

  const auto ticks = [&](double seconds) { return std::llround((seconds - begin) / (end - begin) * kTicks); };
  Json boxes = Json::object();
  std::map<std::size_t, std::size_t> box_of;  // of an op; of a pair the first
  std::size_t count = 0;
  bool lanes = false, versions = false;
  for (const std::size_t k : order) {
    const TimelineOp& op = record.timeline[k];
    const std::vector<TimelinePart> parts = read_parts(op.op);
    box_of[k] = count;
    for (std::size_t i = 0; i < parts.size(); ++i, ++count) {
      const TimelinePart& part = parts[i];
      const Place place = moves_data(part)    ? Place::lane
                          : parts.size() == 1 ? Place::whole
                          : i == 0            ? Place::upper
                                              : Place::lower;
      lanes |= place == Place::lane;
      versions |= op.version.has_value();
      const auto& own = stages[op.rank];
      const auto chunk = part.stage < 0 ? 0 : std::distance(own.begin(), own.find(part.stage));
      boxes["rank"].push_back(op.rank);
      boxes["kind"].push_back(&op_kind(part.kind) - kOpKinds);
      boxes["place"].push_back(static_cast<int>(place));
      boxes["chunk"].push_back(chunk);
      boxes["start"].push_back(ticks(op.start));
      boxes["length"].push_back(ticks(op.end) - ticks(op.start));
      boxes["text"].push_back(part.stage >= 0 ? fmt::format("{}{}{}", part.stage, part.kind, part.micro) : op.op);
      boxes["version"].push_back(op.version);
      boxes["to"].push_back(op.to.value_or(-1));
    }
  }
  if (!versions) boxes.erase("version");
  if (std::ranges::none_of(order, [&](std::size_t k) { return record.timeline[k].to.has_value(); })) boxes.erase("to");
  Json line = Json::array(), slowed = Json::array();
  if (path.size() > 1)
    for (const std::size_t k : path)
      if (const auto box = box_of.find(k); box != box_of.end()) line.push_back(box->second);
  // A slowed device is shaded over its own row; device d runs rank d unless the plan orders them otherwise.
  for (const BandSpan& span : interference_spans(record, begin, end))
    if (span.resource != "link" && span.device < ranks)
      slowed.push_back(Json::array({span.device, ticks(span.start + begin), ticks(span.end + begin)}));
  timeline.ops = count;
  timeline.seconds = end - begin;
  timeline.data = {{"ranks", ranks}, {"seconds", end - begin}, {"lanes", lanes}, {"boxes", std::move(boxes)},
                   {"path", line},   {"slowed", slowed},       {"ticks", kTicks}};
  return timeline;
}

}  // namespace sluice
