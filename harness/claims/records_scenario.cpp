// Scenarios of kind "records": a metric of the best run among the reference records (results/reference) that match.
// Fields: records (a file there), where (fields of a record, each with a value or a list), metric, best_by; costs (by
// which what was measured, times and bytes, is multiplied).
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>

#include "harness/base/source_folder.h"
#include "harness/claims/scenario.h"
#include "plots/study_tables.h"
#include "results/store.h"

namespace sluice {

namespace {

void multiply(Record& record, double by) {
  for (double& seconds : record.step_seconds) seconds *= by;
  for (CurvePoint& point : record.curve) point.seconds *= by;
  record.planning_seconds *= by;
  if (record.plan) record.plan->search_seconds *= by;
  for (std::vector<MemorySplit>* ranks : {&record.peak_bytes, &record.predicted_peak_bytes})
    for (MemorySplit& rank : *ranks) rank.total = std::llround(by * static_cast<double>(rank.total));
}

const std::vector<StudyRun>& runs_of(const std::string& file, double costs) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, double>, std::vector<StudyRun>> known;
  const std::lock_guard lock(mutex);
  const auto [entry, fresh] = known.try_emplace({file, costs});
  if (!fresh) return entry->second;
  std::vector<Record> records = read_records(file).records;
  if (costs != 1)
    for (Record& record : records) multiply(record, costs);
  entry->second = study_runs(records);
  return entry->second;
}

Conditions read_conditions(JsonReader& reader) {
  Conditions where;
  for (const auto& [key, values] : reader.object("where").json().items()) {
    if (!values.is_array()) where[key].push_back(values.text());
    if (values.is_array())
      for (const Json& value : values) where[key].push_back(value.text());
  }
  return where;
}

}  // namespace

Scenario read_records_scenario(JsonReader& reader) {
  const std::string name = reader.text("records");
  const std::string file = source_folder() + "/results/reference/" + name;
  if (name.find('/') != std::string::npos || !std::filesystem::is_regular_file(file))
    reader.fail("records", "'" + name + "' is no file of results/reference");
  StudyTable table{.name = "claim", .where = read_conditions(reader)};
  table.best_by = study_metric(reader, "best_by");
  table.columns.push_back({.heading = "ours", .metric = study_metric(reader, "metric")});
  const double costs = reader.above_zero_or("costs", 1, 100);
  return [file, table, costs](ProfileStore&) {
    const FilledTable filled = fill(table, runs_of(file, costs));
    const FilledCell& cell = filled.lines.front().cells.front();
    if (!cell.value) throw NotAvailable("no record of " + std::filesystem::path(file).filename().string() + " matches");
    return Figure{cell.value, {}};
  };
}

}  // namespace sluice
