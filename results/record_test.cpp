// A record survives the way to JSON and back whatever is in it, what is not a record is rejected by name, and the
// reader and record.schema.json is made from the same table.
#include "results/record.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "results/fields.h"
#include "results/step_repeats.h"

namespace sluice {
namespace {

std::string any_text() {
  // UTF-8 with quotes, line ends and a non-ASCII letter; JSON has no place for stray bytes.
  static const std::vector<std::string> pieces = {"a", "B", "\"", "\\", "\n", ",", "ü", "0", " "};
  std::string text;
  for (const auto& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))) text += piece;
  return text;
}
std::int64_t any_count() { return *rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max()); }
int any_int() { return *rc::gen::inRange(0, kMaxCount); }
double any_real() { return *rc::gen::arbitrary<double>(); }
std::optional<double> maybe_real() { return *rc::gen::arbitrary<bool>() ? std::optional(any_real()) : std::nullopt; }
bool any_bool() { return *rc::gen::arbitrary<bool>(); }
std::vector<int> any_ints() { return *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1 << 30)); }
std::vector<std::int64_t> any_counts() { return {any_count(), any_count()}; }
std::vector<std::string> any_texts() { return {any_text(), any_text()}; }
RecordOutcome any_outcome() {
  return *rc::gen::element(RecordOutcome::ok, RecordOutcome::diverged, RecordOutcome::failed, RecordOutcome::timed_out,
                           RecordOutcome::unsupported, RecordOutcome::out_of_memory);
}
// What a record may lack.
template <class Value>
void maybe(std::optional<Value>& value, const std::function<Value()>& any) {
  if (any_bool()) value = any();
}
template <class Any>
auto list_of_any(Any any) {
  std::vector<decltype(any())> list;
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) list.push_back(any());
  return list;
}

WorkloadFacts any_facts() {
  return {.title = any_text(),
          .metric = any_text(),
          .metric_direction = *rc::gen::element(MetricDirection::up, MetricDirection::down),
          .dataset = any_text(),
          .source = any_text(),
          .parameters = any_count(),
          .epochs = any_count(),
          .steps = any_count(),
          .target = maybe_real(),
          .single_device_value = maybe_real()};
}

Tuning any_tuning() {
  Tuning tuning{.grid = {0.1, 0.2}, .criterion = any_text(), .seed = *rc::gen::arbitrary<std::uint64_t>()};
  (any_bool() ? tuning.epochs : tuning.steps) = 1 + any_int();
  if (any_bool()) tuning.seeds = {tuning.seed, 102};
  tuning.rounds = list_of_any([] {
    return any_bool() ? Tuning::Round{.steps = 1 + any_int(), .keep = any_int()}
                      : Tuning::Round{.epochs = 1 + any_int(), .keep = any_int()};
  });
  tuning.chosen = any_real();
  tuning.results = list_of_any([] {
    return Tuning::Candidate{.learning_rate = any_real(),
                             .value = maybe_real(),
                             .outcome = any_outcome(),
                             .digest = any_text(),
                             .round = any_int()};
  });
  return tuning;
}

Theory any_theory() {
  return {.bubble_ratio = maybe_real(), .in_flight = any_ints(), .weight_versions = {}, .staleness = any_ints()};
}

RecordedInterference any_interference() {
  return {.name = any_text(),
          .seed = *rc::gen::arbitrary<std::uint64_t>(),
          .episodes = list_of_any([] {
            return RecordedInterference::Episode{.resource = *rc::gen::element(Resource::compute, Resource::memory,
                                                                               Resource::allocation, Resource::link),
                                                 .device = any_int(),
                                                 .to = any_bool() ? std::optional(any_int()) : std::nullopt,
                                                 .start = any_real(),
                                                 .seconds = maybe_real(),
                                                 .slowdown = any_real()};
          }),
          .op_noise = any_bool() ? 0.25 : 0,
          .latency_jitter = any_bool() ? 0.5 : 0};
}

