// Fields of a record that contradict each other: otherwise an edited or damaged line would become a wrong number in a
// table or a chart.
#pragma once

#include <string>

#include "results/record.h"

namespace sluice {

// Throws InputError(where, ...) with the two fields and their values. Every record that a run writes passes.
void reject_contradictions(const Record& record, const std::string& where);

}  // namespace sluice
