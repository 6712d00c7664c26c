// See fields.h.
#include "results/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "harness/base/quantities.h"
#include "results/metrics.h"
#include "results/part_fields.h"
#include "results/plan_facts.h"
#include "results/seal.h"
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
  if (is_single<T>) field.column = name;
  if (is_single<T> && !std::same_as<T, std::string> && !ClosedChoice<T>) field.unit = Unit::count;
  if constexpr (is_single<T>)
    field.get = [member](const Record& r) { return cell_of(r.*member); };
  else if constexpr (is_optional<T>)
    if constexpr (is_single<typename T::value_type>) {
      field.column = name;
      field.get = [member](const Record& r) { return r.*member ? cell_of(*(r.*member)) : FlatCell(); };
    }
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

TimelineColumns columns_of(const std::vector<TimelineOp>& ops) {
  TimelineColumns columns;
  for (const TimelineOp& op : ops) {
    columns.rank.push_back(op.rank);
    columns.op.push_back(op.op);
    columns.start.push_back(op.start);
    columns.end.push_back(op.end);
  }
  if (std::ranges::any_of(ops, [](const TimelineOp& op) { return op.version.has_value(); }))
    std::ranges::transform(ops, std::back_inserter(columns.version), &TimelineOp::version);
  if (std::ranges::any_of(ops, [](const TimelineOp& op) { return op.to.has_value(); }))
    std::ranges::transform(ops, std::back_inserter(columns.to), &TimelineOp::to);
  if (std::ranges::any_of(ops, [](const TimelineOp& op) { return op.bytes.has_value(); }))
    std::ranges::transform(ops, std::back_inserter(columns.bytes), &TimelineOp::bytes);
  return columns;
}

std::vector<TimelineOp> ops_of(TimelineColumns columns) {
  std::vector<TimelineOp> ops;
  for (std::size_t k = 0; k < columns.rank.size(); ++k) {
    ops.push_back({columns.rank[k], std::move(columns.op[k]), columns.start[k], columns.end[k]});
    if (!columns.version.empty()) ops.back().version = columns.version[k];
    if (!columns.to.empty()) ops.back().to = columns.to[k];
    if (!columns.bytes.empty()) ops.back().bytes = columns.bytes[k];
  }
  return ops;
}

// Columns; none: an empty list. A list of ops, as older records hold it, is read too.
Field timeline() {
  Field field{.name = "timeline", .kind = measurement};
  field.write = [](FieldWriter& writer, const Record& r) {
    writer.json()["timeline"] = r.timeline.empty() ? Json::array() : write_fields(columns_of(r.timeline));
  };
  field.read = [](FieldReader& reader, Record& r) {
    if (!reader.in().raw("timeline").is_object()) return reader("timeline", r.timeline);
    TimelineColumns columns;
    reader("timeline", columns);
    r.timeline = ops_of(std::move(columns));
  };
  field.describe = [](FieldSchema& schema) {
    schema.require("timeline");
    schema.describe(
        "timeline", {{"anyOf", Json::array({schema_of<TimelineColumns>({}), schema_of<std::vector<TimelineOp>>({})})}},
        {"One steady step, or the first 3 P batches; empty where it was left out (sluice run --timelines)."});
  };
  return field;
}

template <class Get>
Field computed(const char* name, const char* column, Get get, Unit unit = Unit::text, Better better = Better::none,
               const char* heading = "") {
  return {.name = name,
          .kind = derived,
          .get = [get](const Record& r) { return flat(get(r)); },
          .column = column,
          .heading = heading,
          .unit = unit,
          .better = better};
}

Field sortable(Field field, Unit unit, const char* heading) {
  field.unit = unit;
  field.better = Better::lower;
  field.heading = heading;
  return field;
}

Field formerly(const char* name, Field field) {
  field.former_name = name;
  return field;
}

using Figure = std::optional<double>;

Figure interval_end(const Record& r, double Interval::*end) {
  const auto rate = throughput(r);
  return rate && rate->interval ? Figure(*rate->interval.*end) : std::nullopt;
}

