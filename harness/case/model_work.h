// Tokens, FLOPs and peaks, from which a case's rates are computed.
#pragma once

#include <optional>

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "results/record_parts.h"

namespace sluice {

// Peaks are the devices' at the case's precision, times their speed; none on this machine. nullopt: the workload has no
// layers (a published profile), or none with products.
std::optional<ModelWork> model_work(const RunCase& c, const Prepared& p);

}  // namespace sluice
