#include "harness/case/case.h"

#include <cmath>

#include "harness/exec/mpi/mpi.h"

namespace sluice {

bool runs_as_processes(const RunCase& c) {
  return c.transport == TransportKind::mpi ||
         (c.transport == TransportKind::nccl && launch_from_environment().size > 1);
}

double RateSchedule::at(std::int64_t update, std::int64_t updates_per_epoch, std::int64_t all_updates) const {
  switch (kind) {
    case RateScheduleKind::constant:
      return 1;
    case RateScheduleKind::step:
      if (updates_per_epoch <= 0) return 1;
      return std::pow(factor, static_cast<double>(update / (updates_per_epoch * every_epochs)));
    case RateScheduleKind::polynomial:
      return std::pow(1 - static_cast<double>(update) / static_cast<double>(all_updates), power);
  }
  return 1;
}

}  // namespace sluice
