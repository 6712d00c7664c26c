#include "harness/case/case.h"

#include "harness/exec/mpi/mpi.h"

namespace sluice {

bool runs_as_processes(const RunCase& c) {
  return c.transport == TransportKind::mpi ||
         (c.transport == TransportKind::nccl && launch_from_environment().size > 1);
}

}  // namespace sluice
