#include "harness/train/learning_rate.h"

#include <cmath>

namespace sluice {

double rate_factor(const RateSchedule& schedule, std::int64_t update, std::int64_t updates_per_epoch,
                   std::int64_t all_updates) {
  switch (schedule.kind) {
    case RateScheduleKind::constant:
      return 1;
    case RateScheduleKind::step: {
      if (updates_per_epoch <= 0) return 1;
      const std::int64_t steps = update / (updates_per_epoch * schedule.every_epochs);
      return std::pow(schedule.factor, static_cast<double>(steps));
    }
    case RateScheduleKind::polynomial:
      return std::pow(1 - static_cast<double>(update) / static_cast<double>(all_updates), schedule.power);
  }
  return 1;
}

std::function<double(std::int64_t)> learning_rate_of(const RunCase& c, const Segments& segments) {
  if (c.rate_schedule.kind == RateScheduleKind::constant) return {};
  return [schedule = c.rate_schedule, base = c.optimizer.learning_rate, per_epoch = segments.updates_per_epoch(),
          all = segments.total_updates()](std::int64_t update) {
    return base * rate_factor(schedule, update, per_epoch, all);
  };
}

}  // namespace sluice
