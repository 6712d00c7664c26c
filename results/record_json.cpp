// Records to JSON and back, by the table of fields.h. Reading is strict: a field that is missing, of the wrong type,
// out of its range or unknown is an error that names the line and the field, because a record that is read halfway
// would end as a wrong number in a chart.
#include "results/fields.h"
#include "results/part_fields.h"
#include "results/record.h"
#include "results/seal.h"

namespace sluice {

Json to_json(const Tuning& tuning) { return write_fields(tuning); }
Json to_json(const Theory& theory) { return write_fields(theory); }
Json to_json(const Observed& observed) { return write_fields(observed); }
Json to_json(const Environment& environment) { return write_fields(environment); }

Json options_json(const Record& record) {
  Json options = record.options;
  if (record.optimizer) options["optimizer"] = to_json(*record.optimizer);
  return options;
}

Json to_json(const Record& record) {
  FieldWriter writer;
  writer("schema", std::string(kRecordSchema));
  for (const Field& field : record_fields())
    if (field.write) field.write(writer, record);
  return writer.take();
}

Record record_from_json(const Json& value, const std::string& where) {
  JsonReader in(value, where, "", "remove the line, or run the case again");
  const std::string unknown =
      std::string("is the file from a newer version of sluice? This one reads ") + kRecordSchema;
  if (const std::string schema = in.text("schema"); schema != kRecordSchema)
    in.fail("schema", "'" + schema + "' is not a schema of records", unknown);
  Record record;
  FieldReader reader(in, unknown);
  for (const Field& field : record_fields())
    if (field.read) field.read(reader, record);
  in.text(std::string(kSeal), "");
  in.no_other_keys(unknown);
  return record;
}

}  // namespace sluice
