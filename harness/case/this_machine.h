// This machine, as a cluster for planners and for the virtual clock.
#pragma once

#include "harness/case/case.h"
#include "harness/model/cluster.h"

namespace sluice {

// One device per rank; messages are handed over without a copy; with the constant slowdowns of the case. Ranks that
// share a GPU share its kernels' time equally (Cluster::OneMachine).
Cluster this_machine(const RunCase& c);

}  // namespace sluice
