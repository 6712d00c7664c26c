// The steady state of a pipeline on the virtual clock. Without noise its steps repeat: a synchronous pipeline's after
// one step, those of 1F1B without a flush after a period of several steps (2 to 5 in the studies). The throughput is
// that of whole periods: if steps alternate between 1 s and 3 s, the median step may be either.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

struct SteadyWindow {
  std::size_t first = 0, count = 0;  // steps [first, first + count): whole periods, at least two
  std::size_t period = 0;            // steps
  double seconds = 0;                // sum of all `count` steps
  double step() const { return seconds / static_cast<double>(count); }
};

// The longest run of steps that repeat, to nine digits, with a period of at most 64 steps; `seconds`: of every step in
// order. nullopt if no such run has at least half of the steps and `least` steps: there is no steady state yet, or
// something changes the steps. While a pipe fills, two or three steps may be equal by chance; kMinSteps prevents that.
constexpr std::size_t kMinSteps = 6;
std::optional<SteadyWindow> steady_window(std::span<const double> seconds, std::size_t least = kMinSteps);

// Seconds of every step, from the times at which they end; the first begins at 0.
std::vector<double> step_seconds_of(std::span<const double> ends);

}  // namespace sluice
