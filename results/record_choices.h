// The closed choices that a record names.
#pragma once

#include <ostream>

#include "harness/base/choice.h"

namespace sluice {

// On the wall clock ranks run and train for real; the virtual clock simulates when each op runs.
enum class Clock { wall, virtual_clock };

// What a run is for: to be measured and compared (comparisons and charts are made of these); as a point of a search for
// the largest learning rate that does not diverge (boundary, results/stability.h); as a candidate of a search for the
// best learning rate (tune).
enum class Purpose { measure, boundary, tune };

// How a run ended. diverged is a result like ok: the training loss stopped being a finite number, which says something
// about the system.
enum class RecordOutcome { ok, diverged, failed, timed_out, unsupported, out_of_memory };

// Whether an evaluation metric is better the higher or the lower it is.
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

// "out_of_memory", as a record names it.
inline std::string to_text(RecordOutcome outcome) { return choice_name(outcome); }
inline std::ostream& operator<<(std::ostream& out, RecordOutcome outcome) { return out << choice_name(outcome); }

}  // namespace sluice
