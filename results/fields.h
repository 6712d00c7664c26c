// The fields of a record, one row each: what a line holds and what is derived from it. Writer, reader, schema, tables,
// comparisons, studies and the command line go by this table; members of a record's parts are named in part_fields.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/json_fields.h"
#include "results/flat_table.h"
#include "results/record.h"

namespace sluice {

inline constexpr const char* kRecordSchema = "sluice/record/2";
inline constexpr const char* kFirstRecordSchema = "sluice/record/1";  // is read, no longer written

// setting: what identifies a run, in every flat table; derived: computed when a record is read, not in its line.
enum class FieldKind { setting, measurement, prediction, derived };

struct Field {
  std::string name;
  FieldKind kind = FieldKind::measurement;
  std::function<FlatCell(const Record&)> get = {};  // of a single value; none: a list or a part

  // How a line holds it; none: derived.
  std::function<void(FieldWriter&, const Record&)> write = {};
  std::function<void(FieldReader&, Record&)> read = {};
  std::function<void(FieldSchema&)> describe = {};
  bool since_second_version = false;
};

// In the order of the columns of flat tables.
const std::vector<Field>& record_fields();

// The JSON Schema of a line: results/record.schema.json.
Json record_schema();

}  // namespace sluice
