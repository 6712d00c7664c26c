// The option `chunks` of systems with several stages on every rank (virtual stages).
#pragma once

#include "harness/base/options.h"

namespace sluice {

inline OptionSpec chunks_option() { return {"chunks", "2", "stages on every rank"}; }

inline int given_chunks(const Options& options) { return options.integer("chunks"); }

}  // namespace sluice
