// Ranks as processes of an MPI job: mpirun or srun starts them, this joins them. In a build without
// MPI everything here is one clear refusal.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/process_group.h"

namespace sluice {

bool mpi_built();
// "Open MPI v4.1.4, ...", or "" without MPI. Needs no running job.
std::string mpi_library();

// Joins the job. Once a process; the returned process group holds all its processes and leaves the job when
// it is destroyed. Throws InputError: built without MPI, or MPI_THREAD_SERIALIZED is not provided
// (a rank computes on one thread, a watchdog may stop it from another; never both at once in MPI).
std::unique_ptr<ProcessGroup> join_mpi_job();
// Ends all processes of the job, also stopped ones. Does not return. From any thread.
[[noreturn]] void abort_mpi_job(int exit_code);

// What the launcher's environment says, without MPI: processes it started together (1: none or
// unknown) and which of them this is. Open MPI, MPICH, PMIx and Slurm name them differently.
struct Launch {
  int size = 1, rank = 0;
};
Launch launch_from_environment();

}  // namespace sluice
