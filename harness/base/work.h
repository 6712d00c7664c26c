// Work over piecewise constant speeds: when something is done that would take `work` seconds at speed 1, on a device
// or link whose speed changes at given moments. Integrated exactly: a change in mid-op counts from that moment on.
//
//   work 10 s, speed 1 until t = 4, 0.5 until t = 10, then 1: 4 + 3 are done at t = 10, and all at t = 13.
#pragma once

#include <span>
#include <vector>

namespace sluice {

class PiecewiseSpeed {
 public:
  struct Change {
    double from = 0;   // seconds
    double speed = 1;  // of full speed from then until the next change; greater than 0
  };

  PiecewiseSpeed() = default;  // always full speed
  // Full speed before the first change; changes ascending. Throws std::logic_error if they are not, or for a speed that
  // is not above 0.
  explicit PiecewiseSpeed(std::vector<Change> changes);

  bool constant() const { return changes_.empty(); }
  double at(double time) const;
  // When `work` seconds at full speed that start at `start` end.
  double finish(double start, double work) const;
  std::span<const Change> changes() const { return changes_; }
  // The same on a clock that shows 0 at `start`.
  PiecewiseSpeed from(double start) const;

  // Slowed by both: the product of the speeds, or the lower of them (for the links of a path).
  static PiecewiseSpeed product(const PiecewiseSpeed& a, const PiecewiseSpeed& b);
  static PiecewiseSpeed slower(const PiecewiseSpeed& a, const PiecewiseSpeed& b);

 private:
  std::size_t segment_at(double time) const;  // index of the change in effect; changes_.size(): none yet

  std::vector<Change> changes_;
};

}  // namespace sluice