Figure median_step(const Record& r) {
  const auto rate = throughput(r);
  return rate ? Figure(rate->median_step) : std::nullopt;
}

Figure period(const Record& r) {
  const auto rate = samples_per_second(r);
  return rate ? Figure(static_cast<double>(r.batch) / r.microbatches / *rate) : std::nullopt;
}

Figure of_latency(const Record& r, double Latency::*which) {
  const auto found = latency(r);
  return found ? Figure(*found.*which) : std::nullopt;
}

template <SentKind kind>
std::optional<std::int64_t> sent(const Record& r) {
  return max_sent(r, kind);
}

// Of model_rates().
template <class Get>
auto of_rates(Get get) {
  return [get](const Record& r) -> Figure {
    const auto rates = model_rates(r);
    return rates ? Figure(get(*rates)) : std::nullopt;
  };
}

double run_seconds(const Record& r) { return std::accumulate(r.step_seconds.begin(), r.step_seconds.end(), 0.0); }

// What the search that made the plan says of it.
template <class Get>
auto of_search(Get get) {
  return [get](const Record& r) -> Figure {
    const auto facts = plan_facts(r);
    return facts ? Figure(get(*facts)) : std::nullopt;
  };
}

Figure planned_period(const Record& r) {
  const auto facts = plan_facts(r);
  const bool is_period = facts && facts->objective_name.find("seconds a micro-batch") != std::string::npos;
  return is_period ? Figure(facts->objective) : std::nullopt;
}

// What an adaptive system's run records of its moves; none of a system that has no say in them.
template <class Get>
auto of_adaptation(Get get) {
  return [get](const Record& r) -> Figure {
    const auto& adaptation = r.observed.adaptation;
    return adaptation ? Figure(get(*adaptation)) : std::nullopt;
  };
}

Figure regret(const Record& r) {
  const auto& adaptation = r.observed.adaptation;
  if (!adaptation || !adaptation->oracle_seconds) return std::nullopt;
  return run_seconds(r) - *adaptation->oracle_seconds;
}

Figure longest_answer(const Record& r, double RecordedAdaptation::Answer::*seconds) {
  Figure longest;
  if (r.observed.adaptation)
    for (const auto& answer : r.observed.adaptation->answered) longest = std::max(longest.value_or(0), answer.*seconds);
  return longest;
}

}  // namespace

const char* unit_name(Unit unit) {
  static const std::map<Unit, const char*> names = {{Unit::rate, "samples/s"},
                                                    {Unit::token_rate, "tokens/s"},
                                                    {Unit::tflops, "TFLOP/s"},
                                                    {Unit::seconds, "seconds"},
                                                    {Unit::bytes, "bytes"}};
  const auto name = names.find(unit);
  return name == names.end() ? "" : name->second;
}

std::string to_text(Unit unit, double value) {
  switch (unit) {
    case Unit::rate:
    case Unit::token_rate:
    case Unit::tflops:
      return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
    case Unit::seconds:
      return to_text(Seconds(value));
    case Unit::bytes:
      return to_text(Bytes(static_cast<std::int64_t>(value)));
    case Unit::share:
      return fmt::format("{:.1f} %", 100 * value);
    case Unit::metric:
      return fmt::format("{:.4g}", value);
    case Unit::completion:
      return value > 0 ? "complete" : "capped";
    case Unit::text:
    case Unit::count:
    case Unit::states:
      break;
  }
  return fmt::format("{:g}", value);
}

