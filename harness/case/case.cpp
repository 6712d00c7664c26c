#include "harness/case/case.h"

#include "harness/exec/mpi/mpi.h"

namespace sluice {

// Every member and what it holds is copied, moved or destroyed here alone, not again in each file that has one.
RunCase::RunCase() = default;
RunCase::RunCase(const RunCase& other) = default;
RunCase::RunCase(RunCase&& other) noexcept = default;
RunCase& RunCase::operator=(const RunCase& other) = default;
RunCase& RunCase::operator=(RunCase&& other) noexcept = default;
RunCase::~RunCase() = default;

bool runs_as_processes(const RunCase& c) {
  return c.transport == TransportKind::mpi ||
         (c.transport == TransportKind::nccl && launch_from_environment().size > 1);
}

}  // namespace sluice
