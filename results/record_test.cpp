// A record survives the way to JSON and back whatever is in it, what is not a record is refused by name, and the reader
// and record.schema.json know the same fields.
#include "results/record.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "harness/base/error.h"

namespace sluice {
namespace {

using nlohmann::json;

std::string any_text() {
  // UTF-8 with quotes, line ends and a non-ASCII letter; JSON has no place for stray bytes.
  static const std::vector<std::string> pieces = {"a", "B", "\"", "\\", "\n", ",", "ü", "0", " "};
  std::string text;
  for (const auto& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))) text += piece;
  return text;
}
std::int64_t any_count() { return *rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max()); }
int any_int() { return *rc::gen::inRange(0, 1 << 30); }
double any_real() { return *rc::gen::arbitrary<double>(); }
std::optional<double> maybe_real() { return *rc::gen::arbitrary<bool>() ? std::optional(any_real()) : std::nullopt; }
json any_object() { return {{any_text(), any_int()}, {"list", {any_real(), any_text(), nullptr}}}; }
MemorySplit any_split() {
  return {.total = any_count(),
          .weights = any_count(),
          .versions = any_count(),
          .gradients = any_count(),
          .optimizer = any_count(),
          .activations = any_count(),
          .buffers = any_count()};
}

Record any_record() {
  Record r;
  r.digest = any_text();
  r.system = any_text();
  r.options = any_object();
  r.workload = any_text();
  r.workload_facts = any_object();
  r.cluster = any_text();
  r.clock = *rc::gen::element<std::string>("wall", "virtual");
  r.transport = any_text();
  r.device = any_text();
  r.ranks = any_int();
  r.batch = any_count();
  r.microbatches = any_int();
  r.seed = *rc::gen::arbitrary<std::uint64_t>();
  r.outcome = *rc::gen::element<std::string>("ok", "diverged", "failed", "timed_out", "unsupported", "out_of_memory");
  if (*rc::gen::arbitrary<bool>()) r.diverged_at = any_count();
  r.purpose = *rc::gen::element<std::string>("measure", "tune", "boundary");
  r.tuning = any_object();
  r.reason = any_text();
  if (*rc::gen::arbitrary<bool>()) r.failed_rank = any_int();
  r.step_seconds = *rc::gen::arbitrary<std::vector<double>>();
  r.warmup_steps = any_int();
  r.samples_per_step = any_count();
  r.updates_per_epoch = any_count();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    r.curve.push_back({any_count(), any_real(), maybe_real(), maybe_real()});
    if (*rc::gen::arbitrary<bool>()) r.curve.back().extra["bleu"] = any_real();
    r.peak_bytes.push_back(any_split());
    r.predicted_peak_bytes.push_back(any_split());
    r.timeline.push_back({any_int(), any_text(), any_real(), any_real()});
  }
  r.cost_source = any_text();
  r.theory = any_object();
  r.observed = any_object();
  r.plan = any_object();
  r.planning_seconds = any_real();
  r.environment = any_object();
  return r;
}

