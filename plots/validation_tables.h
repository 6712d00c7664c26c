// Tables of a study that hold the virtual clock against the wall clock (results/validation.h).
#pragma once

#include "plots/study_tables.h"
#include "results/validation.h"

namespace sluice {

// By::cases lists the cases whose error is above 8 %, the largest error first; the others have a line for each group.
FilledTable fill(const ValidationTable& table, const Validation& validation);

}  // namespace sluice
