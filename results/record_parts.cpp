#include "results/record_parts.h"

#include <limits>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/moves.h"
#include "results/record_reading.h"

namespace sluice {

Json to_json(const WorkloadFacts& f) {
  Json json = {{"title", f.title},     {"metric", f.metric}, {"metric_direction", choice_name(f.metric_direction)},
               {"dataset", f.dataset}, {"source", f.source}, {"parameters", f.parameters},
               {"epochs", f.epochs},   {"steps", f.steps}};
  if (f.target) json["target"] = *f.target;
  if (f.single_device_value) json["single_device_value"] = *f.single_device_value;
  return json;
}

WorkloadFacts read_workload_facts(JsonReader& reader) {
  WorkloadFacts f;
  f.title = reader.text("title");
  f.metric = reader.text("metric");
  f.metric_direction = read_named<MetricDirection>(reader, "metric_direction");
  f.dataset = reader.text("dataset");
  f.source = reader.text("source");
  f.parameters = read_count<std::int64_t>(reader, "parameters");
  f.epochs = read_count<std::int64_t>(reader, "epochs");
  f.steps = read_count<std::int64_t>(reader, "steps");
  if (reader.has("target")) f.target = reader.any_number("target");
  if (reader.has("single_device_value")) f.single_device_value = reader.any_number("single_device_value");
  no_other_fields(reader);
  return f;
}

Json to_json(const Tuning& t) {
  Json results = Json::array();
  for (const Tuning::Candidate& c : t.results)
    results.push_back({{"learning_rate", c.learning_rate},
                       {"value", c.value},
                       {"outcome", choice_name(c.outcome)},
                       {"digest", c.digest}});
  Json json = {
      {"grid", t.grid}, {"criterion", t.criterion}, {"seed", t.seed}, {"chosen", t.chosen}, {"results", results}};
  if (t.epochs > 0) {
    json["epochs"] = t.epochs;
  } else {
    json["steps"] = t.steps;
  }
  return json;
}

Tuning read_tuning(JsonReader& reader) {
  Tuning t;
  t.grid = reader.numbers("grid", 0, kMostNumber);
  t.criterion = reader.text("criterion");
  t.seed = read_count<std::uint64_t>(reader, "seed");
  t.chosen = reader.any_number("chosen");
  for (JsonReader candidate : reader.objects("results")) {
    t.results.push_back({.learning_rate = candidate.any_number("learning_rate"),
                         .value = candidate.any_number_or_null("value"),
                         .outcome = read_named<RecordOutcome>(candidate, "outcome"),
                         .digest = candidate.text("digest")});
    no_other_fields(candidate);
  }
  if (reader.has("epochs")) t.epochs = read_count<std::int64_t>(reader, "epochs");
  if (reader.has("steps")) t.steps = read_count<std::int64_t>(reader, "steps");
  no_other_fields(reader);
  return t;
}

Json to_json(const CurveOf& other) {
  return {{"digest", other.digest}, {"system", other.system}, {"cluster", other.cluster}, {"ranks", other.ranks}};
}

CurveOf read_curve_of(JsonReader& reader) {
  CurveOf other{.digest = reader.text("digest"),
                .system = reader.text("system"),
                .cluster = reader.text("cluster"),
                .ranks = read_count<int>(reader, "ranks")};
  no_other_fields(reader);
  return other;
}

Json to_json(const Theory& t) {
  return {{"in_flight", t.in_flight},
          {"weight_versions", t.weight_versions},
          {"staleness", t.staleness},
          {"bubble", t.bubble_ratio}};
}

Theory read_theory(JsonReader& reader) {
  Theory t;
  t.in_flight = read_counts<int>(reader, "in_flight");
  t.weight_versions = read_counts<int>(reader, "weight_versions");
  t.staleness = read_counts<int>(reader, "staleness");
  t.bubble_ratio = reader.any_number_or_null("bubble");
  no_other_fields(reader);
  return t;
}

OptimizerSpec read_recorded_optimizer(JsonReader& reader) {
  OptimizerSpec o;
  o.kind = read_named<OptimizerKind>(reader, "kind");
  o.learning_rate = reader.any_number("learning_rate");
  o.momentum = reader.any_number("momentum");
  o.weight_decay = reader.any_number("weight_decay");
  o.nesterov = reader.boolean("nesterov", false);
  o.momentum_ema = reader.boolean("momentum_ema", false);
  const auto number = [&](const char* key, double& value) {
    if (reader.has(key)) value = reader.any_number(key);
  };
  number("dampening", o.dampening), number("beta1", o.beta1), number("beta2", o.beta2), number("epsilon", o.epsilon);
  number("other_rate", o.other_rate);
  const auto choice = [&]<class E>(const char* key, E& value) {
    if (reader.has(key)) value = read_named<E>(reader, key);
  };
  choice("matrices", o.matrices), choice("scale", o.scale), choice("newton_schulz", o.newton_schulz);
  choice("sides", o.sides), choice("source", o.source);
  o.refresh_every = reader.integer_or("refresh_every", o.refresh_every, 1, kMostCount);
  o.refresh_as_released = reader.boolean("refresh_as_released", false);
  no_other_fields(reader);
  return o;
}

RecordedInterference recorded(const Interference& interference) {
  RecordedInterference r{.name = interference.name,
                         .seed = interference.seed,
                         .episodes = {},
                         .op_noise = interference.op_noise,
                         .latency_jitter = interference.latency_jitter};
  for (const Episode& e : interference.episodes) {
    RecordedInterference::Episode& episode = r.episodes.emplace_back();
    episode = {.resource = e.resource, .device = e.device, .start = e.start, .slowdown = e.slowdown};
    if (e.to >= 0) episode.to = e.to;
    if (e.end < std::numeric_limits<double>::infinity()) episode.seconds = e.end - e.start;
  }
  return r;
}

namespace {

Json to_json(const RecordedInterference& r) {
  Json episodes = Json::array();
  for (const RecordedInterference::Episode& e : r.episodes) {
    Json json = {
        {"resource", choice_name(e.resource)}, {"device", e.device}, {"start", e.start}, {"slowdown", e.slowdown}};
    if (e.to) json["to"] = *e.to;
    if (e.seconds) json["seconds"] = *e.seconds;
    episodes.push_back(std::move(json));
  }
  Json json = {{"name", r.name}, {"seed", r.seed}, {"episodes", episodes}};
  if (r.op_noise > 0) json["op_noise"] = r.op_noise;
  if (r.latency_jitter > 0) json["latency_jitter"] = r.latency_jitter;
  return json;
}

RecordedInterference read_interference(JsonReader reader) {
  RecordedInterference r;
  r.name = reader.text("name");
  r.seed = read_count<std::uint64_t>(reader, "seed");
  for (JsonReader episode : reader.objects("episodes")) {
    RecordedInterference::Episode& e = r.episodes.emplace_back();
    e.resource = read_named<Resource>(episode, "resource");
    e.device = read_count<int>(episode, "device");
    if (episode.has("to")) e.to = read_count<int>(episode, "to");
    e.start = episode.any_number("start");
    if (episode.has("seconds")) e.seconds = episode.any_number("seconds");
    e.slowdown = episode.any_number("slowdown");
    no_other_fields(episode);
  }
  if (reader.has("op_noise")) r.op_noise = reader.any_number("op_noise");
  if (reader.has("latency_jitter")) r.latency_jitter = reader.any_number("latency_jitter");
  no_other_fields(reader);
  return r;
}

}  // namespace

std::string moves_of(const std::vector<RecordedAdaptation::Change>& changes) {
  std::vector<PlanMove> moves;
  for (const RecordedAdaptation::Change& change : changes) {
    PlanMove& move = moves.emplace_back(PlanMove{.update = change.update, .first_layers = {}});
    for (std::size_t s = 1; s < change.stages.size(); ++s) move.first_layers.push_back(change.stages[s].front());
  }
  return to_text(moves);
}

namespace {

Json to_json(const RecordedAdaptation& a) {
  Json changes = Json::array();
  for (const RecordedAdaptation::Change& c : a.changes)
    changes.push_back({{"update", c.update},
                       {"decided_seconds", c.decided_seconds},
                       {"stopped_seconds", c.stopped_seconds},
                       {"seconds", c.seconds},
                       {"bytes", c.bytes},
                       {"restart", c.restart},
                       {"stages", c.stages}});
  Json json = {{"window_updates", a.window_updates},
               {"changes", changes},
               {"moved_bytes", a.moved_bytes},
               {"moving_seconds", a.moving_seconds}};
  for (const RecordedAdaptation::Window& window : a.windows)
    json["windows"].push_back({{"plan", window.plan}, {"seconds", window.seconds}});
  if (a.oracle_seconds) json["oracle_seconds"] = *a.oracle_seconds;
  if (a.changes.empty()) return json;
  if (!a.moves.empty()) json["moves"] = a.moves;
  Json& answered = json["answered"] = Json::array();
  for (const RecordedAdaptation::Answer& answer : a.answered)
    answered.push_back({{"at_seconds", answer.at_seconds},
                        {"seconds_to_detect", answer.seconds_to_detect},
                        {"seconds_to_recover", answer.seconds_to_recover}});
  return json;
}

RecordedAdaptation::Change read_change(JsonReader reader) {
  RecordedAdaptation::Change c;
  c.update = read_count<std::int64_t>(reader, "update");
  c.decided_seconds = reader.any_number("decided_seconds");
  c.stopped_seconds = reader.any_number("stopped_seconds");
  c.seconds = reader.any_number("seconds");
  c.bytes = reader.any_number("bytes");
  c.restart = reader.boolean("restart");
  JsonReader stages = reader.list("stages");
  for (const std::string& index : stages.keys()) {
    c.stages.push_back(read_counts<int>(stages, index));
    if (c.stages.back().empty())
      throw InputError(stages.where(index), "a stage has no layers", "give each one at least");
  }
  no_other_fields(reader);
  return c;
}

RecordedAdaptation read_adaptation(JsonReader reader) {
  RecordedAdaptation a;
  a.window_updates = read_count<int>(reader, "window_updates");
  for (JsonReader window : reader.objects("windows")) {
    a.windows.push_back(
        {.plan = read_count<int>(window, "plan"), .seconds = window.numbers("seconds", 0, kMostSeconds)});
    no_other_fields(window);
  }
  for (const JsonReader& change : reader.objects("changes")) a.changes.push_back(read_change(change));
  if (reader.has("moves")) a.moves = reader.text("moves");
  if (!a.moves.empty() && a.moves != moves_of(a.changes))
    throw InputError(reader.where("moves"), "'" + a.moves + "' is not what `changes` says, " + moves_of(a.changes),
                     "leave it out");
  a.moved_bytes = reader.any_number("moved_bytes");
  a.moving_seconds = reader.any_number("moving_seconds");
  if (reader.has("oracle_seconds")) a.oracle_seconds = reader.any_number("oracle_seconds");
  for (JsonReader answer : reader.objects("answered")) {
    a.answered.push_back({.at_seconds = answer.any_number("at_seconds"),
                          .seconds_to_detect = answer.any_number("seconds_to_detect"),
                          .seconds_to_recover = answer.any_number("seconds_to_recover")});
    no_other_fields(answer);
  }
  no_other_fields(reader);
  return a;
}

SentByRanks read_sent(JsonReader reader) {
  SentByRanks sent{.messages = read_counts<std::int64_t>(reader, "messages"),
                   .gathers = read_counts<std::int64_t>(reader, "gathers"),
                   .reductions = read_counts<std::int64_t>(reader, "reductions")};
  no_other_fields(reader);
  return sent;
}

}  // namespace

Json to_json(const Observed& o) {
  Json json = Json::object();
  const auto put = [&json](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  put("bubble_ratio", o.bubble_ratio);
  put("span_bubble", o.span_bubble);
  put("in_flight", o.in_flight);
  put("weight_versions", o.weight_versions);
  put("staleness", o.staleness);
  put("latency_seconds", o.latency_seconds);
  put("output_digest", o.output_digest);
  put("weight_gradient", o.weight_gradient);
  if (o.sent_bytes)
    json["sent_bytes"] = {{"messages", o.sent_bytes->messages},
                          {"gathers", o.sent_bytes->gathers},
                          {"reductions", o.sent_bytes->reductions}};
  if (o.interference) json["interference"] = to_json(*o.interference);
  if (o.adaptation) json["adaptation"] = to_json(*o.adaptation);
  return json;
}

Observed read_observed(JsonReader& reader) {
  Observed o;
  if (reader.has("bubble_ratio")) o.bubble_ratio = reader.any_number_or_null("bubble_ratio");
  if (reader.has("span_bubble")) o.span_bubble = reader.any_number_or_null("span_bubble");
  if (reader.has("in_flight")) o.in_flight = read_counts<int>(reader, "in_flight");
  if (reader.has("weight_versions")) o.weight_versions = read_counts<int>(reader, "weight_versions");
  if (reader.has("staleness")) o.staleness = read_counts<int>(reader, "staleness");
  if (reader.has("sent_bytes")) o.sent_bytes = read_sent(reader.object("sent_bytes"));
  if (reader.has("latency_seconds")) o.latency_seconds = reader.numbers("latency_seconds", 0, kMostSeconds);
  if (reader.has("output_digest")) o.output_digest = reader.text("output_digest");
  if (reader.has("weight_gradient")) o.weight_gradient = reader.text("weight_gradient");
  if (reader.has("interference")) o.interference = read_interference(reader.object("interference"));
  if (reader.has("adaptation")) o.adaptation = read_adaptation(reader.object("adaptation"));
  no_other_fields(reader);
  return o;
}

namespace {

void put(Json& json, const Environment::Machine& m) {
  json["commit"] = m.commit;
  json["compiler"] = m.compiler;
  json["torch"] = m.torch;
  json["nccl"] = m.nccl ? Json{{"header", m.nccl->header}, {"library", m.nccl->library}} : Json();
  json["mpi"] = m.mpi;
  json["hwloc"] = m.hwloc;
  json["cpu"] = m.cpu;
  json["cores"] = m.cores;
  json["gpu"] = nullptr;
  for (const Environment::Gpu& gpu : m.gpus)
    json["gpu"].push_back(
        {{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"compute_capability", gpu.compute_capability}});
  if (m.cuda) json["cuda"] = {{"driver", m.cuda->driver}, {"runtime", m.cuda->runtime}};
  json["kernel"] = m.kernel;
  if (m.load) json["load"] = *m.load;
}

std::optional<std::string> text_or_null(JsonReader& reader, const std::string& key) {
  return reader.is_null(key) ? std::nullopt : std::optional(reader.text(key));
}

Environment::Machine read_machine(JsonReader& reader) {
  Environment::Machine m;
  m.commit = reader.text("commit");
  m.compiler = reader.text("compiler");
  m.torch = reader.text("torch");
  if (!reader.is_null("nccl")) {
    JsonReader nccl = reader.object("nccl");
    m.nccl = {.header = nccl.text("header"), .library = nccl.text("library")};
    no_other_fields(nccl);
  }
  m.mpi = text_or_null(reader, "mpi");
  m.hwloc = text_or_null(reader, "hwloc");
  m.cpu = reader.text("cpu");
  m.cores = read_count<int>(reader, "cores");
  if (!reader.is_null("gpu"))
    for (JsonReader gpu : reader.objects("gpu")) {
      m.gpus.push_back({.name = gpu.text("name"),
                        .memory_bytes = read_count<std::uint64_t>(gpu, "memory_bytes"),
                        .compute_capability = gpu.text("compute_capability")});
      no_other_fields(gpu);
    }
  if (reader.has("cuda")) {
    JsonReader cuda = reader.object("cuda");
    m.cuda = {.driver = text_or_null(cuda, "driver"), .runtime = cuda.text("runtime")};
    no_other_fields(cuda);
  }
  m.kernel = reader.text("kernel");
  if (reader.has("load")) m.load = reader.any_number("load");
  return m;
}

Environment::Profile read_profile(JsonReader reader) {
  Environment::Profile p{.machine = reader.text("machine"),
                         .build = reader.text("build"),
                         .made = reader.text("made"),
                         .neighbours = read_count<int>(reader, "neighbours")};
  if (reader.has("age_seconds")) p.age_seconds = reader.any_number("age_seconds");
  no_other_fields(reader);
  return p;
}

Environment::Pinning read_pinning(JsonReader reader) {
  Environment::Pinning p{.library = reader.text("library"), .cpus = reader.texts("cpus")};
  no_other_fields(reader);
  return p;
}

Environment::Validation read_validation(JsonReader reader) {
  Environment::Validation v{.number = read_count<int>(reader, "case"),
                            .label = reader.text("label"),
                            .round = reader.integer("round", -1, kMostCount)};
  no_other_fields(reader);
  return v;
}

}  // namespace

Json to_json(const Environment& e) {
  Json json = Json::object();
  if (e.machine) put(json, *e.machine);
  if (e.profile) {
    const Environment::Profile& p = *e.profile;
    json["profile"] = {{"machine", p.machine}, {"build", p.build}, {"made", p.made}, {"neighbours", p.neighbours}};
    if (p.age_seconds) json["profile"]["age_seconds"] = *p.age_seconds;
  }
  if (e.pinning) json["pinning"] = {{"library", e.pinning->library}, {"cpus", e.pinning->cpus}};
  if (e.validation)
    json["validation"] = {
        {"case", e.validation->number}, {"label", e.validation->label}, {"round", e.validation->round}};
  if (e.command) json["command"] = *e.command;
  return json;
}

Environment read_environment(JsonReader& reader) {
  Environment e;
  if (reader.has("commit")) e.machine = read_machine(reader);
  if (reader.has("profile")) e.profile = read_profile(reader.object("profile"));
  if (reader.has("pinning")) e.pinning = read_pinning(reader.object("pinning"));
  if (reader.has("validation")) e.validation = read_validation(reader.object("validation"));
  if (reader.has("command")) e.command = reader.text("command");
  no_other_fields(reader);
  return e;
}

}  // namespace sluice
