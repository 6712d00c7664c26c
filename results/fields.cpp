// See fields.h.
#include "results/fields.h"

#include "results/part_fields.h"
#include "results/step_repeats.h"

namespace sluice {
namespace {

using enum FieldKind;

enum class In { line, line_or_absent, line_or_empty };  // absent, or an empty object, where there is none

template <class T>
FlatCell cell_of(const T& value) {
  if constexpr (ClosedChoice<T>)
    return flat(choice_name(value));
  else
    return flat(value);
}

template <class T>
constexpr bool is_single =
    std::integral<T> || std::floating_point<T> || ClosedChoice<T> || std::same_as<T, std::string>;

// A member of Record as it stands in a line.
template <In in = In::line, class T>
Field stored(const char* name, FieldKind kind, T Record::*member, FieldForm form = {}) {
  Field field{.name = name, .kind = kind};
  if constexpr (is_single<T>)
    field.get = [member](const Record& r) { return cell_of(r.*member); };
  else if constexpr (is_optional<T>)
    if constexpr (is_single<typename T::value_type>)
      field.get = [member](const Record& r) { return r.*member ? cell_of(*(r.*member)) : FlatCell(); };
  const auto visit = [name, form](auto& visitor, auto& value) {
    if constexpr (in == In::line)
      visitor(name, value, form);
    else if constexpr (in == In::line_or_absent)
      visitor.if_any(name, value, form);
    else
      visitor.or_empty(name, value, form);
  };
  field.write = [visit, member](FieldWriter& writer, const Record& r) { visit(writer, r.*member); };
  field.read = [visit, member](FieldReader& reader, Record& r) { visit(reader, r.*member); };
  field.describe = [visit](FieldSchema& schema) {
    T none{};
    visit(schema, none);
  };
  return field;
}

Field since_second_version(Field field) {
  field.since_second_version = true;
  return field;
}

// The system's options are texts; the optimizer, a part, stands among them.
Field options() {
  Field field{.name = "options", .kind = setting};
  field.write = [](FieldWriter& writer, const Record& r) { writer.json()["options"] = options_json(r); };
  field.read = [](FieldReader& reader, Record& r) {
    JsonReader options = reader.in().object("options");
    for (const std::string& name : options.keys()) {
      if (name != "optimizer") {
        r.options[name] = options.text(name);
        continue;
      }
      JsonReader optimizer = options.object(name);
      r.optimizer = read_fields<OptimizerSpec>(optimizer, reader.unknown());
    }
  };
  field.describe = [](FieldSchema& schema) {
    schema.require("options");
    schema.describe("options",
                    {{"type", "object"},
                     {"properties", {{"optimizer", schema_of_fields<OptimizerSpec>()}}},
                     {"additionalProperties", {{"type", "string"}}}},
                    {"The system's options in force, and the settings of the run that tell it from others."});
  };
  return field;
}

// Every transport that a run may have had, of programs other than this one too.
Field transport() {
  Field field = stored("transport", setting, &Record::transport);
  field.describe = [](FieldSchema& schema) {
    schema.require("transport");
    schema.describe("transport", {{"enum", Json::array({"threads", "mpi", "nccl", "none"})}},
                    {"none: on the virtual clock, and where another program ran: PyTorch (harness/peers)."});
  };
  return field;
}

Field step_seconds() {
  Field field = stored("step_seconds", measurement, &Record::step_seconds);
  field.read = [](FieldReader& reader, Record& r) { r.step_seconds = read_steps(reader.in(), "step_seconds"); };
  field.describe = [](FieldSchema& schema) {
    const Json number = schema_of<double>({});
    const Json repeat = {
        {"type", "object"},
        {"properties", {{"times", {{"type", "integer"}, {"minimum", 1}}}, {"of", schema_of<std::vector<double>>({})}}},
        {"required", Json::array({"times", "of"})},
        {"additionalProperties", false}};
    schema.require("step_seconds");
    schema.describe("step_seconds", {{"type", "array"}, {"items", {{"anyOf", Json::array({number, repeat})}}}},
                    {"Every step's, warm-up included; in reference records steps that repeat stand once."});
  };
  return field;
}

}  // namespace

const std::vector<Field>& record_fields() {
  using enum In;
  static const std::vector<Field> fields = {
      stored("digest", setting, &Record::digest, {"Hash of the case: same digest, same experiment."}),
      stored("system", setting, &Record::system),
      stored("workload", setting, &Record::workload),
      stored("cluster", setting, &Record::cluster),
      stored("clock", setting, &Record::clock),
      stored("cost_source", setting, &Record::cost_source),
      transport(),
      stored("device", setting, &Record::device, {"cpu, cuda, or the names of the cluster's devices."}),
      stored("ranks", setting, &Record::ranks, {"Given to the system, used or not; single_device: 1."}),
      stored("batch", setting, &Record::batch, {"Global batch: samples per update."}),
      stored("microbatches", setting, &Record::microbatches, {"Per update."}),
      stored("seed", setting, &Record::seed),
      options(),
      since_second_version(
          stored("purpose", setting, &Record::purpose,
                 {"measure: compared and drawn; tune: a candidate of a learning-rate search; boundary: "
                  "a point of a divergence boundary."})),
      stored<line_or_empty>("workload_facts", setting, &Record::workload_facts,
                            {"What was trained, for how long, and the target of its metric."}),
      since_second_version(
          stored<line_or_empty>("tuning", setting, &Record::tuning,
                                {"How the learning rate was tuned, for epochs or steps; empty where it was given."})),
      stored("outcome", measurement, &Record::outcome),
      stored("reason", measurement, &Record::reason, {"Empty for ok."}),
      since_second_version(
          stored("diverged_at", measurement, &Record::diverged_at, {"The update, from 1, whose loss was not finite."})),
      stored("failed_rank", measurement, &Record::failed_rank),
      step_seconds(),
      stored("warmup_steps", measurement, &Record::warmup_steps, {"Steps that the throughput leaves out."}),
      stored("samples_per_step", measurement, &Record::samples_per_step),
      stored("updates_per_epoch", measurement, &Record::updates_per_epoch),
      stored("curve", measurement, &Record::curve),
      stored<line_or_absent>("curve_of", measurement, &Record::curve_of,
                             {"The case whose training gave the losses and evaluations: it computes the same."}),
      stored("peak_bytes", measurement, &Record::peak_bytes, {"Per rank; on the virtual clock predicted."}),
      stored("predicted_peak_bytes", prediction, &Record::predicted_peak_bytes),
      stored<line_or_empty>("theory", prediction, &Record::theory, {"What the system's paper promises."}),
      stored("observed", measurement, &Record::observed, {"The same as simulated or measured, and more."}),
      stored<line_or_empty>("plan", prediction, &Record::plan, {"The plan, as sluice plan --json writes it."}),
      stored("planning_seconds", measurement, &Record::planning_seconds),
      stored("timeline", measurement, &Record::timeline, {"One steady step, or the first 3 P batches."}),
      stored("environment", measurement, &Record::environment, {"Of the machine and the program: all of it or none."}),
  };
  return fields;
}

Json record_schema() {
  FieldSchema schema;
  schema.require("schema");
  schema.describe("schema", {{"enum", Json::array({kRecordSchema, kFirstRecordSchema})}},
                  {"Version 1 has none of purpose, tuning and diverged_at."});
  Json since_second = Json::array();
  for (const Field& field : record_fields()) {
    if (field.describe) field.describe(schema);
    if (field.since_second_version) since_second.push_back(field.name);
  }
  Json json = schema.take(), required = Json::array();
  for (const Json& name : json["required"])
    if (std::ranges::count(since_second, name) == 0) required.push_back(name);
  json["required"] = required;
  json["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  json["$id"] = "https://sluice.invalid/results/record.schema.json";
  json["title"] = "Sluice record";
  json["description"] = "One run: one line of a results file. Made from results/fields.cpp.";
  json["if"] = {{"properties", {{"schema", {{"const", kRecordSchema}}}}}};
  json["then"] = {{"required", since_second}};
  json["$defs"]["number"] = {
      {"description", "JSON has no NaN and no infinity; a diverged run has."},
      {"anyOf", Json::array({{{"type", "number"}}, {{"enum", Json::array({"NaN", "Infinity", "-Infinity"})}}})}};
  return json;
}

}  // namespace sluice
