// The learning rate over a run: the optimizer's, times the factor of the case's schedule.
#pragma once

#include <cstdint>
#include <functional>

#include "harness/case/case.h"
#include "harness/train/segments.h"

namespace sluice {

// The schedule's factor at an update, counted from 0 over a run of `all_updates`. updates_per_epoch: 0 if the run has
// no epochs; a schedule by epochs is then constant.
double rate_factor(const RateSchedule& schedule, std::int64_t update, std::int64_t updates_per_epoch,
                   std::int64_t all_updates);

// The learning rate of an update. Empty: always the optimizer's own. Keeps no reference to its arguments.
std::function<double(std::int64_t update)> learning_rate_of(const RunCase& c, const Segments& segments);

}  // namespace sluice
