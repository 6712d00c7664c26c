// The settings "optimizer" and "tune" of a case, which are objects with keys of their own.
#pragma once

#include "harness/case/case.h"

namespace sluice {

class Json;
class JsonReader;

// "optimizer": {"kind", "learning_rate" (a number or "tuned"), "momentum", "weight_decay", "nesterov", "momentum_ema",
// "dampening", "schedule": {"kind", ...}}; the adaptive ones also "beta1", "beta2", "epsilon"; muon and rotated_adam
// "matrices", "other_rate"; muon "scale", "newton_schulz"; rotated_adam "refresh_every", "sides", "source",
// "refresh_as_released". Other members of c.optimizer and c.rate_schedule stay unchanged. Returns whether the learning
// rate is to be tuned. Throws InputError.
bool read_optimizer(JsonReader& optimizer, RunCase& c);

// "tune": {"learning_rate": [rates], "seed" (one or a list), "epochs" | "steps" (of the last round; default: as long as
// the case), "rounds": [{"epochs" | "steps", "keep"}] (those before the last)} of `c`, whose other settings are read.
// Throws InputError: no rates, the seed of a measured run, both epochs and steps, a round that is not longer than the
// previous one or drops no rate.
TuneSpec read_tune(JsonReader& tune, const RunCase& c);

// Their form in the case's canonical JSON; a tuned rate is "tuned" there, for any result of the search.
Json optimizer_json(const RunCase& c);
Json tune_json(const TuneSpec& tune);

}  // namespace sluice
