// What the rates of a case are computed from: tokens, FLOPs and peaks.
#pragma once

#include <optional>

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "results/record_parts.h"

namespace sluice {

// Peaks are the devices' at the case's precision, times their speed; none on this machine. nullopt: the workload has no
// layers (a published profile), or none that multiply.
std::optional<ModelWork> model_work(const RunCase& c, const Prepared& p);

}  // namespace sluice
