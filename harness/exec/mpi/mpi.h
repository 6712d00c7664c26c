// Ranks as processes of an MPI job: mpirun or srun starts the processes, and these functions join them into a process
// group. In a build without MPI they throw an InputError.
#pragma once

#include <memory>
#include <string>

#include "harness/exec/process_group.h"

namespace sluice {

bool mpi_built();
// "Open MPI v4.1.4, ...", or "" without MPI. Needs no running job.
std::string mpi_library();

// Joins the job, once per process. The returned process group holds all processes of the job and leaves the job when it
// is destroyed. Throws InputError: built without MPI, or MPI_THREAD_SERIALIZED is not provided (a rank computes on one
// thread, and a watchdog may stop it from another; they never call MPI at the same time).
std::unique_ptr<ProcessGroup> join_mpi_job();
// Ends all processes of the job, suspended ones too. Does not return. From any thread.
[[noreturn]] void abort_mpi_job(int exit_code);

// From the launcher's environment variables, without MPI: the number of processes that it started (1: none or unknown)
// and the number of this one. Open MPI, MPICH, PMIx and Slurm name the variables differently.
struct Launch {
  int size = 1, rank = 0;
};
Launch launch_from_environment();

}  // namespace sluice