RecordedAdaptation any_adaptation() {
  RecordedAdaptation a{.window_updates = any_int(),
                       .windows = list_of_any([] {
                         return RecordedAdaptation::Window{.plan = any_int(), .seconds = {0.5, 0.25}};
                       }),
                       .changes = list_of_any([] {
                         return RecordedAdaptation::Change{.update = any_count(),
                                                           .decided_seconds = any_real(),
                                                           .stopped_seconds = any_real(),
                                                           .seconds = any_real(),
                                                           .bytes = any_real(),
                                                           .restart = any_bool(),
                                                           .stages = {{any_int()}, {any_int(), any_int()}}};
                       }),
                       .moved_bytes = any_real(),
                       .moving_seconds = any_real()};
  if (any_bool()) a.oracle_seconds = any_real();
  if (any_bool()) a.moves = moves_of(a.changes);
  if (!a.changes.empty())
    a.answered = list_of_any([] { return RecordedAdaptation::Answer{any_real(), any_real(), any_real()}; });
  return a;
}

Observed any_observed() {
  Observed o;
  maybe<double>(o.bubble_ratio, any_real);
  maybe<double>(o.span_bubble, any_real);
  maybe<std::vector<int>>(o.in_flight, any_ints);
  maybe<std::vector<int>>(o.weight_versions, any_ints);
  maybe<std::vector<int>>(o.staleness, any_ints);
  maybe<SentByRanks>(o.sent_bytes, [] { return SentByRanks{any_counts(), any_counts(), any_counts()}; });
  maybe<double>(o.steady_update_seconds, [] { return 0.5; });
  maybe<std::vector<double>>(o.latency_seconds, [] { return std::vector{0.5, 0.25}; });
  maybe<std::string>(o.output_digest, any_text);
  maybe<std::string>(o.weight_gradient, any_text);
  maybe<RecordedInterference>(o.interference, any_interference);
  maybe<RecordedAdaptation>(o.adaptation, any_adaptation);
  return o;
}

PlanDescription any_plan() {
  PlanDescription plan{.system = any_text(),
                       .objective = maybe_real(),
                       .objective_name = any_text(),
                       .micro_batch = any_count(),
                       .states = any_count(),
                       .search_seconds = any_real(),
                       .complete = any_bool()};
  plan.stages = list_of_any([] {
    PlanDescription::Stage stage{
        .devices = any_ints(), .data = any_int(), .tensor = any_int(), .recompute = any_bool()};
    maybe<std::vector<int>>(stage.layers, any_ints);
    if (any_bool()) stage.variants = any_texts();
    maybe<int>(stage.weight_gradient_device, any_int);
    maybe<std::int64_t>(stage.micro_batch, any_count);
    return stage;
  });
  plan.edges = list_of_any([] { return std::pair(any_int(), any_int()); });
  plan.simulated_seconds = maybe_real();
  if (any_bool()) plan.module_names = {any_texts(), any_texts()};
  return plan;
}

Environment any_environment() {
  Environment e;
  if (any_bool()) {
    e.machine = {.commit = any_text(), .compiler = any_text(), .torch = any_text(), .cpu = any_text()};
    maybe<std::string>(e.machine->mpi, any_text);
    maybe<Environment::Nccl>(e.machine->nccl, [] { return Environment::Nccl{any_text(), any_text()}; });
    e.machine->gpus = list_of_any([] { return Environment::Gpu{any_text(), 1u << 30, any_text()}; });
    maybe<Environment::Cuda>(e.machine->cuda, [] { return Environment::Cuda{std::nullopt, any_text()}; });
    e.machine->load = maybe_real();
  }
  maybe<Environment::Profile>(e.profile, [] {
    return Environment::Profile{any_text(), any_text(), any_text(), any_int(), maybe_real()};
  });
  maybe<Environment::Pinning>(e.pinning, [] { return Environment::Pinning{any_text(), any_texts()}; });
  maybe<Environment::Validation>(e.validation, [] { return Environment::Validation{any_int(), any_text(), -1}; });
  return e;
}

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
  r.options = {{any_text(), any_text()}, {"variant", any_text()}};
  r.optimizer = {.kind = *rc::gen::element(OptimizerKind::sgd, OptimizerKind::adam),
                 .learning_rate = any_real(),
                 .momentum = any_real(),
                 .nesterov = any_bool(),
                 .weight_decay = any_real()};
  r.workload = any_text();
  maybe<WorkloadFacts>(r.workload_facts, any_facts);
  r.cluster = any_text();
  r.clock = *rc::gen::element(Clock::wall, Clock::virtual_clock);
  r.transport = any_text();
  r.device = any_text();
  r.ranks = any_int();
  r.batch = any_count();
  r.microbatches = any_int();
  r.seed = *rc::gen::arbitrary<std::uint64_t>();
  r.outcome = any_outcome();
  if (*rc::gen::arbitrary<bool>()) r.diverged_at = any_count();
  r.purpose = *rc::gen::element(Purpose::measure, Purpose::tune, Purpose::boundary);
  maybe<Tuning>(r.tuning, any_tuning);
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
    if (*rc::gen::arbitrary<bool>()) r.timeline.back().version = any_int() - 3;
    if (*rc::gen::arbitrary<bool>()) r.timeline.back().to = any_int();
    if (*rc::gen::arbitrary<bool>()) r.timeline.back().bytes = any_int();
  }
  r.cost_source = any_text();
  maybe<Theory>(r.theory, any_theory);
  r.observed = any_observed();
  maybe<PlanDescription>(r.plan, any_plan);
  r.planning_seconds = any_real();
  r.environment = any_environment();
  if (any_bool()) r.curve_of = {any_text(), any_text(), any_text(), any_int()};
  if (any_bool())
    r.work = {
        .tokens = any_int(), .flop = 0.5 * any_int(), .devices = std::max(1, any_int()), .peak_flops = 2.5 * any_int()};
  return r;
}

