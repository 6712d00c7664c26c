// Records to JSON and back. Reading is strict: a field that is missing, of the wrong type, out of its range or unknown
// is an error that names the line and the field, because a record that is read halfway would end as a wrong number in a
// chart. results/record.schema.json says the same in JSON Schema; record_test.cpp holds the two together.
#include "results/record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <string_view>
#include <utility>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "results/record_reading.h"
#include "results/step_repeats.h"

namespace sluice {

// Every member and what it holds is copied, moved or destroyed here alone, not again in each file that has one.
Record::Record() = default;
Record::Record(const Record& other) = default;
Record::Record(Record&& other) noexcept = default;
Record& Record::operator=(const Record& other) = default;
Record& Record::operator=(Record&& other) noexcept = default;
Record::~Record() = default;

namespace {

// JSON has no NaN and no infinity, but a diverged run has both, and that it diverged is a result.
Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

Json to_json(const MemorySplit& split) {
  Json value = {{"total", split.total},         {"weights", split.weights},     {"versions", split.versions},
                {"gradients", split.gradients}, {"optimizer", split.optimizer}, {"activations", split.activations},
                {"buffers", split.buffers}};
  if (split.host != 0) value["host"] = split.host;
  return value;
}

Json to_json(const CurvePoint& point) {
  Json value = {{"step", point.step},
                {"seconds", number(point.seconds)},
                {"loss", number(point.loss)},
                {"metric", number(point.metric)}};
  for (const auto& [name, extra] : point.extra) value["extra"][name] = number(extra);
  return value;
}

Json to_json(const TimelineOp& op) {
  Json value = {{"rank", op.rank}, {"op", op.op}, {"start", number(op.start)}, {"end", number(op.end)}};
  if (op.version) value["version"] = *op.version;
  if (op.to) value["to"] = *op.to;
  return value;
}

template <class T>
Json to_array(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

constexpr const char* kAdvice = "remove the line, or run the case again";

template <std::integral Int>
std::optional<Int> count_or_null(JsonReader& reader, const std::string& key) {
  return reader.is_null(key) ? std::nullopt : std::optional(read_count<Int>(reader, key));
}

// Of an object that is empty where the run did not come so far.
template <class Read>
auto read_if_any(JsonReader& reader, const std::string& key, Read read) {
  JsonReader object = reader.object(key);
  return object.keys().empty() ? std::nullopt : std::optional(read(object));
}

template <class Part>
Json json_if_any(const std::optional<Part>& part) {
  return part ? to_json(*part) : Json::object();
}

// Of a list: what `read` makes of every element.
template <class Read>
auto read_list(JsonReader& reader, const std::string& key, Read read) {
  JsonReader list = reader.list(key);
  std::vector<decltype(read(list, key))> result;
  for (const std::string& index : list.keys()) result.push_back(read(list, index));
  return result;
}

MemorySplit read_split(JsonReader& list, const std::string& index) {
  JsonReader fields = list.object(index);
  MemorySplit split;
  split.total = read_count<std::int64_t>(fields, "total");
  split.weights = read_count<std::int64_t>(fields, "weights");
  split.versions = read_count<std::int64_t>(fields, "versions");
  split.gradients = read_count<std::int64_t>(fields, "gradients");
  split.optimizer = read_count<std::int64_t>(fields, "optimizer");
  split.activations = read_count<std::int64_t>(fields, "activations");
  split.buffers = read_count<std::int64_t>(fields, "buffers");
  if (fields.has("host")) split.host = read_count<std::int64_t>(fields, "host");
  no_other_fields(fields);
  return split;
}

CurvePoint read_point(JsonReader& list, const std::string& index) {
  JsonReader fields = list.object(index);
  CurvePoint point;
  point.step = read_count<std::int64_t>(fields, "step");
  point.seconds = fields.any_number("seconds");
  point.loss = fields.any_number_or_null("loss");
  point.metric = fields.any_number_or_null("metric");
  if (fields.has("extra")) {
    JsonReader extra = fields.object("extra");
    for (const std::string& name : extra.keys()) point.extra[name] = extra.any_number(name);
  }
  no_other_fields(fields);
  return point;
}

TimelineOp read_op(JsonReader& list, const std::string& index) {
  JsonReader fields = list.object(index);
  TimelineOp op;
  op.rank = read_count<int>(fields, "rank");
  op.op = fields.text("op");
  op.start = fields.any_number("start");
  op.end = fields.any_number("end");
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (fields.has("version")) op.version = fields.integer<std::int64_t>("version", -most, most);
  if (fields.has("to")) op.to = read_count<int>(fields, "to");
  no_other_fields(fields);
  return op;
}

void read_options(JsonReader options, Record& record) {
  for (const std::string& name : options.keys()) {
    if (name != "optimizer") {
      record.options[name] = options.text(name);
      continue;
    }
    JsonReader optimizer = options.object(name);
    record.optimizer = read_recorded_optimizer(optimizer);
  }
}

}  // namespace

Json options_json(const Record& record) {
  Json options = record.options;
  if (record.optimizer) options["optimizer"] = to_json(*record.optimizer);
  return options;
}

Json to_json(const Record& record) {
  Json steps = Json::array();
  for (const double seconds : record.step_seconds) steps.push_back(number(seconds));
  Json value = {
      {"schema", kRecordSchema},
      {"digest", record.digest},
      {"system", record.system},
      {"options", options_json(record)},
      {"workload", record.workload},
      {"workload_facts", json_if_any(record.workload_facts)},
      {"cluster", record.cluster},
      {"clock", choice_name(record.clock)},
      {"transport", record.transport},
      {"device", record.device},
      {"ranks", record.ranks},
      {"batch", record.batch},
      {"microbatches", record.microbatches},
      {"seed", record.seed},
      {"purpose", choice_name(record.purpose)},
      {"tuning", json_if_any(record.tuning)},
      {"outcome", choice_name(record.outcome)},
      {"reason", record.reason},
      {"diverged_at", record.diverged_at ? Json(*record.diverged_at) : Json(nullptr)},
      {"failed_rank", record.failed_rank ? Json(*record.failed_rank) : Json(nullptr)},
      {"step_seconds", std::move(steps)},
      {"warmup_steps", record.warmup_steps},
      {"samples_per_step", record.samples_per_step},
      {"updates_per_epoch", record.updates_per_epoch},
      {"curve", to_array(record.curve)},
      {"peak_bytes", to_array(record.peak_bytes)},
      {"predicted_peak_bytes", to_array(record.predicted_peak_bytes)},
      {"cost_source", record.cost_source},
      {"theory", json_if_any(record.theory)},
      {"observed", to_json(record.observed)},
      {"plan", json_if_any(record.plan)},
      {"planning_seconds", number(record.planning_seconds)},
      {"timeline", to_array(record.timeline)},
      {"environment", to_json(record.environment)},
  };
  if (record.curve_of) value["curve_of"] = to_json(*record.curve_of);
  return value;
}

Record record_from_json(const Json& value, const std::string& where) {
  static const std::array<std::string, 2> schemas = {kRecordSchema, kFirstRecordSchema};
  JsonReader fields(value, where, "", kAdvice);
  const std::string schema = fields.text("schema");
  const bool first_version = schema == kFirstRecordSchema;
  if (!first_version && schema != kRecordSchema)
    fields.fail("schema", "'" + schema + "' is not a schema", suggestion(schema, schemas));
  Record record;
  record.digest = fields.text("digest");
  record.system = fields.text("system");
  read_options(fields.object("options"), record);
  record.workload = fields.text("workload");
  record.workload_facts = read_if_any(fields, "workload_facts", read_workload_facts);
  record.cluster = fields.text("cluster");
  record.clock = read_named<Clock>(fields, "clock");
  record.transport = fields.text("transport");
  record.device = fields.text("device");
  record.ranks = read_count<int>(fields, "ranks");
  record.batch = read_count<std::int64_t>(fields, "batch");
  record.microbatches = read_count<int>(fields, "microbatches");
  record.seed = read_count<std::uint64_t>(fields, "seed");
  if (!first_version) {
    record.purpose = read_named<Purpose>(fields, "purpose");
    record.tuning = read_if_any(fields, "tuning", read_tuning);
    record.diverged_at = count_or_null<std::int64_t>(fields, "diverged_at");
  }
  record.outcome = read_named<RecordOutcome>(fields, "outcome");
  record.reason = fields.text("reason");
  record.failed_rank = count_or_null<int>(fields, "failed_rank");
  record.step_seconds = read_steps(fields, "step_seconds");
  record.warmup_steps = read_count<int>(fields, "warmup_steps");
  record.samples_per_step = read_count<std::int64_t>(fields, "samples_per_step");
  record.updates_per_epoch = read_count<std::int64_t>(fields, "updates_per_epoch");
  record.curve = read_list(fields, "curve", read_point);
  if (fields.has("curve_of")) {
    JsonReader other = fields.object("curve_of");
    record.curve_of = read_curve_of(other);
  }
  record.peak_bytes = read_list(fields, "peak_bytes", read_split);
  record.predicted_peak_bytes = read_list(fields, "predicted_peak_bytes", read_split);
  record.cost_source = fields.text("cost_source");
  record.theory = read_if_any(fields, "theory", read_theory);
  JsonReader observed = fields.object("observed");
  record.observed = read_observed(observed);
  record.plan = read_if_any(fields, "plan", read_plan_description);
  record.planning_seconds = fields.any_number("planning_seconds");
  record.timeline = read_list(fields, "timeline", read_op);
  JsonReader environment = fields.object("environment");
  record.environment = read_environment(environment);
  no_other_fields(fields);
  return record;
}

}  // namespace sluice
