// Which cases and plans may have micro-batches of different sizes.
#pragma once

#include "harness/case/case.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/system.h"

namespace sluice {

// All throw InputError at microbatch_sizes, with the reason.
void require_sizes_possible(const System& system);
void require_sizes_possible(const RunCase& c, const System& system);
void require_sizes_possible(const Plan& pipeline, const System& system);

}  // namespace sluice