std::string message_of(const Json& value) {
  try {
    record_from_json(value, "runs.jsonl:7");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Json valid() {
  Record r;
  r.digest = "0123456789abcdef";
  r.system = "gpipe";
  r.workload = "mlp";
  r.clock = Clock::wall;
  r.curve = {{10, 1.5, 0.7, std::nullopt}};
  r.peak_bytes = {{.total = 5, .weights = 5}};
  r.timeline = {{0, "0F0", 0, 1}};
  return to_json(r);
}

RC_GTEST_PROP(Record, SurvivesJsonAndText, ()) {
  const Json once = to_json(any_record());
  const Json read = Json::parse(once.dump());
  RC_ASSERT(to_json(record_from_json(read, "x:1")) == once);
}

RC_GTEST_PROP(Record, EveryFieldIsRequiredAndTyped, ()) {
  Json value = valid();
  std::vector<std::string> names;
  for (const auto& item : value.items()) names.push_back(item.first);
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
  const Record back = record_from_json(Json::parse(to_json(r).dump()), "x");
  EXPECT_TRUE(std::isnan(*back.curve[0].loss));
  EXPECT_TRUE(std::isinf(*back.curve[0].metric));
}

TEST(Record, NamesTheFieldThatIsWrong) {
  Json value = valid();
  value["curve"][0]["loss"] = "low";
  EXPECT_EQ(message_of(value),
            "runs.jsonl:7: /curve/0/loss: must be a number, is string; remove the line, or run the case again");
  value = valid();
  value["peak_bytes"][0].erase("weights");
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /peak_bytes/0/weights: is missing"));
  value = valid();
  value["ranks"] = -1;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /ranks: is -1; must be at least 0"));
  value = valid();
  value["ranks"] = std::uint64_t{1} << 40;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /ranks: "));
  value = valid();
  value["clock"] = "vitual";
  EXPECT_NE(message_of(value).find("virtual"), std::string::npos);
  value = valid();
  value["colour"] = 1;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /colour: unknown key"));
  EXPECT_TRUE(message_of(Json::array()).starts_with("runs.jsonl:7: /: must be an object"));
}

// A record with everything that a record may have.
Record full() {
  Record r = record_from_json(valid(), "x");
  r.options = {{"variant", "h1"}};
  r.cluster = "laptop";
  r.clock = Clock::virtual_clock;
  r.cost_source = "analytic";
  r.transport = "none";
  r.device = "cpu";
  r.ranks = 4;
  r.batch = 64;
  r.microbatches = 8;
  r.seed = 7;
  r.purpose = Purpose::tune;
  r.outcome = RecordOutcome::diverged;
  r.reason = "the loss is NaN";
  r.diverged_at = 3;
  r.failed_rank = 2;
  r.step_seconds = {0.5};
  r.warmup_steps = 1;
  r.samples_per_step = 64;
  r.updates_per_epoch = 10;
  r.curve = {{10, 1.5, 0.7, 0.5, {{"bleu", 20}}}};
  r.peak_bytes = r.predicted_peak_bytes = {{.total = 5, .weights = 5, .host = 2}};
  r.planning_seconds = 0.25;
  r.timeline = {{.rank = 0, .op = "0F0", .start = 0, .end = 1, .version = -1, .to = 1, .bytes = 8}};
  r.optimizer = {.momentum = 0.9, .dampening = 0.5, .nesterov = true, .momentum_ema = true};
  r.workload_facts = {.target = 0.5, .single_device_value = 0.6};
  r.tuning = {.grid = {0.1},
              .seeds = {101, 102},
              .epochs = 1,
              .rounds = {{.epochs = 1, .keep = 1}},
              .chosen = 0.1,
              .results = {{.learning_rate = 0.1, .value = 0.5, .round = 1}}};
  r.curve_of = CurveOf{};
  r.work = {.tokens = 8, .flop = 1e9, .devices = 2, .peak_flops = 1e12};
  r.theory = Theory{};
  r.observed = {
      .bubble_ratio = 0,
      .span_bubble = 0,
      .in_flight = {{}},
      .weight_versions = {{}},
      .staleness = {{}},
      .sent_bytes = SentByRanks{},
      .steady_update_seconds = 1,
      .latency_seconds = {{}},
      .output_digest = "",
      .weight_gradient = "",
      .interference = RecordedInterference{.episodes = {{.to = 1, .seconds = 1}}, .op_noise = 1, .latency_jitter = 1},
      .adaptation =
          RecordedAdaptation{.windows = {{}}, .changes = {{}}, .moves = "0:", .oracle_seconds = 1, .answered = {{}}}};
  r.plan = PlanDescription{.stages = {{.layers = {{0}},
                                       .recompute = true,
                                       .variants = {""},
                                       .weight_gradient_device = 0,
                                       .passed_channels = 1,
                                       .micro_batch = 1}},
                           .edges = {{0, 1}},
                           .sequence_cut = {0, 4},
                           .module_names = {{}}};
  r.environment = {
      .machine =
          Environment::Machine{.nccl = Environment::Nccl{}, .gpus = {{}}, .cuda = Environment::Cuda{}, .load = 1},
      .profile = Environment::Profile{.age_seconds = 1},
      .pinning = Environment::Pinning{},
      .validation = Environment::Validation{}};
  return r;
}

// The schema of the object itself, where it may also be empty or null.
const Json* described(const Json* part) {
  if (const Json* either = part->find("anyOf"))
    for (const Json& one : *either)
      if (one.contains("properties") || one.contains("items")) return &one;
  return part;
}

// Every member of `value`, and of what stands in it, has its schema, and every schema a member.
void same_members(const Json& part, const Json& value, const std::string& where) {
  const Json& schema = *described(&part);
  if (value.is_array() && !value.empty() && schema.contains("items"))
    return same_members(schema["items"], value.front(), where + "/0");
  if (!value.is_object() || !schema.contains("properties")) return;
  for (const auto& [name, member] : value.items()) {
    ASSERT_TRUE(schema["properties"].contains(name)) << where << "/" << name;
    same_members(schema["properties"][name], member, where + "/" + name);
  }
  for (const auto& [name, unused] : schema["properties"].items())
    if (where + "/" + name != "/tuning/steps" && where + "/" + name != "/tuning/rounds/0/steps" &&
        !(where == "/curve/0" && name == "extra")) {  // instead of epochs; any names
      EXPECT_TRUE(value.contains(name)) << where << "/" << name;
    }
}

// With a line break only where a line would be too long to read.
std::string laid_out(const Json& json, std::size_t indent = 0) {
  const bool object = json.is_object();
  std::string text = json.dump();
  if (indent + text.size() <= 100 || (!object && !json.is_array())) return text;
  const std::string inner(indent + 2, ' '), outer(indent, ' ');
  text.clear();
  if (object)
    for (const auto& [name, value] : json.items())
      text += (text.empty() ? "" : ",\n") + inner + Json(name).dump() + ": " + laid_out(value, indent + 2);
  else
    for (const Json& value : json) text += (text.empty() ? "" : ",\n") + inner + laid_out(value, indent + 2);
  return (object ? "{\n" : "[\n") + text + "\n" + outer + (object ? "}" : "]");
}

TEST(Record, TheSchemaIsMadeFromTheTable) {
  const std::string made = laid_out(record_schema()) + "\n";
  if (made == read_text_file(SLUICE_SOURCE_DIR "/results/record.schema.json")) return;
  const std::string copy = testing::TempDir() + "record.schema.json";
  std::ofstream(copy) << made;
  FAIL() << "results/record.schema.json is not what results/fields.cpp says; copy " << copy << " over it";
}

TEST(Record, TheSchemaHasEveryMemberThatIsWritten) {
  const Json schema = record_schema();
  const Json value = to_json(full());
  Json every = value;  // what no single optimizer has
  for (const OptimizerKind kind : {OptimizerKind::muon, OptimizerKind::rotated_adam})
    every["options"]["optimizer"].update(
        to_json(OptimizerSpec{.kind = kind, .beta1 = 0.5, .beta2 = 0.5, .epsilon = 1, .refresh_as_released = true}));
  every["options"].erase("variant");   // any text
  every["seal"] = "0123456789abcdef";  // the store's
  every["curve"][0].erase("extra");    // any names
  same_members(schema, every, "");
  EXPECT_EQ(schema["properties"]["outcome"]["enum"].size(), std::size(Choices<RecordOutcome>::all));
}

TEST(Record, EveryFieldIsWrittenAndReadBack) {
  const Json full_line = to_json(full()), empty_line = to_json(Record());
  for (const Field& field : record_fields()) {
    if (!field.write) continue;
    Json line = empty_line;
    line[field.name] = full_line.at(field.name);
    EXPECT_NE(line, empty_line) << field.name;
    EXPECT_EQ(to_json(record_from_json(line, "x")), line) << field.name;
  }
}

TEST(Record, PartsKeepNumbersThatAreNotFinite) {
  Record r = full();
  r.environment.profile->age_seconds = std::numeric_limits<double>::infinity();
  r.workload_facts->target = std::nan("");
  const Record back = record_from_json(Json::parse(to_json(r).dump()), "x");
  EXPECT_TRUE(std::isinf(*back.environment.profile->age_seconds));
  EXPECT_TRUE(std::isnan(*back.workload_facts->target));
}

TEST(Record, NamesTheFieldOfAPartThatIsWrongOrUnknown) {
  Json value = to_json(full());
  value["plan"]["stages"][0]["tensor"] = "two";
  EXPECT_EQ(
      message_of(value),
      "runs.jsonl:7: /plan/stages/0/tensor: must be an integer, is string; remove the line, or run the case again");
  value = to_json(full());
  value["observed"]["colour"] = 1;
  EXPECT_TRUE(message_of(value).starts_with("runs.jsonl:7: /observed/colour: unknown key")) << message_of(value);
  value = to_json(full());
  value["workload_facts"]["metric_direction"] = "upp";
  EXPECT_NE(message_of(value).find("did you mean 'up'"), std::string::npos) << message_of(value);
}

TEST(Record, CommittedRecordsAreWrittenAsTheyWereRead) {
  int records = 0;
  for (const auto& file : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/results/reference")) {
    if (file.path().extension() != ".jsonl") continue;
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line); ++records) {
      const Json read = Json::parse(line);
      const Record record = record_from_json(read, file.path().string());
      Json written = to_json(record);
      if (read.at("step_seconds").dump().find("times") != std::string::npos)
        written["step_seconds"] = with_repeats(record.step_seconds);
      ASSERT_EQ(written.dump(), read.dump());
    }
  }
  EXPECT_GT(records, 1000);
}

TEST(Record, DivergenceAndTuningSurvive) {
  Record r = record_from_json(valid(), "x");
  r.outcome = RecordOutcome::diverged;
  r.diverged_at = 99;
  r.purpose = Purpose::tune;
  r.tuning = {.chosen = 0.05};
  const Record back = record_from_json(Json::parse(to_json(r).dump()), "x");
  EXPECT_EQ(back.diverged_at, 99);
  EXPECT_EQ(back.purpose, Purpose::tune);
  EXPECT_EQ(back.tuning.value().chosen, 0.05);
}

}  // namespace
}  // namespace sluice
