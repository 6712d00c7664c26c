// Records to JSON and back. Reading is strict: a field that is missing, of the wrong type, out of its range or unknown
// is an error that names the line and the field, because a record that is read halfway would end as a wrong number in a
// chart. results/record.schema.json says the same in JSON Schema; record_test.cpp holds the two together.
#include "results/record.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/error.h"

namespace sluice {
namespace {

using nlohmann::json;

// JSON has no NaN and no infinity, but a diverged run has both, and that it diverged is a result.
json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

json number(const std::optional<double>& value) { return value ? number(*value) : json(nullptr); }

json to_json(const MemorySplit& split) {
  return {{"total", split.total},         {"weights", split.weights},     {"versions", split.versions},
          {"gradients", split.gradients}, {"optimizer", split.optimizer}, {"activations", split.activations},
          {"buffers", split.buffers}};
}

json to_json(const CurvePoint& point) {
  json value = {{"step", point.step},
                {"seconds", number(point.seconds)},
                {"loss", number(point.loss)},
                {"metric", number(point.metric)}};
  for (const auto& [name, extra] : point.extra) value["extra"][name] = number(extra);
  return value;
}

json to_json(const TimelineOp& op) {
  return {{"rank", op.rank}, {"op", op.op}, {"start", number(op.start)}, {"end", number(op.end)}};
}

template <class T>
json to_array(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

// The fields of one JSON object, each asked for once; finish() refuses those nobody asked for.
class Fields {
 public:
  Fields(const json& object, const std::string& where, const std::string& pointer)
      : object_(object), where_(where), pointer_(pointer) {
    if (!object.is_object()) wrong(where, pointer, "an object", object);
  }

  std::string text(const std::string& name) {
    const json& value = get(name);
    if (!value.is_string()) wrong(name, "a string", value);
    return value.get<std::string>();
  }

  std::string one_of(const std::string& name, std::span<const std::string> allowed) {
    std::string value = text(name);
    for (const std::string& candidate : allowed)
      if (value == candidate) return value;
    throw InputError(at(name), "'" + value + "' is not a " + name, suggestion(value, allowed));
  }

  template <class Int>
  Int count(const std::string& name) {
    const json& value = get(name);
    if (!value.is_number_integer()) wrong(name, "a whole number", value);
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Int>::max())
                          : value.get<std::int64_t>() >= 0;
    if (!fits) throw InputError(at(name), value.dump() + " is out of range", kAdvice);
    return value.get<Int>();
  }

  double real(const std::string& name) { return real(name, get(name)); }

  std::optional<double> maybe_real(const std::string& name) {
    const json& value = get(name);
    if (value.is_null()) return std::nullopt;
    return real(name, value);
  }

  template <class Int>
  std::optional<Int> maybe_count(const std::string& name) {
    if (get(name).is_null()) return std::nullopt;
    return count<Int>(name);
  }

  json object(const std::string& name) {
    const json& value = get(name);
    if (!value.is_object()) wrong(name, "an object", value);
    return value;
  }

  template <class Read>  // Read: (element, its pointer) -> T
  auto array(const std::string& name, Read read) {
    const json& value = get(name);
    if (!value.is_array()) wrong(name, "an array", value);
    std::vector<decltype(read(value, name))> result;
    result.reserve(value.size());
    for (std::size_t i = 0; i < value.size(); ++i)
      result.push_back(read(value[i], pointer_ + "/" + name + "/" + std::to_string(i)));
    return result;
  }

  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (!asked_.contains(name))
        throw InputError(at(name), "unknown field",
                         "is the file from a newer version of sluice? This one reads " + std::string(kRecordSchema));
    }
  }

  static double real(const std::string& where, const std::string& pointer, const json& value) {
    if (value.is_number()) return value.get<double>();
    if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (value == "Infinity") return std::numeric_limits<double>::infinity();
    if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
    wrong(where, pointer, "a number", value);
  }

 private:
  static constexpr const char* kAdvice = "remove the line, or run the case again";

  [[noreturn]] static void wrong(const std::string& where, const std::string& pointer, const std::string& expected,
                                 const json& found) {
    throw InputError(where + ": " + (pointer.empty() ? "/" : pointer),
                     "expected " + expected + ", found " + found.type_name(), kAdvice);
  }
  [[noreturn]] void wrong(const std::string& name, const std::string& expected, const json& found) const {
    wrong(where_, pointer_ + "/" + name, expected, found);
  }

  double real(const std::string& name, const json& value) const { return real(where_, pointer_ + "/" + name, value); }

  std::string at(const std::string& name) const { return where_ + ": " + pointer_ + "/" + name; }

  const json& get(const std::string& name) {
    asked_.insert(name);
    const auto found = object_.find(name);
    if (found == object_.end()) throw InputError(at(name), "the field is missing", kAdvice);
    return *found;
  }

  const json& object_;
  std::string where_, pointer_;
  std::set<std::string> asked_;
};

MemorySplit split_from_json(const json& value, const std::string& where, const std::string& pointer) {
  Fields fields(value, where, pointer);
  MemorySplit split;
  split.total = fields.count<std::int64_t>("total");
  split.weights = fields.count<std::int64_t>("weights");
  split.versions = fields.count<std::int64_t>("versions");
  split.gradients = fields.count<std::int64_t>("gradients");
  split.optimizer = fields.count<std::int64_t>("optimizer");
  split.activations = fields.count<std::int64_t>("activations");
  split.buffers = fields.count<std::int64_t>("buffers");
  fields.finish();
  return split;
}

