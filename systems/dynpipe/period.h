// What a partition of a chain costs under 1F1B without a flush: the period of its steady state with the communication
// that compute does not hide, and the iterations that stale weights add.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice {

// Seconds per micro-batch in the steady state. stage: forward + backward of each; transfer: a message's, between each
// stage and the next, the same in both directions; transfers overlap compute and do not queue. The largest mean over
// the intervals of stages, each with its inner transfers there and back (the maximum cycle ratio of 1F1B's event
// graph): max over i <= j of (sum T_i..T_j + 2 sum C_i..C_{j-1}) / (j - i + 1)
struct Period {
  double seconds = 0;
  std::size_t first = 0, last = 0;  // the interval that decides; the first of the shortest
};
Period steady_period(std::span<const double> stage, std::span<const double> transfer);

// Staleness of every stage (S - 1 - s updates) times the stage's share of `weight`, the parameters' weight in the
// convergence (their share of the squared gradients, or of the parameters). Updates.
double mean_staleness(std::span<const double> weight);

// Predicted seconds to the target, up to a constant: the period times the iterations, 1 + lambda * mean staleness. The
// form follows bounds for delayed SGD, with lambda fitted to runs (results/staleness_cost.h): ours, since the paper's
// formula is not public.
inline double time_to_target(double period, double lambda, double staleness) {
  return period * (1 + lambda * staleness);
}

}  // namespace sluice
