// The theory of a prepared case's system.
#pragma once

#include "harness/case/prepared.h"
#include "harness/pipeline/theory.h"

namespace sluice {

Theory make_theory(const Prepared& p, int microbatches);

}  // namespace sluice