std::optional<double> Field::value(const Record& record) const {
  const FlatCell cell = get ? get(record) : FlatCell();
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::vector<const Field*> metrics() {
  std::vector<const Field*> result;
  for (const Field& field : record_fields())
    if (field.better != Better::none) result.push_back(&field);
  return result;
}

bool higher_is_better(const Field& field, const Record& like) {
  return field.better == Better::higher || (field.better == Better::as_workload && !lower_is_better(like));
}

const Field* find_field(std::string_view name) {
  for (const Field& field : record_fields())
    if (field.name == name || (!name.empty() && field.former_name == name)) return &field;
  return nullptr;
}

std::optional<Spread> spread(const Field& field, std::span<const Record> seeds) {
  std::vector<double> values;
  for (const Record& record : seeds) {
    if (field.better != Better::none && !has_metrics(record)) continue;
    if (const auto value = field.value(record)) values.push_back(*value);
  }
  return spread(values);
}

const std::vector<Field>& record_fields() {
  using enum In;
  using enum Unit;
  using enum Better;
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
      formerly("micro_batches", stored("microbatches", setting, &Record::microbatches, {"Per update."})),
      stored("seed", setting, &Record::seed),
      options(),
      stored("purpose", setting, &Record::purpose,
             {"measure: compared and drawn; tune: a candidate of a learning-rate search; boundary: a point of a "
              "divergence boundary."}),
      stored<line_or_empty>("workload_facts", setting, &Record::workload_facts,
                            {"What was trained, for how long, and the target of its metric."}),
      stored<line_or_absent>("work", setting, &Record::work,
                             {"What tokens/s, TFLOP/s and MFU are computed from; older records have none."}),
      stored<line_or_empty>("tuning", setting, &Record::tuning,
                            {"How the learning rate was tuned, for epochs or steps; empty where it was given."}),
      computed("learning_rate", "learning_rate", learning_rate, count),
      computed("tuned", "tuned", [](const Record& r) { return r.tuning ? "yes" : "no"; }),
      stored("outcome", measurement, &Record::outcome),
      stored("reason", measurement, &Record::reason, {"Empty for ok."}),
      stored("diverged_at", measurement, &Record::diverged_at, {"The update, from 1, whose loss was not finite."}),
      stored("failed_rank", measurement, &Record::failed_rank),
      computed(
          "steps", "steps", [](const Record& r) { return r.step_seconds.size(); }, count),
      step_seconds(),
      stored("warmup_steps", measurement, &Record::warmup_steps, {"Steps that the throughput leaves out."}),
      stored("samples_per_step", measurement, &Record::samples_per_step),
      stored("updates_per_epoch", measurement, &Record::updates_per_epoch),
      computed("throughput", "samples_per_second", samples_per_second, rate, higher, "samples/s"),
      computed(
          "throughput_low", "samples_per_second_low", [](const Record& r) { return interval_end(r, &Interval::low); },
          rate),
      computed(
          "throughput_high", "samples_per_second_high",
          [](const Record& r) { return interval_end(r, &Interval::high); }, rate),
      computed("tokens_per_second", "tokens_per_second",
               of_rates([](const ModelRates& rates) { return rates.tokens_per_second; }), token_rate, higher,
               "tokens/s"),
      computed("tflops_per_device", "tflops_per_device",
               of_rates([](const ModelRates& rates) { return rates.tflops_per_device; }), tflops, higher,
               "TFLOP/s/device"),
      computed("mfu", "mfu", of_rates([](const ModelRates& rates) { return rates.mfu; }), share, higher, "MFU"),
      computed(
          "latency", "latency_seconds", [](const Record& r) { return of_latency(r, &Latency::median); }, seconds, lower,
          "latency"),
      computed(
          "latency_95", "latency_95_seconds", [](const Record& r) { return of_latency(r, &Latency::percentile_95); },
          seconds, lower, "95th percentile"),
      computed(
          "update_seconds", "update_seconds", [](const Record& r) { return update_seconds(r); }, seconds, lower,
          "update"),
      computed("median_step_seconds", "median_step_seconds", median_step, seconds),
      computed("period", "period_seconds", period, seconds, lower, "period"),
      computed("planned_period", "planned_period_seconds", planned_period, seconds, lower, "planned period"),
      formerly("memory", computed("peak_memory", "peak_bytes", peak_memory, bytes, lower, "peak")),
      computed("bubble", "bubble_ratio", bubble_ratio, share, lower, "bubble"),
      computed(
          "sent_bytes", "sent_bytes", [](const Record& r) { return max_sent(r); }, bytes, lower, "sent/rank"),
      computed("sent_messages", "sent_messages_bytes", sent<SentKind::messages>, bytes, lower, "messages/rank"),
      computed("sent_gathers", "sent_gathers_bytes", sent<SentKind::gathers>, bytes, lower, "gathers/rank"),
      computed("sent_reductions", "sent_reductions_bytes", sent<SentKind::reductions>, bytes, lower, "reductions/rank"),
      stored("curve", measurement, &Record::curve),
      stored<line_or_absent>("curve_of", measurement, &Record::curve_of,
                             {"The case whose training gave the losses and evaluations: it computes the same."}),
      computed("metric", "metric", metric_name),
      computed("target", "target", target, Unit::metric),
      computed("time_to_accuracy", "seconds_to_target", time_to_accuracy, seconds, lower, "time to target"),
      formerly("time_without_drain", computed("time_to_accuracy_without_drain", "seconds_to_target_without_drain",
                                              time_to_accuracy_without_drain, seconds, lower, "without drain")),
      computed("final_metric", "final_metric", final_metric, Unit::metric, as_workload, "final metric"),
      computed("best_metric", "best_metric", best_metric, Unit::metric),
      computed("run_seconds", "run_seconds", run_seconds, seconds, lower, "run"),
      computed("moves", "moves", of_adaptation([](const auto& a) { return a.changes.size(); }), count, lower, "moves"),
      computed("moved_bytes", "moved_bytes", of_adaptation([](const auto& a) { return a.moved_bytes; }), bytes, lower,
               "moved"),
      computed(
          "seconds_to_detect", "seconds_to_detect",
          [](const Record& r) { return longest_answer(r, &RecordedAdaptation::Answer::seconds_to_detect); }, seconds,
          lower, "to detect"),
      computed(
          "seconds_to_recover", "seconds_to_recover",
          [](const Record& r) { return longest_answer(r, &RecordedAdaptation::Answer::seconds_to_recover); }, seconds,
          lower, "to recover"),
      computed("regret", "regret_seconds", regret, seconds, lower, "regret"),
      stored("peak_bytes", measurement, &Record::peak_bytes, {"Per rank; on the virtual clock predicted."}),
      stored("predicted_peak_bytes", prediction, &Record::predicted_peak_bytes),
      stored<line_or_empty>("theory", prediction, &Record::theory, {"What the system's paper promises."}),
      stored("observed", measurement, &Record::observed, {"The same as simulated or measured, and more."}),
      stored<line_or_empty>("plan", prediction, &Record::plan, {"The plan, as sluice plan --json writes it."}),
      computed("search_seconds", "search_seconds", of_search([](const PlanFacts& f) { return f.search_seconds; }),
               seconds, lower, "search"),
      computed("search_end", "search_complete", of_search([](const PlanFacts& f) { return f.complete ? 1 : 0; }),
               completion, higher, "search end"),
      computed("states", "search_states", of_search([](const PlanFacts& f) { return f.states; }), states, lower,
               "states"),
      sortable(stored("planning_seconds", measurement, &Record::planning_seconds), seconds, "planning"),
      timeline(),
      stored("environment", measurement, &Record::environment, {"Of the machine and the program: all of it or none."}),
  };
  return fields;
}

Json record_schema() {
  FieldSchema schema;
  schema.require("schema");
  schema.describe("schema", {{"const", kRecordSchema}}, {});
  for (const Field& field : record_fields())
    if (field.describe) field.describe(schema);
  Json json = schema.take();
  json["properties"][kSeal] = {{"type", "string"}, {"description", "A hash of the other members (results/seal.h)."}};
  json["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  json["$id"] = "https://sluice.invalid/results/record.schema.json";
  json["title"] = "Sluice record";
  json["description"] = "One run: one line of a results file. Made from results/fields.cpp.";
  json["$defs"]["number"] = {
      {"description", "JSON has no NaN and no infinity; a diverged run has."},
      {"anyOf", Json::array({{{"type", "number"}}, {{"enum", Json::array({"NaN", "Infinity", "-Infinity"})}}})}};
  return json;
}

}  // namespace sluice
