#include "harness/case/optimizer_settings.h"

#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/json_reader.h"
#include "harness/case/setting_value.h"

namespace sluice {

static RateSchedule read_rate_schedule(JsonReader o) {
  RateSchedule schedule;
  schedule.kind = read_choice(o, "kind", schedule.kind);
  const auto positive = [&](const char* key, double value) {
    value = o.number(key, value);
    if (!(value > 0)) o.fail(key, "must be above 0");
    return value;
  };
  if (schedule.kind == RateScheduleKind::step) {
    schedule.every_epochs = static_cast<int>(o.integer("every_epochs", 1, 1));
    schedule.factor = positive("factor", schedule.factor);
  }
  if (schedule.kind == RateScheduleKind::polynomial) schedule.power = positive("power", schedule.power);
  o.no_other_keys();
  return schedule;
}

bool read_optimizer(JsonReader& o, RunCase& c) {
  OptimizerSpec& optimizer = c.optimizer;
  if (o.has("schedule")) c.rate_schedule = read_rate_schedule(o.object("schedule"));
  optimizer.kind = read_choice(o, "kind", optimizer.kind);
  const auto not_negative = [&](const char* key, double& value) {
    value = o.number(key, value);
    if (value < 0) o.fail(key, "must not be negative");
  };
  const bool tuned = o.has("learning_rate") && o.raw("learning_rate") == "tuned";
  if (!tuned) not_negative("learning_rate", optimizer.learning_rate);
  not_negative("momentum", optimizer.momentum);
  not_negative("weight_decay", optimizer.weight_decay);
  const bool sgd = optimizer.kind == OptimizerSpec::Kind::sgd;
  if (!sgd) {
    if (o.has("momentum")) o.fail("momentum", "belongs to sgd, not to " + choice_name(optimizer.kind));
    optimizer.momentum = 0;
  }
  if (sgd && optimizer.momentum > 0) {
    optimizer.nesterov = o.boolean("nesterov", false);
    optimizer.momentum_ema = o.boolean("momentum_ema", false);
    not_negative("dampening", optimizer.dampening);
  }
  o.no_other_keys();
  return tuned;
}

TuneSpec read_tune(JsonReader& t, const RunCase& c) {
  TuneSpec tune;
  const nlohmann::json& rates = t.raw("learning_rate");
  if (!rates.is_array() || rates.empty()) t.fail("learning_rate", "must be a list of at least one rate");
  std::set<double> grid;
  for (const nlohmann::json& rate : rates) {
    if (!rate.is_number() || !(rate.get<double>() > 0))
      t.fail("learning_rate", rate.dump() + " is not a number above 0");
    grid.insert(rate.get<double>());
  }
  tune.learning_rates.assign(grid.begin(), grid.end());
  tune.seed = static_cast<std::uint64_t>(t.integer("seed", static_cast<std::int64_t>(tune.seed), 0));
  if (tune.seed == c.seed)
    t.fail("seed", std::to_string(tune.seed) + " is also a seed that is measured",
           "tune on a seed of its own, e.g. 101");
  tune.steps = read_int(t, "steps", 0, 0);
  tune.epochs = read_int(t, "epochs", 0, 0);
  if (tune.epochs > 0 && tune.steps > 0) t.fail("steps", "give epochs or steps, not both");
  if (tune.epochs > 0 && c.epochs == 0) t.fail("epochs", "the case itself runs steps, not epochs", "give steps");
  if (tune.epochs == 0 && tune.steps == 0) tune.epochs = c.epochs, tune.steps = c.steps;
  t.no_other_keys();
  return tune;
}

nlohmann::json to_json(const OptimizerSpec& optimizer) {
  nlohmann::json json = {{"kind", choice_name(optimizer.kind)},
                         {"learning_rate", optimizer.learning_rate},
                         {"momentum", optimizer.momentum},
                         {"weight_decay", optimizer.weight_decay}};
  if (optimizer.nesterov) json["nesterov"] = true;
  if (optimizer.momentum_ema) json["momentum_ema"] = true;
  if (optimizer.dampening != 0) json["dampening"] = optimizer.dampening;
  return json;
}

static nlohmann::json to_json(const RateSchedule& rate) {
  nlohmann::json json = {{"kind", choice_name(rate.kind)}};
  if (rate.kind == RateScheduleKind::step) {
    json["every_epochs"] = rate.every_epochs;
    json["factor"] = rate.factor;
  }
  if (rate.kind == RateScheduleKind::polynomial) json["power"] = rate.power;
  return json;
}

nlohmann::json optimizer_json(const RunCase& c) {
  nlohmann::json json = to_json(c.optimizer);
  if (c.tune) json["learning_rate"] = "tuned";
  if (c.rate_schedule.kind != RateScheduleKind::constant) json["schedule"] = to_json(c.rate_schedule);
  return json;
}

nlohmann::json tune_json(const TuneSpec& tune) {
  return {{"learning_rate", tune.learning_rates}, {"seed", tune.seed}, {"epochs", tune.epochs}, {"steps", tune.steps}};
}

}  // namespace sluice