CurvePoint point_from_json(const json& value, const std::string& where, const std::string& pointer) {
  Fields fields(value, where, pointer);
  CurvePoint point;
  point.step = fields.count<std::int64_t>("step");
  point.seconds = fields.real("seconds");
  point.loss = fields.maybe_real("loss");
  point.metric = fields.maybe_real("metric");
  if (value.contains("extra")) {
    const json extra = fields.object("extra");
    for (const auto& [name, metric] : extra.items())
      point.extra[name] = Fields::real(where, pointer + "/extra/" + name, metric);
  }
  fields.finish();
  return point;
}

TimelineOp op_from_json(const json& value, const std::string& where, const std::string& pointer) {
  Fields fields(value, where, pointer);
  TimelineOp op;
  op.rank = fields.count<int>("rank");
  op.op = fields.text("op");
  op.start = fields.real("start");
  op.end = fields.real("end");
  fields.finish();
  return op;
}

}  // namespace

json to_json(const Record& record) {
  json steps = json::array();
  for (const double seconds : record.step_seconds) steps.push_back(number(seconds));
  return {
      {"schema", kRecordSchema},
      {"digest", record.digest},
      {"system", record.system},
      {"options", record.options},
      {"workload", record.workload},
      {"workload_facts", record.workload_facts},
      {"cluster", record.cluster},
      {"clock", record.clock},
      {"transport", record.transport},
      {"device", record.device},
      {"ranks", record.ranks},
      {"batch", record.batch},
      {"microbatches", record.microbatches},
      {"seed", record.seed},
      {"purpose", record.purpose},
      {"tuning", record.tuning},
      {"outcome", record.outcome},
      {"reason", record.reason},
      {"diverged_at", record.diverged_at ? json(*record.diverged_at) : json(nullptr)},
      {"failed_rank", record.failed_rank ? json(*record.failed_rank) : json(nullptr)},
      {"step_seconds", std::move(steps)},
      {"warmup_steps", record.warmup_steps},
      {"samples_per_step", record.samples_per_step},
      {"updates_per_epoch", record.updates_per_epoch},
      {"curve", to_array(record.curve)},
      {"peak_bytes", to_array(record.peak_bytes)},
      {"predicted_peak_bytes", to_array(record.predicted_peak_bytes)},
      {"cost_source", record.cost_source},
      {"theory", record.theory},
      {"observed", record.observed},
      {"plan", record.plan},
      {"planning_seconds", number(record.planning_seconds)},
      {"timeline", to_array(record.timeline)},
      {"environment", record.environment},
  };
}

Record record_from_json(const json& value, const std::string& where) {
  static const std::array<std::string, 2> schemas = {kRecordSchema, kFirstRecordSchema};
  static const std::array<std::string, 2> clocks = {"wall", "virtual"};
  static const std::array<std::string, 6> outcomes = {"ok",        "diverged",    "failed",
                                                      "timed_out", "unsupported", "out_of_memory"};
  static const std::array<std::string, 3> purposes = {"measure", "tune", "boundary"};
  const auto split = [&](const json& v, const std::string& p) { return split_from_json(v, where, p); };
  Fields fields(value, where, "");
  const bool first_version = fields.one_of("schema", schemas) == kFirstRecordSchema;
  Record record;
  record.digest = fields.text("digest");
  record.system = fields.text("system");
  record.options = fields.object("options");
  record.workload = fields.text("workload");
  record.workload_facts = fields.object("workload_facts");
  record.cluster = fields.text("cluster");
  record.clock = fields.one_of("clock", clocks);
  record.transport = fields.text("transport");
  record.device = fields.text("device");
  record.ranks = fields.count<int>("ranks");
  record.batch = fields.count<std::int64_t>("batch");
  record.microbatches = fields.count<int>("microbatches");
  record.seed = fields.count<std::uint64_t>("seed");
  if (!first_version) {
    record.purpose = fields.one_of("purpose", purposes);
    record.tuning = fields.object("tuning");
    record.diverged_at = fields.maybe_count<std::int64_t>("diverged_at");
  }
  record.outcome = fields.one_of("outcome", outcomes);
  record.reason = fields.text("reason");
  record.failed_rank = fields.maybe_count<int>("failed_rank");
  record.step_seconds =
      fields.array("step_seconds", [&](const json& v, const std::string& p) { return Fields::real(where, p, v); });
  record.warmup_steps = fields.count<int>("warmup_steps");
  record.samples_per_step = fields.count<std::int64_t>("samples_per_step");
  record.updates_per_epoch = fields.count<std::int64_t>("updates_per_epoch");
  record.curve =
      fields.array("curve", [&](const json& v, const std::string& p) { return point_from_json(v, where, p); });
  record.peak_bytes = fields.array("peak_bytes", split);
  record.predicted_peak_bytes = fields.array("predicted_peak_bytes", split);
  record.cost_source = fields.text("cost_source");
  record.theory = fields.object("theory");
  record.observed = fields.object("observed");
  record.plan = fields.object("plan");
  record.planning_seconds = fields.real("planning_seconds");
  record.timeline =
      fields.array("timeline", [&](const json& v, const std::string& p) { return op_from_json(v, where, p); });
  record.environment = fields.object("environment");
  fields.finish();
  return record;
}

}  // namespace sluice
