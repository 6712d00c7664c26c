// The settings "optimizer" and "tune" of a case: objects with keys of their own.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/case/case.h"

namespace sluice {

class JsonReader;

// "optimizer": {"kind", "learning_rate" (a number or "tuned"), "momentum", "weight_decay", "nesterov", "momentum_ema",
// "dampening", "schedule": {"kind", ...}}. What it leaves out stays as c.optimizer and c.rate_schedule have it. Returns
// whether the learning rate is to be tuned. Throws InputError.
bool read_optimizer(JsonReader& optimizer, RunCase& c);

// "tune": {"learning_rate": [rates], "seed", "epochs" | "steps"} of `c`, which is otherwise read. Throws InputError: no
// rates, the seed of a measured run, both epochs and steps.
TuneSpec read_tune(JsonReader& tune, const RunCase& c);

// As the case's canonical JSON holds them; a tuned rate is "tuned" there, whichever rate the search finds.
nlohmann::json optimizer_json(const RunCase& c);
nlohmann::json tune_json(const TuneSpec& tune);

// An optimizer with the rate that it has. What few optimizers have is there only where it is not the default, so that
// the digests of records from before stay the same.
nlohmann::json to_json(const OptimizerSpec& optimizer);

}  // namespace sluice
