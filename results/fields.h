// The fields of a record, one row each: those of its line, and the metrics that are derived from it. The reader, the
// writer, the schema, flat tables, comparisons, studies and the command line use this table; part_fields.h names the
// members of a record's parts.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json_fields.h"
#include "results/flat_table.h"
#include "results/record.h"
#include "results/statistics.h"

namespace sluice {

inline constexpr const char* kRecordSchema = "sluice/record/2";

// setting: identifies a run, in every flat table; derived: computed when a record is read, not in its line.
enum class FieldKind { setting, measurement, prediction, derived };

// Number format. states: counts that may be large; metric: an evaluation metric; completion: 1 or 0.
enum class Unit { text, count, states, rate, token_rate, tflops, seconds, bytes, share, metric, completion };
const char* unit_name(Unit unit);              // for an axis: "samples/s", "TFLOP/s", "seconds", "bytes", ..., else ""
std::string to_text(Unit unit, double value);  // as comparisons show it: "1.5 s", "12.5 %"

enum class Better { none, lower, higher, as_workload };  // as_workload: given by the workload's facts

struct Field {
  std::string name;  // in a line, in comparisons and studies, and on the command line
  FieldKind kind = FieldKind::measurement;
  std::function<FlatCell(const Record&)> get = {};  // for a single value; none: a list or a part
  std::string column = {};                          // of flat tables
  std::string heading = {};                         // of comparisons
  std::string former_name = {};                     // also accepted
  Unit unit = Unit::text;                           // text: not a number
  Better better = Better::none;                     // none: comparisons do not sort by it

  // Writes it into a line; none: derived.
  std::function<void(FieldWriter&, const Record&)> write = {};
  std::function<void(FieldReader&, Record&)> read = {};
  std::function<void(FieldSchema&)> describe = {};

  std::optional<double> value(const Record& record) const;  // none if it is not a number
};

// In the order of the columns of flat tables.
const std::vector<Field>& record_fields();
// The fields that comparisons show and sort by.
std::vector<const Field*> metrics();
bool higher_is_better(const Field& field, const Record& like);  // in the workload of that record
// By its name or its former name; null: unknown.
const Field* find_field(std::string_view name);

// Over runs that differ in their seeds, for those with metrics and this value.
std::optional<Spread> spread(const Field& field, std::span<const Record> seeds);

// The JSON Schema of a line: results/record.schema.json.
Json record_schema();

}  // namespace sluice
