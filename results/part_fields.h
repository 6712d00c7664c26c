// The members of a record's parts (record.h, record_parts.h), each declared once, in their form in a line: see
// harness/base/json_fields.h. The record's own members are rows of fields.h.
#pragma once

#include <algorithm>

#include "harness/base/json_fields.h"
#include "harness/base/numbers.h"
#include "results/record.h"

namespace sluice {

void fields(auto& v, MemorySplit& m) {
  v("total", m.total);
  v("weights", m.weights);
  v("versions", m.versions);
  v("gradients", m.gradients);
  v("optimizer", m.optimizer);
  v("activations", m.activations);
  v("buffers", m.buffers);
  v.if_any("host", m.host, {"Activations that wait in the host's memory, at their own peak."});
}

void fields(auto& v, CurvePoint& p) {
  v("step", p.step, {"Updates done."});
  v("seconds", p.seconds, {"Training time so far: evaluation excluded, drain included."});
  v("loss", p.loss, {"Mean training loss since the previous point."});
  v("metric", p.metric);
  v.if_any("extra", p.extra, {"Further metrics by name."});
}

void fields(auto& v, TimelineOp& op) {
  v("rank", op.rank);
  v("op", op.op, {"Text form, e.g. 5I2."});
  v("start", op.start);
  v("end", op.end);
  constexpr double limit = std::int64_t{1} << 31;
  v.if_any("version", op.version,
           {"The weight version that it reads, counted from the start of its program.", -limit, limit});
  v.if_any("to", op.to, {"Of a message: the rank that it goes to."});
  v.if_any("bytes", op.bytes, {"Of a message.", 0, kMaxBytes});
}

// The form of a timeline in a line: one list per member of its ops.
struct TimelineColumns {
  std::vector<int> rank = {};
  std::vector<std::string> op = {};
  std::vector<double> start = {}, end = {};
  std::vector<std::optional<std::int64_t>> version = {};
  std::vector<std::optional<int>> to = {};
  std::vector<std::optional<std::int64_t>> bytes = {};
};

void fields(auto& v, TimelineColumns& c) {
  v("rank", c.rank, {"A value for each op, as in the other lists."});
  v("op", c.op, {"Text form, e.g. 5I2."});
  v("start", c.start);
  v("end", c.end);
  constexpr double limit = std::int64_t{1} << 31;
  v.if_any(
      "version", c.version,
      {"The weight version that it reads, counted from the start of its program; null: not recorded.", -limit, limit});
  v.if_any("to", c.to, {"Of a message: the rank that it goes to; null: no message."});
  v.if_any("bytes", c.bytes, {"Of a message; null: no message.", 0, kMaxBytes});
  const std::size_t ops = c.rank.size();
  const auto fits = [&](const auto& column) { return column.size() == ops; };
  v.expect(fits(c.op) && fits(c.start) && fits(c.end) && (c.version.empty() || fits(c.version)) &&
               (c.to.empty() || fits(c.to)) && (c.bytes.empty() || fits(c.bytes)),
           "rank", "the lists of a timeline have different lengths", "give each op a value in every list");
}

void fields(auto& v, WorkloadFacts& f) {
  v("title", f.title);
  v("metric", f.metric);
  v("metric_direction", f.metric_direction);
  v("dataset", f.dataset);
  v("source", f.source);
  v("parameters", f.parameters);
  v("epochs", f.epochs);
  v("steps", f.steps);
  v.if_any("target", f.target);
  v.if_any("single_device_value", f.single_device_value);
}

void fields(auto& v, ModelWork& w) {
  v.if_any("tokens", w.tokens, {"Of a sample; absent: it has none."});
  v("flop", w.flop, {"Model FLOP of a sample: products, forward and backward, without recomputation.", 0, kMaxNumber});
  v("devices", w.devices, {"Given to the run, used or not.", 1, kMaxCount});
  v.if_any("peak_flops", w.peak_flops,
           {"FLOP/s of these devices together at the run's precision; absent: unknown.", 0, kMaxNumber});
}

void fields(auto& v, Tuning::Candidate& c) {
  v("learning_rate", c.learning_rate);
  v("value", c.value);
  v("outcome", c.outcome);
  v("digest", c.digest);
  v.if_any("round", c.round, {"From 0."});
}

void fields(auto& v, Tuning::Round& r) {
  v.if_any("epochs", r.epochs);
  v.where(r.epochs == 0, "steps", r.steps);
  v("keep", r.keep);
}

void fields(auto& v, Tuning& t) {
  v("grid", t.grid, {"Learning rates.", 0, kMaxNumber});
  v("criterion", t.criterion);
  v("seed", t.seed);
  v.if_any("seeds", t.seeds, {"All, where there were several."});
  v("chosen", t.chosen);
  v("results", t.results);
  v.if_any("rounds", t.rounds, {"Those before the last, which is as long as the search."});
  v.if_any("epochs", t.epochs);
  v.where(t.epochs == 0, "steps", t.steps);
}

void fields(auto& v, CurveOf& c) {
  v("digest", c.digest);
  v("system", c.system);
  v("cluster", c.cluster);
  v("ranks", c.ranks);
}

void fields(auto& v, Theory& t) {
  v("in_flight", t.in_flight);
  v("weight_versions", t.weight_versions);
  v("staleness", t.staleness);
  v("bubble", t.bubble_ratio);
}

void fields(auto& v, SentByRanks& s) {
  v("messages", s.messages, {"Activations and their gradients."});
  v("gathers", s.gathers, {"Weights."});
  v("reductions", s.reductions, {"Gradients."});
}

void fields(auto& v, RecordedInterference::Episode& e) {
  v("resource", e.resource);
  v("device", e.device);
  v.if_any("to", e.to);
  v("start", e.start);
  v.if_any("seconds", e.seconds);
  v("slowdown", e.slowdown);
}

void fields(auto& v, RecordedInterference& i) {
  v("name", i.name);
  v("seed", i.seed);
  v("episodes", i.episodes);
  v.if_any("op_noise", i.op_noise);
  v.if_any("latency_jitter", i.latency_jitter);
}

void fields(auto& v, RecordedAdaptation::Window& w) {
  v("plan", w.plan, {"Changes made before it."});
  v("seconds", w.seconds, {"Of each rank's forwards and backwards.", 0, kMaxSeconds});
}

void fields(auto& v, RecordedAdaptation::Change& c) {
  v("update", c.update);
  v("decided_seconds", c.decided_seconds);
  v("stopped_seconds", c.stopped_seconds);
  v("seconds", c.seconds);
  v("bytes", c.bytes);
  v("restart", c.restart);
  v("stages", c.stages, {"The layers of each, afterwards."});
  v.expect(std::ranges::none_of(c.stages, &std::vector<int>::empty), "stages", "a stage has no layers",
           "give each one at least");
}

void fields(auto& v, RecordedAdaptation::Answer& a) {
  v("at_seconds", a.at_seconds);
  v("seconds_to_detect", a.seconds_to_detect);
  v("seconds_to_recover", a.seconds_to_recover);
}

void fields(auto& v, RecordedAdaptation& a) {
  v("window_updates", a.window_updates);
  v.if_any("windows", a.windows);
  v("changes", a.changes);
  v.if_any("moves", a.moves,
           {"The changes as text, UPDATE:FIRST LAYERS: DynPipe's option moves carries them out again."});
  if (!a.moves.empty())
    v.expect(a.moves == moves_of(a.changes), "moves",
             "'" + a.moves + "' is not what `changes` says, " + moves_of(a.changes), "leave it out");
  v("moved_bytes", a.moved_bytes);
  v("moving_seconds", a.moving_seconds);
  v.if_any("oracle_seconds", a.oracle_seconds,
           {"Virtual clock: what a run takes that knows the episodes and changes its plan at no cost."});
  v.where(!a.changes.empty(), "answered", a.answered);
}

void fields(auto& v, Observed& o) {
  v.if_any("bubble_ratio", o.bubble_ratio);
  v.if_any("span_bubble", o.span_bubble);
  v.if_any("in_flight", o.in_flight);
  v.if_any("weight_versions", o.weight_versions);
  v.if_any("staleness", o.staleness);
  v.if_any("sent_bytes", o.sent_bytes,
           {"What every rank sends in an update, counted from the program; older records have none."});
  v.if_any(
      "steady_update_seconds", o.steady_update_seconds,
      {"Of a run on the virtual clock that is too short to show its steady state: an update in it.", 0, kMaxSeconds});
  v.if_any("latency_seconds", o.latency_seconds, {"Inference: of every micro-batch.", 0, kMaxSeconds});
  v.if_any("output_digest", o.output_digest);
  v.if_any("weight_gradient", o.weight_gradient, {"Of per_microbatch and batched, what auto chose."});
  v.if_any("interference", o.interference,
           {"What slowed devices and links down, and when; without seconds: until the end."});
  v.if_any("adaptation", o.adaptation, {"How the plan was changed during the run."});
}

void fields(auto& v, Environment::Gpu& g) {
  v("name", g.name);
  v("memory_bytes", g.memory_bytes);
  v("compute_capability", g.compute_capability);
}

void fields(auto& v, Environment::Cuda& c) {
  v("driver", c.driver);
  v("runtime", c.runtime);
}

void fields(auto& v, Environment::Nccl& n) {
  v("header", n.header);
  v("library", n.library);
}

void fields(auto& v, Environment::Machine& m) {
  v("commit", m.commit);
  v("compiler", m.compiler);
  v("torch", m.torch);
  v("nccl", m.nccl);
  v("mpi", m.mpi);
  v("hwloc", m.hwloc);
  v("cpu", m.cpu);
  v("cores", m.cores);
  v.or_null("gpu", m.gpus);
  v.if_any("cuda", m.cuda);
  v("kernel", m.kernel);
  v.if_any("load", m.load);
}

void fields(auto& v, Environment::Profile& p) {
  v("machine", p.machine);
  v("build", p.build);
  v("made", p.made);
  v("neighbours", p.neighbours);
  v.if_any("age_seconds", p.age_seconds);
}

void fields(auto& v, Environment::Pinning& p) {
  v("library", p.library);
  v("cpus", p.cpus);
}

void fields(auto& v, Environment::Validation& x) {
  v("case", x.number);
  v("label", x.label);
  v("round", x.round, {"-1: on the virtual clock.", -1, kMaxCount});
}

void fields(auto& v, Environment& e) {
  v.among("commit", e.machine);
  v.if_any("profile", e.profile, {"The measured profile that costs are of."});
  v.if_any("pinning", e.pinning);
  v.if_any("validation", e.validation, {"Of sluice validate."});
}

}  // namespace sluice
