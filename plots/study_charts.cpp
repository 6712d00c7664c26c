// See study_charts.h.
#include "plots/study_charts.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "plots/chart_template.h"
#include "plots/style.h"

namespace sluice {
namespace {

// The records of the runs that match: single-device ones only where the conditions let them in.
std::vector<Record> chosen_records(const Conditions& where, std::span<const Record> records) {
  std::vector<Record> chosen;
  for (const StudyRun& run : study_runs(records))
    if (matches(run, where)) chosen.insert(chosen.end(), run.row.records.begin(), run.row.records.end());
  return chosen;
}

std::string unit_of(const TablePicture& picture, const StudyTable& table) {
  if (!picture.relative_to.empty()) return "relative to " + picture.relative_to;
  return unit_name(table.columns[column_index(table, picture.columns.front())].metric->unit);
}

Json values_of(const TablePicture& picture, const FilledTable& table, const std::string& panel) {
  Json values = Json::array();
  for (const FilledLine& line : table.lines) {
    if (line.titles.front() != panel) continue;
    std::string group;
    for (std::size_t i = 1; i < line.titles.size(); ++i) group += (group.empty() ? "" : ", ") + line.titles[i];
    double divisor = 1;
    if (!picture.relative_to.empty())
      divisor = line.cells[column_index(table.description, picture.relative_to)].value.value_or(0);
    for (const std::string& heading : picture.columns) {
      const auto value = line.cells[column_index(table.description, heading)].value;
      if (value && divisor > 0) values.push_back({{"group", group}, {"column", heading}, {"value", *value / divisor}});
    }
  }
  return values;
}

Json panel_of(const TablePicture& picture, const FilledTable& table, const NamedConditions& entry) {
  std::vector<std::string> groups;
  for (const FilledLine& line : table.lines) {
    if (line.titles.front() != entry.title) continue;
    std::string group;
    for (std::size_t i = 1; i < line.titles.size(); ++i) group += (group.empty() ? "" : ", ") + line.titles[i];
    if (std::ranges::count(groups, group) == 0) groups.push_back(group);
  }
  std::string below;
  for (std::size_t i = 1; i < table.description.axes.size(); ++i)
    below += (below.empty() ? "" : ", ") + table.description.axes[i].heading;
  return {{"heading", panel_heading(entry.title)},
          {"values", values_of(picture, table, entry.title)},
          {"groups", groups},
          {"x_title", below.empty() ? Json() : Json(below)}};
}

// Of a chart of one comparison.
const Comparison& only_one(const ComparisonPicture& picture, const std::vector<Comparison>& comparisons) {
  if (comparisons.size() > 1)
    throw InputError("chart '" + picture.name + "'",
                     "draws one comparison, and its records make " + std::to_string(comparisons.size()) +
                         ", of other workloads, batches, ranks, clusters or numbers of updates",
                     "let its \"where\" choose one");
  return comparisons.front();
}

}  // namespace

Chart study_chart(const ComparisonPicture& picture, std::span<const Record> records) {
  const std::vector<Record> chosen = chosen_records(picture.where, records);
  const std::vector<Comparison> comparisons = compare(chosen);
  if (comparisons.empty()) return {picture.name, picture.title, nullptr};
  switch (picture.kind) {
    case RecordChart::throughput:
      return throughput_chart(picture.name, picture.title, comparisons);
    case RecordChart::memory_throughput:
      return memory_throughput_chart(picture.name, only_one(picture, comparisons));
    case RecordChart::communication:
      return communication_chart(picture.name, only_one(picture, comparisons));
    case RecordChart::planners:
      return planner_chart(picture.name, picture.title, comparisons);
    case RecordChart::time_to_accuracy:
      return time_to_accuracy_chart(picture.name, picture.title, comparisons);
    case RecordChart::final_metric:
      return final_metric_chart(picture.name, picture.title, comparisons);
    case RecordChart::curves:
      return curves_chart(picture.name, comparisons, CurveAxis::updates);
  }
  return {picture.name, picture.title, nullptr};
}

Chart study_chart(const TablePicture& picture, const FilledTable& table) {
  Json panels = Json::array();
  for (const NamedConditions& entry : table.description.axes.front().entries)
    panels.push_back(panel_of(picture, table, entry));
  return {picture.name, picture.title,
          filled_chart("study_table", picture.title, {},
                       {{"panels", std::move(panels)},
                        {"headings", picture.columns},
                        {"unit", unit_of(picture, table.description)},
                        {"legend_columns", legend_columns(picture.columns)}})};
}

}  // namespace sluice