std::string message_of(const json& value) {
  try {
    record_from_json(value, "runs.jsonl:7");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

json valid() {
  Record r;
  r.digest = "0123456789abcdef";
  r.system = "gpipe";
  r.workload = "mlp";
  r.clock = "wall";
  r.curve = {{10, 1.5, 0.7, std::nullopt}};
  r.peak_bytes = {{.total = 5, .weights = 5}};
  r.timeline = {{0, "0F0", 0, 1}};
  return to_json(r);
}

RC_GTEST_PROP(Record, SurvivesJsonAndText, ()) {
  const json once = to_json(any_record());
  const json read = json::parse(once.dump());
  RC_ASSERT(to_json(record_from_json(read, "x:1")) == once);
}

RC_GTEST_PROP(Record, EveryFieldIsRequiredAndTyped, ()) {
  json value = valid();
  std::vector<std::string> names;
  for (const auto& item : value.items()) names.push_back(item.key());
  const std::string name = *rc::gen::elementOf(names);
  if (*rc::gen::arbitrary<bool>()) {
    value.erase(name);
  } else {
    value[name] = true;
  }
  const std::string message = message_of(value);
  RC_ASSERT(message.starts_with("runs.jsonl:7: /" + name + ": "));
}

TEST(Record, NonFiniteNumbersAreKept) {
  Record r = record_from_json(valid(), "x");
  r.curve = {{1, 2, std::nan(""), std::numeric_limits<double>::infinity()}};
  const Record back = record_from_json(json::parse(to_json(r).dump()), "x");
  EXPECT_TRUE(std::isnan(*back.curve[0].loss));
  EXPECT_TRUE(std::isinf(*back.curve[0].metric));
}

TEST(Record, NamesTheFieldThatIsWrong) {
  json value = valid();
  value["curve"][0]["loss"] = "low";
  EXPECT_EQ(message_of(value),
            "runs.jsonl:7: /curve/0/loss: expected a number, found string; remove the line, or run "
            "the case again");
  value = valid();
  value["peak_bytes"][0].erase("weights");
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /peak_bytes/0/weights: the field"));
  value = valid();
  value["ranks"] = -1;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /ranks: -1 is out of range"));
  value = valid();
  value["ranks"] = std::uint64_t{1} << 40;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /ranks: "));
  value = valid();
  value["clock"] = "vitual";
  EXPECT_NE(message_of(value).find("virtual"), std::string::npos);
  value = valid();
  value["colour"] = 1;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /colour: unknown field"));
  EXPECT_TRUE(message_of(json::array()).starts_with("runs.jsonl:7: /: expected an object"));
}

TEST(Record, SchemaAndReaderKnowTheSameFields) {
  std::ifstream file(SLUICE_SOURCE_DIR "/results/record.schema.json");
  const json schema = json::parse(file);
  const json value = valid();
  const auto same = [](const json& part, const json& sample, std::size_t since_version_2 = 0) {
    EXPECT_EQ(part.at("additionalProperties"), false);
    EXPECT_EQ(part.at("required").size() + since_version_2, sample.size());
    EXPECT_EQ(part.at("properties").size(), sample.size());
    for (const auto& item : sample.items()) EXPECT_TRUE(part.at("properties").contains(item.key())) << item.key();
  };
  json point = schema["properties"]["curve"]["items"];
  EXPECT_EQ(point["properties"].erase("extra"), 1u);  // may be left out
  same(schema, value, schema["then"]["required"].size());
  same(point, value["curve"][0]);
  same(schema["properties"]["timeline"]["items"], value["timeline"][0]);
  same(schema["$defs"]["memory"], value["peak_bytes"][0]);
  EXPECT_EQ(schema["properties"]["schema"]["enum"], (json{kRecordSchema, kFirstRecordSchema}));
  EXPECT_EQ(schema["if"]["properties"]["schema"]["const"], kRecordSchema);
  const auto same_choices = [&](const char* field, const std::vector<std::string>& values) {
    for (const std::string& choice : values) {
      json changed = value;
      changed[field] = choice;
      EXPECT_EQ(message_of(changed), "");
    }
    EXPECT_EQ(schema["properties"][field]["enum"].size(), values.size());
  };
  same_choices("outcome", schema["properties"]["outcome"]["enum"]);
  same_choices("purpose", schema["properties"]["purpose"]["enum"]);
}

TEST(Record, OfTheFirstVersionIsReadAsAMeasurementThatWasNotTuned) {
  json old = valid();
  old["schema"] = kFirstRecordSchema;
  for (const char* field : {"purpose", "tuning", "diverged_at"}) old.erase(field);
  const Record r = record_from_json(old, "x");
  EXPECT_EQ(r.purpose, "measure");
  EXPECT_TRUE(r.tuning.empty());
  EXPECT_EQ(r.diverged_at, std::nullopt);
  EXPECT_EQ(to_json(r)["schema"], kRecordSchema);
  old["purpose"] = "measure";  // no such field in that version
  EXPECT_NE(message_of(old).find("/purpose: unknown field"), std::string::npos);
}

TEST(Record, DivergenceAndTuningSurvive) {
  Record r = record_from_json(valid(), "x");
  r.outcome = "diverged";
  r.diverged_at = 99;
  r.purpose = "tune";
  r.tuning = {{"chosen", 0.05}};
  const Record back = record_from_json(json::parse(to_json(r).dump()), "x");
  EXPECT_EQ(back.diverged_at, 99);
  EXPECT_EQ(back.purpose, "tune");
  EXPECT_EQ(back.tuning["chosen"], 0.05);
}

}  // namespace
}  // namespace sluice
