// Rows to train a forest on, from files.
#include <array>
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
  ForestRows rows;
  for (JsonReader& row : reader.objects("rows")) {
    JsonReader features = row.object("features");
    if (rows.features.empty()) rows.features = features.keys();
    std::vector<double>& x = rows.x.emplace_back();
    for (const std::string& name : rows.features) x.push_back(features.number(name, -kMostNumber, kMostNumber));
    features.no_other_keys();
    rows.y.push_back(row.number("slowdown", 0, 1e6));
    row.no_other_keys();
  }
  if (rows.x.empty()) reader.fail("rows", "must not be empty");
  return rows;
}

// Gavel's: gpu,victim_job,co_located_job,victim_isolated_steps_per_s,...,slowdown. A name is a feature that is 0 or 1.
ForestRows read_gavel(const std::string& file) {
  constexpr std::size_t most_bytes = 64 << 20, most_numbers = 64 << 20;
  constexpr double most = 1e9;
  std::istringstream in(read_text(file, most_bytes, kAdvice));
  std::string line;
  if (!std::getline(in, line)) throw InputError(visible(file), "is empty");
  struct Row {
    std::array<std::string, 3> names;
    double steps_per_second, slowdown;
  };
  std::vector<Row> read;
  while (std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    std::istringstream fields(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    if (cells.size() != 6) throw InputError(visible(file), "'" + visible(line) + "' does not have 6 fields");
    const std::optional<double> steps = number_in(cells[3]), slowdown = number_in(cells[5]);
    if (!steps || !slowdown || std::abs(*steps) > most || std::abs(*slowdown) > most)
      throw InputError(visible(file), "'" + visible(line) + "' has a number that cannot be read");
    read.push_back({{"gpu=" + cells[0], "victim=" + cells[1], "beside=" + cells[2]}, *steps, *slowdown});
  }
  if (read.empty()) throw InputError(visible(file), "has no rows");
  std::map<std::string, std::size_t> place;
  ForestRows rows{.features = {"isolated_steps_per_second"}, .x = {}, .y = {}};
  for (const Row& row : read)
    for (const std::string& name : row.names)
      if (place.try_emplace(name, rows.features.size()).second) rows.features.push_back(name);
  if (rows.features.size() > most_numbers / read.size())
    throw InputError(visible(file), "names too many jobs for its rows", "give Gavel's file of co-location slowdowns");
  for (const Row& row : read) {
    std::vector<double>& x = rows.x.emplace_back(rows.features.size(), 0.0);
    x[0] = row.steps_per_second;
    for (const std::string& name : row.names) x[place.at(name)] = 1;
    rows.y.push_back(row.slowdown);
  }
  return rows;
}

}  // namespace

ForestRows read_forest_rows(const std::string& file) {
  return file.ends_with(".csv") ? read_gavel(file) : read_co_runs(file);
}

}  // namespace sluice
