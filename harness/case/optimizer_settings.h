// The settings "optimizer" and "tune" of a case: objects with keys of their own.
#pragma once

#include "harness/case/case.h"

namespace sluice {

class Json;
class JsonReader;

// "optimizer": {"kind", "learning_rate" (a number or "tuned"), "momentum", "weight_decay", "nesterov", "momentum_ema",
// "dampening", "schedule": {"kind", ...}}; of the adaptive ones "beta1", "beta2", "epsilon"; of muon and rotated_adam
// "matrices", "other_rate"; of muon "scale", "newton_schulz"; of rotated_adam "refresh_every", "sides", "source",
// "refresh_as_released". What it leaves out stays as c.optimizer and c.rate_schedule have it. Returns
// whether the learning rate is to be tuned. Throws InputError.
bool read_optimizer(JsonReader& optimizer, RunCase& c);

// "tune": {"learning_rate": [rates], "seed" (one or a list), "epochs" | "steps" (of the last round; default: as long as
// the case), "rounds": [{"epochs" | "steps", "keep"}] (those before the last)} of `c`, which is otherwise read. Throws
// InputError: no rates, the seed of a measured run, both epochs and steps, a round that is no longer than the one
// before it or drops no rate.
TuneSpec read_tune(JsonReader& tune, const RunCase& c);

// As the case's canonical JSON holds them; a tuned rate is "tuned" there, whichever rate the search finds.
Json optimizer_json(const RunCase& c);
Json tune_json(const TuneSpec& tune);

}  // namespace sluice
