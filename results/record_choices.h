// The closed choices that a record names.
#pragma once

#include <ostream>

#include "harness/base/choice.h"

namespace sluice {

// wall: ranks run and train for real; virtual_clock: the times of ops are simulated.
enum class Clock { wall, virtual_clock };

// Purpose of a run. measure: for comparisons and charts; boundary: a point of a search for the largest stable learning
// rate (results/stability.h); tune: a candidate of a search for the best learning rate.
enum class Purpose { measure, boundary, tune };

// How a run ended. diverged is a result like ok: the training loss stopped being a finite number, which is a property
// of the system.
enum class RecordOutcome { ok, diverged, failed, timed_out, unsupported, out_of_memory };

// Whether a higher or a lower evaluation metric is better.
enum class MetricDirection { up, down };

template <>
struct Choices<Clock> {
  static constexpr Choice<Clock> all[] = {{Clock::wall, "wall"}, {Clock::virtual_clock, "virtual"}};
};
template <>
struct Choices<Purpose> {
  static constexpr Choice<Purpose> all[] = {
      {Purpose::measure, "measure"}, {Purpose::boundary, "boundary"}, {Purpose::tune, "tune", false}};
};
template <>
struct Choices<RecordOutcome> {
  static constexpr Choice<RecordOutcome> all[] = {{RecordOutcome::ok, "ok"},
                                                  {RecordOutcome::diverged, "diverged"},
                                                  {RecordOutcome::failed, "failed"},
                                                  {RecordOutcome::timed_out, "timed_out"},
                                                  {RecordOutcome::unsupported, "unsupported"},
                                                  {RecordOutcome::out_of_memory, "out_of_memory"}};
};
template <>
struct Choices<MetricDirection> {
  static constexpr Choice<MetricDirection> all[] = {{MetricDirection::up, "up"}, {MetricDirection::down, "down"}};
};

// "out_of_memory", its name in a record.
inline std::string to_text(RecordOutcome outcome) { return choice_name(outcome); }
inline std::ostream& operator<<(std::ostream& out, RecordOutcome outcome) { return out << choice_name(outcome); }

}  // namespace sluice
