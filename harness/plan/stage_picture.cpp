#include "harness/plan/stage_picture.h"

#include <algorithm>
#include <set>

#include "harness/pipeline/topological_order.h"

namespace sluice {

std::string device_list(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < devices.size(); first = last + 1) {
    for (last = first; last + 1 < devices.size() && devices[last + 1].value == devices[last].value + 1;) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(devices[first].value);
    if (last > first) text += (last > first + 1 ? "-" : ",") + std::to_string(devices[last].value);
  }
  return text;
}

// Of every stage, the stages before it on the longest path from the start.
static std::vector<int> columns(const StageGraph& graph) {
  std::vector<int> column(graph.size(), 0);
  for (const StageId s : topological_order(graph))
    for (const StageId t : graph.successors[s.index()])
      column[t.index()] = std::max(column[t.index()], column[s.index()] + 1);
  return column;
}

int depth(const StageGraph& graph) {
  const std::vector<int> column = columns(graph);
  return column.empty() ? 0 : *std::ranges::max_element(column) + 1;
}

namespace {

struct Row {
  std::vector<StageId> stages;
};

// Paths that cover all stages: a stage goes on with the row of a predecessor that ends just before
// it, the first that nobody has gone on with.
std::vector<Row> paths(const StageGraph& graph, const std::vector<int>& column) {
  std::vector<StageId> order;
  for (std::size_t s = 0; s < graph.size(); ++s) order.emplace_back(s);
  std::ranges::stable_sort(order, {}, [&](StageId s) { return column[s.index()]; });
  std::vector<Row> rows;
  std::vector<int> row_of(graph.size(), -1);
  for (const StageId s : order) {
    int row = -1;
    for (const StageId p : graph.predecessors[s.index()]) {
      const int candidate = row_of[p.index()];
      const bool ends = rows[candidate].stages.back() == p;
      if (row < 0 && ends && column[p.index()] + 1 == column[s.index()]) row = candidate;
    }
    if (row < 0) {
      row = static_cast<int>(rows.size());
      rows.emplace_back();
    }
    row_of[s.index()] = row;
    rows[row].stages.push_back(s);
  }
  return rows;
}

std::string names(const std::vector<StageId>& stages, StageId except) {
  std::string text;
  for (const StageId s : stages)
    if (s != except) text += (text.empty() ? "" : ",") + std::to_string(s.value);
  return text;
}

}  // namespace

std::string stage_picture(const Plan& plan, const StageGraph& graph, int width) {
  const std::vector<int> column = columns(graph);
  const std::set<std::pair<StageId, StageId>> imposed(plan.imposed_edges.begin(), plan.imposed_edges.end());
  std::vector<std::string> cell;
  std::size_t longest = 0;
  for (std::size_t s = 0; s < graph.size(); ++s) {
    cell.push_back("[" + std::to_string(s) + ": " + device_list(plan.stages[s].devices) + "]");
    longest = std::max(longest, cell.back().size());
  }
  constexpr StageId kNobody{-1};
  const int per_block = std::max(1, (width - 12) / static_cast<int>(longest + 3));
  std::string picture;
  for (int first = 0; first < depth(graph); first += per_block)
    for (const Row& row : paths(graph, column)) {
      std::string line;
      for (std::size_t k = 0; k < row.stages.size(); ++k) {
        const StageId s = row.stages[k];
        const int place = column[s.index()] - first;
        if (place < 0 || place >= per_block) continue;
        const auto& before = graph.predecessors[s.index()];
        const auto& after = graph.successors[s.index()];
        std::string from;
        if (k == 0 && !before.empty()) from = names(before, kNobody) + " --> ";
        const std::size_t begin = static_cast<std::size_t>(place) * (longest + 3) + 2;
        if (line.empty()) line.assign(begin > from.size() ? begin - from.size() : 2, ' ');
        line += from + cell[s.index()];
        const bool goes_on = k + 1 < row.stages.size();
        if (goes_on) {
          const bool dotted = imposed.contains({s, row.stages[k + 1]});
          line += std::string(longest + 3 - cell[s.index()].size(), dotted ? '.' : '-');
        }
        const std::string to = names(after, goes_on ? row.stages[k + 1] : kNobody);
        if (!goes_on && !to.empty()) line += std::string(longest + 1 - cell[s.index()].size(), '-') + "> " + to;
      }
      if (!line.empty()) picture += line + "\n";
    }
  // What a row cannot show: edges from the middle of a row to another, and into the middle of one.
  std::string also;
  for (const Row& row : paths(graph, column))
    for (std::size_t k = 0; k + 1 < row.stages.size(); ++k) {
      const std::string to = names(graph.successors[row.stages[k].index()], row.stages[k + 1]);
      if (!to.empty()) also += (also.empty() ? "  also " : ", ") + std::to_string(row.stages[k].value) + " --> " + to;
    }
  return picture + (also.empty() ? "" : also + "\n");
}

}  // namespace sluice
