// Rows to train a forest on, from files.
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/read_text.h"
#include "harness/base/visible_text.h"
#include "systems/dynpipe/forest.h"

namespace sluice {

namespace {

constexpr const char* kAdvice = "give a file of sluice profile --co-run";

// {"schema": "sluice/co_run/1", "rows": [{"features": {name: number}, "slowdown": number}]}
ForestRows read_co_runs(const std::string& file) {
  const Json json = parse_json_file(file);
  JsonReader reader(json, file);
  if (reader.text("schema") != "sluice/co_run/1")
    reader.fail("schema", "is not 'sluice/co_run/1'", "make the file with sluice profile --co-run");
  constexpr double kMin = 1e-6;
  ForestRows rows;
  for (JsonReader& row : reader.objects("rows")) {
    JsonReader features = row.object("features");
    if (rows.features.empty()) rows.features = features.keys();
    std::vector<double>& x = rows.x.emplace_back();
    for (const std::string& name : rows.features) x.push_back(features.number(name, -kMaxNumber, kMaxNumber));
    features.no_other_keys();
    rows.y.push_back(row.number("slowdown", kMin, 1e6));
    row.no_other_keys();
  }
  if (rows.x.empty()) reader.fail("rows", "must not be empty");
  return rows;
}

// Gavel's: gpu,victim_job,co_located_job,victim_isolated_steps_per_s,...,slowdown. Every row is asked for, with the
// victim of the next row of the same device and co-located job as the one that was seen.
ForestRows read_gavel(const std::string& file) {
  constexpr std::size_t max_bytes = 64 << 20;
  constexpr double most = 1e9, starved = 8;
  std::istringstream in(read_text(file, max_bytes, kAdvice));
  std::string line;
  if (!std::getline(in, line)) throw InputError(visible(file), "is empty");
  struct Job {
    double seconds, slowdown;  // of a step
  };
  std::map<std::pair<std::string, std::string>, std::vector<Job>> with;  // by device and co-located job
  while (std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    std::istringstream fields(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    if (cells.size() != 6) throw InputError(visible(file), "'" + visible(line) + "' does not have 6 fields");
    const std::optional<double> steps = number_in(cells[3]), slowdown = number_in(cells[5]);
    if (!steps || !slowdown || std::abs(*steps) > most || std::abs(*slowdown) > most)
      throw InputError(visible(file), "'" + visible(line) + "' has a number that cannot be read");
    if (*steps <= 0 || *slowdown <= 0)
      throw InputError(visible(file), "'" + visible(line) + "' has a number that is not above 0");
    if (*slowdown <= starved) with[{cells[0], cells[2]}].push_back({1 / *steps, *slowdown});
  }
  ForestRows rows{.features = {"seconds", "seen_seconds", "seen_slowdown"}, .x = {}, .y = {}};
  for (const auto& [load, jobs] : with)
    for (std::size_t k = 0; jobs.size() > 1 && k < jobs.size(); ++k) {
      const Job &asked = jobs[k], &seen = jobs[(k + 1) % jobs.size()];
      rows.x.push_back({asked.seconds, seen.seconds, seen.slowdown});
      rows.y.push_back(asked.slowdown);
    }
  if (rows.y.empty())
    throw InputError(visible(file), "has no two jobs with the same co-located job",
                     "give Gavel's file of co-location slowdowns");
  return rows;
}

}  // namespace

ForestRows read_forest_rows(const std::string& file) {
  return file.ends_with(".csv") ? read_gavel(file) : read_co_runs(file);
}

}  // namespace sluice
