#include "harness/case/optimizer_settings.h"

#include <set>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/case/setting_value.h"

namespace sluice {

static RateSchedule read_rate_schedule(JsonReader o) {
  RateSchedule schedule;
  schedule.kind = o.choice_or("kind", schedule.kind);
  const auto positive = [&](const char* key, double value) { return o.above_zero_or(key, value, kMaxNumber); };
  if (schedule.kind == RateScheduleKind::step) {
    schedule.every_epochs = o.integer_or("every_epochs", 1, 1, kMaxCount);
    schedule.factor = positive("factor", schedule.factor);
  }
  if (schedule.kind == RateScheduleKind::polynomial) schedule.power = positive("power", schedule.power);
  o.no_other_keys();
  return schedule;
}

// Settings that only muon and rotated_adam have.
static void read_matrix_optimizer(JsonReader& o, OptimizerSpec& optimizer) {
  optimizer.matrices = o.choice_or("matrices", optimizer.matrices);
  optimizer.other_rate = o.number_or("other_rate", optimizer.other_rate, 0, kMaxNumber);
  if (optimizer.kind == OptimizerKind::muon) {
    optimizer.momentum = o.number_or("momentum", 0.95, 0, 1);
    optimizer.nesterov = o.boolean("nesterov", true);
    optimizer.scale = o.choice_or("scale", optimizer.scale);
    optimizer.newton_schulz = o.choice_or("newton_schulz", optimizer.newton_schulz);
    return;
  }
  optimizer.refresh_every = o.integer_or("refresh_every", optimizer.refresh_every, 1, kMaxCount);
  optimizer.sides = o.choice_or("sides", optimizer.sides);
  optimizer.source = o.choice_or("source", optimizer.source);
  optimizer.refresh_as_released = o.boolean("refresh_as_released", false);
}

bool read_optimizer(JsonReader& o, RunCase& c) {
  OptimizerSpec& optimizer = c.optimizer;
  if (o.has("schedule")) c.rate_schedule = read_rate_schedule(o.object("schedule"));
  optimizer.kind = o.choice_or("kind", optimizer.kind);
  const auto not_negative = [&](const char* key, double& value) { value = o.number_or(key, value, 0, kMaxNumber); };
  const bool tuned = o.has("learning_rate") && o.raw("learning_rate") == "tuned";
  if (!tuned) not_negative("learning_rate", optimizer.learning_rate);
  not_negative("momentum", optimizer.momentum);
  not_negative("weight_decay", optimizer.weight_decay);
  const bool sgd = optimizer.kind == OptimizerSpec::Kind::sgd;
  const bool moments = !sgd && optimizer.kind != OptimizerSpec::Kind::rmsprop;
  if (moments) {
    optimizer.beta1 = o.number_or("beta1", optimizer.beta1, 0, 1);
    optimizer.beta2 = o.number_or("beta2", optimizer.beta2, 0, 1);
  }
  if (!sgd) optimizer.epsilon = o.above_zero_or("epsilon", optimizer.epsilon, kMaxNumber);
  if (optimizer.treats_matrices()) read_matrix_optimizer(o, optimizer);
  if (!sgd && optimizer.kind != OptimizerSpec::Kind::muon) {
    if (o.has("momentum") && optimizer.momentum > 0)
      o.fail("momentum", "belongs to sgd, not to " + choice_name(optimizer.kind), "leave it out");
    optimizer.momentum = 0;
  }
  if (sgd && optimizer.momentum > 0) {
    optimizer.nesterov = o.boolean("nesterov", false);
    optimizer.momentum_ema = o.boolean("momentum_ema", false);
    not_negative("dampening", optimizer.dampening);
  } else if (sgd) {
    for (const char* key : {"nesterov", "momentum_ema", "dampening"})
      if (o.has(key)) o.fail(key, "has no effect without momentum", "give a momentum above 0, or leave it out");
  }
  o.no_other_keys();
  return tuned;
}

// "seed": one or a list, ascending.
static std::vector<std::uint64_t> read_seeds(JsonReader& t, const RunCase& c) {
  std::vector<std::uint64_t> list = TuneSpec().seeds;
  if (t.has("seed") && t.raw("seed").is_array())
    list = t.integers<std::uint64_t>("seed", 0, kMaxWhole);
  else
    list = {t.integer_or<std::uint64_t>("seed", list.front(), 0, kMaxWhole)};
  if (list.empty()) t.fail("seed", "must be a seed or a list of at least one");
  const std::set<std::uint64_t> seeds(list.begin(), list.end());
  if (seeds.contains(c.seed))
    t.fail("seed", std::to_string(c.seed) + " is also a seed that is measured", "tune on a seed of its own, e.g. 101");
  return {seeds.begin(), seeds.end()};
}

// "epochs" or "steps" of a round; 0 and 0: neither is there.
static TuneSpec::Round read_length(JsonReader& in, const RunCase& c) {
  TuneSpec::Round round;
  round.steps = in.integer_or("steps", 0, 0, kMaxCount);
  round.epochs = in.integer_or("epochs", 0, 0, kMaxCount);
  if (round.epochs > 0 && round.steps > 0) in.fail("steps", "give epochs or steps, not both");
  if (round.epochs > 0 && c.epochs == 0) in.fail("epochs", "the case itself runs steps, not epochs", "give steps");
  return round;
}

TuneSpec read_tune(JsonReader& t, const RunCase& c) {
  TuneSpec tune;
  const Json& rates = t.raw("learning_rate");
  if (!rates.is_array() || rates.empty()) t.fail("learning_rate", "must be a list of at least one rate");
  std::set<double> grid;
  for (const Json& rate : rates) {
    if (!rate.is_number() || !(rate.get<double>() > 0) || rate.get<double>() > kMaxNumber)
      t.fail("learning_rate", rate.dump() + " is not a number above 0");
    grid.insert(rate.get<double>());
  }
  tune.learning_rates.assign(grid.begin(), grid.end());
  tune.seeds = read_seeds(t, c);
  TuneSpec::Round last = read_length(t, c);
  if (last.epochs == 0 && last.steps == 0) last.epochs = c.epochs, last.steps = c.steps;
  std::size_t trained = grid.size();
  for (JsonReader in : t.objects("rounds")) {
    TuneSpec::Round round = read_length(in, c);
    if (round.epochs == 0 && round.steps == 0) in.fail("steps", "is missing", "give the round's steps or epochs");
    round.keep = in.integer("keep", 1, kMaxCount);
    if (static_cast<std::size_t>(round.keep) >= trained)
      in.fail("keep", std::to_string(round.keep) + " of " + std::to_string(trained) + " rates drops none",
              "keep fewer than the round trains");
    trained = static_cast<std::size_t>(round.keep);
    in.no_other_keys();
    tune.rounds.push_back(round);
  }
  tune.rounds.push_back(last);
  for (std::size_t k = 1; k < tune.rounds.size(); ++k) {
    const TuneSpec::Round &before = tune.rounds[k - 1], &after = tune.rounds[k];
    if (before.epochs > 0 ? after.epochs <= before.epochs : after.epochs == 0 && after.steps <= before.steps)
      t.fail("rounds", "round " + std::to_string(k + 1) + " is not longer than the one before it",
             "give rounds of rising length, those in steps first; the last is as long as the search");
  }
  t.no_other_keys();
  return tune;
}

static Json to_json(const RateSchedule& rate) {
  Json json = {{"kind", choice_name(rate.kind)}};
  if (rate.kind == RateScheduleKind::step) {
    json["every_epochs"] = rate.every_epochs;
    json["factor"] = rate.factor;
  }
  if (rate.kind == RateScheduleKind::polynomial) json["power"] = rate.power;
  return json;
}

Json optimizer_json(const RunCase& c) {
  Json json = to_json(c.optimizer);
  if (c.tune) json["learning_rate"] = "tuned";
  if (c.rate_schedule.kind != RateScheduleKind::constant) json["schedule"] = to_json(c.rate_schedule);
  return json;
}

Json tune_json(const TuneSpec& tune) {
  const TuneSpec::Round& last = tune.rounds.back();
  const Json seed = tune.seeds.size() == 1 ? Json(tune.seeds.front()) : Json(tune.seeds);
  Json json = {{"learning_rate", tune.learning_rates}, {"seed", seed}, {"epochs", last.epochs}, {"steps", last.steps}};
  for (std::size_t k = 0; k + 1 < tune.rounds.size(); ++k) {
    const TuneSpec::Round& round = tune.rounds[k];
    json["rounds"].push_back({{"epochs", round.epochs}, {"steps", round.steps}, {"keep", round.keep}});
  }
  return json;
}

}  // namespace sluice
