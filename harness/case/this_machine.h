// The machine we are on, as a cluster for planners and for the virtual clock.
#pragma once

#include "harness/case/case.h"
#include "harness/model/cluster.h"

namespace sluice {

// One device a rank, messages by handle; with what the case slows down for good. Ranks that share a GPU share its
// kernels' time equally (Cluster::OneMachine).
Cluster this_machine(const RunCase& c);

}  // namespace sluice
