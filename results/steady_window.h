// The steady state of a pipeline on the virtual clock. Without noise its steps repeat: a synchronous pipeline's after
// one step, that of 1F1B without a flush after as many as the stages take to fall into step (2 to 5 in the studies).
// The rate of work is that of whole periods: the median step of one that alternates between 1 s and 3 s is either.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

struct SteadyWindow {
  std::size_t first = 0, count = 0;  // steps [first, first + count): whole periods, at least two
  std::size_t period = 0;            // steps
  double seconds = 0;                // of all `count` steps together
  double step() const { return seconds / static_cast<double>(count); }
};

// The longest stretch of steps that repeat, to nine digits, after at most 64 of them; `seconds` are those of every step
// in order. nullopt where no stretch is at least half of them and `least` steps long: they have not become steady, or
// something changes them. While a pipe fills, two or three steps may be equal by chance: kMinSteps is for those.
constexpr std::size_t kMinSteps = 6;
std::optional<SteadyWindow> steady_window(std::span<const double> seconds, std::size_t least = kMinSteps);

// Seconds of every step, from the moments at which they end; the first begins at 0.
std::vector<double> step_seconds_of(std::span<const double> ends);

}  // namespace sluice
